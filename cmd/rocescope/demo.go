package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures/samples"
)

func newDemoCommand(a *app) *cobra.Command {
	var list, text bool
	var save string
	cmd := &cobra.Command{
		Use:   "demo [NAME]",
		Short: "Look at a bundled capture with a real story",
		Long: `Look at one of the captures that are part of this program: on a terminal by the screen
(as with "rocescope tui"), else by what "rocescope analyze" says of it. Each was made
between two machines with Linux soft-RoCE, and tells one story; what really happened
was written down by those who made it happen, and lies beside it.`,
		Example: `  rocescope demo                      a lost WRITE, the NAK, go-back-N, recovery
  rocescope demo --list               what there is
  rocescope demo rnr_wait
  rocescope demo --save /tmp/samples  write them all out, to look at with other commands`,
		Args: arguments(0, 1, "one capture's name"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var all []string
			for _, s := range samples.List() {
				all = append(all, cobra.CompletionWithDesc(s.Name, s.Title))
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var chosen []samples.Sample
			if len(args) == 1 {
				s, err := findSample(args[0])
				if err != nil {
					return err
				}
				chosen = []samples.Sample{s}
			}
			switch {
			case list:
				return a.listSamples()
			case save != "":
				if chosen == nil {
					chosen = samples.List()
				}
				return a.saveSamples(save, chosen)
			case chosen == nil:
				s, err := samples.Find(samples.Default)
				if err != nil {
					return err
				}
				chosen = []samples.Sample{s}
			}
			return a.demonstrate(cmd.Context(), chosen[0], text)
		},
	}
	cmd.Flags().BoolVar(&text, "text", false, "as text, on a terminal too")
	cmd.Flags().BoolVar(&list, "list", false, "list the captures")
	cmd.Flags().StringVar(&save, "save", "", "write the captures, or the one that is named, into a folder (`dir`)")
	cmd.MarkFlagsMutuallyExclusive("list", "save")
	return cmd
}

func findSample(name string) (samples.Sample, error) {
	s, err := samples.Find(name)
	if err == nil {
		return s, nil
	}
	var names []string
	for _, s := range samples.List() {
		names = append(names, s.Name)
	}
	if near := nearest(name, names); near != "" {
		return s, errUsage("no bundled capture is called %q; did you mean %q?", name, near)
	}
	return s, errUsage("no bundled capture is called %q; %q lists them", name, "rocescope demo --list")
}

func (a *app) listSamples() error {
	t := table{columns: []string{"name", "story", "packets"}}
	for _, s := range samples.List() {
		t.add("", s.Name, s.Title, fmt.Sprint(s.Capture.Packets))
	}
	return a.printTable(&t)
}

// demonstrate tells a capture's story and analyzes it, or shows it on the screen.
func (a *app) demonstrate(ctx context.Context, s samples.Sample, text bool) error {
	dir, err := os.MkdirTemp("", "rocescope-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	file, err := writeSample(dir, s)
	if err != nil {
		return err
	}
	if a.stdout.isTerminal && !text && os.Getenv("TERM") != "dumb" {
		return a.browse(ctx, newInput([]string{file}), &tuiOptions{title: "demo: " + s.Title})
	}
	style := a.styles()
	fmt.Fprintf(a.stdout, "%s\n%s\n\n", style.bold(s.Title), wrap(s.Story, 80, ""))
	if err := runAnalyze(ctx, a, newInput([]string{file}), &analyzeOptions{top: defaultTop}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "\n%s\n", style.dim("To look closer: rocescope demo --save samples; rocescope show samples/"+s.Capture.File))
	return err
}

// saveSamples writes captures, and what is known of each beside it, into a folder. It overwrites nothing that differs.
func (a *app) saveSamples(dir string, list []samples.Sample) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save the captures: %w", err)
	}
	for _, s := range list {
		file, err := writeSample(dir, s)
		if err != nil {
			return err
		}
		truth, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return fmt.Errorf("save what is known of %s: %w", s.Name, err)
		}
		if err := writeNew(filepath.Join(dir, s.Name+".json"), append(truth, '\n')); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.stdout, file); err != nil {
			return err
		}
	}
	return nil
}

func writeSample(dir string, s samples.Sample) (file string, err error) {
	data, err := samples.Open(s.Name)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, s.Capture.File)
	return file, writeNew(file, data)
}

// writeNew writes a file, unless another one has its name.
func writeNew(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		if there, rerr := os.ReadFile(file); rerr == nil && bytes.Equal(there, data) {
			return nil
		}
		return fmt.Errorf("%s is there already, and is another file; it is left alone", file)
	}
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("save the captures: %w", err)
	}
	return nil
}
