package filter

import (
	"bytes"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// matcher tests one packet. m and o may be nil.
type matcher func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool

func always(*dissect.Packet, []byte, *flows.Mark, *flows.Outcome) bool { return true }
func never(*dissect.Packet, []byte, *flows.Mark, *flows.Outcome) bool  { return false }

// compile makes closures of a condition.
func compile(c cond) matcher {
	switch c := c.(type) {
	case *condNot:
		x := compile(c.x)
		return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool { return !x(p, frame, m, o) }
	case *condAnd:
		return allOf(compileAll(c.kids))
	case *condOr:
		return anyOf(compileAll(c.kids))
	case *condXor:
		return oddOf(compileAll(c.kids))
	case *condHas:
		return compileHas(c)
	case *condNumber:
		return each(c.all, c.sym.rows, func(r *row, positive bool) matcher {
			set := c.set
			if !positive {
				set = set.complement()
			}
			return compileNumber(r, &numberTest{mask: c.mask, flip: c.flip}, set)
		})
	case *condAddr:
		return each(c.all, c.sym.rows, func(r *row, positive bool) matcher {
			set := c.set
			if !positive {
				set = set.complement()
			}
			return compileAddr(r, set)
		})
	case *condBytes:
		return each(c.all, c.sym.rows, func(r *row, positive bool) matcher { return compileBytes(r, c, positive) })
	case *condLen:
		return each(c.all, c.sym.rows, func(r *row, positive bool) matcher { return compileLen(r, c, positive) })
	case *condCount:
		return compileCount(c)
	case *condFields:
		return compileFields(c)
	}
	panic("filter: a condition of an unknown type")
}

func compileAll(cs []cond) []matcher {
	ms := make([]matcher, len(cs))
	for i, c := range cs {
		ms[i] = compile(c)
	}
	return ms
}

// each puts the tests of a name's rows together: any row that passes is
// enough, or (all) one has to be there and none may fail. test makes the
// matcher for "the row is there and passes", or "is there and does not".
func each(all bool, rows []row, test func(r *row, positive bool) matcher) matcher {
	pass, fail := make([]matcher, len(rows)), make([]matcher, len(rows))
	for i := range rows {
		pass[i] = rows[i].ofFPDUs(test(&rows[i], true))
	}
	several := len(rows) > 1 || manyValued(&rows[0])
	if !all || !several {
		return anyOf(pass)
	}
	for i := range rows {
		fail[i] = rows[i].ofFPDUs(test(&rows[i], false))
	}
	some, none := anyOf(pass), anyOf(fail)
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
		return some(p, frame, m, o) && !none(p, frame, m, o)
	}
}

func allOf(ms []matcher) matcher {
	switch len(ms) {
	case 1:
		return ms[0]
	case 2:
		a, b := ms[0], ms[1]
		return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
			return a(p, frame, m, o) && b(p, frame, m, o)
		}
	}
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
		for _, x := range ms {
			if !x(p, frame, m, o) {
				return false
			}
		}
		return true
	}
}

func anyOf(ms []matcher) matcher {
	switch len(ms) {
	case 1:
		return ms[0]
	case 2:
		a, b := ms[0], ms[1]
		return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
			return a(p, frame, m, o) || b(p, frame, m, o)
		}
	}
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
		for _, x := range ms {
			if x(p, frame, m, o) {
				return true
			}
		}
		return false
	}
}

func oddOf(ms []matcher) matcher {
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
		odd := false
		for _, x := range ms {
			odd = odd != x(p, frame, m, o)
		}
		return odd
	}
}

func compileHas(c *condHas) matcher {
	var ms []matcher
	for i := range c.sym.rows {
		r := &c.sym.rows[i]
		switch {
		case c.slices != nil:
			s := source{r, c.slices}
			ms = append(ms, func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool { return s.has(p, frame) })
		case c.sym.whole && r.layer != wholeTransport:
			l := r.layer
			ms = append(ms, func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool { return p.Has(l) })
		case c.sym.whole:
			ms = append(ms, func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool { return r.has(p) })
		case c.sym.kind == dissect.Bytes || c.sym.kind == dissect.String || c.sym.kind == dissect.IPv6Addr:
			ms = append(ms, func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
				_, ok := r.raw(p, frame)
				return ok
			})
		default:
			ms = append(ms, compileNumber(r, &numberTest{mask: maxUint}, spans{{0, maxUint}}))
		}
		ms[i] = r.ofFPDUs(ms[i])
	}
	return anyOf(ms)
}

// inFPDU reports whether the row is of what each FPDU of a segment may have.
func (r *row) inFPDU() bool { return r.layer.InFPDU() || r.f != nil && r.f.Layer.InFPDU() }

// ofFPDUs makes a test of a row one that any FPDU of a segment may pass, where
// FPDUs have the row.
func (r *row) ofFPDUs(test matcher) matcher {
	if !r.inFPDU() {
		return test
	}
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) (is bool) {
		p.EachFPDU(frame, func() bool {
			is = test(p, frame, m, o)
			return !is
		})
		return is
	}
}

// numberTest tells whether a number is in a set. One interval is tested by
// one comparison.
type numberTest struct {
	mask, flip uint64
	lo, size   uint64 // the interval, or the first of several
	rest       spans  // all, where there are several
}

func (t *numberTest) has(v uint64) bool {
	v = v&t.mask ^ t.flip
	return v-t.lo <= t.size || t.rest != nil && t.rest.has(v)
}

// compileNumber makes the test "the row is there and its number is in set".
// t brings mask and flip.
func compileNumber(r *row, t *numberTest, set spans) matcher {
	if len(set) == 0 {
		return never
	}
	t.lo, t.size = set[0].lo, set[0].hi-set[0].lo
	if len(set) > 1 {
		t.rest = set
	}
	if fast := fastNumber(r, t); fast != nil {
		return fast
	}
	if r.g != nil {
		get := r.g.Get
		return func(_ *dissect.Packet, _ []byte, m *flows.Mark, o *flows.Outcome) bool {
			if m == nil {
				return false
			}
			v, ok := get(m, o)
			return ok && t.has(v)
		}
	}
	f := r.f
	if f.Get != nil {
		get := f.Get
		return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			v, ok := get(p, frame)
			return ok && t.has(v)
		}
	}
	return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		v, ok := f.Uint(p, frame)
		return ok && t.has(v)
	}
}

// number reads a row's number, for comparisons of fields.
func (r *row) number(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) (uint64, bool) {
	switch {
	case r.f != nil:
		return r.f.Uint(p, frame)
	case r.g == nil || m == nil:
		return 0, false
	}
	return r.g.Get(m, o)
}

func compileAddr(r *row, set addrSpans) matcher {
	f := r.f
	switch {
	case f == nil || len(set) == 0:
		return never
	case f.Layer == dissect.LayerIPv6 && f.Name == "ipv6.src":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerIPv6) && set.has(p.Src)
		}
	case f.Layer == dissect.LayerIPv6 && f.Name == "ipv6.dst":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerIPv6) && set.has(p.Dst)
		}
	}
	return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		b, ok := f.Raw(p, frame)
		return ok && len(b) == 16 && set.has(dissect.Addr{Hi: be(b[:8]), Lo: be(b[8:])})
	}
}

// source is where bytes come from: a row, or slices of it.
type source struct {
	row    *row
	slices []sliceRange
}

// part takes one range of b.
func (s sliceRange) part(b []byte) ([]byte, bool) {
	at := s.at
	if at < 0 {
		at += len(b)
	}
	if at < 0 || at >= len(b) {
		return nil, false
	}
	if s.n < 0 {
		return b[at:], true
	}
	if s.n > len(b)-at {
		return nil, false
	}
	return b[at : at+s.n], true
}

// get returns the bytes; several ranges are put together in buf.
func (s *source) get(p *dissect.Packet, frame, buf []byte) ([]byte, bool) {
	b, ok := s.row.raw(p, frame)
	switch {
	case !ok || len(s.slices) == 0:
		return b, ok
	case len(s.slices) == 1:
		return s.slices[0].part(b)
	}
	for _, r := range s.slices {
		part, ok := r.part(b)
		if !ok {
			return nil, false
		}
		buf = append(buf, part...)
	}
	return buf, true
}

// length is the number of bytes that get returns.
func (s *source) length(p *dissect.Packet, frame []byte) (n int, ok bool) {
	b, ok := s.row.raw(p, frame)
	if !ok || len(s.slices) == 0 {
		return len(b), ok
	}
	for _, r := range s.slices {
		part, ok := r.part(b)
		if !ok {
			return 0, false
		}
		n += len(part)
	}
	return n, true
}

func (s *source) has(p *dissect.Packet, frame []byte) bool {
	_, ok := s.length(p, frame)
	return ok
}

// sliceBuffer is room on the stack for slices of several ranges; longer ones
// go to the heap.
const sliceBuffer = 256

func compileBytes(r *row, c *condBytes, positive bool) matcher {
	s, t := source{r, c.slices}, c.test
	if t.op == opMatches { // keeps no buffer: what a regular expression reads escapes to the heap
		return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			b, ok := s.get(p, frame, nil)
			return ok && t.re.Match(b) == positive
		}
	}
	if len(s.slices) > 1 {
		return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			var buf [sliceBuffer]byte
			b, ok := s.get(p, frame, buf[:0])
			return ok && t.passes(b) == positive
		}
	}
	if t.op == opEq && positive {
		return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			b, ok := s.get(p, frame, nil)
			return ok && bytes.Equal(b, t.val)
		}
	}
	return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		b, ok := s.get(p, frame, nil)
		return ok && t.passes(b) == positive
	}
}

func (t *byteTest) passes(b []byte) bool {
	switch t.op {
	case opContains:
		return bytes.Contains(b, t.val)
	case opIn:
		return t.set.has(b)
	}
	return compareBytes(t.op, b, t.val)
}

func compareBytes(o op, a, b []byte) bool {
	switch o {
	case opEq, opAllEq:
		return bytes.Equal(a, b)
	case opNe, opAnyNe:
		return !bytes.Equal(a, b)
	case opContains:
		return bytes.Contains(a, b)
	}
	return holds(o, bytes.Compare(a, b))
}

// holds reports whether an order satisfies an operator.
func holds(o op, order int) bool {
	switch o {
	case opEq, opAllEq:
		return order == 0
	case opNe, opAnyNe:
		return order != 0
	case opLt:
		return order < 0
	case opLe:
		return order <= 0
	case opGt:
		return order > 0
	case opGe:
		return order >= 0
	}
	return false
}

func compileLen(r *row, c *condLen, positive bool) matcher {
	s, set := source{r, c.slices}, c.set
	return func(p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		n, ok := s.length(p, frame)
		return ok && set.has(uint64(n)) == positive
	}
}

// compileCount counts the occurrences of a field; without any the test fails.
func compileCount(c *condCount) matcher {
	has := make([]matcher, len(c.sym.rows))
	for i := range c.sym.rows {
		one := &symbol{name: c.sym.name, kind: c.sym.kind, whole: c.sym.whole, rows: c.sym.rows[i : i+1]}
		has[i] = compileHas(&condHas{sym: one})
	}
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
		n := uint64(0)
		for _, h := range has {
			if h(p, frame, m, o) {
				n++
			}
		}
		return n > 0 && c.set.has(n)
	}
}

// compileFields compares each occurrence of one field with each of another.
func compileFields(c *condFields) matcher {
	order := pairBytes
	if k := c.a.class(); k == classNumber || k == classWord || k == classTime {
		order = pairNumbers
	}
	as, bs := c.a.sym.rows, c.b.sym.rows
	return func(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
		some := false
		for i := range as {
			for j := range bs {
				pass, ok := order(c, &as[i], &bs[j], p, frame, m, o)
				if !ok {
					continue
				}
				if pass != c.all {
					return pass
				}
				some = true
			}
		}
		return some && c.all
	}
}

func pairNumbers(c *condFields, a, b *row, p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) (pass, ok bool) {
	x, okX := c.a.value(a, p, frame, m, o)
	y, okY := c.b.value(b, p, frame, m, o)
	order := 0
	switch {
	case x < y:
		order = -1
	case x > y:
		order = 1
	}
	return holds(c.op, order), okX && okY
}

// value is the number of an operand in one row.
func (o *operand) value(r *row, p *dissect.Packet, frame []byte, m *flows.Mark, out *flows.Outcome) (uint64, bool) {
	if o.fn == lenFunction {
		n, ok := (&source{r, o.slices}).length(p, frame)
		return uint64(n), ok
	}
	v, ok := r.number(p, frame, m, out)
	if o.class() == classTime {
		v ^= signBit
	}
	return v & o.mask, ok
}

func pairBytes(c *condFields, a, b *row, p *dissect.Packet, frame []byte, _ *flows.Mark, _ *flows.Outcome) (pass, ok bool) {
	var bufA, bufB [sliceBuffer]byte
	x, okX := (&source{a, c.a.slices}).get(p, frame, bufA[:0])
	y, okY := (&source{b, c.b.slices}).get(p, frame, bufB[:0])
	if !okX || !okY {
		return false, false
	}
	return compareBytes(c.op, x, y), true
}
