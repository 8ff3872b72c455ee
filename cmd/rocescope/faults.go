package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/fault"
)

func newFaultsCommand(a *app) *cobra.Command {
	var form tableForm
	var actions bool
	cmd := &cobra.Command{
		Use:   "faults [ID]",
		Short: "List the faults: what they are, what is required, which rule makes them",
		Long: `List what can go wrong on the wire between RoCE devices: the fault, what a device has to
make of it, where that is written, and the rule that makes it. With an ID, all about one.
--actions lists what rules can do, and how they choose packets.

A rule goes to --fault of inject, wire, bench, serve and replay, or into a file for --faults:

  ` + ruleGrammar + `

Instead of the actions there may be the ID of a fault, whose parameters and filter it then
has unless others are given.`,
		Example: `  rocescope faults
  rocescope faults psn-04
  rocescope faults --actions
  rocescope faults --json | jq '.[] | select(.role == "Q") | .id'
  rocescope wire eth1 eth2 --fault 'drop nth=3 when bth.opcode == RC_RDMA_WRITE_MIDDLE'
  rocescope wire eth1 eth2 --fault 'ACK-01 nth=7 when bth.destqp == 0x11'`,
		Args: arguments(0, 1, "one fault's ID"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var all []string
			for _, f := range fault.Catalogue() {
				all = append(all, cobra.CompletionWithDesc(f.ID, f.What))
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && actions:
				return errUsage("--actions lists actions, and %q is a fault", args[0])
			case len(args) == 1:
				return a.printFault(args[0], form)
			case actions:
				return a.printActions(form)
			}
			return a.printFaults(form)
		},
	}
	form.flags(cmd)
	cmd.Flags().BoolVar(&actions, "actions", false, "list what rules can do, and how they choose packets")
	return cmd
}

// ruleGrammar is how a rule is written.
const ruleGrammar = "ACTION [parameter=value ...] [then ACTION ...] [selector=value ...] [when FILTER]"

// faultRow is a fault as JSON.
type faultRow struct {
	ID        string       `json:"id"`
	Section   string       `json:"section"`
	Fault     string       `json:"fault"`
	Role      string       `json:"role"` // of the device: R responder, Q requester, B both
	ICRC      string       `json:"icrc,omitempty"`
	Required  string       `json:"required"`
	Notes     string       `json:"notes,omitempty"`
	Source    string       `json:"source,omitempty"`
	Open      string       `json:"unconfirmed,omitempty"`
	Rule      string       `json:"rule,omitempty"`
	Params    []faultParam `json:"parameters,omitempty"`
	Otherwise string       `json:"otherwise,omitempty"` // how it comes about where no rule makes it
}

type faultParam struct {
	Name    string `json:"name"`
	Default string `json:"default,omitempty"`
	What    string `json:"what"`
}

func faultParams(params []fault.Param) (all []faultParam) {
	for _, p := range params {
		all = append(all, faultParam(p))
	}
	return all
}

func newFaultRow(f *fault.Fault) faultRow {
	return faultRow{
		f.ID, f.Section, f.What, f.Role, f.ICRC, f.Outcome, f.Notes, f.Source, f.Open, f.Rule, faultParams(f.Params()), f.Otherwise,
	}
}

func (a *app) printFaults(form tableForm) error {
	faults := fault.Catalogue()
	if form.json {
		rows := []faultRow{}
		for i := range faults {
			rows = append(rows, newFaultRow(&faults[i]))
		}
		return a.printJSON(rows)
	}
	if form.markdown {
		return a.printFaultsPage(faults)
	}
	t := table{columns: []string{"id", "role", "fault", "made by"}, groups: "section"}
	for i := range faults {
		f := &faults[i]
		by := f.Rule
		if by == "" {
			by = "–"
		}
		t.add(f.Section, f.ID, f.Role, f.What, by)
	}
	return a.printTable(&t)
}

// printFaultsPage is docs/faults.md.
func (a *app) printFaultsPage(faults []fault.Fault) error {
	t := table{columns: []string{"id", "role", "fault", "ICRC", "required", "source", "made by"}, groups: "section"}
	for i := range faults {
		f := &faults[i]
		required := f.Outcome
		if f.Notes != "" {
			required += "; " + f.Notes
		}
		source := f.Source
		if f.Open != "" {
			source = strings.TrimPrefix(source+". Unconfirmed: "+f.Open, ". ")
		}
		by := "`" + f.Rule + "`"
		if f.Rule == "" {
			by = "no rule: " + f.Otherwise
		}
		t.add(f.Section, f.ID, f.Role, f.What, f.ICRC, required, source, by)
	}
	var b strings.Builder
	b.WriteString(`Rules say what happens to which packets, for ` + "`rocescope wire`, `inject`, `bench`, `serve`" + ` and ` + "`replay`" + `: ` + "`--fault 'RULE'`" + `, or
` + "`--faults FILE`" + ` with a list of them. ` + "`rocescope faults`" + ` prints this list, ` + "`rocescope faults --actions`" + ` the next one.

    ` + ruleGrammar + `

Instead of the actions there may be the ID of a fault from the list below; parameters that are given replace its own, a filter that
is given has to pass beside its own: ` + "`PSN-01 nth=7 when bth.destqp == 0x11`" + `. The filter is that of [filter.md](filter.md), over the
packet and what it is to its connection: ` + "`flow.round`, `flow.psn_offset`, `flow.direction`, `msg.index`" + `. In a file:

    seed: 7
    rules:
      - name: the third middle
        when: bth.opcode == RC_RDMA_WRITE_MIDDLE
        nth: 3
        do: drop
      - fault: PSN-05 bth.psn=+2
        way: out
      - when: flow.psn_offset == 100 && flow.round < 2
        do: set ip.ttl=1 then corrupt where=payload icrc=ok

Rules are tried in their order; the first one that strikes a packet decides on it, and those behind it do not see it. The way out is that
of the frames that are sent, or from the first interface of a wire to the second; each way counts for itself, and so does each of the
queues that ` + "`inject --threads`" + ` sends through. What is random comes
from the seed, so that the same packets meet the same fate.

## What rules can do
`)
	b.WriteString("\n| action | what it does | parameters |\n|---|---|---|\n")
	for _, action := range fault.Actions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", action.Name, action.What, strings.ReplaceAll(paramsText(&action, "<br>"), "|", `\|`))
	}
	b.WriteString("\n## How rules choose packets\n\n| selector | |\n|---|---|\n| `when FILTER` | packets that pass a display filter |\n")
	for _, s := range fault.Selectors() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.Name, s.What)
	}
	b.WriteString("\n## What is required\n\nThe device under test (DUT) in role R is the responder; Q: the requester; B: both. ICRC ok: right all the same; stale: the old one; n/a: what changes is not covered.\n\n| word | meaning |\n|---|---|\n")
	for _, o := range fault.Outcomes() {
		fmt.Fprintf(&b, "| %s | %s |\n", o[0], strings.ReplaceAll(o[1], "|", `\|`))
	}
	b.WriteString("\nWhere a row says \"report\", a named implementation bends the rule: that is shown, and is no failure.\n\n## Whose word it is\n\n| tag | source |\n|---|---|\n")
	for _, s := range fault.Sources() {
		fmt.Fprintf(&b, "| %s | %s |\n", s[0], strings.ReplaceAll(s[1], "|", `\|`))
	}
	return a.printMarkdown("Faults", strings.TrimRight(b.String(), "\n"), &t)
}

// paramsText are an action's parameters.
func paramsText(action *fault.Action, between string) string {
	var parts []string
	if action.Fields {
		parts = append(parts, "FIELD=VALUE: a number, a name, +N, -N, ^BITS or random")
	}
	for _, p := range action.Params {
		parts = append(parts, p.Name+"="+p.Default+" ("+p.What+")")
	}
	return strings.Join(parts, between)
}

// actionRow is an action, or the selectors, as JSON.
type actionRow struct {
	Name   string       `json:"name"`
	Kind   string       `json:"kind"`
	What   string       `json:"what"`
	Fields bool         `json:"fields,omitempty"` // it takes FIELD=VALUE
	Params []faultParam `json:"parameters"`
}

func (a *app) printActions(form tableForm) error {
	actions := fault.Actions()
	if form.json {
		rows := []actionRow{}
		for _, r := range actions {
			rows = append(rows, actionRow{r.Name, r.Kind.String(), r.What, r.Fields, faultParams(r.Params)})
		}
		rows = append(rows, actionRow{"", "selector", "which of the packets that pass the filter", false, faultParams(fault.Selectors())})
		return a.printJSON(rows)
	}
	if form.markdown {
		return errUsage("--markdown is for the whole page: rocescope faults --markdown")
	}
	var b strings.Builder
	s := a.styles()
	for _, r := range actions {
		fmt.Fprintf(&b, "%s  %s\n", s.bold(r.Name), r.What)
		if text := paramsText(&r, "\n    "); text != "" {
			fmt.Fprintf(&b, "    %s\n", text)
		}
	}
	fmt.Fprintf(&b, "\n%s  which packets of those that pass the filter\n", s.bold("selectors"))
	for _, p := range fault.Selectors() {
		fmt.Fprintf(&b, "    %s= %s\n", p.Name, p.What)
	}
	_, err := a.stdout.Write([]byte(b.String()))
	return err
}

func (a *app) printFault(id string, form tableForm) error {
	f := fault.Find(id)
	if f == nil {
		var known []string
		for _, k := range fault.Catalogue() {
			known = append(known, k.ID)
		}
		if near := nearest(id, known); near != "" {
			return errUsage("there is no fault %q; did you mean %q?", id, near)
		}
		return errUsage("there is no fault %q; %q lists them", id, "rocescope faults")
	}
	if form.json {
		return a.printJSON(newFaultRow(f))
	}
	if form.markdown {
		return errUsage("--markdown is for the whole page: rocescope faults --markdown")
	}
	var b strings.Builder
	s := a.styles()
	fmt.Fprintf(&b, "%s  %s\n\n", s.bold(f.ID), f.What)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, text)
		}
	}
	role := map[string]string{"R": "responder", "Q": "requester", "B": "responder or requester"}[f.Role]
	line("section", f.Section)
	line("device", role)
	line("ICRC", f.ICRC)
	line("required", f.Outcome)
	for _, o := range fault.Outcomes() {
		if strings.Contains(f.Outcome, o[0]) {
			fmt.Fprintf(&b, "%-10s   %s: %s\n", "", o[0], o[1])
		}
	}
	line("notes", f.Notes)
	line("source", f.Source)
	line("open", f.Open)
	line("rule", f.Rule)
	for _, p := range f.Params() {
		fmt.Fprintf(&b, "%-10s   %s=%s  %s\n", "", p.Name, p.Default, p.What)
	}
	line("made by", f.Otherwise)
	_, err := a.stdout.Write([]byte(b.String()))
	return err
}
