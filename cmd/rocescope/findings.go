package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/flows"
)

func newFindingsCommand(a *app) *cobra.Command {
	var form tableForm
	cmd := &cobra.Command{
		Use:   "findings [ID]",
		Short: "List what can be found: rule, meaning, what to try next",
		Long: `List what analyze can find. With an ID, all about one finding: what it means, the
rule that it rests on, and what to try next.`,
		Example: `  rocescope findings
  rocescope findings psn_gap
  rocescope findings --json | jq '.[] | select(.severity == "error") | .id'`,
		Args: arguments(0, 1, "one finding's id"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var all []string
			for _, c := range flows.Checks() {
				all = append(all, cobra.CompletionWithDesc(c.ID, c.Title))
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.printFinding(args[0], form)
			}
			return a.printFindings(form)
		},
	}
	form.flags(cmd)
	return cmd
}

// findingRow is a row of the check table as JSON.
type findingRow struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Explain  string `json:"explanation"`
	Rule     string `json:"rule"`
	Try      string `json:"try"`
}

func newFindingRow(c *flows.Check) findingRow {
	return findingRow{c.ID, c.Severity.String(), c.Title, c.Explain, c.Rule, c.Try}
}

func (a *app) printFindings(form tableForm) error {
	checks := flows.Checks()
	if form.json {
		rows := []findingRow{}
		for i := range checks {
			rows = append(rows, newFindingRow(&checks[i]))
		}
		return a.printJSON(rows)
	}
	if form.markdown {
		return a.printFindingsPage()
	}
	t := table{columns: []string{"severity", "id", "what"}}
	s := a.styles()
	for i := range checks {
		c := &checks[i]
		t.add("", severityText(s, c.Severity), c.ID, c.Title)
	}
	return a.printTable(&t)
}

// printFindingsPage prints the check table as a page, a section for each check so that it can be linked to.
func (a *app) printFindingsPage() error {
	checks := flows.Checks()
	t := table{columns: []string{"finding", "severity", "what"}}
	var sections strings.Builder
	for i := range checks {
		c := &checks[i]
		t.add("", fmt.Sprintf("[%s](#%s)", c.ID, c.ID), c.Severity.String(), c.Title)
		fmt.Fprintf(&sections, "\n## %s\n\n**%s** (%s). %s\n\n* Rule: %s\n* Try: %s\n", c.ID, c.Title, c.Severity, c.Explain, c.Rule, c.Try)
	}
	err := a.printMarkdown("Findings", `What `+"`rocescope analyze`"+` can find, as `+"`rocescope findings`"+` lists it. An error says that something is broken, a warning that
something is lost or wrong on the way, a note what helps to understand. Each rests on a rule; "IBA" is the InfiniBand
Architecture Specification.`, &t)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write([]byte(sections.String()))
	return err
}

// severityText is a severity in its colour.
func severityText(s styles, severity flows.Severity) string {
	switch text := severity.String(); severity {
	case flows.Error:
		return s.bad(text)
	case flows.Warning:
		return s.warning(text)
	default:
		return s.note(text)
	}
}

func (a *app) printFinding(id string, form tableForm) error {
	var ids []string
	checks := flows.Checks()
	for i := range checks {
		c := &checks[i]
		if ids = append(ids, c.ID); c.ID != id {
			continue
		}
		if form.json {
			return a.printJSON(newFindingRow(c))
		}
		s := a.styles()
		text := fmt.Sprintf("%s (%s, %s)\n\n%s\n", s.bold(c.Title), c.ID, severityText(s, c.Severity), wrap(c.Explain, 80, ""))
		text += "\nRule:  " + wrap(c.Rule, 73, "       ") + "\n"
		text += "Try:   " + wrap(c.Try, 73, "       ") + "\n"
		_, err := a.stdout.Write([]byte(text))
		return err
	}
	if near := nearest(id, ids); near != "" {
		return errUsage("there is no finding %q; did you mean %q?", id, near)
	}
	return errUsage("there is no finding %q; %q lists them all", id, "rocescope findings")
}

// wrap breaks text at spaces into lines of a width; indent goes in front of all but the first.
func wrap(text string, width int, indent string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n"+indent)
}
