package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rocescope/rocescope/inject/shadow"
	"github.com/rocescope/rocescope/internal/report"
)

// shadowDocument is the result as JSON, schema rocescope.shadow/1.
type shadowDocument struct {
	Schema string `json:"schema"`
	*shadow.Report
}

// shadowResponder runs `rocescope analyze --shadow-responder`.
func (a *app) shadowResponder(files []string, qpn uint32, json bool) error {
	if len(files) != 1 {
		return errUsage("--shadow-responder needs one capture file")
	}
	c, err := readConversation(files[0], qpn)
	if err != nil {
		return err
	}
	r, err := shadow.Run(c)
	if err != nil {
		return errInput("%s: %w", files[0], err)
	}
	if json {
		err = a.printJSON(shadowDocument{"rocescope.shadow/1", r})
	} else {
		err = a.printShadow(r, c.ResponderQPN, c.Responder.String())
	}
	if err == nil && r.Difference != nil {
		err = errJudged("frame %d is not what the software RNIC answers", r.Difference.Frame)
	}
	return err
}

func (a *app) printShadow(r *shadow.Report, qpn uint32, addr string) error {
	out := a.stdout
	fmt.Fprintf(out, "QP 0x%06x at %s: %s given to the software RNIC, %s compared\n", qpn, addr, report.Plural(uint64(r.Requests), "request"), report.Plural(uint64(r.Compared), "answer"))
	for _, why := range slices.Sorted(maps.Keys(r.Allowed)) {
		fmt.Fprintf(out, "%14d  with %s, as a responder may\n", r.Allowed[why], why)
	}
	if r.Ended != "" {
		fmt.Fprintf(out, "ended before the capture did: %s\n", r.Ended)
	}
	d := r.Difference
	if d == nil {
		_, err := fmt.Fprintln(out, "no difference")
		return err
	}
	_, err := fmt.Fprintf(out, "the first difference is frame %d, PSN 0x%06x (the newest request before it is frame %d):\n", d.Frame, uint32(d.PSN), d.Request)
	for _, f := range d.Fields {
		_, err = fmt.Fprintf(out, "  %-16s the capture has %s, the software RNIC %s\n", f.Name, f.Captured, f.Shadow)
	}
	return err
}
