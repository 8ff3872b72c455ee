package diff

import (
	"math"
	"math/bits"
)

// none is no record.
const none = -1

// chunk is a stretch of both captures, in which twins are looked for.
type chunk struct {
	recs  [2][]record
	heads [2]table
	twin  [2][]int32 // index of the twin on the other side, or none
}

// table finds records by their head: the first of each, and from each the next
// with the same.
type table struct {
	slots []int32 // index+1 of the first
	next  []int32
	last  []int32 // of a first: the last
}

func (t *table) build(recs []record) {
	size := 1 << bits.Len(uint(2*len(recs)))
	if cap(t.slots) < size {
		t.slots = make([]int32, size)
	}
	t.slots = t.slots[:size]
	clear(t.slots)
	if cap(t.next) < len(recs) {
		t.next, t.last = make([]int32, len(recs)), make([]int32, len(recs))
	}
	t.next, t.last = t.next[:len(recs)], t.last[:len(recs)]
	for i := range recs {
		t.next[i], t.last[i] = none, int32(i)
		for at := recs[i].head & uint64(size-1); ; at = (at + 1) & uint64(size-1) {
			first := t.slots[at] - 1
			if first == none {
				t.slots[at] = int32(i) + 1
				break
			}
			if recs[first].head == recs[i].head {
				t.next[t.last[first]] = int32(i)
				t.last[first] = int32(i)
				t.last[i] = none // not a first
				break
			}
		}
	}
}

// find returns the first record with a head, or none.
func (t *table) find(recs []record, head uint64) int32 {
	if len(recs) == 0 {
		return none
	}
	mask := uint64(len(t.slots) - 1)
	for at := head & mask; ; at = (at + 1) & mask {
		first := t.slots[at] - 1
		if first == none || recs[first].head == head {
			return first
		}
	}
}

// match finds the twins: first of what is the only one of its kind, or has as
// many rounds in both captures; then, by these, of what one capture has more
// rounds of. streams is how many there are.
func (c *chunk) match(streams int) {
	for side := range c.recs {
		c.heads[side].build(c.recs[side])
		c.twin[side] = grow(c.twin[side], len(c.recs[side]))
		for i := range c.twin[side] {
			c.twin[side][i] = none
		}
	}
	a, b := c.recs[0], c.recs[1]
	ta, tb := &c.heads[0], &c.heads[1]
	var uneven [][2]int32 // firsts of those with more rounds in one capture
	for i := range a {
		if ta.last[i] == none {
			continue // a later round of one that was done
		}
		j := tb.find(b, a[i].head)
		if j == none {
			continue
		}
		x, y := int32(i), j
		for x != none && y != none {
			x, y = ta.next[x], tb.next[y]
		}
		if x != none || y != none {
			uneven = append(uneven, [2]int32{int32(i), j})
			continue
		}
		for x, y = int32(i), j; x != none; x, y = ta.next[x], tb.next[y] {
			c.twin[0][x], c.twin[1][y] = y, x
		}
	}
	if len(uneven) == 0 {
		return
	}
	r := rounds{before: neighbours(c, streams, false), behind: neighbours(c, streams, true)}
	for _, first := range uneven {
		r.assign(c, first[0], first[1])
	}
}

// neighbours are, for each of a's packets, the packet of its stream before it
// (or behind it) that has a twin.
func neighbours(c *chunk, streams int, behind bool) []int32 {
	near, out := make([]int32, streams), make([]int32, len(c.recs[0]))
	for i := range near {
		near[i] = none
	}
	for k := range out {
		i := k
		if behind {
			i = len(out) - 1 - k
		}
		s := &near[c.recs[0][i].stream]
		out[i] = *s
		if c.twin[0][i] != none {
			*s = int32(i)
		}
	}
	return out
}

// rounds says of packets that look the same and passed several times which
// round of one capture is which of the other.
type rounds struct {
	before, behind []int32
	a, b           []int32
	cost           []float64
	step           []uint8
}

// maxRounds bounds what is compared each with each; beyond it the first is the
// first.
const maxRounds = 4096

// What a pair costs, in ns: what its delay differs from that of its neighbours,
// and more than that if it would have overtaken them.
const (
	overtaking = 1e9
	alone      = 1e12
)

func (r *rounds) off(c *chunk, i, j int32) float64 {
	delay := func(i, j int32) int64 { return c.recs[1][j].when - c.recs[0][i].when }
	usual, cost := int64(0), 0.0
	if n := r.behind[i]; n != none {
		usual = delay(n, c.twin[0][n])
		if c.twin[0][n] < j {
			cost += overtaking
		}
	}
	if n := r.before[i]; n != none {
		usual = delay(n, c.twin[0][n])
		if c.twin[0][n] > j {
			cost += overtaking
		}
	}
	return cost + math.Abs(float64(delay(i, j)-usual))
}

// assign pairs as many as it can, in order, at the least cost together.
func (r *rounds) assign(c *chunk, i, j int32) {
	r.a, r.b = r.a[:0], r.b[:0]
	for ; i != none; i = c.heads[0].next[i] {
		r.a = append(r.a, i)
	}
	for ; j != none; j = c.heads[1].next[j] {
		r.b = append(r.b, j)
	}
	m, n := len(r.a), len(r.b)
	if m*n > maxRounds {
		for k := range min(m, n) {
			c.twin[0][r.a[k]], c.twin[1][r.b[k]] = r.b[k], r.a[k]
		}
		return
	}
	// cost[x][y] is the least for the first x and the first y.
	const (
		pair = iota
		skipA
		skipB
	)
	w := n + 1
	r.cost, r.step = grow(r.cost, (m+1)*w), grow(r.step, (m+1)*w)
	for x := 0; x <= m; x++ {
		for y := 0; y <= n; y++ {
			at := x*w + y
			switch {
			case x == 0 && y == 0:
				r.cost[at], r.step[at] = 0, pair
				continue
			case x == 0:
				r.cost[at], r.step[at] = alone*float64(y), skipB
				continue
			case y == 0:
				r.cost[at], r.step[at] = alone*float64(x), skipA
				continue
			}
			best, step := r.cost[at-w-1]+r.off(c, r.a[x-1], r.b[y-1]), uint8(pair)
			if v := r.cost[at-w] + alone; v < best {
				best, step = v, skipA
			}
			if v := r.cost[at-1] + alone; v < best {
				best, step = v, skipB
			}
			r.cost[at], r.step[at] = best, step
		}
	}
	for x, y := m, n; x > 0 || y > 0; {
		switch r.step[x*w+y] {
		case pair:
			x, y = x-1, y-1
			c.twin[0][r.a[x]], c.twin[1][r.b[y]] = r.b[y], r.a[x]
		case skipA:
			x--
		case skipB:
			y--
		}
	}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
