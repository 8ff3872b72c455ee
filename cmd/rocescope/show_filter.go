package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/internal/filter"
)

// needs is what a printer or a filter wants to be done to packets.
type needs struct {
	icrc  bool // their ICRC checked
	marks bool // tracking
	end   bool // what only the end of the capture tells
}

func (n needs) or(m needs) needs {
	return needs{n.icrc || m.icrc, n.marks || m.marks, n.end || m.end}
}

func needsOf(n filter.Need, icrc bool) needs {
	return needs{icrc: icrc, marks: n >= filter.NeedFlow, end: n >= filter.NeedEnd}
}

// compileFilter compiles the value of -Y and says what it needs.
func compileFilter(text string) (*filter.Filter, needs, error) {
	f, err := filter.Compile(text)
	if err != nil {
		return nil, needs{}, filterError("the filter", err)
	}
	return f, needsOf(f.Needs(), f.NeedsICRC()), nil
}

// filterError is wrong usage: one sentence, and the place under it.
func filterError(what string, err error) error {
	var place *filter.Error
	if !errors.As(err, &place) {
		return errUsage("%s: %w", what, err)
	}
	return errUsage("%s: %w\n  %s", what, err, strings.ReplaceAll(place.Caret(), "\n", "\n  "))
}

// completeFilter completes the value of -Y.
func completeFilter(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var all []string
	for _, c := range filter.Complete(begun) {
		all = append(all, cobra.CompletionWithDesc(begun[:c.Start]+c.Text, c.Help))
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
