package flows_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

func runFile(t *testing.T, path string, verbose bool) {
	src, err := captures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	nm := 0
	tr := flows.New(flows.Options{Sink: flows.Sink{Message: func(m *flows.Message) {
		nm++
		if verbose {
			fmt.Printf("   msg %d/%v #%d %v %v bytes=%d seen=%d seg=%d psn=%x-%x resends=%d\n", m.Conn, m.Direction, m.Index, m.Op, m.Status, m.Bytes, m.Seen, m.Segments, uint32(m.FirstPSN), uint32(m.LastPSN), m.Resends)
		}
	}}})
	d := dissect.Decoder{CheckICRC: true}
	fr := make([]captures.Frame, 256)
	var b flows.Batch
	b.Packets = make([]dissect.Packet, 256)
	b.Data = make([][]byte, 256)
	b.Marks = make([]flows.Mark, 256)
	num := uint64(0)
	for {
		n, err := src.ReadBatch(fr)
		for i := 0; i < n; i++ {
			num++
			p := &b.Packets[i]
			p.Number, p.Time = num, fr[i].Time
			d.Decode(fr[i].Link, fr[i].Data, fr[i].WireLen, p)
			b.Data[i] = fr[i].Data
		}
		tr.Track(&flows.Batch{Packets: b.Packets[:n], Data: b.Data[:n], Marks: b.Marks[:n]})
		if verbose {
			for i := 0; i < n; i++ {
				p := &b.Packets[i]
				if p.Has(dissect.LayerBTH) {
					fmt.Printf("   f%d %v op%02x psn %x icrc %v marks %b conn %d msg %d round %d\n", p.Number, p.Src, p.Opcode, uint32(p.PSN), p.ICRC, b.Marks[i].Bits, b.Marks[i].Conn, b.Marks[i].Message, b.Marks[i].Round)
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.Finish()
	s := tr.Snapshot()
	fmt.Printf("== %s: %d packets icrc %v msgs %d\n", filepath.Base(path), s.Packets, s.ICRC, nm)
	for i := range s.Connections {
		c := &s.Connections[i]
		fmt.Printf("  tap %v %d %v %v/%x -> %v/%x by %v (%s) st %v %v psn %x %x mtu %d\n", c.Tap, c.ID, c.Transport, c.A.Addr, c.A.QPN, c.B.Addr, c.B.QPN, c.Evidence, c.Why, c.A.State, c.B.State, c.A.FirstPSN, c.B.FirstPSN, c.A.PathMTU)
		for d := range c.Streams {
			st := &c.Streams[d]
			if st.Packets == 0 {
				continue
			}
			ms := ""
			for o := flows.Operation(0); o < flows.NumOperations; o++ {
				if st.Messages[o].Count > 0 {
					ms += fmt.Sprintf("%v:%+v ", o, st.Messages[o])
				}
			}
			fmt.Printf("    %v pk=%d %s rtx=%d/%v dup=%d ooo=%d lost=%d|%d cap=%d ghost=%d reord=%d netdup=%d amb=%d acks=%d naks=%v rnr=%d ce=%d bad=%d lat=%+v\n", flows.Direction(d), st.Packets, ms, st.RetransmittedPackets, st.Retransmissions, st.Duplicates, st.OutOfOrder, st.LostBeforeTap, st.LostBehindTap, st.CaptureLost, st.GhostAcks, st.Reordered, st.NetworkDuplicates, st.Ambiguous, st.Acks, st.NAKs, st.RNRNAKs, st.ECNCE, st.BadICRC, st.Latency)
		}
	}
	for i := range s.Findings {
		f := &s.Findings[i]
		fmt.Printf("  %v %v c%d %v f%d x%d: %s %s\n", f.Severity(), f.ID, f.Conn, f.Direction, f.Frame, f.Count, f.Summary, f.Where)
	}
}

func TestScratch(t *testing.T) {
	pat := os.Getenv("SCRATCH")
	if pat == "" {
		t.Skip()
	}
	files, _ := filepath.Glob(pat)
	for _, f := range files {
		runFile(t, f, os.Getenv("V") != "")
	}
}
