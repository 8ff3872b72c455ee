package iwarp

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// gathered is what a tracker said of a capture.
type gathered struct {
	fpdus    []FPDU
	messages []Message
	events   []Event
	conns    []Connection
}

// gather sets up a sink that keeps copies.
func (g *gathered) sink() Sink {
	return Sink{
		FPDU:    func(f *FPDU) { c := *f; c.Data = append([]byte(nil), f.Data...); g.fpdus = append(g.fpdus, c) },
		Message: func(m *Message) { g.messages = append(g.messages, *m) },
		Event:   func(e *Event) { g.events = append(g.events, *e) },
	}
}

func (g *gathered) count(op Op) (n, done int, bytes uint64) {
	for i := range g.messages {
		if m := &g.messages[i]; m.Op == op {
			n++
			bytes += m.Length
			if m.Status == Done {
				done++
			}
		}
	}
	return n, done, bytes
}

func followFile(t testing.TB, file string) *gathered {
	t.Helper()
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	g := &gathered{}
	tr := New(Options{Sink: g.sink()})
	var d dissect.Decoder
	var p dissect.Packet
	batch := make([]captures.Frame, 64)
	for {
		n, err := src.ReadBatch(batch)
		for _, f := range batch[:n] {
			p.Number++
			p.Time = f.Time
			d.Decode(f.Link, f.Data, f.WireLen, &p)
			tr.Packet(&p, f.Data)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.Finish()
	g.conns = tr.Connections()
	return g
}

// The messages of the captures of the kernel's software iWARP are those that the
// manifest says were sent.
func TestManifest(t *testing.T) {
	manifest := testkit.RXEManifest(t)
	seen := 0
	for _, file := range testkit.Files(t, testkit.RXE(t), "iwarp_*.pcap") {
		seen++
		name := filepath.Base(file)
		truth := manifest.Entry(t, name).Truth
		g := followFile(t, file)
		if len(g.events) > 0 {
			t.Errorf("%s: events %v", name, g.rules())
		}
		for _, f := range g.fpdus {
			if !f.Whole || f.CRC != 0 || f.Checked != dissect.ICRCUnchecked { // this stack uses no CRC
				t.Fatalf("%s: FPDU in frame %d: whole %v, CRC 0x%08x %v", name, f.Frame, f.Whole, f.CRC, f.Checked)
			}
		}
		want := map[Op][2]int{} // messages, bytes
		switch truth.Op {
		case "RDMA_WRITE":
			want[Write] = [2]int{*truth.MessagesPerQP, *truth.MessagesPerQP * *truth.MessageBytes}
		case "RDMA_READ":
			want[Read] = [2]int{*truth.MessagesPerQP, *truth.MessagesPerQP * *truth.MessageBytes}
		default: // rping: advertise, READ, go ahead, advertise, WRITE, go ahead; 64 bytes and advertisements of 16
			n := truth.Iterations
			want[Send], want[Read], want[Write] = [2]int{4 * n, 4 * n * 16}, [2]int{n, n * 64}, [2]int{n, n * 64}
		}
		for _, op := range []Op{Send, Write, Read, Atomic, Immediate, Terminate} {
			n, done, bytes := g.count(op)
			if op == Send && truth.Op != "" { // perftest tells its addresses by SENDs of its own
				if n == 0 || n != done {
					t.Errorf("%s: %d SENDs, %d done", name, n, done)
				}
				continue
			}
			if n != want[op][0] || done != n || int(bytes) != want[op][1] {
				t.Errorf("%s: %d %vs, %d done, %d bytes; want %v", name, n, op, done, bytes, want[op])
			}
		}
		for _, m := range g.messages {
			if lat, ok := m.Latency(); !ok || lat <= 0 {
				t.Errorf("%s: a %v in frame %d took %d ns", name, m.Op, m.First, lat)
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d captures", seen)
	}
}

// tshark finds the same FPDUs: lengths, opcodes, and CRCs, which it checks too.
// It is asked only where it can tell: cut into small segments, and with markers
// where FPDUs do not begin with segments, tshark 4.0 loses its way.
func TestFPDUsEqualTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	for _, m := range modes {
		d := open(m)
		a, b := talk(m)
		for side, h := range []half{a, b} {
			if !m.markers {
				segments(d, side, h.stream, 1460)
				continue
			}
			for i, at := range h.begins {
				end := len(h.stream)
				if i+1 < len(h.begins) {
					end = h.begins[i+1]
				}
				d.Send(side, h.stream[at:end])
				d.Ack(1 - side)
			}
		}
		args := append([]string{"-n", "-r", testkit.WriteCapture(t, "a.pcap", d.Frames), "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"}, noGuessing...)
		for _, f := range []string{
			"frame.number", "iwarp_mpa.ulpdulength", "iwarp_rdma.opcode", "iwarp_ddp.last_flag", "iwarp_mpa.crc", "iwarp_mpa.crc_check",
			"iwarp_ddp.stag", "iwarp_ddp.msn", "iwarp_mpa.marker_fpduptr",
		} {
			args = append(args, "-e", f)
		}
		out, err := ts.Run(args...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, f := range follow(d.Frames).fpdus {
			h := dissect.DDP(f.Data)
			n := fmt.Sprint(f.Frame)
			got[n] = append(got[n], fmt.Sprintf("%d 0x%02x %d 0x%08x", f.ULPDU, uint8(h.Opcode()), f.Data[0]>>6&1, f.CRC))
		}
		total := 0
		for line := range strings.Lines(out) {
			c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if c[1] == "" {
				continue
			}
			lengths, ops, lasts := strings.Split(c[1], ","), strings.Split(c[2], ","), strings.Split(c[3], ",")
			crcs := strings.Split(c[4]+c[5], ",")
			var want []string
			for i := range lengths {
				want = append(want, fmt.Sprintf("%s %s %s %s", lengths[i], ops[i], lasts[i], crcs[i]))
			}
			total += len(want)
			if diff := cmp.Diff(want, got[c[0]]); diff != "" {
				t.Errorf("%s, frame %s (-tshark +ours):\n%s", m.name, c[0], diff)
			}
		}
		if total != len(a.begins)+len(b.begins) {
			t.Errorf("%s: tshark finds %d FPDUs, there are %d", m.name, total, len(a.begins)+len(b.begins))
		}
	}
}

// noGuessing stops tshark from taking payloads for upper protocols.
var noGuessing = []string{"--disable-protocol", "rpcordma", "--disable-heuristic", "rpcrdma_iwarp", "--disable-heuristic", "smb_direct_iwarp"}
