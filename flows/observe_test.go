package flows

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// seen is what a tracker made of a capture.
type seen struct {
	*Snapshot
	tracker     *Tracker
	packets     []dissect.Packet
	marks       []Mark       // one for each packet
	messages    []Message    // as they were handed to the sink
	occurrences []Finding    // each one, before they are folded
	evicted     []Connection // final records
	iwarp       []Message
}

// look follows a capture to its end.
func look(frames []testkit.Frame) *seen { return lookWith(Options{}, 256, frames) }

// lookWith follows a capture in batches of a size.
func lookWith(opt Options, batch int, frames []testkit.Frame) *seen {
	s := &seen{}
	opt.Sink = Sink{
		Message:    func(m *Message) { s.messages = append(s.messages, *m) },
		Finding:    func(f *Finding) { s.occurrences = append(s.occurrences, *f) },
		Connection: func(c *Connection) { s.evicted = append(s.evicted, *c) },
		IWARP:      func(m *Message) { s.iwarp = append(s.iwarp, *m) },
	}
	s.tracker = New(opt)
	testkit.Batches(frames, batch, func(packets []dissect.Packet, data [][]byte) {
		marks := make([]Mark, len(packets))
		s.tracker.Track(&Batch{Packets: packets, Data: data, Marks: marks})
		s.packets = append(s.packets, packets...)
		s.marks = append(s.marks, marks...)
	})
	s.tracker.Finish()
	s.Snapshot = s.tracker.Snapshot()
	return s
}

// mark is that of a frame by its number, from 1.
func (s *seen) mark(frame int) *Mark { return &s.marks[frame-1] }

// finding returns that of a check, nil where there is none.
func (s *seen) finding(id string) *Finding {
	for i := range s.Findings {
		if s.Findings[i].ID.String() == id {
			return &s.Findings[i]
		}
	}
	return nil
}

// grave lists the ids of the findings above note, sorted, each once.
func (s *seen) grave() []string {
	var ids []string
	for i := range s.Findings {
		if f := &s.Findings[i]; f.Severity() > Note {
			ids = append(ids, f.ID.String())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// only is the one connection of a capture.
func (s *seen) only(t testing.TB) *Connection {
	t.Helper()
	if len(s.Connections) != 1 {
		t.Fatalf("%d connections, want one:\n%s", len(s.Connections), s.describe())
	}
	return &s.Connections[0]
}

// of lists the messages that a queue pair requested, by its end of the only
// connection: "write 3000 IBV_WC_SUCCESS".
func (s *seen) of(d Direction) []string {
	var list []string
	for i := range s.messages {
		if m := &s.messages[i]; m.Direction == d {
			list = append(list, fmt.Sprintf("%v %d %v", m.Op, m.Bytes, m.Status))
		}
	}
	return list
}

// describe is everything on one page, for the text of a failure.
func (s *seen) describe() string {
	var b strings.Builder
	for i := range s.Connections {
		c := &s.Connections[i]
		fmt.Fprintf(&b, "connection %d: %v %v/%#x → %v/%#x, %v, %v %v\n", c.ID, c.Transport, c.A.Addr, c.A.QPN, c.B.Addr, c.B.QPN, c.Evidence, c.A.State, c.B.State)
		for d := range c.Streams {
			st := &c.Streams[d]
			fmt.Fprintf(&b, "  %v: %d packets, resent %d %v, duplicates %d, out of order %d, lost %d|%d, capture %d, ghosts %d, reordered %d, copies %d, ambiguous %d, acks %d, naks %v, rnr %d\n",
				Direction(d), st.Packets, st.RetransmittedPackets, st.Retransmissions, st.Duplicates, st.OutOfOrder, st.LostBeforeTap, st.LostBehindTap,
				st.CaptureLost, st.GhostAcks, st.Reordered, st.NetworkDuplicates, st.Ambiguous, st.Acks, st.NAKs, st.RNRNAKs)
		}
	}
	for i := range s.Findings {
		f := &s.Findings[i]
		fmt.Fprintf(&b, "%v %v, connection %d %v, frame %d: %s\n", f.Severity(), f.ID, f.Conn, f.Direction, f.Frame, f.Summary)
	}
	for i := range s.packets {
		if p := &s.packets[i]; p.Has(dissect.LayerBTH) {
			fmt.Fprintf(&b, "  frame %d %v PSN %#x %v %v\n", p.Number, p.Opcode, uint32(p.PSN), p.ICRC, s.marks[i].text())
		}
	}
	return b.String()
}

var markNames = [...]string{"request", "response", "message", "psn", "retransmission", "duplicate", "after gap", "reordered", "nak", "rnr", "ce", "cnp", "bad icrc", "ghost", "finding", "unclear"}

func (m *Mark) text() string {
	var set []string
	for i, name := range markNames {
		if m.Bits>>i&1 != 0 {
			set = append(set, name)
		}
	}
	return strings.Join(set, "+")
}
