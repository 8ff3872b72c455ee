package html

import (
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/report"
)

// carries says which upper protocol a connection carried, and what was asked and answered; "" without one.
func carries(u *report.ConnectionUpper) string {
	if u == nil {
		return ""
	}
	name := u.Protocol
	if p, ok := dissect.UpperByKey(name); ok {
		name = p.String()
	}
	if u.Queue != nil {
		name += fmt.Sprintf(", queue %d", *u.Queue)
	}
	text := "Carries " + name
	if u.KnownBy != "" {
		text += " (known by: " + u.KnownBy + ")"
	}
	var sides []string
	for _, s := range []struct {
		name string
		r    *report.UpperRequests
	}{{"a", &u.AToB}, {"b", &u.BToA}} {
		if side := asked(s.name, s.r); side != "" {
			sides = append(sides, side)
		}
	}
	if len(sides) > 0 {
		text += ": " + strings.Join(sides, "; ")
	}
	return text
}

// asked is what one side asked for, and what became of it.
func asked(side string, r *report.UpperRequests) string {
	if r.Requests+r.Answers+r.DataTransfers == 0 {
		return ""
	}
	text := fmt.Sprintf("%s sent %s and %s", side, report.Plural(r.Requests, "request"), report.Plural(r.Answers, "answer"))
	if r.Failed > 0 {
		text += fmt.Sprintf(", %s of which told an error", report.Count(r.Failed))
	}
	if l := r.Latency; l != nil {
		text += fmt.Sprintf(", %s after the request on average (%s to %s)", report.Duration(time.Duration(l.Mean)), report.Duration(time.Duration(l.Min)), report.Duration(time.Duration(l.Max)))
	}
	if r.DataTransfers > 0 {
		text += ", and moved data " + report.Plural(r.DataTransfers, "time")
	}
	return text
}
