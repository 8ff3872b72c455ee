package report

import (
	"fmt"
	"path/filepath"
	"strings"
)

// counters is the section on a device's counters: those that moved or should have, and a sentence on each that does not
// agree.
func (t *summary) counters() {
	c := t.d.Counters
	if c == nil {
		return
	}
	title := "Counters of " + strings.Join(c.Host, " and ")
	if c.Device != "" {
		title += " (" + c.Device + ")"
	}
	t.section(title)
	if c.Chosen {
		t.paragraph("  ", "They fit this host and no other; --counters-host says otherwise.", dim)
	}
	tab := &table{columns: []column{
		{title: "counter", key: true},
		{title: "moved by", right: true},
		{title: "predicted", right: true},
		{title: "difference", right: true},
		{title: "verdict"},
	}}
	var still, internal, unknown []string
	var notes []Counter
	for _, n := range c.List {
		switch {
		case n.Verdict == counterAgrees && *n.Delta == 0:
			still = append(still, n.Name)
			continue
		case n.Verdict == counterInternal:
			if *n.Delta > 0 {
				internal = append(internal, n.Name)
			}
			continue
		case n.Verdict == counterUnknown:
			unknown = append(unknown, fmt.Sprintf("%s (+%s)", n.Name, Count(*n.Delta)))
			continue
		}
		row := []cell{text(ascii(n.Name)), {}, {}, {}, painted(counterPaint(n.Verdict), n.Verdict)}
		if n.Delta != nil {
			row[1] = text(Count(*n.Delta))
		}
		if n.Predicted != nil {
			row[2] = text(Count(*n.Predicted))
		}
		if n.Difference != nil && *n.Difference != 0 {
			sign := "+"
			if *n.Difference < 0 {
				sign = "-"
			}
			row[3] = text(sign + Count(uint64(max(*n.Difference, -*n.Difference))))
		}
		tab.add(row...)
		if n.Why != "" {
			notes = append(notes, n)
		}
	}
	if len(tab.rows) > 0 {
		tab.write(t, t.o.width(), t.o.Style)
	}
	if c.Missing > 0 {
		t.paragraph("  ", fmt.Sprintf("The device counted %s that the capture does not have: lost before the tap, or outside of the time of the capture.", Plural(c.Missing, "packet")), warning)
	}
	for _, n := range notes {
		t.hanging(n.heading()+n.Why, "  ", "    ")
	}
	if len(still) > 0 {
		t.paragraph("  ", "Did not move, as predicted: "+strings.Join(still, ", "), dim)
	}
	if len(internal) > 0 {
		t.paragraph("  ", "Not shown by any wire: "+strings.Join(internal, ", "), dim)
	}
	if n := len(unknown); n > 0 {
		if n > 12 {
			unknown = append(unknown[:12], fmt.Sprintf("%d more", n-12))
		}
		t.paragraph("  ", "Moved, but are unknown to this program: "+strings.Join(unknown, ", "), dim)
	}
	if c.Unmoved > 0 {
		t.paragraph("  ", Plural(uint64(c.Unmoved), "other counter")+" did not move", dim)
	}
	t.paragraph("  ", "Readings: "+filepath.Base(c.Before)+" and "+filepath.Base(c.After), dim)
}

// heading says what the counter counts, and how far it is from the prediction.
func (n *Counter) heading() string {
	s := n.Name
	if n.About != "" {
		s += " (" + n.About + ")"
	}
	if n.Difference != nil {
		if d := *n.Difference; d > 0 {
			s += ": " + Count(uint64(d)) + " more. "
		} else {
			s += ": " + Count(uint64(-d)) + " fewer. "
		}
		return s
	}
	return s + ": "
}

func counterPaint(verdict string) paint {
	switch verdict {
	case counterDiffers:
		return bad
	case counterAgrees:
		return good
	case counterReset, counterMissing:
		return warning
	}
	return plain
}
