package filter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

func TestEmptyFilterMatchesEverything(t *testing.T) {
	for _, src := range []string{"", "  \n"} {
		f, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		if !f.Match(&dissect.Packet{}, nil, nil) {
			t.Errorf("%q does not match", src)
		}
	}
}

// examples are filters that match a frame (or, behind a "-", do not), by frame.
// The fuzz target, the prefilter's test and that of allocations read them too.
var examples = []struct {
	frame   string
	make    func(testing.TB) *shot
	filters string
}{
	{"the first packet of an RDMA WRITE", writeFirst, `
		infiniband
		infiniband.bth
		bth and reth
		infiniband.reth
		- aeth
		- infiniband.deth or vlan or ipv6 or tcp
		frame and eth and ip and udp
		infiniband.bth.opcode == 6
		infiniband.bth.opcode == RC_RDMA_WRITE_FIRST
		bth.opcode == rc_rdma_write_first
		bth.opcode == "RC RDMA WRITE First"
		bth.opcode == RC_RDMA_WRITE_F
		- bth.opcode != RC_RDMA_WRITE_FIRST
		bth.opcode in {RC_SEND_FIRST, RC_RDMA_WRITE_FIRST..RC_RDMA_WRITE_ONLY}
		bth.opcode not in {RC_SEND_FIRST..RC_SEND_ONLY}
		bth.opcode & 0x1f == 6
		- bth.opcode >= RC_RDMA_WRITE_MIDDLE
		bth.psn == 11259375
		bth.psn == 0xabcdef
		bth.psn == 0xABCDEF
		bth.psn eq 052746757
		bth.psn == 0b101010111100110111101111
		bth.psn > 11259374 and bth.psn >= 11259375 and bth.psn < 11259376 and bth.psn le 11259375
		- bth.psn gt 11259375 or bth.psn lt 11259375
		bth.psn in {1, 2..5, 11259000 .. 12000000}
		bth.psn in 1..0xffffff
		- bth.psn in {1, 2..5}
		0xabcdef == bth.psn
		1 < bth.psn < 0xfffffe
		- 1 < bth.psn < 5
		bth.psn & 1
		- bth.psn & 0x10
		bth.psn & 0xff == 0xef
		(bth.psn & 0xff) == 0xef
		0xff & bth.psn == 0xef
		bth.psn & 0xff in {0xe0..0xef}
		bth.destqp == 0x11 && bth.p_key == 0xffff
		bth.a and bth.a == 1 and bth.a == true and bth.a == TRUE and bth.a != 0
		bth.m and bth.m == 0
		- bth.m == 1
		bth.m === false
		bth.se > 0
		bth.padcnt == 1
		reth.va == 0x7f00123456789abc
		infiniband.reth.va > 0x7f00000000000000
		reth.r_key == 0x8045 and reth.dmalen == 1MiB and reth.dmalen > 1MB and reth.dmalen == 1024KiB
		infiniband.payload
		payload contains "index"
		- payload contains "Index"
		payload matches "INDEX\.h.ml"
		payload matches "^get"
		payload ~ "html"
		- payload matches "^index"
		payload contains de:ad
		payload contains 0xdeadbeef
		payload contains 'G'
		payload contains 47
		payload[0:3] == "GET"
		payload[:3] == 47:45:54
		payload[0-2] == 474554
		payload[0] == 47
		payload[0] == 'G'
		payload[15:] == de:ad:be:ef
		payload[-4:] == de:ad:be:ef
		payload[-4:2] == de-ad
		payload[0,1-2,-1] == 47:45:54:ef
		payload[1,0] contains 45:47
		payload[1,0] matches "eg"
		payload[0] in {46, 47}
		payload[0:2] in {"AA".."ZZ"}
		payload[0:2] > "GA"
		payload[4:]
		- payload[99]
		- payload[15:5] == de:ad:be:ef:00
		len(payload) == 19
		len(payload[4:]) > 14
		len(ip) == 20 and len(udp) == 8 and len(eth) == 14 and len(infiniband.bth) == 12
		len(infiniband) == 52
		payload.len == 19
		frame contains "GET"
		udp[0:2] == c0:00
		infiniband[0] == 06
		infiniband.bth[0] == 06
		- udp[8:1]
		eth.src == 02:00:00:00:77:01
		eth.src == 02-00-00-00-77-01
		eth.src == 0200.0000.7701
		eth.src == "02:00:00:00:77:01"
		eth.addr == 02:00:00:00:77:02
		- eth.addr != 02:00:00:00:77:02
		eth.addr !== 02:00:00:00:77:02
		- eth.addr === 02:00:00:00:77:02
		eth.src[0:3] == 02:00:00
		eth.src[3:] == 00:77:01
		eth.src > 02:00:00:00:00:00
		eth.src contains 77:01
		eth.src != eth.dst
		- eth.src == eth.dst
		eth.src[0:4] == eth.dst[0:4]
		ip.src == 10.77.0.1
		ip.src == 10.77.0.0/16
		ip.src == 10.77.9.9/16
		ip.addr == 10.77.0.2
		ip.addr in {10.0.0.0/16, 10.77.0.2..10.77.0.9}
		- ip.addr != 10.77.0.2
		ip.addr != 10.99.0.0/16
		ip.addr === 10.77.0.0/30
		all ip.addr >= 10.77.0.1
		- all ip.addr > 10.77.0.1
		any ip.addr > 10.77.0.1
		all ip.addr in {10.77.0.0/16}
		ip.src < 10.77.0.2 and ip.src >= 10.77.0.0/24 and ip.src <= 10.77.0.0/24
		- ip.src > 10.77.0.0/24
		ip.src[0] == 0a
		ip.src[2:] == 00:01
		ip.src & 255.0.0.0 == 10.0.0.0
		ip.dsfield.ecn == 3
		ip.dsfield.ecn == CE
		ip.dsfield.ecn == "CE: congestion experienced"
		ip.dsfield.ecn in {"ECT(0)", CE}
		ip.proto == udp
		udp.port == 4791 and udp.port == 49152
		udp.port in {4791}
		- udp.port != 4791
		udp.port != 4790
		- udp.port === 4791
		udp.srcport > udp.dstport
		- udp.srcport == udp.dstport
		udp.port == udp.srcport
		count(udp.port) == 2
		count(ip.addr) > 1
		- count(vlan.id) == 0
		frame.number == 3
		frame.len > 90 && frame.len == frame.cap_len
		frame.time_relative > 1.4999 and frame.time_relative == 1.5 and frame.time_relative in {1s..2s}
		frame.time_relative == 1500ms and frame.time_relative == 1500000us and frame.time_relative < 0.1min
		frame.time_relative > -1
		frame.time_delta == 2us
		frame.time_delta == 0.000002
		frame.time_delta < frame.time_relative
		frame.time_epoch > 1700000001
		frame.time_epoch > "2023-11-14 22:00:00Z" and frame.time_epoch < "2023-11-16"
		frame.protocol == "RoCE v2"
		frame.protocol != tcp
		frame.protocol matches "^roce"
		frame.protocol contains "V2"
		- frame.problem
		invariant.crc.status == valid
		- not udp
		not tcp
		not not udp
		!tcp && !(aeth || deth)
		not tcp and udp
		- not (tcp or udp)
		tcp xor udp
		- ip xor udp
		ip ^^ udp ^^ eth
		tcp or udp and ip
		udp or tcp and aeth
		- (udp or tcp) and aeth
		- flow.retransmission
		not flow.retransmission
		- flow.id == 0
		- msg.status == IBV_WC_SUCCESS`},
	{"a NAK", nak, `
		aeth and aeth.msn == 7 and bth.psn == 16
		aeth.syndrome == 0x60
		aeth.syndrome == "NAK: PSN sequence error"
		aeth.syndrome == nak
		- aeth.syndrome == ACK
		aeth.syndrome.error_code == "PSN sequence error"
		aeth.syndrome.error_code == PSN_sequence_error
		aeth.syndrome.opcode == 3
		aeth.syndrome.opcode == NAK
		- aeth.syndrome.timer
		- payload
		payload.len == 0
		bth.psn > aeth.msn
		bth.psn != aeth.msn
		- bth.psn == aeth.msn
		- reth.va != 5
		not reth.va == 5
		bth.opcode == RC_ACKNOWLEDGE`},
	{"a UD SEND over IPv6 with two VLAN tags", udImm6, `
		vlan and ipv6 and deth
		- ip
		vlan.id == 100 and vlan.id == 101
		- vlan.id == 102
		vlan.id != 102
		- vlan.id != 101
		vlan.priority === 3 or vlan.priority == 1
		count(vlan.id) == 2
		ipv6.src == fe80::1
		ipv6.src == fe80::/10
		ipv6.src == fe80::1/128
		- ipv6.src == fe80::2/128
		ipv6.src == ::/0
		- ipv6.src == ::1
		ipv6.addr == fe80::ff:2
		ipv6.dst > fe80::1 and ipv6.dst < fe80::1:0:0 and ipv6.dst >= fe80::ff:2 and ipv6.dst <= fe80::ff:2
		ipv6.addr in {fe80::1..fe80::2}
		all ipv6.addr in {fe80::/64}
		- ipv6.addr != fe80::1
		ipv6.src[0:2] == fe:80
		ipv6.src != ipv6.dst
		ipv6.flow == 5
		deth.q_key == 0x11111111 && deth.srcqp == 0x21
		immdt == de:ad:be:ef
		immdt == 0xdeadbeef
		immdt contains ad:be
		immdt[0] == de
		immdt != 00:00:00:00
		immdt > de:ad
		bth.opcode == UD_SEND_ONLY_WITH_IMMEDIATE
		udp.srcport == 4791
		udp.port === 4791`},
	{"an atomic", atomic, `
		reth.va == 0x1000
		reth.r_key == 153
		atomiceth.swapdt == 9223372036854775808
		atomiceth.swapdt > 0x7fffffffffffffff
		atomiceth.cmpdt in {2}
		atomiceth
		- infiniband.reth
		count(reth.va) == 1`},
	{"a TCP segment", tcpSYN, `
		tcp
		- udp or infiniband
		tcp.flags & 0x02
		tcp.flags & 2 == 2
		- tcp.flags & 0x10
		tcp.flags == 2
		tcp.port == 18515
		frame contains "0000:000011"
		frame.protocol == tcp
		not bth.psn == 1
		- bth.psn != 1
		- bth.psn !== 1`},
	{"a WRITE cut inside the RETH", func(t testing.TB) *shot { return cut(t, 62) }, `
		bth and bth.psn == 0xabcdef
		- reth
		- reth.dmalen
		- reth.dmalen != 0
		- reth.va == 0 or reth.va != 0
		frame.len > frame.cap_len
		frame.problem == "cut by the capture's snap length"
		frame.problem
		- invariant.crc
		- payload contains "G"`},
	{"a tracked WRITE", tracked, `
		flow.retransmission
		flow.retransmission == 1
		flow.retransmission == true
		- flow.retransmission == 0
		- not flow.retransmission
		flow.request and not flow.response
		flow.response == 0
		- flow.nak
		flow.nak == 0
		flow.nak != 1
		flow.id == 4
		flow.id in {1..4}
		flow.direction == b_to_a
		- flow.direction == a_to_b
		flow.direction != a_to_b
		flow.direction in {a_to_b, b_to_a}
		flow.round == 1 and flow.psn_offset == 9 and msg.index == 2
		msg.op == write
		msg.op in {write, read}
		msg.status == IBV_WC_RETRY_EXC_ERR
		msg.status == ibv_wc_retry
		msg.status matches "retry"
		msg.status contains "_ERR"
		- msg.status == IBV_WC_SUCCESS
		- msg.status != IBV_WC_RETRY_EXC_ERR
		msg.size > 1MB and msg.resends == 3
		msg.latency == 60us
		msg.latency > 50us and msg.latency < 1ms
		- msg.latency >= 0.1
		flow.established_by == cm
		flow.established_by >= inferred
		- flow.established_by < socket
		finding.severity >= warn
		finding.severity == warning
		- finding.severity > warning
		bth.opcode == RC_RDMA_WRITE_FIRST && flow.retransmission`},
}

// eachExample calls f for every example.
func eachExample(f func(frame string, build func(testing.TB) *shot, filter string, want bool)) {
	for _, e := range examples {
		for line := range strings.Lines(e.filters) {
			if line = strings.TrimSpace(line); line != "" {
				src, negative := strings.CutPrefix(line, "- ")
				f(e.frame, e.make, src, !negative)
			}
		}
	}
}

func TestMatch(t *testing.T) {
	eachExample(func(frame string, build func(testing.TB) *shot, src string, want bool) {
		f, err := Compile(src)
		if err != nil {
			t.Errorf("%v\n%s", err, err.(*Error).Caret())
			return
		}
		s := build(t)
		if got := f.MatchEnd(&s.p, s.frame, s.m, s.o); got != want {
			t.Errorf("%s: %s is %v", frame, src, got)
		}
	})
}

func TestFindingsAreAllLookedAt(t *testing.T) {
	checks := flows.Checks()
	if len(checks) < 4 {
		t.Skip("the check table is short")
	}
	s := tracked(t)
	for id, want := range map[int]bool{0: false, 1: true, 2: true, 3: false} {
		f, err := Compile("finding.id == " + checks[id].ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.MatchEnd(&s.p, s.frame, s.m, s.o); got != want {
			t.Errorf("%s is %v", f, got)
		}
		if f, err = Compile("finding.id != " + checks[id].ID); err != nil {
			t.Fatal(err)
		}
		if got := f.MatchEnd(&s.p, s.frame, s.m, s.o); got == want {
			t.Errorf("%s is %v", f, got)
		}
	}
}

func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		src    string
		need   Need
		icrc   bool
		fields []string
	}{
		{"", NeedPacket, false, nil},
		{"bth.psn > 5 and udp and bth.psn < 7", NeedPacket, false, []string{"infiniband.bth.psn", "udp"}},
		{"invariant.crc.status == invalid", NeedPacket, true, []string{"infiniband.invariant.crc.status"}},
		{"invariant.crc == 0", NeedPacket, false, []string{"infiniband.invariant.crc"}},
		{"flow.retransmission or ip.src == ip.dst", NeedFlow, true, []string{"flow.retransmission", "ip.src", "ip.dst"}},
		{"not msg.status == open and flow.id == 1", NeedEnd, true, []string{"msg.status", "flow.id"}},
		{"frame.protocol == tcp", NeedPacket, false, []string{"frame.protocol"}},
	} {
		f, err := Compile(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if f.Needs() != c.need || f.NeedsICRC() != c.icrc {
			t.Errorf("%q needs %v, ICRC %v", c.src, f.Needs(), f.NeedsICRC())
		}
		if diff := cmp.Diff(c.fields, f.Fields()); diff != "" {
			t.Errorf("%q: fields (-want +got):\n%s", c.src, diff)
		}
	}
}

func TestEveryFieldCompiles(t *testing.T) {
	s := tracked(t)
	for _, sym := range symbols().order {
		for _, name := range []string{sym.name, strings.TrimPrefix(sym.name, prefix)} {
			if lookup(name) != sym {
				if name == sym.name || lookup(name) == nil {
					t.Errorf("%s is not found", name)
				}
				continue
			}
			f, err := Compile(name + " and not " + name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if f.MatchEnd(&s.p, s.frame, s.m, s.o) {
				t.Errorf("%s is there and is not", name)
			}
		}
		if sym.text == "" {
			t.Errorf("%s has no help", sym.name)
		}
	}
}

func TestWordsAreUsable(t *testing.T) {
	for _, sym := range symbols().order {
		w := sym.words()
		if w == nil {
			continue
		}
		for _, text := range quoteSpaced(w.names) {
			if _, err := Compile(sym.name + " == " + text); err != nil {
				t.Errorf("%s == %s: %v", sym.name, text, err)
			}
		}
	}
}

// Filters of any length work; those that nest too deep are refused.
func TestBounds(t *testing.T) {
	s := writeFirst(t)
	long := strings.Repeat("bth.psn == 1 or ", 20_000) + "bth.psn == 0xabcdef"
	if f, err := Compile(long); err != nil || !f.Match(&s.p, s.frame, nil) {
		t.Errorf("a long chain: %v", err)
	}
	set := "bth.psn in {" + strings.Repeat("1, 3..5, ", 50_000) + "0xabcdef}"
	if f, err := Compile(set); err != nil || !f.Match(&s.p, s.frame, nil) {
		t.Errorf("a long set: %v", err)
	}
	for _, src := range []string{
		strings.Repeat("(", 100_000), strings.Repeat("not ", 100_000) + "ip", strings.Repeat("!", 500_000),
		strings.Repeat("(", 200) + "ip" + strings.Repeat(")", 200), strings.Repeat("len(", 100_000), strings.Repeat("any ", 100_000),
		strings.Repeat("ip and (", 1000),
	} {
		_, err := Compile(src)
		if err == nil || !strings.Contains(err.Error(), "nests deeper") {
			t.Errorf("%.20s…: %v", src, err)
		} else if n := len(err.(*Error).Caret()); n > 500 {
			t.Errorf("%.20s…: the caret has %d bytes", src, n)
		}
	}
	deep := strings.Repeat("(", 90) + "ip" + strings.Repeat(")", 90)
	if _, err := Compile(deep); err != nil {
		t.Errorf("90 levels: %v", err)
	}
	if _, err := Compile(strings.Repeat(" ", 2<<20) + "ip"); err == nil {
		t.Error("2 MiB compile")
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	eachExample(func(frame string, build func(testing.TB) *shot, src string, _ bool) {
		if strings.Contains(src, "matches") || strings.Contains(src, "~ ") {
			return
		}
		f, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		s := build(t)
		if n := testing.AllocsPerRun(10, func() { f.MatchEnd(&s.p, s.frame, s.m, s.o) }); n != 0 {
			t.Errorf("%s: %s allocates %v times", frame, src, n)
		}
	})
}
