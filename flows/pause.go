package flows

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// wholeLink is the priority of 802.3x pause frames, which stop all of a link.
const wholeLink = 8

// PauseSender is a station that sends pause frames (802.3x) or priority flow
// control (802.1Qbb): it stops the station at the other end of its link.
type PauseSender struct {
	MAC        [6]byte
	PFC        uint64 // frames
	Global     uint64 // 802.3x frames
	Malformed  uint64 // of both: cut short, reserved bits set, or to a wrong address
	FirstXOFF  int64  // time; 0 = only let go
	FirstFrame uint64
	Priorities [9]PausePriority // 8: the whole link
}

// PausePriority is what a station did with one priority. How long a pause
// lasts hangs on the link's speed: without Options.LinkSpeed, 100 Gb/s is taken.
type PausePriority struct {
	XOFF, XON uint64        // frames that stop it, and that let it go on
	Paused    time.Duration // time in force
	Longest   time.Duration // without a break
	MaxQuanta uint16
	Data      uint64 // packets that came to this station while it was in force, from its start on
	Ignored   uint64 // of them: later than any station may take to stop
}

// pauseTable is the stations that pause, made when the first one does.
type pauseTable struct {
	senders    []*pauseSender // in order of first sight
	priorities uint8          // bit set of the priorities ever stopped by PFC
	seen       bool
	until      int64 // no pause is in force from then on
	speed      uint64
	union      [9]pauseUnion
	stations   []uint64 // which each frame of data comes from or goes to, as far as seen; nil before the first
	pruned     bool
}

// pauseUnion is the time in which any station paused a priority.
type pauseUnion struct{ since, until, total int64 }

func (u *pauseUnion) stop(at, until int64) {
	if at > u.until {
		u.total += u.until - u.since
		u.since = at
		u.until = until
		return
	}
	u.until = max(u.until, until)
}

func (u *pauseUnion) resume(at int64) {
	if at < u.until {
		u.until = max(at, u.since)
	}
}

// upTo is the time paused before at.
func (u *pauseUnion) upTo(at int64) int64 {
	return u.total + max(min(at, u.until)-u.since, 0)
}

type pauseSender struct {
	PauseSender
	mac       uint64
	state     [9]pauseState
	badFrame  uint64 // first malformed frame
	badTime   int64
	malformed uint64 // the reason, for the finding
	passed    uint64 // packets of paused priorities by others, while nothing tells who is on its link
	passFrame uint64
	passTime  int64
	passMAC   uint64
}

type pauseState struct {
	since  int64 // of the newest XOFF in force
	until  int64 // when it runs out; 0 = none in force
	streak int64 // when the run of pauses without a break began
	frame  uint64
	ignore uint64 // first packet that ignored it
	at     int64
}

const (
	maxPauseSenders = 1024
	// pauseGrace is how long a station may go on: the time that 802.1Qbb and
	// 802.3 allow for reacting, a frame on its way and the cable, rounded up.
	pauseGrace = 5_000
	// assumedSpeed is that of links whose speed is not told.
	assumedSpeed = 100_000_000_000
	pauseAddress = 0x0180C2000001
)

// hold is how long a pause of so many quanta of 512 bit times lasts.
func (t *pauseTable) hold(quanta uint16) int64 {
	return int64(uint64(quanta) * 512 * 1_000_000_000 / t.speed)
}

// Reasons for a pause frame to be called malformed.
const (
	pauseShortOrReserved = 1 + iota
	pauseWrongAddress
)

// pauseFrame takes a pause frame of either kind.
func (t *Tracker) pauseFrame(p *dissect.Packet, frame []byte) {
	h, e := p.MACControl(frame), p.Ethernet(frame)
	if h == nil || e == nil {
		return
	}
	ps := &t.pauses
	if !ps.seen {
		ps.seen = true
		ps.speed = t.opt.LinkSpeed
		if ps.speed == 0 {
			ps.speed = assumedSpeed
		}
	}
	s := ps.sender(macOf(e.Src()))
	if s == nil {
		return
	}
	pfc := h.Opcode() == dissect.MACControlPFC
	if pfc {
		s.PFC++
	} else {
		s.Global++
	}
	reason := uint64(0)
	for _, q := range p.Problems() {
		if q.Code == dissect.ProblemPauseFrame {
			reason = pauseShortOrReserved
		}
	}
	if dst := macOf(e.Dst()); dst != pauseAddress && (pfc || dst>>40&1 != 0) {
		reason = pauseWrongAddress // a pause frame may also name its receiver, PFC may not
	}
	if reason != 0 {
		if s.Malformed == 0 {
			s.badFrame, s.badTime, s.malformed = p.Number, p.Time, reason
		}
		s.Malformed++
	}
	if !pfc {
		if q, ok := h.Quanta(0); ok {
			ps.set(s, wholeLink, q, p)
		}
		return
	}
	for priority := range 8 {
		if q, ok := h.Quanta(priority); ok {
			ps.set(s, priority, q, p)
		}
	}
}

func (t *pauseTable) sender(mac uint64) *pauseSender {
	for _, s := range t.senders {
		if s.mac == mac {
			return s
		}
	}
	if len(t.senders) >= maxPauseSenders {
		return nil
	}
	s := &pauseSender{mac: mac}
	for i := range s.MAC {
		s.MAC[i] = byte(mac >> (40 - 8*i))
	}
	t.senders = append(t.senders, s)
	return s
}

// set stops a priority for a time, or lets it go on (quanta 0).
func (t *pauseTable) set(s *pauseSender, priority int, quanta uint16, p *dissect.Packet) {
	q, st := &s.Priorities[priority], &s.state[priority]
	at := p.Time
	s.end(priority, at)
	if quanta == 0 {
		q.XON++
		t.union[priority].resume(at)
		return
	}
	q.XOFF++
	q.MaxQuanta = max(q.MaxQuanta, quanta)
	if s.FirstFrame == 0 {
		s.FirstXOFF, s.FirstFrame = at, p.Number
	}
	if priority < wholeLink {
		t.priorities |= 1 << priority
	}
	if st.streak == 0 || at > st.until {
		st.streak = at
	}
	st.since, st.until, st.frame = at, at+t.hold(quanta), p.Number
	t.until = max(t.until, st.until)
	t.union[priority].stop(at, st.until)
}

// end accounts for a pause in force up to a time: its own end, an XON, or the
// next XOFF.
func (s *pauseSender) end(priority int, at int64) {
	st := &s.state[priority]
	if st.since == 0 {
		return
	}
	q := &s.Priorities[priority]
	to := max(min(at, st.until), st.since)
	q.Paused += duration(to - st.since)
	q.Longest = max(q.Longest, duration(to-st.streak))
	if at < st.until {
		st.until = at
	}
	st.since = 0
}

// data looks whether a packet should have waited. It is called only when
// pauses were seen.
func (t *pauseTable) data(p *dissect.Packet, frame []byte) {
	e := p.Ethernet(frame)
	if e == nil {
		return
	}
	src, dst := macOf(e.Src()), macOf(e.Dst())
	t.prune(src, dst)
	if p.Time >= t.until {
		return
	}
	for _, s := range t.senders {
		priority := wholeLink
		if p.Has(dissect.LayerVLAN) && !s.inForce(wholeLink, p.Time) {
			priority = int(p.VLANTag >> 13)
		}
		if !s.inForce(priority, p.Time) || src == s.mac {
			continue
		}
		st := &s.state[priority]
		late := p.Time-st.since > pauseGrace
		switch {
		case dst == s.mac || len(t.stations) == 1 && t.stations[0] == src && t.pruned:
			q := &s.Priorities[priority]
			q.Data++
			if late {
				if q.Ignored == 0 {
					st.ignore, st.at = p.Number, p.Time
				}
				q.Ignored++
			}
		case late && !t.isStation(s.mac) && t.isStation(src):
			if s.passed == 0 {
				s.passFrame, s.passTime, s.passMAC = p.Number, p.Time, src
			}
			if s.passMAC == src {
				s.passed++
			}
		}
	}
}

func (s *pauseSender) inForce(priority int, at int64) bool {
	st := &s.state[priority]
	return st.since != 0 && at > st.since && at < st.until
}

// prune keeps the stations that all data so far came from or went to: on a
// link between a station and a switch, all of it is that station's.
func (t *pauseTable) prune(src, dst uint64) {
	if t.stations == nil {
		t.stations = append(make([]uint64, 0, 2), src, dst)
		return
	}
	for i := len(t.stations) - 1; i >= 0; i-- {
		if t.stations[i] != src && t.stations[i] != dst {
			t.stations = slices.Delete(t.stations, i, i+1)
			t.pruned = true
		}
	}
}

func (t *pauseTable) isStation(mac uint64) bool { return slices.Contains(t.stations, mac) }

// pausedFor is how long, before a time, any station had paused the priority
// that a stream's packets have: their 802.1p one, or by the usual map the top
// three bits of their DSCP.
func (t *pauseTable) pausedFor(s *stream, at int64) int64 {
	priority := s.dscp >> 3
	if s.class&classTagged != 0 {
		priority = s.class & classPriority
	}
	return t.union[priority].upTo(at) + t.union[wholeLink].upTo(at)
}

// ofStream is how long a stream's priority was paused up to a time, where that
// is known: the priority of a packet without a tag shows nowhere.
func (t *pauseTable) ofStream(s *stream, now int64) (paused time.Duration, known bool) {
	tagged := s.class&classTagged != 0
	if !t.seen || !tagged && t.priorities != 0 {
		return 0, false
	}
	total := t.union[wholeLink].upTo(now)
	if tagged {
		total += t.union[s.class&classPriority].upTo(now)
	}
	return duration(total), true
}

// pauseSenders copies the stations that pause, in the order of their first
// XOFF: a pause that spreads goes from the first to the last.
func (t *Tracker) pauseSenders() []PauseSender {
	var out []PauseSender
	for _, s := range t.pauses.senders {
		r := s.PauseSender
		for i := range r.Priorities {
			if st := &s.state[i]; st.since != 0 {
				to := max(min(t.now, st.until), st.since)
				r.Priorities[i].Paused += duration(to - st.since)
				r.Priorities[i].Longest = max(r.Priorities[i].Longest, duration(to-st.streak))
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b PauseSender) int {
		if (a.FirstFrame == 0) != (b.FirstFrame == 0) {
			return cmp.Compare(b.FirstFrame, a.FirstFrame)
		}
		return cmp.Compare(a.FirstFrame, b.FirstFrame)
	})
	return out
}

// A storm is a priority paused for at least half of the time, by a fair number
// of frames, or once for longer than switches' watchdogs usually wait.
const (
	stormFrames  = 10
	stormLongest = 100 * time.Millisecond
)

// judgePauses says what is odd about pause frames.
func (t *Tracker) judgePauses(emit func(*Finding)) {
	if !t.pauses.seen {
		return
	}
	records := t.pauseSenders()
	assumed := uint64(b2i(t.opt.LinkSpeed == 0))
	say := func(id FindingID, s *pauseSender, priority int, frame uint64, at int64, count uint64, args ...uint64) {
		f := Finding{ID: id, Frame: frame, Time: at, Count: count, Where: macText(s.mac)}
		if priority >= 0 {
			f.Where += ", " + priorityText(priority)
		}
		copy(f.Args[:], args)
		emit(&f)
	}
	for _, s := range t.pauses.senders {
		r := &records[slices.IndexFunc(records, func(r PauseSender) bool { return r.MAC == s.MAC })]
		if s.Malformed > 0 {
			say(findPauseMalformed, s, -1, s.badFrame, s.badTime, s.Malformed, s.malformed)
		}
		for i := range r.Priorities {
			q := &r.Priorities[i]
			if q.Ignored > 0 {
				say(findPauseIgnored, s, i, s.state[i].ignore, s.state[i].at, q.Ignored, assumed)
			}
			if q.XOFF == 0 {
				continue
			}
			span := t.now - s.FirstXOFF
			if q.XOFF >= stormFrames && int64(q.Paused)*2 >= span && span > 0 || q.Longest >= stormLongest {
				say(findPauseStorm, s, i, s.FirstFrame, s.FirstXOFF, q.XOFF, uint64(q.Paused), uint64(max(span, 1)), uint64(q.Longest), assumed)
			}
		}
		if s.passed > 0 {
			say(findPausePassed, s, -1, s.passFrame, s.passTime, s.passed, s.passMAC, assumed)
		}
	}
	if stoppers := slices.DeleteFunc(slices.Clone(records), func(r PauseSender) bool { return r.FirstFrame == 0 }); len(stoppers) > 1 {
		f := Finding{ID: findPauseOrder, Frame: stoppers[0].FirstFrame, Time: stoppers[0].FirstXOFF, Count: 1}
		f.Args = [4]uint64{uint64(len(stoppers)), macOf(stoppers[0].MAC[:]), macOf(stoppers[1].MAC[:]), uint64(stoppers[1].FirstXOFF - stoppers[0].FirstXOFF)}
		emit(&f)
	}
}

func priorityText(i int) string {
	if i == wholeLink {
		return "whole link"
	}
	return "priority " + string(rune('0'+i))
}
