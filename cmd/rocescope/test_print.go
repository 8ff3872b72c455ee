package main

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/inject/suite"
)

// testPrinter tells how a run goes.
type testPrinter struct {
	a    *app
	o    *testOptions
	line line
}

func newTestPrinter(a *app, o *testOptions) *testPrinter {
	return &testPrinter{a: a, o: o, line: a.newLine()}
}

// progress tells of a case that begins or has ended.
func (p *testPrinter) progress(done, total int, c *suite.CaseResult) {
	if c.Status == "" {
		if !p.line.terminal {
			return // a line for each case would be noise
		}
		p.line.show(fmt.Sprintf("%d of %d: %s %s", done+1, total, c.ID, c.Title))
		return
	}
	if p.o.json || !p.o.verbose && (c.Status == suite.Passed || c.Status == suite.Skipped) {
		return
	}
	p.line.clear()
	s := p.a.styles()
	name := string(c.Status)
	switch {
	case c.Status.Bad():
		name = s.bad(name)
	case c.Status != suite.Passed:
		name = s.warning(name)
	}
	fmt.Fprintf(p.a.stdout, "%s  %s  %s\n", name, s.bold(c.ID), c.Title)
	for line := range strings.Lines(c.Text()) {
		if !strings.HasPrefix(line, "status") {
			fmt.Fprint(p.a.stdout, "    "+line)
		}
	}
	_ = p.a.stdout.Flush() // an error comes again at the end
}

// end prints the result.
func (p *testPrinter) end(res *suite.Result) error {
	p.line.clear()
	if p.o.json {
		return res.WriteJSON(p.a.stdout)
	}
	t := table{columns: []string{"status", "case", "device", "title", "seen"}}
	for i := range res.Cases {
		c := &res.Cases[i]
		if c.Status == suite.Passed || c.Status == suite.Skipped && !p.o.verbose {
			continue
		}
		t.add("", string(c.Status), c.ID, c.Role, c.Title, c.Seen)
	}
	if len(t.rows) > 0 {
		if err := p.a.printTable(&t); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.a.stdout, "%s: %s\n", res.Target, res.Summary())
	return err
}

// listCases lists the cases, or writes docs/conformance.md.
func (a *app) listCases(o *testOptions) error {
	s, err := o.scenario()
	if err != nil {
		return err
	}
	so, err := o.options()
	if err != nil {
		return err
	}
	if o.markdown {
		text, err := suite.ConformancePage()
		if err != nil {
			return err
		}
		_, err = a.stdout.Write([]byte(text))
		return err
	}
	list, err := s.Select(&so)
	if err != nil {
		return errUsage("%w", err)
	}
	t := table{columns: []string{"case", "device", "tier", "title", "required"}}
	for _, c := range list {
		t.add("", c.ID, c.Role, c.Tier, c.Title, c.Required)
	}
	return a.printTable(&t)
}
