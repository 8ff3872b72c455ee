package filter

import "fmt"

// The bounds of what is parsed. Chains of and, or and set members do not
// nest, so that they may be as long as the source.
const (
	maxDepth  = 100
	maxSource = 1 << 20
)

// Binding powers, loosest first.
const (
	bindNone = iota
	bindOr
	bindXor
	bindAnd
	bindNot
	bindTest
	bindMask
)

// infix says how strongly a token binds what stands at its left.
func infix(t token) (bind int, kind nodeKind) {
	if t.kind != tokOp && t.kind != tokWord {
		return bindNone, 0
	}
	switch t.text {
	case "or", "||":
		return bindOr, nodeOr
	case "xor", "^^":
		return bindXor, nodeXor
	case "and", "&&":
		return bindAnd, nodeAnd
	case "&":
		return bindMask, nodeMask
	case "in", "not":
		if t.kind == tokWord { // "not" only before "in"; the parser looks
			return bindTest, nodeIn
		}
	}
	if comparisons[t.text] != opNone {
		return bindTest, nodeTest
	}
	return bindNone, 0
}

// parser is a Pratt parser with one token of look-ahead.
type parser struct {
	lex   lexer
	tok   token // the next
	prev  token // the last one taken
	depth int
}

// parse makes a syntax tree of a source that is not empty.
func parse(src string) (*node, *Error) {
	if len(src) > maxSource {
		return nil, &Error{Pos: 0, End: 0, Msg: fmt.Sprintf("the filter has %d bytes: at most %d are allowed", len(src), maxSource)}
	}
	p := &parser{lex: lexer{src: src}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.expr(bindNone)
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokEOF {
		return nil, p.unexpected()
	}
	return n, nil
}

func (p *parser) advance() (err *Error) {
	p.prev = p.tok
	p.tok, err = p.lex.next()
	return err
}

// is reports whether the next token is a keyword or symbol.
func (p *parser) is(text string) bool {
	return (p.tok.kind == tokWord || p.tok.kind == tokOp) && p.tok.text == text
}

func (p *parser) errorf(t token, hint, format string, args ...any) *Error {
	return &Error{Pos: t.pos, End: t.end, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// unexpected says that the next token cannot stand where it does.
func (p *parser) unexpected() *Error {
	t := p.tok
	src := p.lex.src[t.pos:t.end]
	switch {
	case t.kind == tokEOF && p.prev.end > 0:
		return p.errorf(t, "", "the filter ends too early, behind %q", p.lex.src[p.prev.pos:p.prev.end])
	case t.kind == tokEOF:
		return p.errorf(t, "", "the filter ends too early")
	case t.kind == tokClose:
		return p.errorf(t, "", "there is no ( for this )")
	case t.kind == tokWord && keywordHint(t.text) != "":
		return p.errorf(t, keywordHint(t.text), "%s does not belong here", quote(src))
	case t.kind == tokWord || t.kind == tokString:
		return p.errorf(t, "join tests by and, or", "%s does not belong here", quote(src))
	}
	return p.errorf(t, "", "%s does not belong here", quote(src))
}

// keywordHint helps with keywords in capitals.
func keywordHint(s string) string {
	switch s {
	case "AND", "OR", "NOT", "XOR", "IN", "EQ", "NE", "LT", "LE", "GT", "GE", "CONTAINS", "MATCHES":
		return "operators are written in small letters"
	}
	return ""
}

// nest counts one level of nesting.
func (p *parser) nest() *Error {
	if p.depth++; p.depth > maxDepth {
		return p.errorf(p.tok, "", "the filter nests deeper than %d levels", maxDepth)
	}
	return nil
}

// expr parses what binds more strongly than bind.
func (p *parser) expr(bind int) (*node, *Error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	left, err := p.prefix()
	for err == nil {
		b, kind := infix(p.tok)
		if b <= bind {
			break
		}
		switch kind {
		case nodeAnd, nodeOr, nodeXor:
			left, err = p.joined(left, b, kind)
		case nodeMask:
			left, err = p.mask(left)
		default:
			left, err = p.test(left)
		}
	}
	return left, err
}

// joined parses "left and x and y …" into one node.
func (p *parser) joined(left *node, bind int, kind nodeKind) (*node, *Error) {
	n := &node{kind: kind, pos: left.pos, kids: []*node{left}}
	for b := bind; b == bind; b, _ = infix(p.tok) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		x, err := p.expr(bind)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, x)
		n.end = x.end
	}
	return n, nil
}

func (p *parser) mask(left *node) (*node, *Error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	right, err := p.expr(bindMask)
	if err != nil {
		return nil, err
	}
	return &node{kind: nodeMask, pos: left.pos, end: right.end, kids: []*node{left, right}}, nil
}

// test parses one comparison, or a chain of them: a < b < c means a < b and
// b < c, as in Wireshark.
func (p *parser) test(left *node) (*node, *Error) {
	if p.is("in") || p.is("not") {
		return p.in(left)
	}
	var chain *node
	for {
		t := p.tok
		o := opNone
		if t.kind == tokOp || t.kind == tokWord {
			o = comparisons[t.text]
		}
		if o == opNone {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		right, err := p.expr(bindTest)
		if err != nil {
			return nil, err
		}
		n := &node{kind: nodeTest, op: o, pos: left.pos, end: right.end, kids: []*node{left, right}}
		left = right
		switch {
		case chain == nil:
			chain = n
		case chain.kind == nodeAnd:
			chain.kids, chain.end = append(chain.kids, n), n.end
		default:
			chain = &node{kind: nodeAnd, pos: chain.pos, end: n.end, kids: []*node{chain, n}}
		}
	}
	return chain, nil
}

// in parses "left in {…}", "left not in {…}" and, without braces, a single
// range.
func (p *parser) in(left *node) (*node, *Error) {
	negated := p.is("not")
	if negated {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if !p.is("in") {
			return nil, p.errorf(p.prev, "to join tests, write and not", `"not" does not belong here`)
		}
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n := &node{kind: nodeIn, op: opIn, pos: left.pos, kids: []*node{left}}
	if p.tok.kind != tokSet {
		x, err := p.member()
		if err != nil {
			return nil, err
		}
		if x.kind != nodeRange {
			return nil, errorAt(x, "in {1, 2..5}", "a set stands in braces")
		}
		n.kids, n.end = append(n.kids, x), x.end
	} else if err := p.set(n); err != nil {
		return nil, err
	}
	if negated {
		n = &node{kind: nodeNot, pos: n.pos, end: n.end, kids: []*node{n}}
	}
	return n, nil
}

func (p *parser) set(n *node) *Error {
	open := p.tok
	if err := p.advance(); err != nil {
		return err
	}
	if p.tok.kind == tokSetEnd {
		return &Error{Pos: open.pos, End: p.tok.end, Msg: "the set is empty"}
	}
	for {
		x, err := p.member()
		if err != nil {
			return err
		}
		n.kids = append(n.kids, x)
		switch p.tok.kind {
		case tokComma:
			if err := p.advance(); err != nil {
				return err
			}
		case tokSetEnd:
			n.end = p.tok.end
			return p.advance()
		case tokEOF:
			return p.errorf(open, "", "this { is never closed")
		default:
			return p.errorf(p.tok, "members of a set are separated by commas", "%s does not belong here", quote(p.lex.src[p.tok.pos:p.tok.end]))
		}
	}
}

// member parses a value or a range.
func (p *parser) member() (*node, *Error) {
	lo, err := p.literal()
	if err != nil || p.tok.kind != tokRange {
		return lo, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	hi, err := p.literal()
	if err != nil {
		return nil, err
	}
	return &node{kind: nodeRange, pos: lo.pos, end: hi.end, kids: []*node{lo, hi}}, nil
}

func (p *parser) literal() (*node, *Error) {
	kinds := map[tokenKind]nodeKind{tokWord: nodeWord, tokString: nodeString, tokChar: nodeChar}
	kind, ok := kinds[p.tok.kind]
	if !ok {
		return nil, p.unexpected()
	}
	t := p.tok
	if t.bad != 0 && comparisons[p.prev.text] != opMatches {
		return nil, &Error{
			Pos: t.bad, End: min(t.bad+2, t.end), Msg: "unknown escape in a string",
			Hint: `those that exist are \" \' \\ \a \b \f \n \r \t \v \xHH and \OOO`,
		}
	}
	return &node{kind: kind, pos: t.pos, end: t.end, text: t.text, raw: t.raw}, p.advance()
}

// prefix parses what can begin an expression, and the slices behind it.
func (p *parser) prefix() (n *node, err *Error) {
	t := p.tok
	switch {
	case p.is("not") || p.is("!"):
		if err := p.advance(); err != nil {
			return nil, err
		}
		x, err := p.expr(bindNot)
		if err != nil {
			return nil, err
		}
		return &node{kind: nodeNot, pos: t.pos, end: x.end, kids: []*node{x}}, nil
	case t.kind == tokOpen:
		if n, err = p.parens(); err != nil {
			return nil, err
		}
	case t.kind == tokWord:
		if bind, _ := infix(t); bind != bindNone {
			return nil, p.missing()
		}
		if n, err = p.word(); err != nil {
			return nil, err
		}
	case t.kind == tokOp || t.kind == tokClose && p.depth > 1:
		return nil, p.missing()
	default:
		if n, err = p.literal(); err != nil {
			return nil, err
		}
	}
	if p.tok.kind == tokSlice {
		n = &node{kind: nodeSlice, pos: n.pos, end: p.tok.end, text: p.tok.text, kids: []*node{n}}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if p.tok.kind == tokSlice {
		return nil, p.errorf(p.tok, "several ranges are written [0:2,4:2]", "a slice cannot be sliced")
	}
	return n, nil
}

// missing says that an operator has nothing to work on.
func (p *parser) missing() *Error {
	src := p.lex.src
	if p.prev.end == 0 {
		return p.errorf(p.tok, "", "there is nothing before %q", src[p.tok.pos:p.tok.end])
	}
	return p.errorf(p.tok, "", "something is missing between %q and %q", src[p.prev.pos:p.prev.end], src[p.tok.pos:p.tok.end])
}

func (p *parser) parens() (*node, *Error) {
	open := p.tok
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tokClose {
		return nil, &Error{Pos: open.pos, End: p.tok.end, Msg: "there is nothing between ( and )"}
	}
	n, err := p.expr(bindNone)
	if err != nil {
		return nil, err
	}
	switch p.tok.kind {
	case tokClose:
		return n, p.advance()
	case tokEOF:
		return nil, p.errorf(open, "", "this ( is never closed")
	}
	return nil, p.unexpected()
}

// word parses a name, a literal, a call or a quantifier.
func (p *parser) word() (*node, *Error) {
	t := p.tok
	n := &node{kind: nodeWord, pos: t.pos, end: t.end, text: t.text, raw: t.raw}
	if err := p.advance(); err != nil {
		return nil, err
	}
	quant := map[string]op{"any": opAny, "all": opAll}[t.text]
	switch {
	case quant != opNone && p.tok.kind == tokWord:
		if bind, _ := infix(p.tok); bind != bindNone {
			return n, nil
		}
		x, err := p.expr(bindTest)
		if err != nil {
			return nil, err
		}
		return &node{kind: nodeQuant, op: quant, pos: t.pos, end: x.end, kids: []*node{x}}, nil
	case p.tok.kind == tokOpen:
		return p.call(n)
	}
	return n, nil
}

func (p *parser) call(n *node) (*node, *Error) {
	open := p.tok
	n.kind = nodeCall
	if err := p.advance(); err != nil {
		return nil, err
	}
	for p.tok.kind != tokClose {
		x, err := p.expr(bindTest)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, x)
		switch p.tok.kind {
		case tokClose:
		case tokComma:
			if err := p.advance(); err != nil {
				return nil, err
			}
		case tokEOF:
			return nil, p.errorf(open, "", "this ( is never closed")
		default:
			return nil, p.unexpected()
		}
	}
	n.end = p.tok.end
	return n, p.advance()
}
