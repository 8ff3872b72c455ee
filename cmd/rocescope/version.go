package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/internal/version"
)

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Say which rocescope this is",
		Example: "  rocescope version --json",
		Args:    arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			if !asJSON {
				_, err := fmt.Fprintln(a.stdout, info)
				return err
			}
			out := json.NewEncoder(a.stdout)
			out.SetIndent("", "  ")
			return out.Encode(info)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
