package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const events = `
{"Action":"start","Package":"github.com/rocescope/rocescope/dissect"}
{"Action":"run","Package":"github.com/rocescope/rocescope/dissect","Test":"TestGood"}
{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"github.com/rocescope/rocescope/dissect","Test":"TestGood","Elapsed":0}
{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestAbsent","Output":"=== RUN   TestAbsent\n"}
{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestAbsent","Output":"    x_test.go:12: tshark is not installed\n"}
{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestAbsent","Output":"--- SKIP: TestAbsent (0.00s)\n"}
{"Action":"skip","Package":"github.com/rocescope/rocescope/dissect","Test":"TestAbsent"}
{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestBad","Output":"    x_test.go:20: one is not two\n"}
{"Action":"fail","Package":"github.com/rocescope/rocescope/dissect","Test":"TestBad"}
{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Output":"FAIL\tgithub.com/rocescope/rocescope/dissect\t0.1s\n"}
{"Action":"fail","Package":"github.com/rocescope/rocescope/dissect"}
{"ImportPath":"github.com/rocescope/rocescope/flows","Action":"build-output","Output":"flows/x.go:1:1: syntax error\n"}
{"ImportPath":"github.com/rocescope/rocescope/flows","Action":"build-fail"}
{"Action":"fail","Package":"github.com/rocescope/rocescope/flows","FailedBuild":"github.com/rocescope/rocescope/flows"}
`

func TestSummary(t *testing.T) {
	var shown, told bytes.Buffer
	s := read(strings.NewReader(events), &shown)
	for _, want := range []string{"one is not two", "FAIL\tgithub.com/rocescope/rocescope/dissect", "syntax error"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, shown.String())
		}
	}
	if refused := s.print(&told, true, time.Second); refused != 1 {
		t.Errorf("%d skips refused in CI, want 1", refused)
	}
	for _, want := range []string{
		"skipped: tshark is not installed [NOT ALLOWED", "dissect.TestAbsent", "FAILED:  dissect.TestBad",
		"FAILED:  flows (does not build)", "1 tests passed, 1 skipped, 2 failed",
	} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%q is missing in the summary:\n%s", want, told.String())
		}
	}
	if refused := s.print(&told, false, time.Second); refused != 0 {
		t.Errorf("%d skips refused on somebody's own machine", refused)
	}
}

func TestExcuse(t *testing.T) {
	t.Setenv("ROCESCOPE_CAPTURES", "")
	if _, ok := excuse("ROCESCOPE_CAPTURES is not set"); !ok {
		t.Error("missing captures are not excused where there are none")
	}
	t.Setenv("ROCESCOPE_CAPTURES", "/somewhere")
	if _, ok := excuse("ROCESCOPE_CAPTURES is not set"); ok {
		t.Error("missing captures are excused where there are some")
	}
}
