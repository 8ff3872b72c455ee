package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/version"
)

// group is a heading in the help and the commands under it.
type group struct {
	title    string
	commands []command
}

// command makes a command; its name stands beside it, so that the others need not be made to know which is meant.
type command struct {
	name string
	make func(*app) *cobra.Command
}

// commands is every command there is, in the order in which the help shows them. To add one, write
// newNameCommand in name.go and add a line here.
func commands() []group {
	return []group{
		{"Look at traffic", []command{
			{"analyze", newAnalyzeCommand},
			{"show", newShowCommand},
			{"tui", newTUICommand},
			{"demo", newDemoCommand},
			{"export", newExportCommand},
			{"diff", newDiffCommand},
			{"annotate", newAnnotateCommand},
			{"convert", newConvertCommand},
			{"capture", newCaptureCommand},
			{"extcap", newExtcapCommand},
			{"doctor", newDoctorCommand},
		}},
		{"Send traffic", []command{
			{"inject", newInjectCommand},
			{"serve", newServeCommand},
			{"bench", newBenchCommand},
			{"bringup", newBringupCommand},
			{"replay", newReplayCommand},
			{"test", newTestCommand},
			{"wire", newWireCommand},
		}},
		{"The tables that everything reads", []command{
			{"fields", newFieldsCommand},
			{"opcodes", newOpcodesCommand},
			{"findings", newFindingsCommand},
			{"faults", newFaultsCommand},
			{"schema", newSchemaCommand},
		}},
		{"This program", []command{
			{"config", newConfigCommand},
			{"completion", newCompletionCommand},
			{"man", newManCommand},
			{"version", newVersionCommand},
		}},
	}
}

// topics are pages of the help that are not commands.
func topics() []*cobra.Command {
	return []*cobra.Command{
		newExitCodesTopic(),
	}
}

// fileCommand is the command that `rocescope FILE` and `… | rocescope -` stand for where there is no screen.
func (a *app) fileCommand() string {
	return "analyze"
}

// run is main without the process: it ends with the exit code.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) ExitCode {
	ctx, end, stop := withSignals(ctx)
	defer stop()
	a := &app{stdin: stdin, stdout: newOutput(stdout, end), stderr: stderr, color: colorAuto}

	err := a.execute(ctx, args)
	if flushed := a.stdout.Flush(); flushed != nil && !errors.Is(err, flushed) {
		err = errors.Join(err, fmt.Errorf("write standard output: %w", flushed))
	}
	if errors.Is(context.Cause(ctx), errInterrupted) && !errors.Is(err, errInterrupted) {
		err = errors.Join(err, errInterrupted)
	}
	code := exitCode(err)
	if code != exitUsage && errors.Is(err, errStdoutClosed) {
		return exitOK
	}
	for _, line := range errorLines(err) {
		fmt.Fprintln(stderr, "rocescope: "+line)
	}
	return code
}

// errorLines is an error for people: a line for each branch of a joined error, without what only says that the run
// was told to end.
func errorLines(err error) []string {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var lines []string
		for _, branch := range e.Unwrap() {
			for _, line := range errorLines(branch) {
				if !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
		}
		return lines
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, errInterrupted) {
		return nil
	}
	return []string{err.Error()}
}

// execute runs one command line. Whatever goes wrong before a command has begun to run is wrong usage.
func (a *app) execute(ctx context.Context, args []string) error {
	root := newRoot(a, alone(args))
	began := false
	for _, c := range allCommands(root) {
		if body := c.RunE; body != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				began = true
				return body(cmd, args)
			}
		}
	}
	root.SetArgs(a.expand(root, args))
	err := root.ExecuteContext(ctx)
	if err != nil && !began && exitCode(err) != exitUsage {
		err = errUsage("%w", err)
	}
	return err
}

// alone is the name of the one command that a command line needs, "" for all of them: most runs are over before all of their
// options would be worth making. Completion and manual tell of every command.
func alone(args []string) string {
	if len(args) == 0 || args[0] == "completion" || args[0] == "man" {
		return ""
	}
	for _, g := range commands() {
		for _, c := range g.commands {
			if c.name == args[0] {
				return c.name
			}
		}
	}
	return ""
}

// newRoot makes the program's command, and those below it: all, or only one.
func newRoot(a *app, only string) *cobra.Command {
	root := &cobra.Command{
		Use:   "rocescope [FILE | IFACE | -]",
		Short: "See what happens on RDMA queue pairs, from the wire alone",
		Long: `rocescope reads RoCE v2 traffic and shows queue pairs: which two QPs talk, in which
state each is, which work request each packet belongs to, what was lost, resent
and refused, and who broke the rules.`,
		Example: `  rocescope trace.pcapng                         browse it on a terminal; piped, what happened and what is wrong
  sudo rocescope eth1                            the same of an interface's traffic, while it passes
  ssh host tcpdump -w - udp port 4791 | rocescope -`,
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{
			DisableDefaultCmd: true,
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().Var(&a.color, "color", "colour the results: auto, always or never; NO_COLOR turns auto off")
	root.PersistentFlags().BoolP("help", "h", false, "show the help of a command")
	root.Flags().Bool("version", false, "say which rocescope this is")
	_ = root.RegisterFlagCompletionFunc("color",
		cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))

	for _, g := range commands() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			if only == "" || c.name == only {
				made := c.make(a)
				made.GroupID = g.title
				root.AddCommand(made)
			}
		}
	}
	root.AddCommand(topics()...)
	root.SetHelpCommand(newHelpCommand(root))
	return root
}

func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Show the help of a command or a topic",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, c := range root.Commands() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 && found == root {
				return unknownCommand(root, args[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// expand puts the command that is meant in front of a file or an interface: `rocescope trace.pcap --json`. A command's
// name wins over a file's, and a file's over an interface's; what looks like a path is taken for one, so that a missing
// file is called missing.
func (a *app) expand(root *cobra.Command, args []string) []string {
	first := firstArgument(root, args)
	if first < 0 {
		return args
	}
	name := args[first]
	if strings.HasPrefix(name, "__") { // the shells' completion requests
		return args
	}
	for _, c := range root.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return args
		}
	}
	if name == "help" || !hasCommand(root, a.fileCommand()) {
		return args
	}
	if _, err := os.Stat(name); name != "-" && err != nil {
		switch {
		case slices.Contains(interfaceNames(), name):
			args = slices.Insert(slices.Clone(args), first, "-i")
		case !strings.ContainsAny(name, "/."):
			return args
		}
	}
	command := a.fileCommand()
	if a.opensScreen(root, args) {
		command = "tui"
	}
	return append([]string{command}, args...)
}

// firstArgument is the index of the first argument that is no option and no option's value; -1 without one.
func firstArgument(root *cobra.Command, args []string) int {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return -1
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			return i
		case strings.HasPrefix(arg, "--") && !strings.Contains(arg, "="):
			if flag := root.PersistentFlags().Lookup(arg[2:]); flag != nil && flag.NoOptDefVal == "" {
				i++
			}
		}
	}
	return -1
}

// arguments checks how many arguments a command got; what says what they are ("a shell", "one or more captures").
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return errUsage("%s needs %s; see %q", cmd.Name(), what, cmd.CommandPath()+" --help")
		case len(args) > most && most == 0:
			return errUsage("%s takes no arguments, but got %q", cmd.Name(), args[0])
		case len(args) > most:
			return errUsage("%s takes %s, so %q is one too many", cmd.Name(), what, args[most])
		}
		return nil
	}
}

func hasCommand(root *cobra.Command, name string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
}

func allCommands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		all = append(all, allCommands(c)...)
	}
	return all
}

func unknownCommand(parent *cobra.Command, name string) error {
	var known []string
	for _, c := range parent.Commands() {
		known = append(known, c.Name())
	}
	if near := nearest(name, known); near != "" {
		return errUsage("unknown command %q; did you mean %q?", name, near)
	}
	if near := nearest(name, interfaceNames()); near != "" && !parent.HasParent() {
		return errUsage("unknown command %q; did you mean the interface %q?", name, near)
	}
	return errUsage("unknown command %q; %q lists them all", name, "rocescope help")
}

// numbers says what an option takes whose value is a number of the option parser's type.
var numbers = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint": "a whole number from 0 on", "uint64": "a whole number from 0 on",
	"uint8": "a whole number from 0 to 255", "uint16": "a whole number from 0 to 65535", "uint32": "a whole number of 32 bits",
	"float64": "a number",
}

// flagError turns what the option parser says into one sentence with a suggestion.
func flagError(cmd *cobra.Command, err error) error {
	var (
		missing *pflag.NotExistError
		invalid *pflag.InvalidValueError
		bare    *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &invalid):
		why := invalid.Unwrap()
		var number *strconv.NumError
		if errors.As(why, &number) {
			why = fmt.Errorf("it is %s", numbers[invalid.GetFlag().Value.Type()])
		}
		return errUsage("--%s cannot be %q: %w", invalid.GetFlag().Name, invalid.GetValue(), why)
	case errors.As(err, &bare):
		return errUsage("--%s needs a value; see %q", bare.GetFlag().Name, cmd.CommandPath()+" --help")
	case !errors.As(err, &missing):
		return errUsage("%w; see %q", err, cmd.CommandPath()+" --help")
	}
	if words := cmd.Flags().Args(); !cmd.HasParent() && len(words) > 0 {
		return unknownCommand(cmd, words[0]) // whose option this would be
	}
	if missing.GetSpecifiedShortnames() != "" {
		return errUsage("unknown option -%s; see %q", missing.GetSpecifiedName(), cmd.CommandPath()+" --help")
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	name := missing.GetSpecifiedName()
	if near := nearest(name, known); near != "" {
		return errUsage("unknown option --%s; did you mean --%s?", name, near)
	}
	return errUsage("unknown option --%s; see %q", name, cmd.CommandPath()+" --help")
}

// nearest is the known word that a mistyped one was probably meant to be; "" when none is near.
func nearest(word string, known []string) string {
	best, bestDistance := "", len(word)/3+2
	for _, k := range known {
		d := filter.Distance(strings.ToLower(word), strings.ToLower(k), bestDistance)
		if len(word) >= 2 && strings.HasPrefix(k, word) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}
