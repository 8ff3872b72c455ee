package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/rnic"
)

// misbehaviourLine is a misbehaviour as JSON.
type misbehaviourLine struct {
	Name   string `json:"name"`
	Role   string `json:"role"`
	Does   string `json:"does"`
	Right  string `json:"right"`
	Source string `json:"source"`
}

// listMisbehaviours prints what a device can do wrong on purpose.
func (a *app) listMisbehaviours(json bool) error {
	var lines []misbehaviourLine
	for _, m := range rnic.Misbehaviours() {
		lines = append(lines, misbehaviourLine{m.Name, m.Role, m.Does, m.Right, m.Source})
	}
	if json {
		return a.printJSON(lines)
	}
	for _, m := range lines {
		fmt.Fprintf(a.stdout, "%s  (%s; %s)\n  %s\n  A device that is right %s.\n", m.Name, m.Role, m.Source, m.Does, m.Right)
	}
	return nil
}

func completeMisbehaviour(_ *cobra.Command, _ []string, typed string) (names []string, _ cobra.ShellCompDirective) {
	for _, m := range rnic.Misbehaviours() {
		if strings.HasPrefix(m.Name, typed) {
			names = append(names, m.Name+"\t"+m.Does)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
