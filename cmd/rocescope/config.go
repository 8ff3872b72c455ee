package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/tui"
)

func newConfigCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write a config file with everything explained, or say what holds and why",
		Long: `The config file has the settings of the screen: colours, keys, columns, filters by
name, commands of your own, and profiles of all these. It is config.yaml in the folder
that the system has for a user's settings of rocescope, or what ROCESCOPE_CONFIG names.`,
		Example: `  rocescope config init
  rocescope config show --origin
  rocescope config schema > rocescope-config.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigInit(a), newConfigShow(a), newConfigSchema(a))
	return cmd
}

func newConfigInit(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a config file that has every setting, explained, as a comment",
		Long: `Write a config file that has every setting, explained, as a comment: to FILE, to
standard output for -, else to where rocescope looks for it. A file that is there stays.`,
		Example: `  rocescope config init
  rocescope config init -`,
		Args: arguments(0, 1, "the file to write, or -"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "-" {
				return a.printText(tui.SampleConfig())
			}
			path, err := configPath()
			if len(args) == 1 {
				path, err = args[0], nil
			}
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return errUsage("%s is there already, and stays as it is; \"rocescope config init -\" prints what would be written", path)
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(tui.SampleConfig())
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			return a.printText(fmt.Sprintf("%s: nothing is set in it yet; take away the # in front of what you want.\n", path))
		},
	}
}

func newConfigShow(a *app) *cobra.Command {
	var o tuiOptions
	var form tableForm
	var origin bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print each setting as it holds, with --origin also where it comes from",
		Example: `  rocescope config show --origin
  rocescope config show --origin --profile lab --fps 2`,
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			kept, _ := keptState()
			c, _, err := o.settings(kept.Profiles)
			if err != nil {
				return err
			}
			values := c.Values()
			if form.json {
				return a.printJSON(values)
			}
			t := table{columns: []string{"setting", "value"}}
			if origin {
				t.columns = append(t.columns, "from")
			}
			for _, v := range values {
				row := []string{v.Setting, v.Value}
				if origin {
					row = append(row, v.Origin)
				}
				t.add("", row...)
			}
			if form.markdown {
				return a.printMarkdown("Settings", "As they hold here, by `rocescope config show`.", &t)
			}
			return a.printTable(&t)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each comes from: the file and its line, a profile, an option, or nowhere")
	o.addLooks(cmd)
	form.flags(cmd)
	return cmd
}

func newConfigSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the config file's JSON Schema, for editors",
		Example: `  rocescope config schema > rocescope-config.schema.json`,
		Args:    arguments(0, 0, ""),
		RunE:    func(*cobra.Command, []string) error { return a.printJSON(tui.ConfigSchema()) },
	}
}

// configPath is where the config file is, or would be.
func configPath() (string, error) {
	if path := os.Getenv("ROCESCOPE_CONFIG"); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("where the config file belongs is not known: %w; name it, or set ROCESCOPE_CONFIG", err)
	}
	return filepath.Join(dir, "rocescope", "config.yaml"), nil
}
