package diff

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/report/html"
)

// The time is cut into fine parts, however long it is, and of each extremes are kept. A chart shows the part of the time in which
// there was something, in slots parts or less.
const (
	fine  = 1 << 14
	slots = 280
)

// timeline is how packets that both captures have came over, over time.
type timeline struct {
	from, to int64 // by a's clock
	ways     [2][]moment
}

func newTimeline(from, to int64) timeline {
	return timeline{from, to, [2][]moment{make([]moment, fine), make([]moment, fine)}}
}

// moment is what there was of one direction in one part of the time.
type moment struct {
	n        uint64
	low, top int64 // one-way delay
	rawLow   int64 // b's clock minus a's, as captured
	rawTop   int64
	jitter   float64
	pairs    uint64
}

// way is a stream's direction: from a to b and what nobody knows, or from b to a.
func way(first int8) int {
	if first == 'b' {
		return 1
	}
	return 0
}

func (t *timeline) slot(at int64) int {
	return max(0, min(len(t.ways[0])-1, int(float64(at-t.from)/float64(max(t.to-t.from, 1))*float64(len(t.ways[0])))))
}

// middle is the time in the middle of a part, counted from the beginning.
func (t *timeline) middle(slot int) int64 {
	return int64((float64(slot) + 0.5) * float64(t.to-t.from) / float64(len(t.ways[0])))
}

// cut is the part of the time from the first to the last thing that is to be shown, in few parts.
func (t *timeline) cut(also []int64) timeline {
	first, last := fine, -1
	for w := range t.ways {
		for i := range t.ways[w] {
			if t.ways[w][i].n > 0 {
				first, last = min(first, i), max(last, i)
			}
		}
	}
	for _, at := range also {
		first, last = min(first, t.slot(at)), max(last, t.slot(at))
	}
	if last < first {
		return timeline{}
	}
	step := (last-first)/slots + 1
	n := (last-first)/step + 1
	at := func(i int) int64 { return t.from + int64(float64(i)*float64(t.to-t.from)/fine) }
	out := timeline{at(first), at(first + n*step), [2][]moment{make([]moment, n), make([]moment, n)}}
	for w := range t.ways {
		for i := first; i <= last; i++ {
			out.ways[w][(i-first)/step].add(&t.ways[w][i])
		}
	}
	return out
}

func (m *moment) add(o *moment) {
	if o.n == 0 {
		return
	}
	if m.n == 0 {
		*m = *o
		return
	}
	m.n, m.jitter, m.pairs = m.n+o.n, m.jitter+o.jitter, m.pairs+o.pairs
	m.low, m.top, m.rawLow, m.rawTop = min(m.low, o.low), max(m.top, o.top), min(m.rawLow, o.rawLow), max(m.rawTop, o.rawTop)
}

// arrived takes in a pair of a stream, which knows its delay by now; before is the delay of the pair before.
func (t *timeline) arrived(s *Stream, a, b *record, before int64) {
	m := &t.ways[way(s.First)][t.slot(a.when)]
	delay, raw := s.last, b.time-a.time
	if m.n == 0 {
		m.low, m.top, m.rawLow, m.rawTop = delay, delay, raw, raw
	}
	m.n++
	m.low, m.top, m.rawLow, m.rawTop = min(m.low, delay), max(m.top, delay), min(m.rawLow, raw), max(m.rawTop, raw)
	if s.pairs > 1 {
		m.jitter += abs(float64(delay - before))
		m.pairs++
	}
}

// wayNames are the directions, as charts call them.
var wayNames = [2]string{"a → b", "b → a"}

// charts are those of the page, as far as there is something to be drawn.
func (r *Result) charts() (all []html.Chart) {
	if r.ByIndex || !r.Clock.Known || r.times.to <= r.times.from {
		return nil
	}
	var gone []int64
	for i := range r.Packets {
		if r.Packets[i].gone() {
			gone = append(gone, r.Packets[i].Time)
		}
	}
	cut := r.times.cut(gone)
	t := &cut
	if t.to <= t.from {
		return nil
	}
	mean := " In each part of the time, from least to most."
	chart := func(id, title, about string, series []html.Series) {
		for _, s := range series {
			if len(s.Marks) > 0 {
				all = append(all, html.Chart{ID: id, Title: title, About: about, To: t.to - t.from, Numbers: id == "losses", Series: series})
				return
			}
		}
	}
	zero := int64(r.Clock.Offset)
	each := func(class string, mark func(m *moment, at int64) (html.Mark, bool)) (series []html.Series) {
		for w := range t.ways {
			s := html.Series{Name: wayNames[w], Class: fmt.Sprintf("%s dir%d", class, w)}
			for i := range t.ways[w] {
				if m := &t.ways[w][i]; m.n > 0 {
					if k, ok := mark(m, t.middle(i)); ok {
						s.Marks = append(s.Marks, k)
					}
				}
			}
			if len(s.Marks) > 0 {
				series = append(series, s)
			}
		}
		return series
	}
	if r.Clock.Bounded {
		chart("delay", "One-way delay", "By clocks made equal; the estimate may be off by "+report.Duration(time.Duration(r.Clock.Error))+"."+mean,
			each("range", func(m *moment, at int64) (html.Mark, bool) { return html.Mark{At: at, Low: m.low, High: m.top}, true }))
	}
	line := html.Series{Name: "the clocks’ difference, as estimated", Class: "middle resent"}
	for i := range t.ways[0] {
		at := t.middle(i)
		d := int64(r.Clock.at(t.from+at)) - zero
		line.Marks = append(line.Marks, html.Mark{At: at, Low: d, High: d})
	}
	chart("clock", "B’s clock minus A’s, of the same packet", "Counted from "+precise(zero)+", the difference at the reference."+mean+" Delays lie above the line one way, and below it the other.",
		append(each("range", func(m *moment, at int64) (html.Mark, bool) {
			return html.Mark{At: at, Low: m.rawLow - zero, High: m.rawTop - zero}, true
		}), line))
	chart("jitter", "Jitter", "How much the delay of a packet differs from that of the one before in its stream, on average.",
		each("middle", func(m *moment, at int64) (html.Mark, bool) {
			if m.pairs == 0 {
				return html.Mark{}, false
			}
			j := int64(m.jitter / float64(m.pairs))
			return html.Mark{At: at, Low: j, High: j}, true
		}))
	about := "Packets that one capture has and the other has not."
	if r.Left > 0 {
		about += " " + report.Count(r.Left) + " of the packets that did not come through are not listed, and so not here."
	}
	chart("losses", "Losses", about, r.losses(t))
	return all
}

// gone says whether one capture alone has the packet.
func (p *Packet) gone() bool { return p.Kind == Lost || p.Kind >= Appeared }

// losses are the lost packets over time, by the direction of their streams.
func (r *Result) losses(t *timeline) (series []html.Series) {
	n := [2][]int64{make([]int64, len(t.ways[0])), make([]int64, len(t.ways[0]))}
	for i := range r.Packets {
		if p := &r.Packets[i]; p.gone() {
			n[way(r.Streams[p.Stream].First)][t.slot(p.Time)]++
		}
	}
	width := (t.to - t.from) / int64(len(t.ways[0]))
	for w := range n {
		s := html.Series{Name: wayNames[w], Class: fmt.Sprintf("bar dir%d", w), Width: max(width, 1)}
		for i, v := range n[w] {
			if v > 0 {
				s.Marks = append(s.Marks, html.Mark{At: t.middle(i) - width/2, High: v})
			}
		}
		if len(s.Marks) > 0 {
			series = append(series, s)
		}
	}
	return series
}
