package filter

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

const opcodeField = "infiniband.bth.opcode"

// checker turns a syntax tree into conditions: it finds out what each name
// means and whether each comparison makes sense.
type checker struct {
	need   Need
	icrc   bool
	fields []string
	seen   map[string]bool
}

// use notes that a filter reads a name.
func (c *checker) use(s *symbol) {
	if c.seen[s.name] {
		return
	}
	c.seen[s.name] = true
	c.fields = append(c.fields, s.name)
	if n := s.need(); n >= NeedFlow {
		c.need, c.icrc = max(c.need, n), true
	}
	if s.name == "infiniband.invariant.crc.status" {
		c.icrc = true
	}
}

// cond checks a condition.
func (c *checker) cond(n *node) (cond, *Error) {
	switch n.kind {
	case nodeNot:
		x, err := c.cond(n.kids[0])
		return &condNot{x}, err
	case nodeAnd, nodeOr, nodeXor:
		return c.joined(n)
	case nodeTest:
		return c.test(n)
	case nodeIn:
		return c.in(n)
	}
	return c.bare(n)
}

func (c *checker) joined(n *node) (cond, *Error) {
	kids := make([]cond, len(n.kids))
	for i, k := range n.kids {
		x, err := c.cond(k)
		if err != nil {
			return nil, err
		}
		kids[i] = x
	}
	switch n.kind {
	case nodeAnd:
		return &condAnd{kids}, nil
	case nodeOr:
		return &condOr{kids}, nil
	}
	return &condXor{kids}, nil
}

// bare checks a name, a slice or a masked field that stands alone.
func (c *checker) bare(n *node) (cond, *Error) {
	o, err := c.operand(n)
	if err != nil {
		return nil, err
	}
	switch {
	case o.fn != noFunction:
		return nil, errorAt(n, "for instance "+n.text+"(…) > 0", "a function needs something to compare with")
	case o.quant != opNone:
		return nil, errorAt(n, "", "%q needs a comparison", o.quant)
	case o.masked:
		return &condNumber{sym: o.sym, mask: o.mask, set: spans{{1, maxUint}}}, nil
	case o.sym.tracked() && o.sym.kind == dissect.Bool:
		return &condNumber{sym: o.sym, mask: maxUint, set: spans{{1, maxUint}}}, nil
	}
	return &condHas{o.sym, o.slices}, nil
}

// isOperand reports whether a node can take its value from the packet.
func isOperand(n *node) bool {
	switch n.kind {
	case nodeWord:
		return lookup(n.text) != nil
	case nodeSlice, nodeMask, nodeCall, nodeQuant:
		return true
	}
	return false
}

// isLiteral reports whether a node can be a value.
func isLiteral(n *node) bool { return n.kind == nodeWord || n.kind == nodeString || n.kind == nodeChar }

// operand checks what takes its value from the packet.
func (c *checker) operand(n *node) (o *operand, err *Error) {
	switch n.kind {
	case nodeWord:
		s := lookup(n.text)
		if s == nil {
			return nil, c.unknown(n)
		}
		c.use(s)
		return &operand{n: n, name: n.text, sym: s, mask: maxUint}, nil
	case nodeSlice:
		return c.slice(n)
	case nodeMask:
		return c.mask(n)
	case nodeCall:
		return c.call(n)
	case nodeQuant:
		if o, err = c.operand(n.kids[0]); err != nil {
			return nil, err
		}
		if o.quant != opNone {
			return nil, errorAt(n, "", "one of any and all is enough")
		}
		o.quant, o.n = n.op, n
		return o, nil
	case nodeString, nodeChar:
		return nil, errorAt(n, "a test begins with a field", "a string is no condition")
	}
	return nil, errorAt(n, "a test is true or false and cannot be compared", "a field is needed here")
}

func (c *checker) unknown(n *node) *Error {
	if _, isNum, _ := parseUint(n.text); isNum {
		return errorAt(n, "a test begins with a field", "a number is no condition")
	}
	return errorAt(n, suggestField(n.text), "unknown field %s", quote(n.text))
}

func (c *checker) slice(n *node) (*operand, *Error) {
	o, err := c.operand(n.kids[0])
	if err != nil {
		return nil, err
	}
	at := &node{pos: n.kids[0].end, end: n.end}
	switch {
	case o.fn != noFunction || o.masked || o.quant != opNone:
		return nil, errorAt(at, "", "only a field can be sliced")
	case o.class() != classBytes && o.sym.kind != dissect.MAC && o.sym.kind != dissect.IPv4Addr && o.sym.kind != dissect.IPv6Addr:
		return nil, errorAt(at, "bits of a number are taken by &", "%s is %s and has no bytes to slice", o.name, o.what())
	}
	parts, ok := parseSlice(n.text)
	if !ok {
		return nil, errorAt(at, "[start:length], [first-last], [index], [:length], [start:], or several of them with commas", "this is not a slice")
	}
	if w := o.sym.byteWidth(); w > 0 {
		for _, r := range parts {
			if r.at >= w || r.at < -w || r.n >= 0 && r.at >= 0 && r.at+r.n > w {
				return nil, errorAt(at, "", "%s has only %d bytes", o.name, w)
			}
		}
	}
	o.slices, o.n = parts, n
	return o, nil
}

func (c *checker) mask(n *node) (*operand, *Error) {
	x, y := n.kids[0], n.kids[1]
	if !isOperand(x) && isOperand(y) {
		x, y = y, x
	}
	o, err := c.operand(x)
	if err != nil {
		return nil, err
	}
	if o.class() != classNumber || o.fn != noFunction || o.sym.kind == dissect.Bool {
		return nil, errorAt(x, "", "%s is %s: & takes the bits of numbers", o.name, o.what())
	}
	if isOperand(y) || !isLiteral(y) {
		return nil, errorAt(y, "", "behind & stands a constant")
	}
	v, err := c.single(o, y)
	if err != nil {
		return nil, err
	}
	o.mask &= v.lo
	o.masked, o.n = true, n
	return o, nil
}

func (c *checker) call(n *node) (*operand, *Error) {
	name := &node{pos: n.pos, end: n.pos + len(n.text)}
	fn, ok := map[string]function{"len": lenFunction, "count": countFunction}[n.text]
	if !ok {
		return nil, errorAt(name, "there are len() and count()", "unknown function %s", quote(n.text))
	}
	if len(n.kids) != 1 {
		return nil, errorAt(n, "", "%s() takes one field", n.text)
	}
	o, err := c.operand(n.kids[0])
	if err != nil {
		return nil, err
	}
	switch {
	case o.fn != noFunction || o.masked || o.quant != opNone:
		return nil, errorAt(n.kids[0], "", "%s() takes a field", n.text)
	case fn == countFunction && o.slices != nil:
		return nil, errorAt(n.kids[0], "", "count() takes a field without a slice")
	case fn == lenFunction && o.class() != classBytes:
		return nil, errorAt(n.kids[0], "", "%s is %s: len() is for bytes", o.name, o.what())
	}
	o.fn, o.n, o.name = fn, n, n.text+"("+o.name+")"
	return o, nil
}

// test checks a comparison.
func (c *checker) test(n *node) (cond, *Error) {
	x, y, o := n.kids[0], n.kids[1], n.op
	if !isOperand(x) && isLiteral(x) && isOperand(y) {
		if o == opContains || o == opMatches {
			return nil, errorAt(x, "", "at the left of %q stands a field", o)
		}
		if _, isNum, _ := parseUint(x.text); x.kind != nodeWord || isNum || !isOperand(x) {
			x, y, o = y, x, o.swapped()
		}
	}
	a, err := c.operand(x)
	if err != nil {
		return nil, err
	}
	all := o == opNe || o == opAllEq
	if a.quant != opNone {
		all = a.quant == opAll
		switch o {
		case opAllEq, opAnyNe:
			return nil, errorAt(n, "", "%q and %q say how many twice", a.quant, o)
		}
	}
	if err := c.suits(n, a, o); err != nil {
		return nil, err
	}
	if o == opMatches {
		return c.matches(a, y, all)
	}
	if y.kind == nodeQuant {
		return nil, errorAt(y, "", "%q stands at the left of a comparison", y.op)
	}
	if isOperand(y) && !(y.kind == nodeWord && c.hasWord(a, y.text)) {
		b, err := c.operand(y)
		if err != nil {
			return nil, err
		}
		return c.fieldTest(n, a, b, o, all)
	}
	if !isLiteral(y) {
		return nil, errorAt(y, "a test is true or false and cannot be compared", "a value is needed here")
	}
	return c.constTest(a, y, o, all)
}

// hasWord reports whether a word that is also a field's name is meant as a
// value: `frame.protocol == tcp`.
func (c *checker) hasWord(a *operand, word string) bool {
	if a.class() != classWord && (a.class() != classNumber || a.fn != noFunction) {
		return false
	}
	w := a.sym.words()
	return w != nil && w.values[normal(word)] != nil
}

// suits checks that an operator has a meaning for an operand.
func (c *checker) suits(n *node, a *operand, o op) *Error {
	switch {
	case o == opMatches && a.class() != classBytes && a.sym.kind != dissect.MAC && a.class() != classWord,
		o == opContains && a.class() != classBytes && a.sym.kind != dissect.MAC && a.class() != classWord,
		(o == opMatches || o == opContains) && (a.fn != noFunction || a.masked):
		hint := ""
		switch {
		case a.fn != noFunction || a.masked:
		case a.sym.kind == dissect.IPv4Addr:
			hint = "a network is written ip.addr == 10.0.0.0/8, bytes are taken by a slice: ip.src[0:2]"
		case a.sym.kind == dissect.IPv6Addr:
			hint = "a network is written ipv6.addr == fe80::/10, bytes are taken by a slice: ipv6.src[0:2]"
		}
		return errorAt(n.kids[0], hint, "%s is %s: %s is for bytes and words", a.name, a.what(), o)
	case o.ordered() && a.class() == classWord && !a.sym.ranked():
		return errorAt(n.kids[0], "compare by == or in {…}", "the words of %s have no order", a.name)
	}
	return nil
}

// constTest checks a comparison with a constant.
func (c *checker) constTest(a *operand, y *node, o op, all bool) (cond, *Error) {
	if o == opContains {
		if a.class() == classWord {
			return c.wordsThat(a, all, func(w string) bool { return containsFold(w, y.text) }), nil
		}
		b, err := c.bytes(a, y, 0)
		if err != nil {
			return nil, err
		}
		return &condBytes{a.sym, a.slices, byteTest{op: o, val: b}, all}, nil
	}
	switch a.class() {
	case classBytes:
		width := a.byteWidth()
		if o.ordered() {
			width = 0
		}
		b, err := c.bytes(a, y, width)
		if err != nil {
			return nil, err
		}
		return &condBytes{a.sym, a.slices, byteTest{op: o, val: b}, all}, nil
	case classAddr:
		v, err := c.addr(y)
		if err != nil {
			return nil, err
		}
		return &condAddr{a.sym, compareAddr(o, v), all}, nil
	}
	vs, err := c.number(a, y)
	if err != nil {
		return nil, err
	}
	var set spans
	switch {
	case o.ordered():
		set = compare(o, vs[0])
	default:
		if set = makeSpans(vs); o == opNe || o == opAnyNe {
			set = set.complement()
		}
	}
	return c.numberCond(a, set, all), nil
}

// numberCond is the condition that an operand's number is in a set.
func (c *checker) numberCond(a *operand, set spans, all bool) cond {
	switch a.fn {
	case lenFunction:
		return &condLen{a.sym, a.slices, set, all}
	case countFunction:
		return &condCount{a.sym, set}
	}
	n := &condNumber{sym: a.sym, mask: a.mask, set: set, all: all}
	if a.class() == classTime {
		n.flip = signBit
	}
	return n
}

// in checks a membership.
func (c *checker) in(n *node) (cond, *Error) {
	a, err := c.operand(n.kids[0])
	if err != nil {
		return nil, err
	}
	all := a.quant == opAll
	switch a.class() {
	case classBytes:
		set := &byteSet{single: map[string]bool{}}
		for _, k := range n.kids[1:] {
			if k.kind != nodeRange {
				b, err := c.bytes(a, k, a.byteWidth())
				if err != nil {
					return nil, err
				}
				set.single[string(b)] = true
				continue
			}
			lo, err := c.bytes(a, k.kids[0], 0)
			if err != nil {
				return nil, err
			}
			hi, err := c.bytes(a, k.kids[1], 0)
			if err != nil {
				return nil, err
			}
			set.ranges = append(set.ranges, byteRange{lo, hi})
		}
		return &condBytes{a.sym, a.slices, byteTest{op: opIn, set: set}, all}, nil
	case classAddr:
		var set []addrSpan
		for _, k := range n.kids[1:] {
			lo, hi := k, k
			if k.kind == nodeRange {
				lo, hi = k.kids[0], k.kids[1]
			}
			l, err := c.addr(lo)
			if err != nil {
				return nil, err
			}
			h, err := c.addr(hi)
			if err != nil {
				return nil, err
			}
			if less(h.hi, l.lo) {
				return nil, backwards(k)
			}
			set = append(set, addrSpan{l.lo, h.hi})
		}
		return &condAddr{a.sym, makeAddrSpans(set), all}, nil
	}
	var set []span
	for _, k := range n.kids[1:] {
		if k.kind != nodeRange {
			vs, err := c.number(a, k)
			if err != nil {
				return nil, err
			}
			set = append(set, vs...)
			continue
		}
		if a.class() == classWord && !a.sym.ranked() {
			return nil, errorAt(k, "list them: {a, b}", "the words of %s have no order", a.name)
		}
		lo, err := c.single(a, k.kids[0])
		if err != nil {
			return nil, err
		}
		hi, err := c.single(a, k.kids[1])
		if err != nil {
			return nil, err
		}
		if hi.hi < lo.lo {
			return nil, backwards(k)
		}
		set = append(set, span{lo.lo, hi.hi})
	}
	return c.numberCond(a, makeSpans(set), all), nil
}

func backwards(n *node) *Error {
	return errorAt(n, "the smaller end stands first", "this range is empty")
}

// fieldTest checks the comparison of two fields.
func (c *checker) fieldTest(n *node, a, b *operand, o op, all bool) (cond, *Error) {
	switch {
	case o == opContains && a.class() == classBytes && b.class() == classBytes:
	case a.class() != b.class(),
		addressKind(a) != addressKind(b),
		a.class() == classWord && a.sym != b.sym,
		o == opContains,
		a.fn == countFunction || b.fn == countFunction:
		return nil, errorAt(n, "", "%s and %s cannot be compared: the one is %s, the other %s",
			a.name, b.name, a.what(), b.what())
	}
	return &condFields{a, b, o, all}, nil
}

// addressKind is the operand's kind if that is one that compares with its like
// only, else Dec.
func addressKind(o *operand) dissect.Kind {
	if o.fn == noFunction && o.slices == nil && (o.sym.kind == dissect.MAC || o.sym.kind == dissect.IPv4Addr) {
		return o.sym.kind
	}
	return dissect.Dec
}

// matches checks a regular expression.
func (c *checker) matches(a *operand, y *node, all bool) (cond, *Error) {
	if y.kind != nodeString {
		return nil, errorAt(y, `for instance "^abc"`, "a regular expression stands in double quotes")
	}
	re, err := compileRegexp(y)
	if err != nil {
		return nil, err
	}
	if a.class() == classWord {
		return c.wordsThat(a, all, re.MatchString), nil
	}
	return &condBytes{a.sym, a.slices, byteTest{op: opMatches, re: re}, all}, nil
}

// wordsThat is the condition that a Text field's word passes a test, which is
// made once for each word.
func (c *checker) wordsThat(a *operand, all bool, test func(string) bool) cond {
	var set []span
	if w := a.sym.words(); w != nil {
		for _, name := range w.names {
			if test(name) {
				for _, v := range w.values[normal(name)] {
					set = append(set, span{v, v})
				}
			}
		}
	}
	return c.numberCond(a, makeSpans(set), all)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
