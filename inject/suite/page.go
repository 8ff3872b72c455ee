package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/inject/rnic"
)

// Mutation is a misbehaviour of our RNIC, and which cases found it.
type Mutation struct {
	Name, Does string
	Found      []CaseResult // of the cases meant for it
	Missed     []string     // of them
}

// Mutations has our RNIC misbehave in each way that it knows, and runs the cases that are meant to find it.
func Mutations(ctx context.Context) ([]Mutation, error) {
	s, err := Conformance()
	if err != nil {
		return nil, err
	}
	var all []Mutation
	for _, m := range rnic.Misbehaviours() {
		x := Mutation{Name: m.Name, Does: m.Does}
		meant := s.meantFor(m.Name)
		if len(meant) > 0 {
			res, err := Execute(ctx, &InMemory{Misbehave: []string{m.Name}}, s, Options{Cases: meant})
			if err != nil {
				return nil, err
			}
			for i := range res.Cases {
				if c := &res.Cases[i]; c.finds() {
					x.Found = append(x.Found, *c)
				} else {
					x.Missed = append(x.Missed, c.ID)
				}
			}
		}
		all = append(all, x)
	}
	return all, nil
}

// ConformancePage is docs/conformance.md: the mutation score, the cases, and the rows that they cover.
func ConformancePage() (string, error) {
	s, err := Conformance()
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	clean, err := Execute(ctx, &InMemory{}, s, Options{Tier: "full"})
	if err != nil {
		return "", err
	}
	mutations, err := Mutations(ctx)
	if err != nil {
		return "", err
	}
	rows, err := Coverage()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Conformance\n\n<!-- written by `rocescope test --markdown`, in `make docs` -->\n\n`rocescope test` runs these cases; [suites.md](suites.md) says how cases are written.\n\n")
	b.WriteString("## Mutation score\n\nOur RNIC misbehaves in each way that real devices were seen to; the cases meant to find it do, and against the RNIC as it is none fails.\n\n")
	found := 0
	for i := range mutations {
		if m := &mutations[i]; len(m.Found) > 0 && len(m.Missed) == 0 {
			found++
		}
	}
	bad := 0
	for _, st := range Statuses {
		if st.Bad() {
			bad += clean.Totals[st]
		}
	}
	fmt.Fprintf(&b, "**%d of %d** misbehaviours are found, each by every case meant for it; %d of %d cases fail against the RNIC as it is.\n\n", found, len(mutations), bad, len(clean.Cases))
	b.WriteString("| misbehaviour | what the device does | found by | what the first of them saw |\n|---|---|---|---|\n")
	for i := range mutations {
		m := &mutations[i]
		var ids []string
		seen := "**not found**"
		for j := range m.Found {
			ids = append(ids, m.Found[j].ID)
		}
		if len(m.Found) > 0 {
			c := &m.Found[0]
			seen = string(c.Status) + ": " + c.Seen
		}
		for _, id := range m.Missed {
			ids = append(ids, "not by "+id)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, cell(m.Does), strings.Join(ids, ", "), cell(seen))
	}
	b.WriteString("\n## Cases\n\nA case whose outcome is \"shown\" never fails a run, for the reason given; a hang or wrong memory does.\n\n| case | device | tier | what | required | source | only shown because |\n|---|---|---|---|---|---|---|\n")
	for i := range s.Cases {
		c := &s.Cases[i]
		why := c.Report
		if c.Disputed != "" {
			why = "disputed: " + c.Disputed
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.ID, c.Role, c.Tier, cell(c.Title), cell(c.Required), cell(c.Rule), cell(why))
	}
	covered := 0
	for _, r := range rows {
		if len(r.Cases) > 0 {
			covered++
		}
	}
	fmt.Fprintf(&b, "\n## Rows\n\n%d of the %d rows of the fault catalogue and of the list of reported device failures have a case.\n\n| row | what | cases, or why there is none |\n|---|---|---|\n", covered, len(rows))
	for _, r := range rows {
		by := strings.Join(slices.Compact(r.Cases), ", ")
		if by == "" {
			by = "none: " + r.Why
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, cell(r.What), cell(by))
	}
	return b.String(), nil
}

// cell is text in a cell of a Markdown table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}
