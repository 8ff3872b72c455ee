package filter

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// asked are filters that tshark understands as well; the two have to agree
// frame by frame. Where the two write a filter differently, tshark's stands
// behind "⇔", and behind "#" why.
var asked = strings.Split(strings.TrimSpace(`
infiniband
infiniband.bth
infiniband.reth
infiniband.aeth
infiniband.deth
infiniband.atomiceth
infiniband.immdt
frame
eth
ip
ipv6
udp
tcp
not infiniband and udp
!udp && !tcp
ip or ipv6 and tcp
(ip or ipv6) and tcp
not ip and udp or tcp
tcp xor ipv6 ⇔ (tcp or ipv6) and not (tcp and ipv6) # xor came with 4.2
infiniband.bth.opcode == 4
infiniband.bth.opcode == RC_ACKNOWLEDGE ⇔ infiniband.bth.opcode == 17 # the names of values differ
infiniband.bth.opcode != 17
infiniband.bth.opcode > 9 and infiniband.bth.opcode < 16
infiniband.bth.opcode & 0x1f == 4
infiniband.bth.opcode & 0x10
not infiniband.bth.opcode & 0x10
infiniband.bth.opcode ge 0x64
infiniband.bth.psn > 8388608
infiniband.bth.psn <= 0x800000
infiniband.bth.psn == 020
infiniband.bth.psn & 1
infiniband.bth.psn & 1 == 0
infiniband.bth.psn & 0xff00 != 0x1000
infiniband.bth.psn > infiniband.aeth.msn
infiniband.bth.psn != infiniband.aeth.msn
infiniband.bth.destqp == 0x11
infiniband.bth.destqp >= 0x11 && infiniband.bth.destqp <= 0x13
infiniband.bth.destqp == 1
infiniband.bth.a
infiniband.bth.a == 1
infiniband.bth.a == true
infiniband.bth.a == False
infiniband.bth.a > 0
infiniband.bth.m != 1
infiniband.bth.se == 1
infiniband.bth.padcnt > 0
infiniband.bth.p_key == 0xffff
infiniband.bth.p_key == 65535
infiniband.aeth.syndrome == 0
infiniband.aeth.syndrome >= 0x60
infiniband.aeth.syndrome & 0x60 == 0x20
infiniband.aeth.syndrome.error_code == 0
infiniband.aeth.syndrome.timer
infiniband.aeth.msn > 5
infiniband.aeth.msn
infiniband.reth.va > 0x7f0000000000
infiniband.reth.va & 0xfff == 0
infiniband.reth.r_key
infiniband.reth.dmalen == 64KiB ⇔ infiniband.reth.dmalen == 65536 # no units
infiniband.reth.dmalen > 1000
infiniband.deth.q_key == 0x11111111
infiniband.deth.srcqp == 1
infiniband.immdt contains 00
infiniband.atomiceth.swapdt > 0
eth.src == 02:00:00:00:77:01
eth.dst == 02-00-00-00-77-01
eth.addr == 0200.0000.7701
eth.addr != 02:00:00:00:77:01
eth.addr !== 02:00:00:00:77:01
eth.addr === 02:00:00:00:77:01
eth.src[0:3] == 02:00:00
eth.src[3:] == 00:77:01
eth.src[:3] != 02:00:00
eth.src[0-2] == 02:00:00
eth.src[5] == 2
eth.addr[0:3] == 02:00:00
eth.src > 02:00:00:00:77:01
eth.src contains 77:01
eth.src < eth.dst
eth.src == "02:00:00:00:77:01" ⇔ eth.src == 02:00:00:00:77:01 # no quotes
eth.type == 0x0800
ip.src == 10.77.0.1
ip.src == 10.77.0.0/16
ip.src == 10.77.0.1/8
ip.addr == 10.77.0.2
ip.addr != 10.77.0.2
ip.addr !== 10.77.0.2
ip.addr === 10.77.0.0/24
ip.src < 10.77.0.2
ip.src >= 10.0.0.0/8
ip.src > 10.77.0.0/24
ip.src <= 10.77.0.0/31
ip.src[0] == 0a
ip.src[3] == 2
ip.src & 0.0.0.1 == 0.0.0.1
ip.src != ip.dst
ip.src == ip.dst
ip.addr == ip.src
ip.addr != ip.src
any ip.addr > 10.77.0.1
all ip.addr > 10.77.0.1
ip.dsfield.dscp > 0
ip.dsfield.ecn == 3
ip.dsfield.ecn & 1
ip.ttl == 64
ip.ttl != 0x40
ip.flags.df == 1
ip.len > 100
ip.proto == 17
ip.id > 0x8000
ipv6.src == fe80::/10
ipv6.addr == ::1
ipv6.addr != ::1
ipv6.src > fe80::
ipv6.src[0:2] == fe:80
ipv6.hlim
udp.port == 4791
udp.port != 4791
udp.port === 4791
udp.srcport > 49152 or udp.srcport == 4791
udp.srcport == udp.dstport
udp.port == udp.srcport
udp.port & 1
udp.length > 100
udp.checksum == 0
udp[0:2] == c0:00
udp[4:2] > 00:64
tcp.flags & 0x02
tcp.flags == 0x18
tcp.port == 18515
tcp.len > 0
frame.number > 100
frame.number == 7
frame.len > 100
frame.len == frame.cap_len
frame.len > frame.cap_len
frame.len >= frame.cap_len > 60
frame.time_relative > 1.5
frame.time_relative < 20s ⇔ frame.time_relative < 20 # no units
frame[12:2] == 08:00
frame[-4:] contains 00
frame contains "rdma"
frame contains "\x00\x00\x00\x10"
frame contains de:ad
frame matches "[0-9a-f]{8}:[0-9a-f]{8}"
len(frame) > 100
len(ip) == 20
len(udp) == 8
len(eth) == 14
len(infiniband.bth) == 12
len(infiniband.aeth) != 4
count(udp.port) == 2
count(ip.addr) == 0
not count(ip.addr) == 2
infiniband.mad
infiniband.mad.method == 3
infiniband.mad.attributeid == 0x0010
infiniband.cm.req.serviceid
infiniband.bth.reserved7 == 0
infiniband.bth.psn not in {1}
`), "\n")

// askedSets have commas, which tshark cannot be asked all at once.
var askedSets = strings.Split(strings.TrimSpace(`
infiniband.bth.opcode in {4, 6..10, 0x11}
infiniband.bth.psn in {1, 2..5, 0x100 .. 0x800000}
ip.addr in {10.77.0.2, 192.168.0.0/16, 10.0.0.1..10.0.0.9}
eth.src in {02:00:00:00:77:01, 02:00:00:00:77:03}
eth.src[0,4-5,3:2] == 02:77:01:00:77
frame[0:2,-2:2] contains 00
`), "\n")

func TestAgreesWithTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	var files []string
	if os.Getenv("ROCESCOPE_CAPTURES") != "" {
		files = append(testkit.Files(t, testkit.RXE(t), "*.pcap"), testkit.Files(t, testkit.Public(t), "rocev2_*")...)
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "iwarp_") })
	} else {
		t.Log("ROCESCOPE_CAPTURES is not set: only the samples are asked about")
	}
	files = append(files, testkit.Files(t, filepath.Join(testkit.ModuleRoot(t), "captures", "samples"), "*.pcap")...)
	shots, file := merged(t, files, 30)

	ask := func(line string) (f *Filter, theirs string) {
		line, _, _ = strings.Cut(line, " # ")
		ours, theirs, differ := strings.Cut(line, " ⇔ ")
		if !differ {
			theirs = ours
		}
		f, err := Compile(ours)
		if err != nil {
			t.Fatalf("%v\n%s", err, err.(*Error).Caret())
		}
		return f, theirs
	}
	compare := func(f *Filter, theirs string, want map[int]bool) {
		diff := 0
		delete(want, len(shots)+1) // the one frame more
		for i, s := range shots {
			if got := f.Match(&s.p, s.frame, nil); got != want[i+1] {
				if diff++; diff == 1 {
					t.Errorf("%s: %v at frame %d, tshark (%s) says %v (%d and %d frames pass); opcode %v, %x", f, got, i+1, theirs, want[i+1], count(f, shots), len(want), s.p.Opcode, s.frame[:min(len(s.frame), 90)])
				}
			}
		}
	}

	var filters []*Filter
	var theirs []string
	for _, line := range asked {
		f, their := ask(line)
		filters, theirs = append(filters, f), append(theirs, their)
	}
	tables := statistics(t, ts, file, theirs)
	none := 0
	for i, f := range filters {
		compare(f, theirs[i], tables[i])
		if n := len(tables[i]); n == 0 || n == len(shots) {
			none++
		}
	}
	if none > len(filters)/4 && os.Getenv("ROCESCOPE_CAPTURES") != "" {
		t.Errorf("%d of %d filters pass no frame, or all: they say little", none, len(filters))
	}
	for _, line := range askedSets {
		f, their := ask(line)
		rows, err := ts.Query(testkit.TsharkQuery{File: file, Filter: their, Fields: []string{"frame.number"}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]bool{}
		for _, r := range rows {
			n, _ := strconv.Atoi(r[0])
			want[n] = true
		}
		compare(f, their, want)
	}
	t.Logf("%d filters, %d frames of %d files", len(asked)+len(askedSets), len(shots), len(files))
}

func count(f *Filter, shots []*shot) (n int) {
	for _, s := range shots {
		if f.Match(&s.p, s.frame, nil) {
			n++
		}
	}
	return n
}

// merged puts some frames of every Ethernet capture into one file, a second
// apart, and decodes them.
func merged(t *testing.T, files []string, each int) (shots []*shot, path string) {
	path = filepath.Join(t.TempDir(), "merged.pcap")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := pcapgo.NewWriterNanos(out)
	if err := w.WriteFileHeader(1<<18, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		r, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, fr := range readSome(r, each) {
			when := time.Unix(1_700_000_000+int64(len(shots)), int64(i%2)*500_000)
			s := &shot{frame: fr.data}
			s.p.Number, s.p.Time, s.p.Base, s.p.Prev = uint64(len(shots)+1), when.UnixNano(), 1_700_000_000e9, when.UnixNano()
			if n := len(shots); n > 0 {
				s.p.Prev = shots[n-1].p.Time
			}
			var d dissect.Decoder
			d.Decode(dissect.LinkEthernet, fr.data, fr.wire, &s.p)
			if otherwise(s) {
				continue
			}
			info := gopacket.CaptureInfo{Timestamp: when, CaptureLength: len(fr.data), Length: fr.wire}
			if err := w.WritePacket(info, fr.data); err != nil {
				t.Fatal(err)
			}
			shots = append(shots, s)
		}
		r.Close()
	}
	// tshark's statistics leave the last interval out: one frame more.
	end := shots[len(shots)-1]
	info := gopacket.CaptureInfo{Timestamp: time.Unix(0, end.p.Time+2e9), CaptureLength: len(end.frame), Length: len(end.frame)}
	if err := w.WritePacket(info, end.frame); err != nil {
		t.Fatal(err)
	}
	return shots, path
}

// otherwise tells the frames that the two decode differently, which is not the
// filter's business: tshark looks into the packet that an ICMP error quotes,
// and takes UDP port 4791 for another protocol where the other port is a
// well-known one.
func otherwise(s *shot) bool {
	h := s.p.IPv4(s.frame)
	return h != nil && h[9] == 1 || s.p.Has(dissect.LayerUDP) && s.p.SrcPort < 1024
}

type fileFrame struct {
	data []byte
	wire int
}

// readSome reads frames spread over the beginning of a file: the first ones,
// then every third. Other link types than Ethernet give none.
func readSome(r io.ReadSeeker, most int) (frames []fileFrame) {
	var src gopacket.PacketDataSource
	var link layers.LinkType
	if p, err := pcapgo.NewReader(r); err == nil {
		src, link = p, p.LinkType()
	} else if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil
	} else if p, err := pcapgo.NewNgReader(r, pcapgo.DefaultNgReaderOptions); err == nil {
		src, link = p, p.LinkType()
	}
	if src == nil || link != layers.LinkTypeEthernet {
		return nil
	}
	for i := 0; len(frames) < most; i++ {
		data, info, err := src.ReadPacketData()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return frames
			}
			break
		}
		if i < most/2 || i%3 == 0 {
			frames = append(frames, fileFrame{append([]byte(nil), data...), info.Length})
		}
	}
	return frames
}

// statistics asks tshark about many filters in one run: its statistics per
// second are those of single frames here. tables[i] holds the frames that
// filter i passes.
func statistics(t *testing.T, ts *testkit.Tshark, file string, filters []string) (tables []map[int]bool) {
	const atOnce = 200
	for len(filters) > 0 {
		n := min(atOnce, len(filters))
		for _, f := range filters[:n] {
			if strings.Contains(f, ",") {
				t.Fatalf("%s: tshark splits its arguments at commas", f)
			}
		}
		out, err := ts.Run("-n", "-q", "-r", file, "-z", "io,stat,1,"+strings.Join(filters[:n], ","))
		if err != nil {
			t.Fatal(err)
		}
		some := make([]map[int]bool, n)
		for i := range some {
			some[i] = map[int]bool{}
		}
		rows := 0
		for line := range strings.Lines(out) {
			cells := strings.Split(line, "|")
			if len(cells) < 2*n+2 || !strings.Contains(cells[1], "<>") {
				continue
			}
			from, err := strconv.Atoi(strings.TrimSpace(cells[1][:strings.Index(cells[1], "<>")]))
			if err != nil {
				t.Fatalf("tshark: %q", line)
			}
			rows++
			for i := range some {
				if frames, err := strconv.Atoi(strings.TrimSpace(cells[2+2*i])); err != nil {
					t.Fatalf("tshark: %q", line)
				} else if frames > 0 {
					some[i][from+1] = true
				}
			}
		}
		if rows == 0 {
			t.Fatalf("tshark printed no table:\n%.2000s", out)
		}
		tables, filters = append(tables, some...), filters[n:]
	}
	return tables
}
