//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// measureFor is how long processor time is looked at.
const measureFor = 10 * time.Second

// costs is what the open screen takes of a core while nothing moves.
func costs(b *bench) ([]page.Row, error) {
	t, err := openTerminal(b.binary, "tui", b.file)
	if isMissing(err) {
		return []page.Row{{What: "cost of the screen", Ours: err.Error(), Met: page.NotMeasured}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer t.close()
	if _, err := t.indexed(b); err != nil {
		return nil, err
	}
	var out []page.Row
	for _, c := range []struct{ key, what string }{{"1", "overview with charts"}, {"4", "packet list"}} {
		part, err := t.share(c.key)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Row{What: "a finished file on the screen, " + c.what + ", of a core", Ours: percent(part), Goal: "≤ 2 %", Met: page.Judge(part <= 0.02)})
	}
	return out, nil
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", part*100) }

// share presses keys and looks at how much of a core the program takes then.
func (t *terminal) share(keys ...string) (float64, error) {
	if err := t.keys(keys...); err != nil {
		return 0, err
	}
	time.Sleep(2 * time.Second)
	before, began := t.cpu(), time.Now()
	time.Sleep(measureFor)
	return float64(t.cpu()-before) / float64(time.Since(began)), nil
}
