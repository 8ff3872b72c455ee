package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/suite"
)

// testOptions are the options of test.
type testOptions struct {
	target                  string
	tier, profile           string
	cases, only, skip       []string
	repeat                  int
	seed                    uint64
	stopOnHang, list        bool
	json, verbose, markdown bool
	junit, captures         string
	html                    string
	misbehave               []string
	hook, counters          string
	pipe, file              string
	patience                time.Duration
	hand                    []string
	cm, serveHook           bool
	screen                  screenFlags
	given                   func(option string) bool
	hostOptions
}

func newTestCommand(a *app) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test [TARGET]",
		Short: "Break it on purpose, and judge the answer: conformance of a RoCE v2 device",
		Long: `Run cases against a device: what is sent, or what the device is told to do, and what has to come
of it by the specification. Each case says what is required, what was seen, the packets that
decide it, and where the rule is written. Behind every case the device is probed for life: a
ping, a good WRITE on the same queue pair, and one on another.

The target is "memory", our own software RNIC in this process (the default; --misbehave lets it
do wrong on purpose), or the address of a device: one that "rocescope serve" speaks for, one
that is connected by CM (-R), or one that a hook speaks for (--hook), a program that creates
queue pairs, posts and reads completions as it is told by JSON lines. With --pipe the device is
a simulation behind a pipe. Cases that need what the target cannot be told are skipped, and
say so.

The built-in suite has a case for each fault of "rocescope faults" that can be sent; --file is
for others (docs/suites.md describes the format). Such a file may say what its target is, and
how it is reached; a target on the command line goes before.`,
		Example: `  rocescope test
  rocescope test --list
  rocescope test --tui                      cases and their packets on the screen
  rocescope test memory --misbehave rkey-unchecked
  rocescope test memory --only 'PSN-*' --tier full
  rocescope test memory --case BTH-01 --seed 0 --captures /tmp/bth -v
  sudo rocescope test 10.9.0.2 --junit result.xml --captures cases
  sudo rocescope test 10.9.0.2 --hook './core-hook.py /dev/uio0' --profile ernic
  rocescope test --pipe './simulation' --hook './simulation-hook'`,
		Args: arguments(0, 1, "one target"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.target = args[0]
			}
			o.given = cmd.Flags().Changed
			if o.serveHook {
				return a.serveHook(&o)
			}
			if o.list || o.markdown {
				return a.listCases(&o)
			}
			return a.test(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.tier, "tier", "quick", "which `cases`: quick, full or soak, each with those before it")
	f.StringSliceVar(&o.only, "only", nil, "only cases of these `IDs` or rows; * and ? stand for others")
	f.StringSliceVar(&o.skip, "skip", nil, "no cases of these `IDs` or rows")
	f.StringSliceVar(&o.cases, "case", nil, "exactly the cases of these `IDs`")
	f.IntVar(&o.repeat, "repeat", 1, "so many `times`, with another seed each time")
	f.Uint64Var(&o.seed, "seed", 0, "`number` that everything random comes from")
	f.BoolVar(&o.stopOnHang, "stop-on-hang", false, "end where the device hangs")
	f.StringVar(&o.profile, "profile", "", "what the device is known not to do: the `name` of a built-in profile, or a YAML file")
	f.StringVar(&o.file, "file", "", "cases from a YAML `file` instead of the built-in ones")
	f.StringVar(&o.captures, "captures", "", "a pcapng file of each case into this `directory`")
	f.StringVar(&o.junit, "junit", "", "the result as JUnit XML into this `file`")
	f.StringVar(&o.html, "html", "", "a report to hand on, a page for a browser, into this `file`")
	f.BoolVar(&o.json, "json", false, "the result as JSON (rocescope.test/1)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "all that is known of every case")
	f.BoolVar(&o.list, "list", false, "list the cases")
	f.BoolVar(&o.markdown, "markdown", false, "list the cases as Markdown, with the rows that they cover and the misbehaviours that they find")
	f.StringSliceVar(&o.misbehave, "misbehave", nil, "`names` of what the device in memory does wrong (rocescope serve --misbehave list)")
	f.StringVar(&o.hook, "hook", "", "`command` of the program that speaks for the device")
	f.StringVar(&o.pipe, "pipe", "", "`command` of the simulation of the device")
	f.StringVar(&o.counters, "counters", "", "`command` that prints the device's counters, \"name value\" on each line")
	f.DurationVar(&o.patience, "patience", 0, "how `long` an answer may take (default 100ms; of a simulation's time 10ms)")
	f.BoolVarP(&o.cm, "cm", "R", false, "connect by CM (rdma_cm)")
	f.StringArrayVar(&o.hand, "hand", nil, "the device's `numbers`, of the queue pair and of a bystander: qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000")
	f.BoolVar(&o.serveHook, "serve-hook", false, "be a device with a hook: our RNIC on the interface, told what to do on standard input")
	o.add(cmd, "the `interface` to send through (default: the one that the kernel takes)")
	f.BoolVar(&o.screen.on, "tui", false, "follow it on the screen: cases, what became of them, the packets of each; pause between two, stop")
	_ = f.MarkHidden("connection")
	_ = f.MarkHidden("mtu")
	for _, name := range []string{"case", "only", "skip"} {
		_ = cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return caseNames(prefix), cobra.ShellCompDirectiveNoFileComp
		})
	}
	_ = cmd.RegisterFlagCompletionFunc("tier", cobra.FixedCompletions(suite.Tiers, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// options are those of the suite.
func (o *testOptions) options() (so suite.Options, err error) {
	so = suite.Options{
		Tier: o.tier, Only: o.only, Skip: o.skip, Cases: o.cases, Repeat: o.repeat, Seed: o.seed, StopOnHang: o.stopOnHang, Captures: o.captures,
		Command: o.command(),
	}
	if o.repeat < 1 {
		return so, errUsage("--repeat cannot be %d", o.repeat)
	}
	if o.counters != "" {
		so.Counters = func(ctx context.Context) (map[string]int64, error) { return readCounters(ctx, o.counters) }
	}
	if o.profile == "" {
		return so, nil
	}
	known, err := suite.Profiles()
	if err != nil {
		return so, err
	}
	var names []string
	for _, p := range known {
		if p.Name == o.profile {
			so.Profile = p
			return so, nil
		}
		names = append(names, p.Name)
	}
	data, err := os.ReadFile(o.profile)
	if errors.Is(err, fs.ErrNotExist) {
		return so, errUsage("no profile is called %q, and there is no such file; there are %s", o.profile, strings.Join(names, ", "))
	}
	if err != nil {
		return so, errInput("%w", err)
	}
	if so.Profile, err = suite.ParseProfile(o.profile, data); err != nil {
		return so, errUsage("%w", err)
	}
	return so, nil
}

// command is how the command line of a reproducer begins.
func (o *testOptions) command() string {
	words := []string{"rocescope", "test"}
	if o.target != "memory" || o.pipe != "" {
		words = append(words, o.target)
	}
	for _, w := range []struct{ option, value string }{
		{"--misbehave", strings.Join(o.misbehave, ",")},
		{"--hook", o.hook},
		{"--pipe", o.pipe},
		{"--profile", o.profile},
		{"--file", o.file},
		{"-i", o.iface},
		{"--address", strings.Join(o.addrs, ",")},
	} {
		if w.value == "" {
			continue
		}
		if strings.ContainsAny(w.value, " '\"$*?;&|") {
			w.value = "'" + strings.ReplaceAll(w.value, "'", `'\''`) + "'"
		}
		words = append(words, w.option, w.value)
	}
	if o.cm {
		words = append(words, "-R")
	}
	return strings.Join(words, " ")
}

// readCounters asks a user's command.
func readCounters(ctx context.Context, command string) (map[string]int64, error) {
	out, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
	if err != nil {
		return nil, fmt.Errorf("--counters %q: %w", command, err)
	}
	all := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		v, err := strconv.ParseInt(words[len(words)-1], 0, 64)
		if err != nil {
			return nil, fmt.Errorf("--counters %q: %q is no number behind a name", command, strings.TrimSpace(line))
		}
		all[strings.TrimSuffix(words[0], ":")] = v
	}
	return all, nil
}

// scenario is the suite that is asked for.
func (o *testOptions) scenario() (*suite.Scenario, error) {
	if o.file == "" {
		return suite.Conformance()
	}
	s, err := suite.ReadFile(o.file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, errInput("%w", err)
	case err != nil:
		return nil, errUsage("%w", err)
	}
	return s, nil
}

// test runs `rocescope test`.
func (a *app) test(ctx context.Context, o *testOptions) error {
	s, err := o.scenario()
	if err != nil {
		return err
	}
	o.reachAs(s.Target)
	so, err := o.options()
	if err != nil {
		return err
	}
	if _, err := s.Select(&so); err != nil {
		return errUsage("%w", err)
	}
	var page *pageFile
	if o.html != "" {
		if page, err = createPage(o.html); err != nil {
			return err
		}
		defer page.abandon()
	}
	var junit *pageFile
	if o.junit != "" {
		if junit, err = createOwn("--junit", o.junit, "JUnit XML", []byte("<testsuite")); err != nil {
			return err
		}
		defer junit.abandon()
	}
	target, closeTarget, err := a.testTarget(ctx, o)
	if err != nil {
		return err
	}
	defer closeTarget()
	p := newTestPrinter(a, o)
	var res *suite.Result
	if o.screen.on {
		res, err = a.testOnScreen(ctx, o, target, s, so)
		for i := 0; res != nil && i < len(res.Cases); i++ {
			p.progress(i+1, len(res.Cases), &res.Cases[i])
		}
	} else {
		so.Progress = p.progress
		res, err = suite.Execute(ctx, target, s, so)
	}
	if res == nil {
		return err
	}
	if printed := p.end(res); printed != nil {
		return printed
	}
	if page != nil {
		if err := page.write(suitePage(res).Write); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if junit != nil {
		if err := junit.write(res.WriteJUnit); err != nil {
			return err
		}
	}
	if res.Failed() {
		return errJudged("%s", res.Summary())
	}
	return nil
}
