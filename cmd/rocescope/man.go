package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
			if len(args) == 0 {
				_, err := a.stdout.Write(manPage(root))
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
				if c != root && !c.IsAvailableCommand() {
					continue
				}
				file := filepath.Join(args[0], manName(c)+".1")
				if err := os.WriteFile(file, manPage(c), 0o644); err != nil {
					return fmt.Errorf("write the manual: %w", err)
				}
			}
			return nil
		},
	}
}

// manName is a page's name: rocescope-analyze.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a command's page in roff's man macros.
func manPage(c *cobra.Command) []byte {
	v := version.Get()
	date := ""
	if at, err := time.Parse(time.RFC3339, v.Date); err == nil {
		date = at.Format(time.DateOnly)
	}
	p := &roff{}
	p.macro("TH", strings.ToUpper(manName(c)), "1", date, "rocescope "+v.Version, "rocescope")
	p.section("NAME")
	p.text(manName(c) + " - " + c.Short)
	p.section("SYNOPSIS")
	p.macro("B", c.UseLine())
	p.section("DESCRIPTION")
	if c.Long == "" {
		p.text(c.Short)
	}
	p.text(c.Long)
	if c.HasSubCommands() {
		p.section("COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				p.tagged(sub.Name(), sub.Short)
			}
		}
	}
	p.section("OPTIONS")
	c.NonInheritedFlags().VisitAll(p.flag)
	c.InheritedFlags().VisitAll(p.flag)
	if c.Example != "" {
		p.section("EXAMPLES")
		p.text(c.Example)
	}
	if c == c.Root() {
		p.section("EXIT STATUS")
		p.text(exitCodesText())
	}
	p.section("SEE ALSO")
	var also []string
	for _, other := range append([]*cobra.Command{c.Root()}, c.Root().Commands()...) {
		if other != c && (other == c.Root() || other.IsAvailableCommand()) {
			also = append(also, manName(other)+"(1)")
		}
	}
	p.text(strings.Join(also, ", "))
	return []byte(p.String())
}

// roff is a page as it is written.
type roff struct{ strings.Builder }

// roffText keeps roff from reading text as commands: a backslash always, a dot or a quote that begins a line.
func roffText(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func (p *roff) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, arg := range args {
		p.WriteString(` "` + strings.ReplaceAll(roffText(arg), `"`, `\(dq`) + `"`)
	}
	p.WriteByte('\n')
}

func (p *roff) section(title string) { p.macro("SH", title) }

func (p *roff) tagged(tag, text string) {
	p.macro("TP")
	p.macro("B", tag)
	p.WriteString(roffText(strings.ReplaceAll(text, "\n", " ")) + "\n")
}

// text writes paragraphs, and lines that are indented as they are.
func (p *roff) text(s string) {
	asIs := false
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case line == "" && !asIs:
			p.macro("PP")
			continue
		case indented && !asIs:
			p.macro("EX")
		case !indented && asIs && line != "":
			p.macro("EE")
		}
		asIs = indented || asIs && line == ""
		p.WriteString(roffText(line) + "\n")
	}
	if asIs {
		p.macro("EE")
	}
}

func (p *roff) flag(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	value, usage := pflag.UnquoteUsage(f)
	tag := "--" + f.Name
	if f.Shorthand != "" {
		tag = "-" + f.Shorthand + ", " + tag
	}
	if value != "" {
		tag += " " + value
	}
	p.tagged(tag, usage)
}
