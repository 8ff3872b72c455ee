package dissect

import "testing"

func TestProblemsHaveDistinctSentences(t *testing.T) {
	seen := map[string]ProblemCode{}
	for c := ProblemNone; c < numProblems; c++ {
		text := c.String()
		if text == "" || text == "unknown problem" {
			t.Errorf("problem %d has no sentence", c)
		}
		if other, ok := seen[text]; ok {
			t.Errorf("problems %d and %d both say %q", other, c, text)
		}
		seen[text] = c
	}
	if numProblems.String() != "unknown problem" {
		t.Errorf("a problem beyond the last says %q", numProblems)
	}
}

// What the capture did, and what a network may do, is no fault of the frame.
func TestMalformedIsTheFramesOwnFault(t *testing.T) {
	for c := ProblemNone; c < numProblems; c++ {
		innocent := c == ProblemNone || c == ProblemCut || c == ProblemLinkType || c == ProblemFragment
		if c.Malformed() == innocent {
			t.Errorf("%v: Malformed is %v", c, c.Malformed())
		}
		var p Packet
		p.note(c, 3)
		if p.Malformed() == innocent {
			t.Errorf("packet with %v: Malformed is %v", c, p.Malformed())
		}
	}
}

func TestMoreProblemsThanAPacketRemembers(t *testing.T) {
	p := Packet{WireLen: 1 << 20}
	p.problems |= problemHeadersCut
	for i := range maxProblems + 3 {
		p.note(ProblemTVer+ProblemCode(i%2), i)
	}
	if got := len(p.Problems()); got != maxProblems {
		t.Errorf("%d problems, want %d", got, maxProblems)
	}
	if last := p.Problems()[maxProblems-1]; last.Offset != maxProblems+2 {
		t.Errorf("the last place holds %+v, want the newest", last)
	}
	if p.problems&problemHeadersCut == 0 {
		t.Error("noting problems lost the mark that headers are cut")
	}
	p.note(ProblemPad, 1<<20)
	if got := p.Problems()[maxProblems-1].Offset; got != 0xFFFF {
		t.Errorf("offset %#x, want saturation", got)
	}
	p.WireLen = 60
	p.note(ProblemPad, 64)
	if got := p.Problems()[maxProblems-1].Offset; got != 60 {
		t.Errorf("offset %d, want the end of the frame", got)
	}
}
