package html

import (
	"fmt"
	"html/template"
	"time"

	"github.com/rocescope/rocescope/internal/report"
)

// budgetParts are where a requester's time can go.
var budgetParts = []struct {
	class, name string
	of          func(*report.TimeBudget) int64
}{
	{"t-idle", "nothing to send", func(b *report.TimeBudget) int64 { return b.Application }},
	{"t-flight", "in flight", func(b *report.TimeBudget) int64 { return b.InFlight }},
	{"t-rnr", "receiver not ready", func(b *report.TimeBudget) int64 { return b.RNR }},
	{"t-timeout", "time-out", func(b *report.TimeBudget) int64 { return b.Timeout }},
	{"t-recovery", "recovery behind a NAK", func(b *report.TimeBudget) int64 { return b.Recovery }},
	{"t-credit", "no credit", func(b *report.TimeBudget) int64 { return b.Credit }},
	{"t-depth", "READ depth", func(b *report.TimeBudget) int64 { return b.ReadDepth }},
	{"t-congestion", "slowed by CNPs (estimated)", func(b *report.TimeBudget) int64 { return b.Congestion }},
	{"t-paused", "paused (estimated)", func(b *report.TimeBudget) int64 { return b.Paused }},
}

// budgetView is where the time of one requester went.
type budgetView struct {
	Title  string
	Total  string
	SVG    template.HTML
	Legend []legend
}

func newBudgetView(title string, b *report.TimeBudget) *budgetView {
	if b == nil || b.Total <= 0 {
		return nil
	}
	v := &budgetView{Title: title, Total: report.Duration(time.Duration(b.Total))}
	const width, height = 1000.0, 22.0
	var d drawing
	d.begin("budget", width, height, title, "preserveAspectRatio", "none")
	x := 0.0
	for _, p := range budgetParts {
		ns := p.of(b)
		if ns <= 0 {
			continue
		}
		w := float64(ns) / float64(b.Total) * width
		percent := 100 * float64(ns) / float64(b.Total)
		text := fmt.Sprintf("%s, %.0f %%", report.Duration(time.Duration(ns)), percent)
		if percent < 1 {
			text = report.Duration(time.Duration(ns)) + ", < 1 %"
		}
		d.rect(p.class, x, 0, max(w, 1), height, 0, p.name+": "+text)
		x += w
		v.Legend = append(v.Legend, legend{Class: p.class, Text: p.name, Count: text})
	}
	v.SVG = d.end()
	return v
}
