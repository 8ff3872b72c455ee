package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those that can complete our command line, with the way to write the script of each.
var shells = []struct {
	name  string
	write func(root *cobra.Command, w io.Writer) error
}{
	{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	{"zsh", func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) }},
	{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) }},
}

func newCompletionCommand(a *app) *cobra.Command {
	var names []string
	for _, s := range shells {
		names = append(names, s.name)
	}
	choice := strings.Join(names, "|")
	return &cobra.Command{
		Use:   "completion " + choice,
		Short: "Write the script that completes rocescope's command line in a shell",
		Example: `  source <(rocescope completion bash)                       for this shell
  rocescope completion zsh > "${fpath[1]}/_rocescope"       for good`,
		ValidArgs: names,
		Args:      arguments(1, 1, "one shell: "+choice),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range shells {
				if s.name == args[0] {
					return s.write(cmd.Root(), a.stdout)
				}
			}
			if near := nearest(args[0], names); near != "" {
				return errUsage("unknown shell %q; did you mean %q?", args[0], near)
			}
			return errUsage("unknown shell %q; it must be one of %s", args[0], choice)
		},
	}
}
