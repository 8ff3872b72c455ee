package diff

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/privacy"
)

// Options bound a comparison. The zero value is good.
type Options struct {
	// Window is how many packets of each capture are looked at together: a
	// packet that is not found among so many is not looked for any longer.
	// 0 = 128 Ki. Two chunks of it are held, at 88 bytes a packet.
	Window int
	// MaxPackets is how many packets are named; 0 = 64 Ki.
	MaxPackets int
	// Privacy masks who talked in the result; nil masks nothing.
	Privacy *privacy.Mask
}

// maxRemains is how many unmatched packets of a capture are compared byte by
// byte, and how many changed ones.
const maxRemains = 8 << 10

type comparison struct {
	o       Options
	r       *Result
	seed    maphash.Seed
	streams streams
	sides   [2]Side
	rewrite map[Rewrite]uint64
	now     *chunk
	before  *chunk
	changed []Packet // whose bytes are to be compared
	alone   [2][]record
	copies  map[copyOf]int // index in r.Packets
	spans   [2][2]int64    // first and last frame, by a's clock
	times   timeline
	edges   [2][2]edges // of packets of a capture from before the other's first frame, and from behind its last
}

type copyOf struct {
	side  int
	frame uint64
}

// Packets compares two captures packet by packet.
func Packets(ctx context.Context, a, b Side, o Options) (*Result, error) {
	if o.Window == 0 {
		o.Window = 128 << 10
	}
	if o.MaxPackets == 0 {
		o.MaxPackets = 64 << 10
	}
	c := &comparison{
		o: o, r: &Result{}, seed: maphash.MakeSeed(), sides: [2]Side{a, b}, rewrite: map[Rewrite]uint64{},
		now: &chunk{}, before: &chunk{}, copies: map[copyOf]int{},
	}
	v, err := c.survey(ctx)
	if err != nil {
		return nil, err
	}
	c.r.A, c.r.B = v[0].info(a.Name), v[1].info(b.Name)
	c.r.ByIndex = !v[0].Timed || !v[1].Timed
	if c.r.ByIndex {
		for i := range v {
			v[i].First, v[i].Last = 1000, int64(v[i].Frames)*1000
		}
	}
	c.r.Clock, c.streams.first = compareClocks(v[0], v[1])
	c.streams.index = map[streamKey]int32{}
	if !c.r.Clock.Known {
		return c.r, nil // nothing in common
	}
	c.spans[0] = [2]int64{v[0].First, v[0].Last}
	c.spans[1] = [2]int64{c.r.Clock.toA(v[1].First), c.r.Clock.toA(v[1].Last)}
	c.times = newTimeline(min(c.spans[0][0], c.spans[1][0]), max(c.spans[0][1], c.spans[1][1]))
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	if err := c.remains(ctx); err != nil {
		return nil, err
	}
	c.settleEdges()
	c.finish()
	c.r.times = c.times
	if o.Privacy != nil {
		c.r.mask(o.Privacy)
	}
	return c.r, nil
}

// survey reads both captures at a time.
func (c *comparison) survey(ctx context.Context) (v [2]*survey, err error) {
	type got struct {
		v   *survey
		err error
	}
	second := make(chan got, 1)
	go func() {
		v, err := take(ctx, c.sides[1], c.seed)
		second <- got{v, err}
	}()
	v[0], err = take(ctx, c.sides[0], c.seed)
	other := <-second
	v[1] = other.v
	return v, cmp.Or(err, other.err)
}

func (v *survey) info(name string) SideInfo {
	return SideInfo{Name: name, Frames: v.Frames, Packets: v.Packets, First: v.First, Last: v.Last, Timed: v.Timed, Damage: v.damage}
}

// run reads both captures side by side, by a's clock.
func (c *comparison) run(ctx context.Context) error {
	var feeds [2]*feed
	var done [2]bool
	var front [2]int64
	h := newHasher(c.seed)
	for s := range feeds {
		f, err := open(c.sides[s], false)
		if err != nil {
			return err
		}
		defer f.close()
		feeds[s] = f
	}
	for {
		s := 0
		if done[0] || !done[1] && front[1] < front[0] {
			s = 1
		}
		err := feeds[s].next(ctx, func(p *dissect.Packet, frame []byte) {
			at := p.Time
			if c.r.ByIndex {
				at = int64(p.Number) * 1000
			}
			when := at
			if s == 1 {
				when = c.r.Clock.toA(at)
			}
			front[s] = max(front[s], when)
			if p.Has(dissect.LayerBTH) {
				c.now.recs[s] = append(c.now.recs[s], c.record(h, p, frame, at, when))
			}
		})
		switch {
		case errors.Is(err, io.EOF):
			done[s] = true
		case err != nil:
			return err
		}
		end := done[0] && done[1]
		if end || max(len(c.now.recs[0]), len(c.now.recs[1])) >= c.o.Window {
			c.settle(end)
		}
		if end {
			return nil
		}
	}
}

func (c *comparison) record(h *hasher, p *dissect.Packet, frame []byte, at, when int64) record {
	head := h.head(p, frame)
	return record{
		time: at, when: when, frame: p.Number, head: head, full: h.full(p, frame, head), stream: c.streams.of(p),
		wire: p.WireLen, psn: p.PSN, port: p.SrcPort, vlan: int16(p.VLAN()), op: p.Opcode,
		class: p.TrafficClass, hops: p.HopLimit, cut: p.CapLen < p.WireLen,
	}
}

// settle matches what was read, takes in the pairs, and lets go of what has no
// twin in this chunk nor in the one before.
func (c *comparison) settle(end bool) {
	now := c.now
	now.match(len(c.streams.list))
	for side := range now.recs {
		for i := range now.recs[side] {
			r := &now.recs[side][i]
			if !r.old {
				c.streams.list[r.stream].Packets[side]++
			}
			j := now.twin[side][i]
			if j == none {
				continue
			}
			if s := &c.streams.list[r.stream]; s.from() != side { // pairs in the order of their arrival
				if side == 1 {
					c.pair(s, &now.recs[0][j], r, r)
				} else {
					c.pair(s, r, &now.recs[1][j], r)
				}
			}
		}
	}
	var kept [2][]record
	for side := range now.recs {
		for i := range now.recs[side] {
			if now.twin[side][i] != none {
				continue
			}
			r := &now.recs[side][i]
			if r.old || end {
				c.unmatched(side, r)
			} else {
				kept[side] = append(kept[side], *r)
				kept[side][len(kept[side])-1].old = true
			}
		}
	}
	c.now, c.before = c.before, now
	for side := range kept {
		c.now.recs[side] = append(c.now.recs[side][:0], kept[side]...)
	}
}

// pair takes in a packet that both captures have.
func (c *comparison) pair(s *Stream, a, b, last *record) {
	c.r.Matched++
	s.Matched++
	before := s.last
	s.arrived(a.when, b.when)
	c.times.arrived(s, a, b, before)
	first, second := a, b
	if last == a {
		first, second = b, a
	}
	if first.frame < s.newest {
		late := second.when - first.when
		if s.First == 0 {
			late = 0
		} else {
			usual := s.usual
			if s.First == 'b' {
				usual = -usual
			}
			late -= usual
		}
		s.Overtaken++
		c.name(Packet{Kind: Overtaken, Late: max(late, 0)}, a, b)
	}
	s.newest = max(s.newest, first.frame)
	if a.full != b.full && !a.cut && !b.cut {
		c.changes(Packet{Kind: Changed}, a, b)
	}
	if a.class != b.class {
		if before, after := first.class&3, second.class&3; before != after {
			if after == 3 {
				s.Marked++
				c.name(Packet{Kind: Marked, Changes: []Change{{Field: "ip.dsfield.ecn", Before: uint64(before), After: 3}}}, a, b)
			} else {
				c.rewrote("ip.dsfield.ecn", uint64(before), uint64(after))
			}
		}
		if first.class>>2 != second.class>>2 {
			c.rewrote("ip.dsfield.dscp", uint64(first.class>>2), uint64(second.class>>2))
		}
	}
	if a.hops != b.hops {
		c.rewrote("ip.ttl", uint64(first.hops), uint64(second.hops))
	}
	if a.port != b.port {
		c.rewrote("udp.srcport", uint64(first.port), uint64(second.port))
	}
	if a.vlan != b.vlan {
		c.rewrote("vlan.id", uint64(uint16(first.vlan)), uint64(uint16(second.vlan)))
	}
}

// maxRewrites bounds the kinds of rewriting that are told apart.
const maxRewrites = 256

func (c *comparison) rewrote(field string, before, after uint64) {
	k := Rewrite{Field: field, Before: before, After: after}
	if _, ok := c.rewrite[k]; ok || len(c.rewrite) < maxRewrites {
		c.rewrite[k]++
	}
}

// unmatched is a packet without a twin.
func (c *comparison) unmatched(side int, r *record) {
	s := &c.streams.list[r.stream]
	if original, ok := c.copied(side, r); ok && (s.First == 0 || s.from() != side) {
		s.Copies++
		c.copy(side, r, original)
		return
	}
	if len(c.alone[side]) < maxRemains {
		c.alone[side] = append(c.alone[side], *r)
		return
	}
	c.judge(side, r)
}

// copied finds the twin of a packet's original, if it is a copy: among what
// looks the same, one that was matched.
func (c *comparison) copied(side int, r *record) (original record, ok bool) {
	for _, k := range [2]*chunk{c.now, c.before} {
		recs := k.recs[side]
		if len(recs) == 0 || len(k.twin[side]) < len(recs) {
			continue
		}
		for i := k.heads[side].find(recs, r.head); i != none; i = k.heads[side].next[i] {
			if k.twin[side][i] != none && recs[i].full == r.full {
				return recs[i], true
			}
		}
	}
	return record{}, false
}

// copy names a copy together with its original.
func (c *comparison) copy(side int, r *record, original record) {
	key := copyOf{side, original.frame}
	if i, ok := c.copies[key]; ok {
		c.r.Totals[Copied]++
		c.r.Packets[i].Copies = append(c.r.Packets[i].Copies, r.frame)
		return
	}
	p := Packet{Kind: Copied, Copies: []uint64{r.frame}}
	twin := c.twinOf(side, original.head, original.frame)
	i, named := c.named(p, original, twin, side)
	if named {
		c.copies[key] = i
	}
}

// twinOf is the other side's record of a matched packet.
func (c *comparison) twinOf(side int, head, frame uint64) record {
	for _, k := range [2]*chunk{c.now, c.before} {
		recs := k.recs[side]
		if len(k.twin[side]) < len(recs) || len(recs) == 0 {
			continue
		}
		for i := k.heads[side].find(recs, head); i != none; i = k.heads[side].next[i] {
			if recs[i].frame == frame && k.twin[side][i] != none {
				return k.recs[1-side][k.twin[side][i]]
			}
		}
	}
	return record{}
}

func (c *comparison) named(p Packet, r, twin record, side int) (int, bool) {
	a, b := &r, &twin
	if side == 1 {
		a, b = b, a
	}
	before := len(c.r.Packets)
	c.name(p, a, b)
	return before, len(c.r.Packets) > before
}

// edgeRun is how many packets in front of the other capture's first frame, or
// behind its last one, may have been lost; more of them show that it was not
// running.
const edgeRun = 16

// edges are packets that one capture has from when the other had perhaps not
// begun, or had ended.
type edges struct {
	n    uint64
	list []record
}

// judge says what became of a packet that one capture has.
func (c *comparison) judge(side int, r *record) {
	at := c.outside(side, r)
	if at == 0 {
		c.missing(side, r, false)
		return
	}
	e := &c.edges[side][at-1]
	if e.n++; e.n <= edgeRun {
		e.list = append(e.list, *r)
	}
}

// settleEdges judges what was put off.
func (c *comparison) settleEdges() {
	for side := range c.edges {
		for at := range c.edges[side] {
			e := &c.edges[side][at]
			if e.n > edgeRun {
				c.r.Outside[side] += e.n
				continue
			}
			for i := range e.list {
				c.missing(side, &e.list[i], true)
			}
		}
	}
}

func (c *comparison) missing(side int, r *record, edge bool) {
	s := &c.streams.list[r.stream]
	p := Packet{Kind: Lost, Edge: edge}
	switch {
	case s.First == 0:
		p.Kind = OnlyA + Kind(side)
		s.Alone[side]++
	case s.from() != side:
		p.Kind = Appeared
		s.Alone[side]++
	default:
		s.Lost++
	}
	if side == 0 {
		c.name(p, r, nil)
	} else {
		c.name(p, nil, r)
	}
}

// outside reports whether a packet passed before the other capture's first
// frame (1) or behind its last one (2).
func (c *comparison) outside(side int, r *record) int {
	switch span := c.spans[1-side]; {
	case r.when < span[0]:
		return 1
	case r.when > span[1]:
		return 2
	}
	return 0
}

// name lists a packet by its records.
func (c *comparison) name(p Packet, a, b *record) { c.list(of(p, a, b)) }

// list puts a packet on the list, if there is room, and counts it.
func (c *comparison) list(p Packet) {
	c.r.Totals[p.Kind]++
	if len(c.r.Packets) >= c.o.MaxPackets {
		c.r.Left++
		return
	}
	c.r.Packets = append(c.r.Packets, p)
}

// changes keeps a packet whose bytes are to be compared.
func (c *comparison) changes(p Packet, a, b *record) {
	c.streams.list[a.stream].Changed++
	if len(c.changed) < maxRemains {
		c.changed = append(c.changed, of(p, a, b))
		return
	}
	c.name(p, a, b)
}

// of fills in what the records say.
func of(p Packet, a, b *record) Packet {
	for side, r := range [2]*record{b, a} {
		if r != nil && r.frame != 0 {
			p.Frame[1-side] = r.frame
			p.Stream, p.Time, p.Opcode, p.PSN = int(r.stream), r.when, r.op, r.psn
		}
	}
	return p
}

// finish orders what was found.
func (c *comparison) finish() {
	r := c.r
	for i := range r.Packets {
		slices.Sort(r.Packets[i].Copies)
	}
	slices.SortStableFunc(r.Packets, func(x, y Packet) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(x.Frame[0], y.Frame[0]), cmp.Compare(x.Frame[1], y.Frame[1]))
	})
	for k, n := range c.rewrite {
		k.Packets = n
		r.Rewrites = append(r.Rewrites, k)
	}
	slices.SortFunc(r.Rewrites, func(x, y Rewrite) int {
		return cmp.Or(cmp.Compare(y.Packets, x.Packets), cmp.Compare(x.Field, y.Field), cmp.Compare(x.Before, y.Before), cmp.Compare(x.After, y.After))
	})
	r.Streams = c.streams.list
}
