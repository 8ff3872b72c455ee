package filter

import (
	"errors"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/flows"
)

// FuzzFilter compiles anything, matches it against anything, completes it and
// prints what is wrong with it.
func FuzzFilter(f *testing.F) {
	bases := make([]*shot, len(examples))
	for i, e := range examples {
		bases[i] = e.make(f)
	}
	eachExample(func(_ string, _ func(testing.TB) *shot, src string, _ bool) { f.Add(src, bases[0].frame, uint32(1)) })
	for i, src := range wrong {
		f.Add(src, bases[i%len(bases)].frame, uint32(i))
	}
	f.Fuzz(func(t *testing.T, src string, frame []byte, bits uint32) {
		for _, c := range Complete(src) {
			if c.Start > len(src) {
				t.Fatalf("a completion starts at %d of %q", c.Start, src)
			}
		}
		if col, err := LookupColumn(src); err == nil {
			col.Append(nil, &bases[0].p, bases[0].frame, nil, nil)
		}
		flt, err := Compile(src)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Pos < 0 || e.End < e.Pos || e.End > len(src) || e.Source != src {
				t.Fatalf("%q: %#v", src, err)
			}
			if strings.Contains(e.Error(), "\n") || strings.Count(e.Caret(), "\n") != 1 || len(e.Caret()) > 1500 {
				t.Fatalf("%q: %q\n%s", src, e.Error(), e.Caret())
			}
			return
		}
		m := &flows.Mark{Bits: flows.MarkBits(bits), Conn: bits >> 16, Message: bits}
		o := &flows.Outcome{Findings: []flows.FindingID{flows.FindingID(bits)}, Severity: flows.Severity(bits)}
		pre := flt.Prefilter()
		for _, s := range append([]*shot{decode(frame, len(frame)), decode(frame, len(frame)+100)}, bases...) {
			s := *s
			match := flt.MatchEnd(&s.p, s.frame, m, o)
			if match && !pre.May(&s.p) {
				t.Fatalf("%q matches what its prefilter rejects", src)
			}
			if match != flt.MatchEnd(&s.p, s.frame, m, o) {
				t.Fatalf("%q changes its mind", src)
			}
			flt.Match(&s.p, s.frame, nil)
		}
	})
}
