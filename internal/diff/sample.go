package diff

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// maxSamples is how many packets of each capture the clocks are compared by.
const maxSamples = 1 << 16

// hosts is one direction between two hosts.
type hosts struct{ src, dst dissect.Addr }

func (h hosts) back() hosts { return hosts{h.dst, h.src} }

// sample is one packet whose hash picks it, in both captures alike.
type sample struct {
	head uint64
	time int64
	way  int32
}

// survey is what a first reading of a capture finds.
type survey struct {
	samples []sample
	mask    uint64
	ways    []hosts
	wayOf   map[hosts]int32

	Frames, Packets uint64 // all, and those that take part
	First, Last     int64
	Timed           bool
	damage          []error
}

// take reads a capture once and keeps a part of its packets.
func take(ctx context.Context, s Side, seed maphash.Seed) (*survey, error) {
	f, err := open(s, false)
	if err != nil {
		return nil, err
	}
	defer f.close()
	v := &survey{wayOf: map[hosts]int32{}}
	h := newHasher(seed)
	err = f.all(ctx, func(p *dissect.Packet, frame []byte) {
		if v.Frames == 0 {
			v.First = p.Time
		}
		v.Frames++
		v.First, v.Last = min(v.First, p.Time), max(v.Last, p.Time)
		if !comparable(p) {
			return
		}
		if p.Has(dissect.LayerBTH) {
			v.Packets++
		}
		if head := h.head(p, frame); head&v.mask == 0 {
			at := p.Time
			if p.NoTime {
				at = int64(p.Number) * 1000 // the order of frames stands for their times
			}
			v.keep(sample{head, at, v.way(hosts{p.Src, p.Dst})})
		}
	})
	v.Timed, v.damage = f.timed, f.damage
	return v, err
}

func (v *survey) way(h hosts) int32 {
	i, ok := v.wayOf[h]
	if !ok {
		i = int32(len(v.ways))
		v.ways, v.wayOf[h] = append(v.ways, h), i
	}
	return i
}

func (v *survey) keep(s sample) {
	v.samples = append(v.samples, s)
	for len(v.samples) >= maxSamples {
		v.mask = v.mask<<1 | 1
		v.samples = slices.DeleteFunc(v.samples, func(s sample) bool { return s.head&v.mask != 0 })
	}
}

// Side of the path on which a direction's packets pass first.
const (
	unknownFirst int8 = iota
	aFirst
	bFirst
)

// meeting is a packet that both captures have, once each.
type meeting struct {
	t   int64 // a's clock
	d   int64 // b's clock minus a's
	way hosts
}

// meet finds what is in both samples.
func meet(a, b *survey) []meeting {
	mask := a.mask | b.mask
	type seen struct {
		at   *sample
		n, m int
		d    int64
	}
	all := make(map[uint64]*seen, len(a.samples))
	for i := range a.samples {
		s := &a.samples[i]
		if s.head&mask != 0 {
			continue
		}
		if x := all[s.head]; x != nil {
			x.n++
			continue
		}
		all[s.head] = &seen{at: s, n: 1}
	}
	for i := range b.samples {
		if x := all[b.samples[i].head]; x != nil {
			x.m++
			x.d = b.samples[i].time - x.at.time
		}
	}
	var out []meeting
	for _, x := range all {
		if x.n == 1 && x.m == 1 {
			out = append(out, meeting{x.at.time, x.d, a.ways[x.at.way]})
		}
	}
	slices.SortFunc(out, func(x, y meeting) int { return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(x.d, y.d)) })
	return out
}

// order finds out at which capture each direction's packets pass first: seen by
// both clocks, they take longer in one direction than in the other.
func order(met []meeting) map[hosts]int8 {
	type tally struct {
		last  [2]int64 // how much later b is, of the last packet each way
		have  [2]bool
		score int
	}
	pairs := map[hosts]*tally{}
	for i := range met {
		m := &met[i]
		way, d := m.way, 0
		if x := pairs[way.back()]; x != nil {
			way, d = way.back(), 1
		}
		x := pairs[way]
		if x == nil {
			x = &tally{}
			pairs[way] = x
		}
		x.last[d], x.have[d] = m.d, true
		if x.have[0] && x.have[1] {
			x.score += cmp.Compare(x.last[0], x.last[1])
		}
	}
	first := map[hosts]int8{}
	for way, x := range pairs {
		switch {
		case x.score > 0:
			first[way], first[way.back()] = aFirst, bFirst
		case x.score < 0:
			first[way], first[way.back()] = bFirst, aFirst
		}
	}
	return first
}

// compareClocks makes the clock out of what both samples have. Directions that
// only one side of their hosts speaks in get their order from the clock.
func compareClocks(a, b *survey) (Clock, map[hosts]int8) {
	met := meet(a, b)
	if len(met) == 0 {
		return Clock{}, nil
	}
	first := order(met)
	middle := met[0].t + (met[len(met)-1].t-met[0].t)/2
	var upper, lower, unknown []point
	for i := range met {
		m := &met[i]
		p := point{float64(m.t-middle) / 1e9, float64(m.d)}
		switch first[m.way] {
		case aFirst:
			upper = append(upper, p)
		case bFirst:
			lower = append(lower, p)
		default:
			unknown = append(unknown, p)
		}
	}
	if len(upper) == 0 || len(lower) == 0 {
		return estimate(append(upper, unknown...), lower, middle), first
	}
	c := estimate(upper, lower, middle)
	late := map[hosts][]float64{}
	for i := range met {
		if m := &met[i]; first[m.way] == unknownFirst {
			late[m.way] = append(late[m.way], float64(m.d)-c.at(m.t))
		}
	}
	for way, d := range late {
		slices.Sort(d)
		switch median := d[len(d)/2]; {
		case median > c.Error:
			first[way] = aFirst
		case median < -c.Error:
			first[way] = bFirst
		}
	}
	return c, first
}
