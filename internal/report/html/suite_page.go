package html

import (
	"fmt"
	"html/template"
	"io"

	"github.com/rocescope/rocescope/internal/report"
)

type suitePage struct {
	head
	Cases    []caseView
	Statuses []statusCount
}

type statusCount struct {
	Status Status
	Look   string
	Count  int
}

type caseView struct {
	Case
	Anchor string
	Look   string
	Letter string
	Open   bool
	Ladder template.HTML
}

// Write writes the page.
func (s *Suite) Write(w io.Writer) error {
	p := &suitePage{head: head{
		Parts: []fact{{"Cases", "table"}, {"Verdicts", "cases"}, {"The run", "capture"}},
		Title: s.Name, Generator: Generator, Version: s.Version, Verdict: s.Verdict, About: s.About, Limits: s.Limits, Grave: "ok",
	}}
	for _, f := range s.Facts {
		p.Facts = append(p.Facts, fact(f))
	}
	for _, status := range statuses {
		n := 0
		for i := range s.Cases {
			c := &s.Cases[i]
			if c.Status != status.status {
				continue
			}
			n++
			v := caseView{Case: *c, Anchor: fmt.Sprintf("case-%d", i+1), Look: status.look, Letter: status.letter, Open: status.look == "error" && n <= 3}
			v.Ladder = c.ladder()
			p.Cases = append(p.Cases, v)
		}
		if n > 0 {
			p.Statuses = append(p.Statuses, statusCount{status.status, status.look, n})
			class := map[string]string{"error": "bad", "warning": "warn"}[status.look]
			p.Tiles = append(p.Tiles, tile{string(status.status), report.Count(uint64(n)), percent(uint64(n), uint64(len(s.Cases))) + " of cases", class})
		}
	}
	for _, f := range s.Tiles {
		p.Tiles = append(p.Tiles, tile{Name: f.Name, Value: f.Value})
	}
	switch {
	case len(p.Cases) == 0:
		p.Grave = "none"
	case p.Statuses[0].Look == "error" || p.Statuses[0].Look == "warning":
		p.Grave = p.Statuses[0].Look
	}
	return execute(w, "suite", p)
}

// shortened cuts a text off that has no room.
func shortened(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return string(letters[:most-1]) + "…"
}

func (c *Case) ladder() template.HTML {
	if len(c.Packets) == 0 {
		return ""
	}
	rungs := make([]rung, len(c.Packets))
	for i := range c.Packets {
		p := &c.Packets[i]
		rungs[i] = rung{at: p.At, right: !p.FromDevice, label: p.Label, note: shortened(p.Note, 37), full: p.Text, class: p.Class, flag: p.Decides}
		if p.Frame > 0 {
			rungs[i].frame = fmt.Sprint(p.Frame)
		}
	}
	return drawLadder("Packets of "+c.ID, c.Left, c.Right, rungs, 0)
}
