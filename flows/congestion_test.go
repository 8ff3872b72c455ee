package flows

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// chat writes a few WRITEs and their ACKs.
func chat(x *testkit.Exchange, n int) {
	for range n {
		x.B.Answer(x.A.Write(1000))
	}
}

// pathsOf returns the only host pair, the sender of most data first.
func pathsOf(t *testing.T, s *seen) (there, back *HostPath) {
	t.Helper()
	if len(s.HostPairs) != 1 {
		t.Fatalf("%d host pairs, want one", len(s.HostPairs))
	}
	return &s.HostPairs[0].Paths[0], &s.HostPairs[0].Paths[1]
}

// TestHostChecks has one capture for each check on what two hosts have in
// common, and one that it must not fire on.
func TestHostChecks(t *testing.T) {
	tests := []struct {
		name, id string
		opt      Options
		write    func() *testkit.Exchange
		text     string // in the summary
		none     bool   // the check must not fire
	}{
		{name: "marks and no CNP", id: "ce_without_cnp", text: "2 packets are marked CE", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{TrafficClass: 26<<2 | 2})
			chat(x, 2)
			for range 2 {
				m := x.A.Write(1000)
				m.Packets[0].MarkCE()
				x.B.Answer(m)
			}
			return x
		}},
		{name: "marks in a one-way capture", id: "ce_without_cnp", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			x.A.Write(1000).Packets[0].MarkCE()
			return x
		}},
		{name: "marks and CNPs", id: "ce_without_cnp", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			m := x.A.Write(1000)
			m.Packets[0].MarkCE()
			x.B.CNP()
			x.B.Answer(m)
			return x
		}},
		{name: "CNPs and no marks", id: "cnp_without_ce", text: "10.0.0.2 → 10.0.0.1: 2 CNPs", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			x.B.CNP()
			x.B.CNP()
			return x
		}},
		{name: "CNP with another DSCP than expected", id: "cnp_dscp", opt: Options{ExpectCNPDSCP: 46}, text: "1 CNP with DSCP 48 where 46 is expected", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			x.B.CNP()
			return x
		}},
		{name: "CNP with the expected DSCP", id: "cnp_dscp", opt: Options{ExpectCNPDSCP: 48}, none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			x.B.CNP()
			return x
		}},
		{name: "two queue pairs with different DSCPs", id: "dscp_mixed", text: "DSCPs 0 and 26", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{TrafficClass: 26 << 2})
			chat(x, 2)
			chat(x.Beside(func(o *testkit.ExchangeOptions) { o.TrafficClass = 0 }), 2)
			return x
		}},
		{name: "CNPs have a DSCP of their own", id: "dscp_mixed", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{TrafficClass: 26 << 2})
			x.A.Write(1000)
			x.B.CNP()
			chat(x, 2)
			return x
		}},
		{name: "data at DSCP 0 beside PFC for priority 3", id: "dscp_unprotected", text: "PFC protects priority 3 only", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			x.B.PFC(map[int]uint16{3: 100})
			return x
		}},
		{name: "data in the class that PFC protects", id: "dscp_unprotected", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{TrafficClass: 26 << 2})
			chat(x, 2)
			x.B.PFC(map[int]uint16{3: 100})
			return x
		}},
		{name: "PFC lets go only", id: "dscp_unprotected", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			x.B.PFC(map[int]uint16{3: 0})
			return x
		}},
		{name: "two queue pairs, one source port", id: "one_source_port", text: "2 queue pairs, all from UDP source port 49152", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{SrcPortA: 49152})
			chat(x, 2)
			chat(x.Beside(func(o *testkit.ExchangeOptions) { o.SrcPortA = 49152 }), 2)
			return x
		}},
		{name: "two queue pairs, two source ports", id: "one_source_port", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			chat(x.Beside(nil), 2)
			return x
		}},
		{name: "source port of another protocol", id: "source_port_range", text: "source port 69", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{SrcPortB: 69})
			chat(x, 2)
			return x
		}},
		{name: "a CNP's source port is free", id: "source_port_range", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			x.B.CNP()
			return x
		}},
		{name: "answers without the tag", id: "vlan_mixed", text: "VLAN 100 that way, untagged the other", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{VLANs: []uint16{100}})
			y := x.Beside(func(o *testkit.ExchangeOptions) { o.VLANs, o.QPNA, o.QPNB = nil, 0x11, 0x12 })
			for range 4 {
				m := x.A.Write(1000)
				y.B.Ack(m.Last, 1)
			}
			return x
		}},
		{name: "both in one VLAN", id: "vlan_mixed", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{VLANs: []uint16{100}})
			chat(x, 3)
			return x
		}},
		{name: "destination address not resolved", id: "zero_mac", text: "all-zero destination address", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{Transport: dissect.UD})
			clear(x.A.Send(100).Packets[0].Data[:6])
			return x
		}},
		{name: "loopback", id: "zero_mac", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{Transport: dissect.UD})
			clear(x.A.Send(100).Packets[0].Data[:12])
			return x
		}},
		{name: "link-local source, far destination", id: "link_local", text: "to one that is not", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{IPv6: true, A: "fe80::1", B: "2001:db8::2"})
			chat(x, 2)
			return x
		}},
		{name: "link-local and silent", id: "link_local", text: "nothing comes back", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{IPv6: true, A: "fe80::1", B: "fe80::2"})
			x.A.REQ()
			return x
		}},
		{name: "link-local on one link", id: "link_local", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{IPv6: true, A: "fe80::1", B: "fe80::2"})
			chat(x, 2)
			return x
		}},
		{name: "MigReq of one side only", id: "migreq_mixed", text: "MigReq is 1 that way, 0 the other", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{MigReq: true})
			for range 3 {
				for _, p := range x.B.Answer(x.A.Write(1000)) {
					p.Edit(func(q *dissect.Packet, data []byte) { q.BTH(data).SetMigReq(false) })
				}
			}
			return x
		}},
		{name: "UDP checksum that does not fit", id: "udp_checksum", text: "does not fit", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			m := x.A.Write(1000)
			setChecksum(m.Packets[0], 0x1234)
			x.B.Answer(m)
			return x
		}},
		{name: "RoCE v1 one way, v2 the other", id: "roce_version", text: "RoCE v2 that way, RoCE v1 the other", write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{RoCEv1: true})
			y := x.Beside(func(o *testkit.ExchangeOptions) { o.RoCEv1 = false })
			x.A.Write(1000)
			y.B.Send(100)
			return x
		}},
		{name: "both versions both ways", id: "roce_version", none: true, write: func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{RoCEv1: true})
			chat(x, 2)
			chat(x.Beside(func(o *testkit.ExchangeOptions) { o.RoCEv1 = false }), 2)
			return x
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := lookWith(test.opt, 7, test.write().Frames())
			f := s.finding(test.id)
			switch {
			case test.none && f != nil:
				t.Errorf("found: %s", f.Summary)
			case !test.none && f == nil:
				t.Errorf("not found:\n%s", s.describe())
			case !test.none && !strings.Contains(f.Summary, test.text):
				t.Errorf("%q lacks %q", f.Summary, test.text)
			}
		})
	}
}

// setChecksum sets a packet's UDP checksum; the ICRC does not cover it.
func setChecksum(p *testkit.Packet, v uint16) {
	var d dissect.Decoder
	var q dissect.Packet
	d.Decode(p.Link, p.Data, p.WireLen, &q)
	q.UDP(p.Data).SetChecksum(v)
}

func TestUDPChecksums(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		x := testkit.NewExchange(testkit.ExchangeOptions{IPv6: v6})
		p := x.A.Send(999).Packets[0]
		var d dissect.Decoder
		var q dissect.Packet
		d.Decode(p.Link, p.Data, p.WireLen, &q)
		tr := New(Options{})
		at := q.Offset(dissect.LayerUDP)
		var pseudo uint32
		if v6 {
			pseudo = dissect.OnesSum(0, p.Data[at-32:at])
		} else {
			pseudo = dissect.OnesSum(0, p.Data[at-8:at])
		}
		pseudo += 17 + uint32(len(p.Data)-at)
		for _, test := range []struct {
			v    uint16
			want checksumVerdict
		}{
			{0, checksumZero},
			{dissect.FoldSum(pseudo), checksumPartial},
			{^dissect.FoldSum(dissect.OnesSum(pseudo, p.Data[at:])), checksumRight},
			{^dissect.FoldSum(dissect.OnesSum(pseudo, p.Data[at:])) ^ 1, checksumWrong},
		} {
			q.UDP(p.Data).SetChecksum(test.v)
			if got := tr.checksum(&q, p.Data); got != test.want {
				t.Errorf("IPv6 %v: checksum %#x: verdict %d, want %d", v6, test.v, got, test.want)
			}
			q.UDP(p.Data).SetChecksum(0)
		}
		if got := tr.checksum(&q, p.Data[:at+100]); got != checksumZero {
			t.Errorf("cut packet without checksum: verdict %d", got)
		}
	}
}

func TestHostPairs(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{TrafficClass: 26<<2 | 2, VLANs: []uint16{3<<13 | 100}, MigReq: true})
	chat(x, 3)
	y := x.Beside(nil)
	chat(y, 3)
	m := x.A.Write(1000)
	m.Packets[0].MarkCE()
	x.B.CNP()
	x.Wait(50*time.Microsecond - 1*time.Microsecond)
	x.B.CNP()
	x.B.Answer(m)
	s := look(x.Frames())
	there, back := pathsOf(t, s)
	if !there.Seen || there.QPs != 2 || there.SrcPorts != 2 || !slices.Equal(there.DSCP, []uint8{26}) || !slices.Equal(there.Priorities, []uint8{3}) ||
		!slices.Equal(there.VLANs, []int{100}) || !there.MigReqOn || there.MigReqOff || !there.RoCEv2 || there.RoCEv1 || there.CE != 1 || there.CNPs != 0 || there.Checksums.Zero == 0 {
		t.Errorf("data: %+v", there)
	}
	if back.CNPs != 2 || !slices.Equal(back.CNPDSCP, []uint8{48}) || back.CNPInterval != 50*time.Microsecond || !slices.Equal(back.DSCP, []uint8{26}) {
		t.Errorf("answers: %+v", back)
	}
	b := &s.Connections[0].Streams[BToA]
	if b.CNPs != 2 || !slices.Equal(b.CNPDSCP, []uint8{48}) || b.CNPInterval != 50*time.Microsecond || !slices.Equal(b.DSCP, []uint8{26}) || !slices.Equal(b.Priorities, []uint8{3}) || !b.MigReq || b.SrcPorts != 1 {
		t.Errorf("stream: %+v", b)
	}
}

func TestStrayCNP(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.CNP()
	s := look(x.Frames())
	_, back := pathsOf(t, s)
	if back.CNPs != 1 || back.StrayCNPs != 1 || len(s.Connections) != 0 {
		t.Errorf("%+v, %d connections", back, len(s.Connections))
	}
}

// TestStandingFindings: a snapshot before the end has what only the whole
// capture shows too, and the end adds nothing twice.
func TestStandingFindings(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{SrcPortB: 69})
	chat(x, 4)
	packets, data := testkit.Decode(x.Frames())
	tr := New(Options{})
	tr.Track(&Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
	for _, end := range []bool{false, false, true, true} {
		if end && !tr.finished {
			tr.Finish()
		}
		s := seen{Snapshot: tr.Snapshot()}
		if f := s.finding("source_port_range"); f == nil || f.Count != 1 {
			t.Errorf("finished %v: %+v", end, f)
		}
	}
}

func TestRateBeforeAndAfterCNP(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{Gap: time.Nanosecond})
	send := func(every time.Duration, n int) {
		for range n {
			x.A.Write(1000, testkit.NoAckReq())
			x.Wait(every)
		}
	}
	chat(x, 4)
	send(time.Microsecond, 400)
	x.B.CNP()
	send(4*time.Microsecond, 100)
	chat(x, 1)
	s := look(x.Frames())
	var r RateReaction
	for i := range s.Connections {
		if d := s.Connections[i].Detail; d.Reaction[AToB].CNPs > 0 {
			r = d.Reaction[AToB]
		}
	}
	if r.CNPs != 1 || r.Before < 3.5*r.After || r.Before > 4.5*r.After {
		t.Errorf("%+v", r)
	}
}
