package filter

import (
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Need is what a filter has to be given.
type Need uint8

// The needs, each including those before it.
const (
	NeedPacket Need = iota // the decoded packet and its bytes
	NeedFlow               // also the Mark that tracking fills
	NeedEnd                // also the Outcome, known when the whole capture was seen: a second pass
)

var needNames = [...]string{"packet", "flow", "end"}

func (n Need) String() string { return needNames[n%3] }

// Filter is a compiled filter. It may be used by several goroutines at once.
type Filter struct {
	src    string
	match  matcher
	need   Need
	icrc   bool
	fields []string
	pre    Prefilter
}

// Compile compiles a filter. An empty one matches everything. The error, if
// any, is an *Error.
func Compile(src string) (*Filter, error) {
	f := &Filter{src: src, match: always, pre: everything}
	if strings.TrimSpace(src) == "" {
		return f, nil
	}
	n, err := parse(src)
	c := checker{seen: map[string]bool{}}
	var x cond
	if err == nil {
		x, err = c.cond(n)
	}
	if err != nil {
		err.Source = src
		return nil, err
	}
	f.match = compile(x)
	f.need, f.icrc, f.fields = c.need, c.icrc, c.fields
	f.pre = prefilter(x)
	return f, nil
}

// Match reports whether a packet passes. frame is what p was decoded from; m
// may be nil unless Needs says otherwise. Fields that are known at the end
// only are not there: see MatchEnd.
func (f *Filter) Match(p *dissect.Packet, frame []byte, m *flows.Mark) bool {
	return f.match(p, frame, m, nil)
}

// MatchEnd is Match in a second pass, when it is known what became of the
// packet's message.
func (f *Filter) MatchEnd(p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) bool {
	return f.match(p, frame, m, o)
}

// Needs says what Match has to be given.
func (f *Filter) Needs() Need { return f.need }

// NeedsICRC reports whether the answer depends on the ICRC having been
// checked: by the field that shows the verdict, or by tracking, which takes no
// notice of damaged packets.
func (f *Filter) NeedsICRC() bool { return f.icrc }

// Fields returns the names of the fields that the filter reads, each once,
// with "infiniband." in front where it was left out. The slice is not to be
// changed.
func (f *Filter) Fields() []string { return f.fields }

// String returns the filter's source.
func (f *Filter) String() string { return f.src }
