package main

import (
	"bytes"
	"errors"
	"slices"
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

// TestAgain: tests that fail are run again by themselves, but only where that
// can be an answer.
func TestAgain(t *testing.T) {
	const bad = `
{"Action":"pass","Package":"github.com/rocescope/rocescope/dissect","Test":"TestGood"}
{"Action":"fail","Package":"github.com/rocescope/rocescope/dissect","Test":"TestBad/one"}
{"Action":"fail","Package":"github.com/rocescope/rocescope/dissect","Test":"TestBad"}
{"Action":"fail","Package":"github.com/rocescope/rocescope/dissect"}
`
	const race = `{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestBad","Output":"WARNING: DATA RACE\n"}
`
	const dead = `{"Action":"output","Package":"github.com/rocescope/rocescope/dissect","Test":"TestLong","Output":"panic: no\n"}
`
	for _, test := range []struct {
		name, events string
		second       error
		runs         int
		good         bool
	}{
		{"passes alone", bad, nil, 1, true},
		{"fails again", bad, errors.New("exit status 1"), 1, false},
		{"a data race", race + bad, nil, 0, false},
		{"the process died", dead + bad, nil, 0, false},
		{"does not build", events, nil, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, runs := read(strings.NewReader(test.events), &bytes.Buffer{}), 0
			good := s.again([]string{"-race", "./..."}, func(args ...string) error {
				runs++
				if want := []string{"-race", "-count=1", "-run=^TestBad$", "github.com/rocescope/rocescope/dissect"}; !slices.Equal(args, want) {
					t.Errorf("go test %q", args)
				}
				return test.second
			})
			var told bytes.Buffer
			s.print(&told, true, time.Second)
			if good != test.good || runs != test.runs || good != (s.failed == 0) || good != strings.Contains(told.String(), "UNSTEADY: dissect.TestBad ") {
				t.Errorf("%v after %d runs:\n%s", good, runs, told.String())
			}
		})
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
