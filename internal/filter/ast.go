package filter

// nodeKind is what a node of the syntax tree is.
type nodeKind uint8

const (
	nodeWord   nodeKind = iota // a name or a literal: which, the checker decides
	nodeString                 // a literal in double quotes
	nodeChar                   // a literal in single quotes
	nodeSlice                  // kids[0] [text]
	nodeMask                   // kids[0] & kids[1]
	nodeCall                   // text(kids…)
	nodeQuant                  // any kids[0], all kids[0]: op says which
	nodeTest                   // kids[0] op kids[1]
	nodeIn                     // kids[0] in {kids[1:]…}
	nodeRange                  // kids[0] .. kids[1], in a set
	nodeNot                    // not kids[0]
	nodeAnd                    // kids[0] and kids[1] and …
	nodeXor
	nodeOr
)

// node is a node of the syntax tree. There is one type for all of them: the
// tree lives only between parser and checker.
type node struct {
	kind      nodeKind
	op        op
	pos, end  int // in the source
	text, raw string
	kids      []*node
}

// op is a comparison, or a quantifier.
type op uint8

const (
	opNone  op = iota
	opEq       // any occurrence equals
	opNe       // all occurrences differ
	opAllEq    // all occurrences equal
	opAnyNe    // any occurrence differs
	opLt
	opLe
	opGt
	opGe
	opContains
	opMatches
	opIn
	opAny
	opAll
)

// comparisons are the operators' spellings.
var comparisons = map[string]op{
	"==": opEq, "eq": opEq, "any_eq": opEq,
	"!=": opNe, "ne": opNe, "all_ne": opNe,
	"===": opAllEq, "all_eq": opAllEq,
	"!==": opAnyNe, "~=": opAnyNe, "any_ne": opAnyNe,
	"<": opLt, "lt": opLt,
	"<=": opLe, "le": opLe,
	">": opGt, "gt": opGt,
	">=": opGe, "ge": opGe,
	"contains": opContains,
	"matches":  opMatches, "~": opMatches,
}

// opText is how an operator is named in errors.
var opText = [...]string{
	opEq: "==", opNe: "!=", opAllEq: "===", opAnyNe: "!==", opLt: "<", opLe: "<=", opGt: ">", opGe: ">=",
	opContains: "contains", opMatches: "matches", opIn: "in", opAny: "any", opAll: "all",
}

func (o op) String() string { return opText[o] }

// ordered reports whether the operator asks for more or less.
func (o op) ordered() bool { return o >= opLt && o <= opGe }

// swapped is the operator with its sides exchanged.
func (o op) swapped() op {
	switch o {
	case opLt:
		return opGt
	case opLe:
		return opGe
	case opGt:
		return opLt
	case opGe:
		return opLe
	}
	return o
}
