package flows

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// checkMany is rapid.Check with as many cases as the property is worth, the same
// ones each time. -rapid.checks=N -rapid.seed=N looks further.
func checkMany(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(n), "rapid.seed": "20240102"} {
		f := flag.Lookup(name)
		if f == nil || f.Value.String() != f.DefValue || testing.Short() && name == "rapid.checks" {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flag.Set(name, f.DefValue) }()
	}
	rapid.Check(t, property)
}

// trial is a simulated conversation, what the tracker made of it, and the truth
// seen from the tap.
type trial struct {
	o testkit.SimOptions
	r *testkit.SimResult
	s *seen
	c *Connection
}

// run tracks a simulated conversation. Its streams are those of the options: A
// asked first, or was asked by the handshake.
func run(o testkit.SimOptions) *trial {
	o.MTU = cmp.Or(o.MTU, 1024)
	x := &trial{o: o, r: testkit.Simulate(o)}
	x.s = look(x.r.Frames)
	for i := range x.s.Connections {
		if c := &x.s.Connections[i]; c.A.Known && c.B.Known {
			x.c = c
		}
	}
	return x
}

// side is the end that sends in a direction of the connection.
func (x *trial) side(d Direction) testkit.Side {
	ends := [2]QP{x.c.A, x.c.B}
	if ends[d].Addr == dissect.AddrFrom(testkit.NewExchange(x.o.ExchangeOptions).A.Addr) {
		return testkit.A
	}
	return testkit.B
}

// struck counts the packets that a side sent and that a fault struck.
func (x *trial) struck(from testkit.Side, behind bool, kinds ...testkit.SimFaultKind) (n uint64) {
	for i := range x.r.Packets {
		p := &x.r.Packets[i]
		if p.From == from && p.Fault != nil && p.Fault.Behind == behind && slices.Contains(kinds, p.Fault.Kind) {
			n++
		}
	}
	return n
}

// silent reports whether the IPv4 identification may say nothing: there is
// none, it stands still, or it has not run long enough to be believed.
func (x *trial) silent() bool { return true }

// reads counts the packets that answer READs and atomics a second time because
// their request was doubled.
func (x *trial) reads(from testkit.Side, behind bool) (n uint64) {
	for i := range x.r.Packets {
		p := &x.r.Packets[i]
		if p.From != from && p.Request && p.Fault != nil && p.Fault.Kind == testkit.Duplicate && p.Fault.Behind == behind && p.Op.Info().Family == dissect.Read {
			n += uint64(len(testkit.Segments(p.ReadSize, x.o.MTU)))
		}
	}
	return n
}

// overtaken counts a side's packets that came behind their own resend, or
// behind what asked for an answer again.
func (x *trial) overtaken(from testkit.Side) (n uint64) {
	if !x.silent() {
		return 0
	}
	for i := range x.r.Packets {
		p := &x.r.Packets[i]
		if p.From != from || p.Fault == nil || p.Fault.Kind != testkit.Reorder || p.Fault.Behind || len(p.Frames) == 0 {
			continue
		}
		for j := i + 1; j < len(x.r.Packets); j++ {
			q := &x.r.Packets[j]
			if q.From == from && q.Request == p.Request && q.Offset == p.Offset && len(q.Frames) > 0 && q.Frames[0] < p.Frames[0] {
				n++
				break
			}
		}
		if !p.Request && x.askedAgain(p) {
			n++
		}
	}
	return n
}

// askedAgain reports whether the request that a packet answers was sent again
// before the answer passed the tap.
func (x *trial) askedAgain(p *testkit.SimPacket) bool {
	for i := range x.r.Packets {
		q := &x.r.Packets[i]
		if q.From != p.From && q.Request && q.Message == p.Message && q.Cause != testkit.SentFirst && len(q.Frames) > 0 && q.Frames[0] < p.Frames[0] {
			return true
		}
	}
	return false
}

// answersAgain counts the answers that a side sent more than once.
func (x *trial) answersAgain(from testkit.Side) (n uint64) {
	for i := range x.r.Packets {
		if p := &x.r.Packets[i]; p.From == from && !p.Request && p.Cause == testkit.SentForDuplicate {
			n++
		}
	}
	return n
}

// naked reports whether a NAK for a request passed the tap before a frame.
func (x *trial) naked(p *testkit.SimPacket, frame int) bool {
	for i, at := range x.r.Truth[:frame] {
		if at >= 0 && x.s.marks[i].Has(MarkNAK) && x.r.Packets[at].From != p.From && x.r.Packets[at].Offset == p.Offset {
			return true
		}
	}
	return false
}

// missed counts a side's packets that the capture left out.
func (x *trial) missed(from testkit.Side) uint64 {
	return x.struck(from, false, testkit.Miss) + x.struck(from, true, testkit.Miss)
}

// again counts a side's requests that it sent for a cause.
func (x *trial) again(from testkit.Side, causes ...testkit.SimCause) (n uint64) {
	for i := range x.r.Packets {
		p := &x.r.Packets[i]
		if p.From == from && p.Request && slices.Contains(causes, p.Cause) {
			n++
		}
	}
	return n
}

// bounds are the rules for what a stream's counters may say: never more than
// what happened, and where the wire cannot tell two fates apart, not more than
// both.
var bounds = []struct {
	rule string // of the inference rules
	says string
	got  func(s *Stream) uint64
	most func(x *trial, from testkit.Side) uint64
}{
	{
		"9: a gap and a NAK, then the resend", "lost before the tap",
		func(s *Stream) uint64 { return s.LostBeforeTap },
		func(x *trial, from testkit.Side) uint64 {
			return x.struck(from, false, testkit.Lose, testkit.Corrupt) + // 1: a damaged packet is a lost one
				x.overtaken(from) // 4: what came behind its own resend, where nothing tells the two apart
		},
	},
	{
		"9: a NAK for a PSN in the file is lost behind the tap, or refused there: overtaken, too", "lost behind the tap",
		func(s *Stream) uint64 { return s.LostBehindTap },
		func(x *trial, from testkit.Side) uint64 {
			return x.struck(from, true, testkit.Lose, testkit.Corrupt) +
				2*x.struck(from, true, testkit.Reorder) // what came late is asked for, and what had passed it
		},
	},
	{
		"8: acknowledged and never seen", "lost by the capture, or a ghost",
		func(s *Stream) uint64 { return s.CaptureLost },
		func(x *trial, from testkit.Side) (n uint64) { // PSNs, not packets: a READ's answers have theirs
			for i := range x.r.Packets {
				if p := &x.r.Packets[i]; p.From == from && p.Fault != nil && p.Fault.Kind == testkit.Miss {
					n += uint64(max(len(testkit.Segments(p.ReadSize, x.o.MTU)), 1))
				}
			}
			return n
		},
	},
	{
		"8: an answer beyond all requests", "ghost acknowledgements",
		func(s *Stream) uint64 { return min(s.GhostAcks, 1) },
		func(x *trial, from testkit.Side) uint64 { return x.missed(from ^ 1) },
	},
	{
		"9: late, not asked for", "reordered",
		func(s *Stream) uint64 { return s.Reordered },
		func(x *trial, from testkit.Side) uint64 { return x.struck(from, false, testkit.Reorder) },
	},
	{
		"4: the same packet again", "doubled by the network",
		func(s *Stream) uint64 { return s.NetworkDuplicates },
		func(x *trial, from testkit.Side) uint64 {
			n := x.struck(from, false, testkit.Duplicate) + x.overtaken(from)
			if x.missed(from^1) > 0 { // the request that asked again may be missing
				n += x.answersAgain(from)
			}
			if x.silent() { // what answers a request that was doubled behind the tap looks the same
				n += x.reads(from, true)
			}
			return n
		},
	},
	{
		"1: moves nothing", "damaged",
		func(s *Stream) uint64 { return s.BadICRC },
		func(x *trial, from testkit.Side) uint64 { return x.struck(from, false, testkit.Corrupt) },
	},
	{
		"4: behind a NAK", "resends for a NAK",
		func(s *Stream) uint64 { return s.Retransmissions[CauseNAK] },
		func(x *trial, from testkit.Side) uint64 {
			if x.struck(from^1, true, testkit.Lose, testkit.Corrupt, testkit.Reorder) > 0 { // the NAK passed here, and came late or not at all
				return x.again(from, testkit.SentAfterNAK, testkit.SentAfterTimeout, testkit.SentAfterImplied)
			}
			return x.again(from, testkit.SentAfterNAK, testkit.SentAfterImplied) // a NAK is an implied one of a READ before it
		},
	},
	{
		"16: behind an RNR NAK", "resends for RNR",
		func(s *Stream) uint64 { return s.Retransmissions[CauseRNR] },
		func(x *trial, from testkit.Side) uint64 { return x.again(from, testkit.SentAfterRNR) },
	},
	{
		"11: behind silence, or behind an answer that shows an earlier one to be missing", "resends for a time-out",
		func(s *Stream) uint64 { return s.Retransmissions[CauseTimeout] },
		func(x *trial, from testkit.Side) uint64 {
			return x.again(from, testkit.SentAfterTimeout, testkit.SentAfterImplied)
		},
	},
	{
		"10: resent although the answer passed the tap", "spurious resends",
		func(s *Stream) uint64 { return s.Retransmissions[CauseSpurious] },
		func(x *trial, from testkit.Side) uint64 {
			return x.again(from, testkit.SentAfterTimeout, testkit.SentAfterImplied, testkit.SentAfterNAK)
		},
	},
	{
		"4: what came behind its own resend may be taken for it", "packets sent again",
		func(s *Stream) uint64 { return s.RetransmittedPackets },
		func(x *trial, from testkit.Side) (n uint64) {
			for i := range x.r.Packets {
				if p := &x.r.Packets[i]; p.From == from && p.Cause != testkit.SentFirst {
					n += uint64(len(p.Frames))
				}
			}
			return n + x.overtaken(from)
		},
	},
}

// blur is how many verdicts may be off because faults fell together: where one
// strikes while another is still being made good, what belongs to which cannot
// be told. A lone fault has none.
func (x *trial) blur() (n int) {
	for i := range x.r.Packets {
		if x.r.Packets[i].Fault != nil {
			n++
		}
	}
	return max(n-1, 0)
}

// wrong lists all that the tracker says and that did not happen.
func (x *trial) wrong() (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if x.c == nil {
		return []string{"the connection is not there"}
	}
	for d := AToB; d <= BToA; d++ {
		for i := range bounds {
			b := &bounds[i]
			if got, most := b.got(&x.c.Streams[d]), b.most(x, x.side(d)); got > most+uint64(x.blur()) {
				complain("%v: %s: %d, at most %d (rule %s)", d, b.says, got, most, b.rule)
			}
		}
	}
	marks := 0
	mistaken := func(format string, args ...any) {
		if marks++; marks > 2*x.blur() {
			complain(format, args...)
		}
	}
	for i, at := range x.r.Truth {
		if at < 0 {
			continue
		}
		p, m := &x.r.Packets[at], &x.s.marks[i]
		f := p.Fault
		struck := func(k testkit.SimFaultKind) bool { return f != nil && f.Kind == k && !f.Behind }
		switch {
		case m.Has(MarkBadICRC) != struck(testkit.Corrupt):
			complain("frame %d: damaged: %v", i+1, m.Has(MarkBadICRC))
		case m.Has(MarkBadICRC):
		case m.Has(MarkRequest) != p.Request || m.Has(MarkResponse) == p.Request:
			complain("frame %d: a request: %v", i+1, m.Has(MarkRequest))
		case m.Has(MarkUnclear) && (p.Cause != testkit.SentFirst || f != nil): // and says no more
		case m.Has(MarkUnclear):
			mistaken("frame %d is clear", i+1)
		case m.Has(MarkRetransmission) && struck(testkit.Reorder) && (x.overtaken(p.From) > 0 || x.naked(p, i)):
		case m.Has(MarkRetransmission) && p.Cause == testkit.SentFirst:
			mistaken("frame %d was sent once", i+1)
		case m.Has(MarkDuplicate) && !p.Request && x.missed(p.From^1) > 0:
		case m.Has(MarkDuplicate) && p.Request && p.Cause != testkit.SentFirst: // a lone copy, until the next one comes
		case m.Has(MarkDuplicate) && struck(testkit.Reorder) && x.overtaken(p.From) > 0:
		case m.Has(MarkDuplicate) && !(struck(testkit.Duplicate) && p.Frames[0] != i+1) && !(x.silent() && x.reads(p.From, true) > 0 && !p.Request):
			mistaken("frame %d is no copy", i+1)
		case m.Has(MarkReordered) && !struck(testkit.Reorder):
			mistaken("frame %d was not overtaken", i+1)
		case m.Has(MarkMessage) && p.Message >= 0 && x.whole():
			side, d := p.From, m.Direction
			if !p.Request {
				side, d = side^1, d.Reverse()
			}
			if got := x.message(d, m.Message); got != nil && got.FirstPSN != x.r.Messages[side][p.Message].First {
				complain("frame %d is of message %d, not that at %d", i+1, p.Message, got.FirstPSN)
			}
		}
	}
	return list
}

// message returns a message by its number, nil where there is none: a part that
// was first seen behind a gap loses its number when it joins the rest.
func (x *trial) message(d Direction, index uint32) *Message {
	for i := range x.s.messages {
		if m := &x.s.messages[i]; m.Direction == d && m.Index == index {
			return m
		}
	}
	return nil
}

// whole reports whether each packet, of requests and of answers, was seen by
// the tap at least once.
func (x *trial) whole() bool {
	for i := range x.r.Packets {
		if p := &x.r.Packets[i]; p.Fault != nil && p.Fault.Kind == testkit.Miss {
			return false
		}
	}
	return true
}

var simStatus = map[testkit.SimStatus]Status{
	testkit.SimDone: StatusSuccess, testkit.SimRetryExceeded: StatusRetryExc, testkit.SimRNRExceeded: StatusRNRRetry, testkit.SimFlushed: StatusFlushed,
}

var simOperation = map[dissect.Family]Operation{
	dissect.Send: OpSend, dissect.Write: OpWrite, dissect.Read: OpRead, dissect.CompareSwap: OpCompareSwap, dissect.FetchAdd: OpFetchAdd,
}

// wrongMessages compares the messages with those of the model.
func (x *trial) wrongMessages() (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for d := AToB; d <= BToA; d++ {
		var got []Message
		for _, m := range x.s.messages {
			if m.Direction == d {
				got = append(got, m)
			}
		}
		slices.SortFunc(got, func(a, b Message) int { return a.FirstPSN.Sub(b.FirstPSN) })
		var want []testkit.SimMessage
		for _, m := range x.r.Messages[x.side(d)] {
			if m.FirstSent != 0 {
				want = append(want, m)
			}
		}
		if len(got) != len(want) {
			complain("%v: %d messages, want %d", d, len(got), len(want))
			continue
		}
		for i := range want {
			g, w := &got[i], &want[i]
			if g.Op != simOperation[w.Family] || g.Bytes != uint64(w.Size) || g.FirstPSN != w.First || g.LastPSN != w.Last ||
				g.Status != simStatus[w.Status] || (g.Flags&dissect.WithImm != 0) != w.Imm {
				complain("%v message %d: %v of %d bytes, PSN %d to %d, %v, want %v of %d, %d to %d, %v", d, i, g.Op, g.Bytes, g.FirstPSN, g.LastPSN, g.Status,
					w.Family, w.Size, w.First, w.Last, simStatus[w.Status])
			}
			if g.Op == OpCompareSwap || g.Op == OpFetchAdd {
				if !g.HasOrig || g.Orig != w.Orig {
					complain("%v message %d: the value before was %d (%v), want %d", d, i, g.Orig, g.HasOrig, w.Orig)
				}
			}
		}
		var count MessageCounts
		for _, m := range x.c.Streams[d].Messages {
			count.Count += m.Count
			count.Bytes += m.Bytes
			count.Completed += m.Completed
			count.Failed += m.Failed
		}
		var sink MessageCounts
		for i := range got {
			sink.Count++
			sink.Bytes += got[i].Bytes
			switch {
			case got[i].Status == StatusSuccess:
				sink.Completed++
			case got[i].Status.Failed():
				sink.Failed++
			}
		}
		if count != sink {
			complain("%v: counted %+v, told %+v", d, count, sink)
		}
	}
	return list
}

func (x *trial) describe(list []string) string {
	var b strings.Builder
	for _, c := range list {
		b.WriteString(c + "\n")
	}
	for i, at := range x.r.Truth {
		p := testkit.SimPacket{}
		if at >= 0 {
			p = x.r.Packets[at]
		}
		fmt.Fprintf(&b, "%3d %8.1f %c %v %v ar %v off %d msg %d cause %d fault %+v: %s\n", i+1, float64(x.r.Frames[i].Time-x.r.Frames[0].Time)/1e3, "AB"[p.From], p.Op, p.Syndrome, p.AckReq, p.Offset, p.Message, p.Cause, p.Fault, x.s.marks[i].text())
	}
	for i := range x.r.Packets {
		if p := &x.r.Packets[i]; len(p.Frames) == 0 {
			fmt.Fprintf(&b, "unseen: %c %v off %d msg %d cause %d fault %+v\n", "AB"[p.From], p.Op, p.Offset, p.Message, p.Cause, p.Fault)
		}
	}
	b.WriteString(x.s.describe())
	return b.String()
}

func announced(o *testkit.SimOptions) { o.Before = (*testkit.Exchange).Connect }

// TestHealthy: whatever a healthy pair of queue pairs does, nothing is said
// against it, and its messages are the model's.
func TestHealthy(t *testing.T) {
	checkMany(t, 300, func(t *rapid.T) {
		o := testkit.SimGen().Draw(t, "conversation")
		announced(&o)
		if len(o.Ops[0])+len(o.Ops[1]) == 0 {
			t.Skip("nothing is said")
		}
		x := run(o)
		list := append(x.wrong(), x.wrongMessages()...)
		for d := AToB; d <= BToA; d++ {
			if s := &x.c.Streams[d]; s.OutOfOrder+s.Duplicates+s.Ambiguous+s.RetransmittedPackets != 0 {
				list = append(list, fmt.Sprintf("%v: %+v", d, *s))
			}
		}
		list = append(list, x.s.grave()...)
		if len(list) > 0 {
			t.Fatalf("%s", x.describe(list))
		}
	})
}

// TestFaults: whatever the wire does, nothing is said that did not happen, and
// messages of which all packets were seen are the model's.
func TestFaults(t *testing.T) {
	checkMany(t, 500, func(t *rapid.T) {
		o := testkit.SimGen().Draw(t, "conversation")
		announced(&o)
		o.Patient = rapid.Bool().Draw(t, "patient")
		kinds := rapid.SampledFrom([][]testkit.SimFaultKind{
			{testkit.Lose},
			{testkit.Duplicate},
			{testkit.Reorder},
			{testkit.Corrupt},
			{testkit.Miss},
			{testkit.Lose, testkit.Duplicate, testkit.Reorder, testkit.Corrupt},
			{testkit.Lose, testkit.Duplicate, testkit.Reorder, testkit.Corrupt, testkit.Miss},
		}).Draw(t, "kinds")
		o.Faults = testkit.FaultGen(o, rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "at most"), kinds...).Draw(t, "faults")
		o.Retries = 16
		x := run(o)
		if x.c == nil && len(x.r.Packets) == 0 {
			t.Skip("nothing is said")
		}
		list := x.wrong()
		if x.whole() {
			list = append(list, x.wrongMessages()...)
		}
		if len(list) > 0 {
			t.Fatalf("%s", x.describe(list))
		}
	})
}

// sure are the fates that the wire shows beyond doubt: where one fault was all
// that happened, and its condition holds, the verdict is there.
var sure = []struct {
	rule string
	says string
	when func(x *trial, p *testkit.SimPacket) bool
	got  func(s *Stream) uint64
}{
	{
		"9: a gap, then its NAK", "lost before the tap",
		func(x *trial, p *testkit.SimPacket) bool {
			return p.Request && !p.Fault.Behind && x.cured(p) == testkit.SentAfterNAK && (p.Fault.Kind == testkit.Lose || p.Fault.Kind == testkit.Corrupt)
		},
		func(s *Stream) uint64 { return s.LostBeforeTap },
	},
	{
		"9: a NAK for a PSN in the file", "lost behind the tap",
		func(x *trial, p *testkit.SimPacket) bool {
			return p.Request && p.Fault.Behind && x.cured(p) == testkit.SentAfterNAK && (p.Fault.Kind == testkit.Lose || p.Fault.Kind == testkit.Corrupt)
		},
		func(s *Stream) uint64 { return s.LostBehindTap },
	},
	{
		"4: the same IP identification", "doubled by the network",
		func(x *trial, p *testkit.SimPacket) bool {
			return p.Request && !p.Fault.Behind && p.Fault.Kind == testkit.Duplicate && x.identified(p)
		},
		func(s *Stream) uint64 { return s.NetworkDuplicates },
	},
	{
		"9: late, with an earlier IP identification", "reordered",
		func(x *trial, p *testkit.SimPacket) bool {
			return p.Request && !p.Fault.Behind && p.Fault.Kind == testkit.Reorder && p.Passed > 0 && x.identified(p) && x.passedByRequests(p)
		},
		func(s *Stream) uint64 { return s.Reordered },
	},
	{
		"1: counted and shown, but it makes no connection", "damaged",
		func(x *trial, p *testkit.SimPacket) bool {
			return !p.Fault.Behind && p.Fault.Kind == testkit.Corrupt && p.Frames[0] > 4 // the handshake, and a first packet
		},
		func(s *Stream) uint64 { return s.BadICRC },
	},
}

// cured is why a struck request was sent again first, SentFirst where it was
// not.
func (x *trial) cured(p *testkit.SimPacket) testkit.SimCause {
	for i := range x.r.Packets {
		if q := &x.r.Packets[i]; q.From == p.From && q.Request && q.Offset == p.Offset && q.Round == p.Round+1 {
			return q.Cause
		}
	}
	return testkit.SentFirst
}

// identified reports whether the IPv4 identification of a packet's sender runs,
// and has been seen to do so.
func (x *trial) identified(p *testkit.SimPacket) bool {
	n := 0
	for i := range x.r.Packets {
		if q := &x.r.Packets[i]; q.From == p.From && len(q.Frames) > 0 && q.Sent < p.Sent {
			n++
		}
	}
	return !x.o.FixedIPID && !x.o.IPv6 && n > 4
}

// passedByRequests reports whether a request came behind a later one.
func (x *trial) passedByRequests(p *testkit.SimPacket) bool {
	for i := range x.r.Packets {
		if q := &x.r.Packets[i]; q.From == p.From && q.Request && q.Cause == testkit.SentFirst && q.Offset > p.Offset && len(q.Frames) > 0 && q.Frames[0] < p.Frames[0] {
			return true
		}
	}
	return false
}

// TestLoneFault: one fault, and what the wire shows of it is said.
func TestLoneFault(t *testing.T) {
	met := make([]int, len(sure))
	checkMany(t, 500, func(t *rapid.T) {
		o := testkit.SimGen().Draw(t, "conversation")
		announced(&o)
		o.Faults = testkit.FaultGen(o, 1, testkit.Lose, testkit.Duplicate, testkit.Reorder, testkit.Corrupt).Draw(t, "fault")
		x := run(o)
		var struck *testkit.SimPacket
		for i := range x.r.Packets {
			if x.r.Packets[i].Fault != nil {
				struck = &x.r.Packets[i]
			}
		}
		if struck == nil {
			return
		}
		list := append(x.wrong(), x.wrongMessages()...)
		d := AToB
		if x.side(d) != struck.From {
			d = BToA
		}
		for i := range sure {
			if r := &sure[i]; r.when(x, struck) {
				met[i]++
				if got := r.got(&x.c.Streams[d]); got != 1 {
					list = append(list, fmt.Sprintf("%v: %s: %d, want 1 (rule %s)", d, r.says, got, r.rule))
				}
			}
		}
		if len(list) > 0 {
			t.Fatalf("%s", x.describe(list))
		}
	})
	for i := range sure {
		t.Logf("%s: %d times", sure[i].says, met[i])
		if met[i] == 0 && !testing.Short() {
			t.Errorf("rule %s was never met", sure[i].rule)
		}
	}
}

// TestNotReady: a responder without receive WQEs. All waiting is RNR's, and no
// packet is called lost.
func TestNotReady(t *testing.T) {
	checkMany(t, 200, func(t *rapid.T) {
		o := testkit.SimGen().Draw(t, "conversation")
		announced(&o)
		o.NAKBehind = rapid.Bool().Draw(t, "nak behind rnr")
		for side := range o.Ops {
			for i := range o.Ops[side] {
				o.Ops[side][i].NotReady = max(0, rapid.IntRange(-2, 2).Draw(t, "not ready"))
			}
		}
		if len(o.Ops[0])+len(o.Ops[1]) == 0 {
			t.Skip("nothing is said")
		}
		x := run(o)
		list := append(x.wrong(), x.wrongMessages()...)
		for d := AToB; d <= BToA; d++ {
			var refused uint64
			for i := range x.r.Packets {
				if p := &x.r.Packets[i]; p.From == x.side(d) && !p.Request && p.Syndrome.Kind() == dissect.KindRNR {
					refused++
				}
			}
			if s := &x.c.Streams[d]; s.RNRNAKs != refused {
				list = append(list, fmt.Sprintf("%v: %d RNR NAKs, want %d", d, s.RNRNAKs, refused))
			}
		}
		if len(list) > 0 {
			t.Fatalf("%s", x.describe(list))
		}
	})
}

// TestCounterexamples are conversations in which a property once found the
// tracker wrong, cut down to what matters.
func TestCounterexamples(t *testing.T) {
	write := func(n int) testkit.SimOp { return testkit.SimOp{Family: dissect.Write, Size: n * 1024} }
	read := func(n int) testkit.SimOp { return testkit.SimOp{Family: dissect.Read, Size: n * 1024} }
	add := testkit.SimOp{Family: dissect.FetchAdd}
	lose := func(from testkit.Side, n int, behind bool) testkit.SimFault {
		return testkit.SimFault{From: from, Nth: n, Kind: testkit.Lose, Behind: behind}
	}
	late := func(from testkit.Side, n, by int, behind bool) testkit.SimFault {
		return testkit.SimFault{From: from, Nth: n, Kind: testkit.Reorder, By: by, Behind: behind}
	}
	twice := func(from testkit.Side, n int) testkit.SimFault {
		return testkit.SimFault{From: from, Nth: n, Kind: testkit.Duplicate}
	}
	for _, c := range []struct {
		name string
		o    testkit.SimOptions
	}{
		{"a READ response that came twice was not asked for twice", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(1)}}, Faults: []testkit.SimFault{twice(testkit.B, 0)},
		}},
		{"a copy later than half a round trip is no time-out", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{write(1), {Family: dissect.Write, Size: 1, Post: 5000}}}, Faults: []testkit.SimFault{twice(testkit.A, 1)},
			Latency: [2]time.Duration{100, 100},
		}},
		{"a READ request that came twice is answered twice", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(3)}}, Faults: []testkit.SimFault{twice(testkit.A, 0)},
		}},
		{"a NAK for what was overtaken before the tap", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{write(1), write(1), write(1)}}, Faults: []testkit.SimFault{late(testkit.A, 0, 1, false)},
		}},
		{"two NAKs for what was overtaken behind the tap", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{add, write(1), write(1)}}, Faults: []testkit.SimFault{late(testkit.A, 0, 1, true)},
		}},
		{"the resend comes before what was late", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{write(4), write(1), write(1)}}, Faults: []testkit.SimFault{late(testkit.A, 1, 5, false)},
		}},
		{"go-back-N over a READ whose answer was lost, without identification", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(2), write(2), add, write(3)}}, Faults: []testkit.SimFault{lose(testkit.B, 1, true)},
		}},
		{"a READ asked for in part, once it was answered", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(8), write(1)}}, Faults: []testkit.SimFault{lose(testkit.B, 4, true)},
		}},
		{"the last response of a READ overtakes its first", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(2)}}, Faults: []testkit.SimFault{late(testkit.B, 0, 1, false)},
		}},
		{"a READ response is late, and its requester asks twice", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(8)}}, Faults: []testkit.SimFault{late(testkit.B, 0, 1, false)},
		}},
		{"what passed a READ's lost answer is asked for again, and was not lost", testkit.SimOptions{
			Ops: [2][]testkit.SimOp{{read(1), write(1), read(1)}}, Faults: []testkit.SimFault{lose(testkit.B, 0, false)},
		}},
		{"a late request fills a gap from which a patient responder needed nothing", testkit.SimOptions{
			Patient: true, Ops: [2][]testkit.SimOp{{write(5)}}, Faults: []testkit.SimFault{late(testkit.A, 3, 9, false)},
		}},
		{"a resend begins with a READ and arrives out of order, without identification", testkit.SimOptions{
			Ops:     [2][]testkit.SimOp{{read(0), {Family: dissect.Send, Imm: true}, {Family: dissect.Send, Imm: true}}},
			Latency: [2]time.Duration{100, 100}, Faults: []testkit.SimFault{late(testkit.B, 0, 2, true), late(testkit.A, 4, 1, false)},
		}},
		{"a hole of the capture, then a loss", testkit.SimOptions{
			Ops:    [2][]testkit.SimOp{{write(1), read(2), write(2)}},
			Faults: []testkit.SimFault{{From: testkit.A, Nth: 1, Kind: testkit.Miss}, lose(testkit.A, 2, false)},
		}},
	} {
		for _, fixed := range []bool{false, true} {
			for _, psn := range []dissect.PSN{0, 0xFFFFFE} {
				o := c.o
				o.FixedIPID, o.PSNA = fixed, psn
				announced(&o)
				x := run(o)
				list := x.wrong()
				if x.whole() {
					list = append(list, x.wrongMessages()...)
				}
				if len(list) > 0 {
					t.Errorf("%s, identification fixed %v, from PSN %d:\n%s", c.name, fixed, psn, x.describe(list))
				}
			}
		}
	}
}
