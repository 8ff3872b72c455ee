package fault

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
)

// Lane is the rules at work on the frames of one way. It serves one goroutine; what is posted to it and what it counts may come
// from, and go to, any.
type Lane struct {
	// Before and Behind are frames that go out around the one that Look was given last, or (Behind) because Due said so. Their
	// bytes are good until the next Look or Due.
	Before, Behind []*Held
	Struck         *Rule // that struck the last frame; nil where none did

	way     Way
	rules   []*laneRule
	opcodes filter.OpcodeSet // that rules may strike, but for those about one QP
	targets []uint32         // the QPs of those
	without bool             // as may packets without a BTH
	blind   bool             // a rule reads nothing of the packet, so that every frame is for it
	lottery *laneRule        // the only rule, if nothing but chance decides whom it strikes
	tracks  bool             // a rule asks for marks
	icrcs   bool             // or for whether the ICRC is right
	watch   *watcher
	start   int64

	dec     dissect.Decoder
	icrc    dissect.ICRC
	p       dissect.Packet
	decoded bool // p is the frame's that is looked at
	mark    flows.Mark
	most    int // bytes of a frame

	// Memory of strike and craft.
	striking, crafting work
	original           dissect.Packet
	scratch            []byte

	pool    []*Held
	made    int
	out     []*Held // given out as Before and Behind
	delayed heap    // by when they are due
	waiting []*Held // until others have gone
	holding int
	seq     uint64

	other   *Lane
	posts   atomic.Int32
	mail    sync.Mutex
	mailbox []*Held
	counts  laneCounts
}

// mostHeld is how many frames a lane keeps at a time; what comes then goes on without its fault, and is counted.
const mostHeld = 4096

// Held is a frame in the lane's own memory.
type Held struct {
	buf  []byte
	n    int
	due  int64 // 0 = without a time
	left int   // frames to go first
	seq  uint64
	rule *laneRule
}

// Bytes is the frame.
func (h *Held) Bytes() []byte { return h.buf[:h.n] }

// Rule is the rule that made it.
func (h *Held) Rule() *Rule { return h.rule.Rule }

// laneRule is a rule at work.
type laneRule struct {
	*Rule
	id        int
	random    *rand.Rand
	matched   uint64
	hits      uint64
	failed    uint64  // hits where the packet did not have what the action is about
	bucket    []*Held // of hold; of swap: the packet, and what came behind it
	bucketDue int64
	keptSoFar int    // by hold, since it let go last
	skip      uint64 // packets that probability lets pass
	past      *past
	chosen    map[int]bool
	published [3]atomic.Uint64
}

// laneCounts is what a lane counts beside its rules.
type laneCounts struct{ full atomic.Uint64 }

// Start makes the two lanes of a set, by Way. most is the longest frame that may go out, and now the start of the rules' time.
func (s *Set) Start(most int, now int64) (lanes [2]*Lane) {
	var w *watcher
	for _, r := range s.Rules {
		if r.Tracks() {
			w = newWatcher()
		}
	}
	for way := range lanes {
		l := &Lane{way: Way(way), most: most, start: now, watch: w, scratch: make([]byte, most)}
		for i, r := range s.Rules {
			if !r.On(l.way) {
				continue
			}
			c := &laneRule{Rule: r, id: i, random: rand.New(rand.NewPCG(scramble(s.Seed), scramble(uint64(i)<<1|uint64(way)))), chosen: map[int]bool{}}
			if r.probability > 0 {
				c.skip = c.gap()
			}
			if r.recall > 0 {
				c.past = newPast(r.recall, most)
			}
			l.rules = append(l.rules, c)
			if r.pre.HasDestQP {
				l.targets = append(l.targets, r.pre.DestQP)
			} else {
				for k := range l.opcodes {
					l.opcodes[k] |= r.pre.Opcodes[k]
				}
			}
			l.without = l.without || r.pre.WithoutBTH
			l.blind = l.blind || !r.decodes
			l.tracks = l.tracks || r.Tracks()
			l.icrcs = l.icrcs || r.when.NeedsICRC()
		}
		if l.watch == nil && len(l.rules) == 1 && l.rules[0].lottery() {
			l.lottery = l.rules[0]
		}
		lanes[way] = l
	}
	lanes[0].other, lanes[1].other = lanes[1], lanes[0]
	return lanes
}

// scramble makes numbers that lie far apart of such that lie close together (SplitMix64), for the seeds that people choose.
func scramble(v uint64) uint64 {
	v += 0x9E3779B97F4A7C15
	v = (v ^ v>>30) * 0xBF58476D1CE4E5B9
	v = (v ^ v>>27) * 0x94D049BB133111EB
	return v ^ v>>31
}

// Idle reports whether the lane has no rules, gets nothing from the other one and has nothing to watch for it, so that it need
// not be asked.
func (l *Lane) Idle() bool {
	if len(l.rules) > 0 || l.watch != nil {
		return false
	}
	for _, r := range l.other.rules {
		if r.back() {
			return false
		}
	}
	return true
}

// Look tells whether a frame goes on as it is. m is what its sender says of it; nil where a watcher has to find out. What goes out
// with it, or instead of it, is in Before and Behind.
func (l *Lane) Look(now int64, frame []byte, m *flows.Mark) (passes bool) {
	if len(l.Before)+len(l.Behind) > 0 {
		l.release()
	}
	l.Struck = nil
	if r := l.lottery; r != nil && r.skip > 0 && l.holding == 0 && l.posts.Load() == 0 {
		r.matched++
		r.skip--
		return true
	}
	if l.holding == 0 && l.posts.Load() == 0 && (l.watch == nil || m != nil && !l.watched()) && !l.may(frame) {
		return true
	}
	return l.look(now, frame, m)
}

// watched reports whether the watch has to see this lane's frames although their sender knows them: for the other lane's rules.
func (l *Lane) watched() bool { return l.other.tracks }

// may tells in a few instructions whether any rule can strike the frame.
func (l *Lane) may(frame []byte) bool {
	if l.blind {
		return true
	}
	op, qp, plain := peek(frame)
	if !plain {
		return len(l.rules) > 0
	}
	if !l.opcodes.Has(op) && !l.target(qp) {
		return false
	}
	for _, r := range l.rules {
		if r.pre.MayMatch(op, qp) {
			return true
		}
	}
	return false
}

// rests reports whether a frame that no rule is about need not be looked at: nothing is held, nobody tracks, and each rule asks
// for something of the packet.
func (l *Lane) rests(marked bool) bool {
	return !l.blind && l.holding == 0 && l.posts.Load() == 0 && (l.watch == nil || marked && !l.watched())
}

// target reports whether a rule is about a queue pair.
func (l *Lane) target(qp uint32) bool {
	for _, t := range l.targets {
		if t == qp {
			return true
		}
	}
	return false
}

// quiet tells of the plainest of packets, RoCE v2 in IPv4 without options and tags, that no rule is about it.
func (l *Lane) quiet(b []byte, n int) bool {
	return n >= 66 && len(b) >= 66 && binary.BigEndian.Uint32(b[12:])&^0xFF == 0x08004500 && b[23] == 17 && b[20]&0x3F|b[21] == 0 &&
		binary.BigEndian.Uint16(b[36:]) == dissect.PortRoCEv2 && !l.opcodes.Has(dissect.Opcode(b[42])) &&
		(len(l.targets) == 0 || !l.target(binary.BigEndian.Uint32(b[46:])&0xFFFFFF))
}

// peek finds opcode and queue pair of the plainest of packets: RoCE v2 in IPv4 without options, or in IPv6, without tags.
func peek(b []byte) (op dissect.Opcode, qp uint32, ok bool) {
	if len(b) < 66 {
		return 0, 0, false
	}
	bth := b[42:54]
	switch {
	case b[12] == 0x08 && b[13] == 0 && b[14] == 0x45 && b[23] == 17 && b[36] == dissect.PortRoCEv2>>8 && b[37] == dissect.PortRoCEv2&0xFF && b[20]&0x3F|b[21] == 0:
	case b[12] == 0x86 && b[13] == 0xDD && len(b) >= 78 && b[20] == 17 && b[56] == dissect.PortRoCEv2>>8 && b[57] == dissect.PortRoCEv2&0xFF:
		bth = b[62:74]
	default:
		return 0, 0, false
	}
	return dissect.Opcode(bth[0]), binary.BigEndian.Uint32(bth[4:]) & 0xFFFFFF, true
}

// look is Look for a frame that a rule may strike.
func (l *Lane) look(now int64, frame []byte, m *flows.Mark) bool {
	l.decoded = false
	if l.watch != nil && (m == nil || l.watched()) {
		l.decode(now, frame, true)
		if l.mark = l.watch.see(&l.p, frame); m == nil {
			m = &l.mark
		}
	}
	passes := true
	for _, r := range l.rules {
		if r.to > 0 && now-l.start > r.to || r.from > 0 && now-l.start < r.from {
			continue
		}
		if r.decodes {
			if !l.decoded {
				l.decode(now, frame, l.icrcs)
			}
			if !r.pre.May(&l.p) {
				continue
			}
		}
		if !r.always && !r.when.Match(&l.p, frame, m) {
			continue
		}
		r.matched++
		if r.past != nil {
			r.past.add(frame)
		}
		if r.strikes() {
			if !l.decoded {
				l.decode(now, frame, false)
			}
			passes = l.strike(r, now, frame)
			break
		}
	}
	if l.holding > 0 {
		passes = l.queue(frame, passes)
		l.tick(now, frame, passes)
	}
	if l.posts.Load() > 0 {
		l.collect()
	}
	l.out = append(append(l.out, l.Before...), l.Behind...)
	return passes
}

// decode makes l.p of a frame.
func (l *Lane) decode(now int64, frame []byte, icrc bool) {
	l.dec.CheckICRC = icrc
	l.p.Time, l.p.Direction = now, 2-uint8(l.way)
	l.dec.Decode(dissect.LinkEthernet, frame, len(frame), &l.p)
	l.p.Number++
	l.decoded = true
}

// strikes tells whether the rule strikes the packet that it has matched last.
func (r *laneRule) strikes() bool {
	partner := r.fate != nil && r.fate.kind == fateSwap && len(r.bucket) > 0 // the one that the packet changes places with
	if r.count > 0 && r.hits >= r.count && !partner {
		return false
	}
	hit := true
	switch {
	case r.nth != nil:
		hit = false
		for _, s := range r.nth {
			if s.first <= r.matched && r.matched <= s.last {
				hit = true
			}
		}
	case r.every > 0:
		hit = r.matched%r.every == 0
	case r.probability > 0:
		if hit = r.skip == 0; hit {
			r.skip = r.gap()
		} else {
			r.skip--
		}
	}
	if hit = hit || partner; hit {
		r.hits++
	}
	return hit
}

// lottery reports whether nothing but chance decides whom the rule strikes: a link that loses packets.
func (r *Rule) lottery() bool {
	return r.always && r.probability > 0 && r.count == 0 && r.from == 0 && r.to == 0 && r.recall == 0 && (r.fate == nil || r.fate.kind != fateSwap)
}

// gap draws how many packets pass until the next is struck: a number for each that is struck, and not for each that passes.
func (r *laneRule) gap() uint64 {
	if r.probability == 1 {
		return 0
	}
	return uint64(math.Log(1-r.random.Float64()) / math.Log1p(-r.probability))
}

// strike does a rule's actions with a frame, and tells whether the frame itself goes on unchanged.
func (l *Lane) strike(r *laneRule, now int64, frame []byte) (passes bool) {
	w := &l.striking
	w.lane, w.rule, w.now, w.frame, w.p, w.copy = l, r, now, frame, &l.p, nil
	done := true
	for i := range r.edits {
		done = done && r.edits[i].edit(w)
	}
	for i := range r.adds {
		done = done && r.adds[i].add(w)
	}
	if !done { // half a fault is none
		if w.copy != nil {
			l.free(w.copy)
			w.copy = nil
		}
		r.failed++
		return true
	}
	l.Struck = r.Rule
	if r.silent {
		return false
	}
	if w.copy != nil {
		w.copy.rule = r
	}
	if r.fate != nil {
		return l.meet(w)
	}
	if w.copy != nil {
		l.Behind = l.front(w.copy)
	}
	return w.copy == nil
}

// front puts a frame that goes on changed in front of what goes out behind it.
func (l *Lane) front(h *Held) []*Held {
	b := append(l.Behind, nil)
	copy(b[1:], b)
	b[0] = h
	return b
}

// get gives memory with a copy of a frame in it; nil where so much is held that there is none left.
func (l *Lane) get(frame []byte) *Held {
	var h *Held
	switch n := len(l.pool); {
	case len(frame) > l.most:
		return nil
	case n > 0:
		h = l.pool[n-1]
		l.pool = l.pool[:n-1]
	case l.made < mostHeld:
		l.made++
		h = &Held{buf: make([]byte, l.most)}
	default:
		l.counts.full.Add(1)
		return nil
	}
	l.seq++
	h.n, h.due, h.left, h.seq, h.rule = copy(h.buf, frame), 0, 0, l.seq, nil
	return h
}

func (l *Lane) free(h *Held) { l.pool = append(l.pool, h) }

// release takes back what the last call gave out.
func (l *Lane) release() {
	l.pool = append(l.pool, l.out...)
	l.out, l.Before, l.Behind = l.out[:0], l.Before[:0], l.Behind[:0]
}
