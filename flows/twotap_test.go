package flows

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// A wire with a tap at each end struck single packets, and wrote down which.
// These tests look up what each tap's capture, on its own, makes of each of
// them. One tap is in front of the fault as the packet travels, the other
// behind it.

// tapAt is where a tap is as a struck packet travels.
type tapAt uint8

const (
	inFront tapAt = iota // the packet passes the tap, then is struck
	behind               // the packet was struck before it came to the tap
)

func (p tapAt) String() string { return [...]string{"in front of the fault", "behind the fault"}[p] }

// outcome is what a capture says of a struck packet.
type outcome string

// The verdicts.
const (
	saysLostBehind outcome = "lost behind this tap"
	saysLostBefore outcome = "lost before this tap"
	saysLostAgain  outcome = "lost before this tap when it was sent again"
	saysDamaged    outcome = "damaged"
	saysCopies     outcome = "copies made on the way"
	saysOvertaken  outcome = "overtaken on the way"
	saysMarked     outcome = "congestion experienced"
	saysNotMarked  outcome = "not marked yet"
	saysResent     outcome = "its sender sent it again"
	saysPassedACK  outcome = "requests sent again although their ACK had passed"
	saysOnce       outcome = "seen once, as it was sent"
)

// What a tap cannot tell.
const (
	saysGoBack  outcome = "sent again by a go-back for an earlier packet"
	saysTimeout outcome = "sent again behind silence"
	saysSilence outcome = "no sign of it"
	saysACKCopy outcome = "an ACK came more than once"
)

// right are the verdicts that are right of what was done to a packet, at the
// tap in front of the fault and at the one behind it.
var right = map[string][2][]outcome{
	"drop":      {{saysLostBehind, saysPassedACK, saysResent}, {saysLostBefore, saysLostAgain}},
	"corrupt":   {{saysLostBehind, saysPassedACK}, {saysDamaged}},
	"truncate":  {{saysLostBehind}, {saysDamaged}},
	"duplicate": {{saysOnce}, {saysCopies}},
	"delay":     {{saysLostBehind}, {saysOvertaken}}, // this requester refuses what comes out of order: to it a loss
	"ce":        {{saysNotMarked}, {saysMarked}},
}

// reasons say of what a packet was, and of each outcome that is no verdict,
// why the tap cannot tell more.
var reasons = []struct {
	of     string // what begins the opcode
	says   outcome
	reason string
}{
	{"RC_", saysGoBack, "a NAK names the first missing packet only; what was lost behind that one comes again with the rest, and nothing tells whether it had arrived"},
	{"RC_", saysTimeout, "the sender's timer ran out: the request was lost, or its answer, and nothing on this side of the fault tells which"},
	{"RC_ACK", saysACKCopy, "devices repeat ACKs of their own accord, so that a second one proves nothing"},
	{"RC_ACK", saysSilence, "a later ACK covers the one that was lost"},
	{"RC_READ_RESP", saysSilence, "it was asked for again together with an earlier one, or was not needed any more"},
	{"RC_", saysSilence, "it was the last of all that was outstanding: when it was sent again, this tap saw it for the first time"},
	{"UC_", saysSilence, "nobody answers, and nothing is sent again"},
	{"UD_", saysSilence, "nobody acknowledges a datagram; a message of the connection manager that is sent again is the first for a tap that missed the first"},
}

func reasonOf(opcode string, o outcome) string {
	for _, r := range reasons {
		if r.says == o && strings.HasPrefix(opcode, r.of) {
			return r.reason
		}
	}
	return ""
}

// struckPacket is what a tap's capture has of a packet that was struck.
type struckPacket struct {
	*testkit.Struck
	s      *seen
	frames []int // at this tap
	at     tapAt // of the tap
}

func (x *struckPacket) psn() dissect.PSN { return dissect.PSN(x.PSN) }

func (x *struckPacket) response() bool { return strings.Contains(x.Opcode, "RESP") }

// reported looks for a finding of this packet's PSN, in a frame behind one.
func (x *struckPacket) reported(id FindingID, after int, covers func(f *Finding) bool) bool {
	return slices.ContainsFunc(x.s.occurrences, func(f Finding) bool {
		return f.ID == id && f.Frame > uint64(after) && covers(&f)
	})
}

func (x *struckPacket) names(arg int) func(*Finding) bool {
	return func(f *Finding) bool { return dissect.PSN(f.Args[arg]) == x.psn() }
}

// spans is for findings of n packets from a PSN on.
func (x *struckPacket) spans(n, from int) func(*Finding) bool {
	return func(f *Finding) bool {
		i := x.psn().Sub(dissect.PSN(f.Args[from]))
		return i >= 0 && i < int(f.Args[n])
	}
}

// again is the first frame behind another in which the same packet was sent
// again; 0 where there is none.
func (x *struckPacket) again(after int) int {
	for i := after; i < len(x.s.packets); i++ {
		p := &x.s.packets[i]
		if p.Has(dissect.LayerBTH) && p.PSN == x.psn() && x.s.marks[i].Bits&MarkRetransmission != 0 &&
			(p.Op().Role == dissect.Response) == x.response() && (x.Direction == "a>b") == strings.HasSuffix(p.Src.String(), "1") {
			return i + 1
		}
	}
	return 0
}

// outcome looks up what the capture says.
func (x *struckPacket) outcome() outcome {
	ack := strings.HasSuffix(x.Opcode, "_ACK")
	switch {
	case x.Done == "ce":
		return x.marked()
	case x.Done == "duplicate":
		switch {
		case x.at == inFront:
			return x.once()
		case ack:
			return saysACKCopy
		}
		return x.copies()
	case x.Done == "delay" && x.at == behind:
		if x.s.mark(x.frames[0]).Has(MarkReordered) {
			return saysOvertaken
		}
		return saysSilence
	case (x.Done == "corrupt" || x.Done == "truncate") && x.at == behind:
		if x.s.mark(x.frames[0]).Has(MarkBadICRC) {
			return saysDamaged
		}
		return saysSilence
	case x.CM != "":
		return x.management()
	case ack:
		return x.answer()
	case x.at == behind:
		return x.missing()
	}
	return x.lostBehind()
}

func (x *struckPacket) marked() outcome {
	m := x.s.mark(x.frames[0])
	switch {
	case m.Has(MarkCE) && x.at == behind:
		return saysMarked
	case !m.Has(MarkCE) && x.at == inFront:
		return saysNotMarked
	}
	return saysSilence
}

// copies expects the first to be the packet, and the others copies.
func (x *struckPacket) copies() outcome {
	for i, f := range x.frames {
		if x.s.mark(f).Has(MarkDuplicate) != (i > 0) {
			return saysSilence
		}
	}
	return saysCopies
}

func (x *struckPacket) management() outcome {
	if x.at == inFront && x.reported(findCMResent, x.frames[0], func(*Finding) bool { return true }) {
		return saysResent
	}
	return saysSilence
}

// answer is what becomes of a lost ACK.
func (x *struckPacket) answer() outcome {
	after := 0
	if x.at == inFront {
		after = x.frames[0]
	}
	if x.at == inFront && x.reported(findSpurious, after, func(f *Finding) bool { return !x.psn().Before(dissect.PSN(f.Args[0])) }) {
		return saysPassedACK
	}
	return saysSilence
}

// missing is a packet that did not come to this tap.
func (x *struckPacket) missing() outcome {
	lost := x.spans(0, 1)
	switch {
	case x.reported(findPSNGap, 0, lost), x.reported(findResponseLost, 0, lost), x.reported(findResponseGap, 0, lost):
		return saysLostBefore
	case x.again(0) != 0:
		return saysLostAgain // which is in the count of what was lost only; see wantLosses
	}
	return saysSilence
}

// once expects no copy.
func (x *struckPacket) once() outcome {
	if m := x.s.mark(x.frames[0]); m.Bits&(MarkDuplicate|MarkReordered) == 0 {
		return saysOnce
	}
	return saysSilence
}

// lostBehind is a packet that passed this tap and was lost then.
func (x *struckPacket) lostBehind() outcome {
	after := x.frames[0]
	id := findLostBehindTap
	if x.response() {
		id = findResponseLostBehind
	}
	if x.reported(id, after, x.names(0)) {
		return saysLostBehind
	}
	again := x.again(after)
	switch {
	case again == 0:
		return saysSilence
	case x.reported(findTimeout, after, func(f *Finding) bool { return f.Frame <= uint64(again) && !x.psn().Before(dissect.PSN(f.Args[0])) }):
		return saysTimeout
	}
	return saysGoBack
}

func TestTwoTaps(t *testing.T) {
	var lines []string
	explained := map[string]bool{}
	for _, pair := range testkit.TwoTapManifest(t).Pairs {
		t.Run(pair.Pair, func(t *testing.T) {
			var first [2][]string
			for _, tap := range []string{"a", "b", "b_shifted"} {
				s := look(testkit.ReadCapture(t, filepath.Join(testkit.TwoTap(t), pair.Pair+"_tap_"+tap+".pcap")))
				counts := [2]map[string]int{{}, {}}
				for i := range pair.Faults.Log {
					e := &pair.Faults.Log[i]
					x := &struckPacket{Struck: e, s: s, frames: e.FrameInA, at: inFront}
					if tap != "a" {
						x.frames = e.FrameInB
					}
					if (e.Direction == "a>b") != (tap == "a") {
						x.at = behind
					}
					o := x.outcome()
					counts[x.at][fmt.Sprintf("%s %s: %s", e.Done, e.Opcode, o)]++
					if !slices.Contains(right[e.Done][x.at], o) {
						reason := reasonOf(e.Opcode, o)
						if reason == "" {
							t.Errorf("tap %s, %v: %s of a %v, PSN %#x, frames %v: %q", tap, x.at, e.Done, e.Opcode, e.PSN, x.frames, o)
						}
						explained[reason] = true
					}
				}
				wantLosses(t, &pair, tap, s)
				for at, n := range counts {
					text := fmt.Sprintf("%s, %v", pair.Pair, tapAt(at))
					var all []string
					for _, k := range slices.Sorted(maps.Keys(n)) {
						all = append(all, fmt.Sprintf("%s: %d × %s", text, n[k], k))
					}
					if tap == "b_shifted" && !slices.Equal(all, first[at]) { // another clock, the same story
						t.Errorf("tap b says %q, and with another clock %q", first[at], all)
					}
					if tap != "b_shifted" {
						lines = append(lines, all...)
					}
					first[at] = all
				}
			}
		})
	}
	for _, r := range reasons {
		if !explained[r.reason] {
			t.Errorf("nothing needs the reason %q", r.reason)
		}
	}
	slices.Sort(lines)
	testkit.Golden(t, "two_tap.golden", []byte(strings.Join(lines, "\n")+"\n"))
}

// wantLosses compares how many packets a tap says were lost before it with how
// many the wire took from what it sees.
func wantLosses(t *testing.T, pair *testkit.Pair, tap string, s *seen) {
	t.Helper()
	to := "a>b"
	if tap == "a" {
		to = "b>a"
	}
	want := 0
	for _, e := range pair.Faults.Log {
		if e.Direction == to && (e.Done == "drop" || e.Done == "corrupt" || e.Done == "truncate") && e.CM == "" && !strings.HasSuffix(e.Opcode, "_ACK") {
			want++
		}
	}
	want += miscounted[pair.Pair+" at "+tap[:1]]
	got := 0
	for i := range s.Connections {
		for d := range s.Connections[i].Streams {
			got += int(s.Connections[i].Streams[d].LostBeforeTap)
		}
	}
	if got != want {
		t.Errorf("tap %s: %d packets lost before it, the wire took %d", tap, got, want)
	}
}

// miscounted is how far what a tap counts as lost before it is from what the
// wire took.
var miscounted = map[string]int{
	"read_req_loss at b":     -1, // the last request of all that were outstanding: nothing showed that it is missing
	"tail_loss at b":         -2, // the last packet, twice
	"reorder_read_resp at a": +1, // a response that was held back until it had been asked for again
}
