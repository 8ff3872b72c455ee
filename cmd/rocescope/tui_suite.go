package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui"
)

// suiteScreen is a suite while it runs, for the screen. The suite's goroutine tells it how things stand; the screen asks.
type suiteScreen struct {
	mu     sync.Mutex
	total  int
	cases  []tui.Case
	counts map[suite.Status]int
	goOn   chan struct{} // closed to go on; nil while it does
}

// newestPackets is how many packets of the running case are shown.
const newestPackets = 200

// caseVerdicts are what statuses mean; all others are noted.
var caseVerdicts = map[suite.Status]tui.Verdict{
	suite.Passed: tui.CasePassed, suite.Failed: tui.CaseFailed, suite.Hung: tui.CaseFailed, suite.Broken: tui.CaseFailed, suite.Skipped: tui.CaseSkipped,
}

// progress is told of each case before it begins and when it has ended. Where the suite is paused, the next case waits.
func (v *suiteScreen) progress(ctx context.Context, total int, c *suite.CaseResult) {
	name := c.ID
	if c.Round > 0 {
		name += fmt.Sprintf(" (%d)", c.Round)
	}
	v.mu.Lock()
	v.total = total
	if c.Status != "" {
		k := tui.Case{
			Name: name, Title: c.Title, Verdict: tui.CaseNoted, Status: string(c.Status), Took: time.Duration(c.Took),
			Required: c.Required, Seen: c.Seen, Why: c.Why, Rule: c.Rule, Again: c.Reproduce, Packets: casePackets(c.Packets), Capture: c.Capture,
		}
		if verdict, ok := caseVerdicts[c.Status]; ok {
			k.Verdict = verdict
		}
		v.cases[len(v.cases)-1] = k
		v.counts[c.Status]++
		v.mu.Unlock()
		return
	}
	wait := v.goOn
	v.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cases = append(v.cases, tui.Case{Name: name, Title: c.Title, Status: "runs", Required: c.Required, Rule: c.Rule})
}

func casePackets(list []suite.Packet) (all []tui.CasePacket) {
	for _, p := range list {
		all = append(all, casePacket(p))
	}
	return all
}

func casePacket(p suite.Packet) tui.CasePacket {
	return tui.CasePacket{Number: p.Frame, Time: time.Duration(p.Time), Ours: p.From == "us", Text: p.Text}
}

// seen is told of a packet of the case that runs.
func (v *suiteScreen) seen(p suite.Packet) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := &v.cases[len(v.cases)-1]
	if len(k.Packets) >= 2*newestPackets {
		k.Packets = append([]tui.CasePacket(nil), k.Packets[newestPackets:]...)
	}
	k.Packets = append(k.Packets, casePacket(p))
}

// hold lets the next case wait, or go on.
func (v *suiteScreen) hold(pause bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if pause {
		v.goOn = make(chan struct{})
	} else {
		close(v.goOn)
		v.goOn = nil
	}
}

func (v *suiteScreen) fill(st *tui.Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	st.Cases, st.Total = append([]tui.Case(nil), v.cases...), v.total
	ended := len(v.cases)
	if ended > 0 && v.cases[ended-1].Verdict == tui.CaseRuns {
		if st.State == tui.Paused || st.State == tui.Running {
			st.Facts = append(st.Facts, tui.Fact{Name: "runs", Value: v.cases[ended-1].Name + ": " + v.cases[ended-1].Title})
		}
		ended--
	} else if st.State == tui.Paused {
		st.Facts = append(st.Facts, tui.Fact{Name: "waits", Value: "the next case, until it goes on"})
	}
	var words []string
	for _, s := range suite.Statuses {
		if n := v.counts[s]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, s))
		}
	}
	bad := v.counts[suite.Failed]+v.counts[suite.Hung]+v.counts[suite.Broken] > 0
	if v.total > 0 {
		st.Done = float64(ended) / float64(v.total)
		st.Facts = append(st.Facts, tui.Fact{Name: "cases", Value: fmt.Sprintf("%s of %s: %s", report.Count(uint64(ended)), report.Count(uint64(v.total)), strings.Join(words, ", ")), Bad: bad})
	}
}

// testOnScreen runs a suite while the screen is open. Every case's packets are kept, for the screen to open, until it is left.
func (a *app) testOnScreen(ctx context.Context, o *testOptions, target suite.Target, s *suite.Scenario, so suite.Options) (res *suite.Result, err error) {
	if so.Captures == "" {
		if so.Captures, err = os.MkdirTemp("", "rocescope-test"); err != nil {
			return nil, err
		}
		defer func() {
			err = errors.Join(err, os.RemoveAll(so.Captures))
			for i := 0; res != nil && i < len(res.Cases); i++ {
				res.Cases[i].Capture = ""
			}
		}()
	}
	v := &suiteScreen{counts: map[suite.Status]int{}}
	var failed error
	c := &steered{title: s.Name + " against " + target.Name(), fill: v.fill, hold: v.hold}
	c.begin = func(ctx context.Context) error {
		so.Progress = func(_, total int, r *suite.CaseResult) { v.progress(ctx, total, r) }
		so.Seen = v.seen
		if res, failed = suite.Execute(ctx, target, s, so); ctx.Err() != nil {
			failed = errInterrupted
			return nil
		}
		return failed
	}
	if err := a.onScreen(ctx, &o.screen, c, true); err != nil && failed == nil {
		return res, err
	}
	return res, failed
}
