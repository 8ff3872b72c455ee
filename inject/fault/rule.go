package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/filter"
)

// Way is one of the two that frames go: out of a port, or in. Of a bridge, out is from the first interface to the second.
type Way uint8

// The ways.
const (
	Out Way = iota
	In
)

func (w Way) String() string { return [...]string{"out", "in"}[w&1] }

// Other is the way back.
func (w Way) Other() Way { return w ^ 1 }

// selectors choose among the packets that a rule matches.
var selectors = []Param{
	{"name", "", "what reports call the rule; default is its action"},
	{"way", "both", "out, in or both; each way counts for itself"},
	{"nth", "", "those of these numbers, from 1: 3, or 3,7, or 5-8"},
	{"every", "", "every n-th of them"},
	{"count", "", "so many, and then no more"},
	{"probability", "", "each with this probability, from the seed"},
	{"after", "", "not before this time since the start: 2s"},
	{"before", "", "not later than this time since the start"},
}

// Selectors lists what, beside the filter, chooses the packets that a rule strikes.
func Selectors() []Param { return append([]Param(nil), selectors...) }

// Rule is what happens to which packets.
type Rule struct {
	Name  string
	Text  string // as it was written, or would be
	Fault string // the catalogue's, if it is one

	when        *filter.Filter
	pre         filter.Prefilter
	always      bool // there is no filter
	decodes     bool // the filter reads the packet
	ways        [2]bool
	nth         []span
	every       uint64
	count       uint64
	probability float64
	from, to    int64

	edits  []step
	fate   *fate
	adds   []step
	sends  int // frames of its own, at most, for each packet that it strikes
	grows  int
	recall int
	silent bool // the packet itself does not go on
}

// span is numbers from first to last.
type span struct{ first, last uint64 }

// Set is a list of rules with their seed.
type Set struct {
	Rules []*Rule
	Seed  uint64
}

// draft is a rule as it was written.
type draft struct {
	do       string            // actions
	fault    string            // or the catalogue's
	when     string            // filter
	selected map[string]string // by selector
}

// draftError is what is wrong with one part of a rule.
type draftError struct {
	key string // "do", "when", "fault" or a selector; "" = the whole
	err error
}

func (e *draftError) Error() string { return e.err.Error() }
func (e *draftError) Unwrap() error { return e.err }

func wrong(key, format string, v ...any) error { return &draftError{key, fmt.Errorf(format, v...)} }

// compile makes a rule of a draft.
func (d *draft) compile() (*Rule, error) {
	r := &Rule{Fault: d.fault, ways: [2]bool{true, true}}
	if err := r.actions(d.do); err != nil {
		return nil, err
	}
	if err := r.choose(d.selected); err != nil {
		return nil, err
	}
	var err error
	if r.when, err = filter.Compile(d.when); err != nil {
		var e *filter.Error
		if errors.As(err, &e) {
			return nil, wrong("when", "%w\n  %s", err, strings.ReplaceAll(e.Caret(), "\n", "\n  "))
		}
		return nil, wrong("when", "%w", err)
	}
	if r.when.Needs() > filter.NeedFlow {
		return nil, wrong("when", "%q asks for what is known only at the end of a capture; a rule has to decide at once", d.when)
	}
	r.pre, r.always = r.when.Prefilter(), d.when == ""
	for _, f := range r.when.Fields() {
		if slices.ContainsFunc(dissect.LookupField(f), func(f *dissect.Field) bool { return f.Layer.Upper() }) {
			return nil, wrong("when", "%s is of a protocol that is known of a conversation, not of a packet; a rule sees packets", f)
		}
		if !strings.HasPrefix(f, "flow.") && !strings.HasPrefix(f, "msg.") {
			r.decodes = true
		}
	}
	r.Text = d.text()
	if r.Name == "" {
		if r.Name = d.fault; r.Name == "" {
			r.Name = strings.Fields(d.do)[0]
		}
	}
	return r, nil
}

// text is the draft in words.
func (d *draft) text() string {
	parts := []string{d.do}
	for _, s := range selectors {
		if v, ok := d.selected[s.Name]; ok {
			parts = append(parts, s.Name+"="+quoted(v))
		}
	}
	if d.when != "" {
		parts = append(parts, "when "+d.when)
	}
	return strings.Join(parts, " ")
}

func quoted(v string) string {
	if strings.ContainsAny(v, " \t\"") {
		return strconv.Quote(v)
	}
	return v
}

// actions reads the actions and puts them together.
func (r *Rule) actions(text string) error {
	words, err := split(text)
	if err != nil {
		return wrong("do", "%w", err)
	}
	var steps []step
	for _, part := range parts(words) {
		s, err := readAction(part)
		if err != nil {
			return wrong("do", "%w", err)
		}
		steps = append(steps, s)
	}
	return r.combine(steps)
}

// readAction reads one action with its parameters.
func readAction(words []word) (step, error) {
	if len(words) == 0 || words[0].key != "" {
		return step{}, fmt.Errorf("an action has to come first: %s", strings.Join(actionNames(), ", "))
	}
	name := words[0].value
	action := findAction(name)
	if action == nil {
		return step{}, fmt.Errorf("there is no action %s%s; there are %s", name, near(name, actionNames()), strings.Join(actionNames(), ", "))
	}
	a := args{action: action, values: map[string]string{}}
	for _, w := range words[1:] {
		_, twice := a.values[w.key]
		switch {
		case w.key == "":
			a.fail("%q is not of the form parameter=value", w.value)
		case twice:
			a.fail("%s= is there twice", w.key)
		case byName(action.Params, w.key) >= 0:
			a.values[w.key] = w.value
		case action.Fields && (strings.Contains(w.key, ".") || hasField(w.key)):
			a.fields = append(a.fields, w)
		default:
			a.fail("there is no parameter %s%s", w.key, near(w.key, paramNames(action)))
		}
	}
	s, err := action.make(&a)
	s.action = action
	return s, err
}

func hasField(name string) bool {
	_, err := findField(name)
	return err == nil
}

// combine sorts the actions by their kinds, and refuses what cannot go together.
func (r *Rule) combine(steps []step) error {
	fateName := ""
	for i := range steps {
		s := &steps[i]
		switch s.action.Kind {
		case Edit:
			r.edits = append(r.edits, *s)
		case Fate:
			if r.fate != nil {
				return wrong("do", "%s and %s cannot both be the packet's fate", fateName, s.action.Name)
			}
			r.fate, fateName = s.fate, s.action.Name
		case Add:
			r.adds = append(r.adds, *s)
		}
		r.sends += s.sends
		r.grows += s.grows
		r.recall = max(r.recall, s.recall)
		r.silent = r.silent || s.takes
	}
	switch {
	case r.silent && (r.fate != nil || len(r.edits) > 0):
		return wrong("do", "place=instead lets the packet not go on, so that nothing else can be done with it")
	case r.fate != nil && r.fate.kind == fateDrop && len(r.edits) > 0:
		return wrong("do", "%s and drop contradict each other: nobody gets to see a packet that is lost", r.edits[0].action.Name)
	}
	if len(r.edits) > 0 || r.fate.holds() {
		r.sends++
	}
	return nil
}

// choose reads the selectors.
func (r *Rule) choose(given map[string]string) error {
	r.Name = given["name"]
	if way, ok := given["way"]; ok {
		switch way {
		case "out", "in":
			r.ways = [2]bool{way == "out", way == "in"}
		case "both":
		default:
			return wrong("way", "way=%s cannot be; there are out, in and both", way)
		}
	}
	var err error
	if text, ok := given["nth"]; ok {
		if r.nth, err = parseSpans(text); err != nil {
			return wrong("nth", "nth=%s cannot be; it is numbers from 1 on: 3, or 3,7, or 5-8", text)
		}
	}
	for key, to := range map[string]*uint64{"every": &r.every, "count": &r.count} {
		if text, ok := given[key]; ok {
			if *to, err = strconv.ParseUint(text, 0, 64); err != nil || *to == 0 {
				return wrong(key, "%s=%s cannot be; it is a number from 1 on", key, text)
			}
		}
	}
	if text, ok := given["probability"]; ok {
		if r.probability, err = parseProbability(text); err != nil {
			return wrong("probability", "probability=%s cannot be; it is above 0 and at most 1, or 1%% for instance", text)
		}
	}
	for key, to := range map[string]*int64{"after": &r.from, "before": &r.to} {
		if text, ok := given[key]; ok {
			var d time.Duration
			if d, err = parseTime(text); err != nil || d < 0 {
				return wrong(key, "%s=%s cannot be; it is a time since the start: 2s, 500ms", key, text)
			}
			*to = int64(d)
		}
	}
	return r.contradictions(given)
}

// contradictions refuses selectors of which one leaves the other nothing to say.
func (r *Rule) contradictions(given map[string]string) error {
	for _, pair := range [][2]string{{"nth", "every"}, {"nth", "probability"}, {"nth", "count"}, {"every", "probability"}} {
		_, first := given[pair[0]]
		if _, second := given[pair[1]]; first && second {
			return wrong(pair[1], "%s and %s contradict each other: each says which packets are struck", pair[0], pair[1])
		}
	}
	if r.to > 0 && r.from >= r.to {
		return wrong("before", "after=%s and before=%s contradict each other: no time is left", given["after"], given["before"])
	}
	if text, ok := given["before"]; ok && r.to == 0 {
		return wrong("before", "before=%s leaves no time", text)
	}
	return nil
}

func parseSpans(text string) (spans []span, err error) {
	for _, part := range strings.Split(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			high = low
		}
		var s span
		if s.first, err = strconv.ParseUint(strings.TrimSpace(low), 10, 63); err != nil {
			return nil, err
		}
		if s.last, err = strconv.ParseUint(strings.TrimSpace(high), 10, 63); err != nil {
			return nil, err
		}
		if s.first == 0 || s.last < s.first {
			return nil, strconv.ErrRange
		}
		spans = append(spans, s)
	}
	return spans, nil
}

func parseProbability(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err == nil && !(v > 0 && v <= 1) {
		err = strconv.ErrRange
	}
	return v, err
}

// On reports whether the rule is about a way.
func (r *Rule) On(w Way) bool { return r.ways[w] }

// Tracks reports whether the rule's filter asks for what tracking knows: flow.* and msg.*.
func (r *Rule) Tracks() bool { return r.when.Needs() >= filter.NeedFlow }

// back reports whether it sends anything the other way.
func (r *Rule) back() bool {
	for i := range r.adds {
		if r.adds[i].back {
			return true
		}
	}
	return false
}
