package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/rocescope/rocescope/internal/version"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR]",
		Short: "Write the manual: the main page to standard output, or all pages into a folder",
		Example: `  rocescope man | man -l -
  rocescope man /usr/local/share/man/man1`,
		Args: arguments(0, 1, "one folder at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.Long += "\n\n" + exitCodesText()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "rocescope " + version.Get().Version, Manual: "rocescope"}
			if date, err := time.Parse(time.RFC3339, version.Get().Date); err == nil {
				header.Date = &date
			}
			if len(args) == 0 {
				return doc.GenMan(root, header, a.stdout)
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write the manual into %s: %w", args[0], err)
			}
			return nil
		},
	}
}
