package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/muesli/termenv"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/tui"
	"github.com/rocescope/rocescope/tui/cells"
)

// tuiOptions are the options of `rocescope tui`.
type tuiOptions struct {
	live               liveFlags
	read               []string       // -r
	filter             string         // -Y
	flags              *pflag.FlagSet // that these options are of; nil where there are none
	theme              string
	ascii, mouse, slow bool
	fps                uint
	config, profile    string
	view               string
	at                 uint64
	keys, markdown     bool
	ring               uint // MiB
	spool              uint // MiB
	title              string
	count              uint64
	exchange           exchangeFiles
	decode             decodeAs // -d
}

func newTUICommand(a *app) *cobra.Command {
	var o tuiOptions
	cmd := &cobra.Command{
		Use:   "tui [FILE... | -i IFACE | -]",
		Short: "Browse a capture, or traffic while it passes, on the screen",
		Long: `Browse a capture, or the traffic of an interface while it passes: overview, connections,
messages, packets down to their bits, the ladder of a connection, and findings with
what they mean. "rocescope FILE" and "rocescope IFACE" do the same on a terminal.

? shows all keys, : every action by its name, / the display filter. Of a live capture
the newest packets are kept in memory (--ring), and on disk if that is asked for
(--spool); whatever is on the screen, the capture never waits for it.`,
		Example: `  rocescope trace.pcapng
  sudo rocescope tui -i eth1
  ssh host tcpdump -U -w - udp port 4791 | rocescope tui -
  rocescope tui trace.pcapng -Y 'flow.retransmission' --theme light
  rocescope tui trace.pcapng --view ladder --at 88 --profile lab
  rocescope tui --keys                      all keys`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.keys || o.markdown:
				return a.printText(tui.KeyTable(o.markdown))
			}
			in, err := o.live.input(cmd, append(o.read, args...), &o.count)
			if err != nil {
				return err
			}
			return a.browse(cmd.Context(), in, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.live.add(cmd)
	f.StringArrayVarP(&o.read, "read", "r", nil, "a `file` to read, as an argument is")
	f.StringVarP(&o.filter, "filter", "Y", "", "the display `filter` to begin with")
	f.StringVar(&o.view, "view", "", "the `view` to begin with: "+strings.Join(tui.Views(), ", "))
	f.Uint64Var(&o.at, "at", 0, "the `packet` to go to, by its number")
	_ = cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions(tui.Views(), cobra.ShellCompDirectiveNoFileComp))
	f.UintVarP(&o.live.ring, "buffer-size", "B", 256, "with -i: size of the kernel's ring in `MiB`, from which packets are taken")
	f.StringVar(&o.live.engine, "engine", "packet", "with -i, `how`: packet (a copy; the host goes on seeing them) or xdp (takes them from the host; where that cannot be, packet, and the screen says why)")
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions([]string{"packet", "xdp"}, cobra.ShellCompDirectiveNoFileComp))
	o.live.orPacket = true
	f.UintVar(&o.ring, "ring", 64, "with -i: how many `MiB` of the newest packets are kept in memory")
	f.UintVar(&o.spool, "spool", 0, "with -i: how many `MiB` of older packets are kept in a temporary file")
	o.decode.add(cmd)
	o.exchange.add(f)
	o.addLooks(cmd)
	f.BoolVar(&o.keys, "keys", false, "print all keys, with the names that the config file knows them by")
	f.BoolVar(&o.markdown, "markdown", false, "print them as the page docs/keys.md")
	_ = cmd.RegisterFlagCompletionFunc("filter", completeFilter)
	return cmd
}

// addLooks adds the options about the screen itself.
func (o *tuiOptions) addLooks(cmd *cobra.Command) {
	f := cmd.Flags()
	o.flags = f
	var names []string
	for _, t := range cells.Themes {
		names = append(names, t.Name)
	}
	f.StringVar(&o.profile, "profile", "", "settings for an occasion, by their `name`: those of the config file, and those that the screen saved")
	f.StringVar(&o.theme, "theme", "", "`colours`: "+strings.Join(names, ", ")+", or one of the config file; unset, the terminal is asked whether it is dark")
	f.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	f.BoolVar(&o.mouse, "mouse", true, "take mouse events; --mouse=false leaves them to the terminal, and M switches while the screen is open")
	f.UintVar(&o.fps, "fps", 10, "`frames` a second at most, 1 to 30")
	f.BoolVar(&o.slow, "low-bandwidth", false, "for slow lines: two frames a second, ASCII, sixteen colours")
	f.StringVar(&o.config, "config", "", "the config `file`; else ROCESCOPE_CONFIG, else config.yaml in the user's folder for rocescope")
	_ = cmd.RegisterFlagCompletionFunc("profile", o.completeProfile)
	_ = cmd.RegisterFlagCompletionFunc("theme", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) printText(text string) error {
	_, err := fmt.Fprint(a.stdout, text)
	return err
}

// browse shows an input on the screen until the user leaves it.
func (a *app) browse(ctx context.Context, in *input, o *tuiOptions) error {
	ctx, done := untilHangup(ctx)
	defer done()
	screen, err := a.screenOptions(o)
	if err != nil {
		return err
	}
	decode, err := o.decode.parse()
	if err != nil {
		return err
	}
	exchanges, err := o.exchange.read()
	if err != nil {
		return err
	}
	screen.Filter = o.filter
	if o.filter != "" {
		if _, _, err := compileFilter(o.filter); err != nil {
			return err
		}
	}
	if slices.Contains(in.paths, "-") { // standard input is the capture: keys come from the terminal itself
		tty, err := os.Open("/dev/tty")
		if err != nil {
			return errUnavailable("the capture comes from standard input, and there is no terminal for the keys: %w", err)
		}
		defer tty.Close()
		screen.Input = tty
	}
	input := a.sessionInput(in, o)
	input.Engine.Tracker.Exchanges = exchanges
	input.Engine.Tracker.DecodeAs = decode
	ses, err := tui.NewSession(ctx, input)
	if err != nil {
		return inputError(err)
	}
	defer ses.Close()
	if err := tui.Run(ctx, ses, screen); err != nil {
		return err
	}
	if err := ses.Err(); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return runError(err)
	}
	return nil
}

// sessionInput is an input as the screen reads it.
func (a *app) sessionInput(in *input, o *tuiOptions) tui.Input {
	var live atomic.Pointer[endingSource]
	t := tui.Input{
		Title: strings.Join(in.paths, " "), Again: in.twice() && in.live == nil, Live: in.stream,
		Ring: int64(o.ring) << 20, SpoolBytes: int64(o.spool) << 20,
		Engine: engine.Options{MayBlock: in.stream, MaxFrames: o.count},
		Open: func(ctx context.Context) (captures.Source, error) {
			src, err := in.open(ctx)
			if e, ok := src.(*endingSource); ok {
				live.Store(e)
			}
			return src, err
		},
	}
	if o.title != "" {
		t.Title = o.title
	}
	switch {
	case in.live != nil:
		t.Command = "rocescope tui -i " + in.live.name
		if in.live.engine == string(captures.EngineXDP) {
			t.Command += " --engine xdp"
		}
		if in.live.filter != "" {
			t.Command += " -f '" + strings.ReplaceAll(in.live.filter, "'", `'\''`) + "'"
		}
		t.Loss = func() (uint64, bool) {
			l := live.Load()
			if l == nil {
				return 0, false
			}
			st := l.Stats()
			return st.RingDropped + st.CardDropped, true
		}
		t.Engines = func() (by, instead string) {
			l := live.Load()
			if l == nil {
				return "", ""
			}
			return in.live.engines(l.instead)
		}
		t.Hint = []string{
			"Capturing on " + in.live.name + ".",
			"Where a card does the work of RDMA itself, the host does not see these packets: capture on a mirror port or on the other end.",
			"\"rocescope doctor " + in.live.name + "\" says what can be seen here.",
		}
	default:
		if len(in.paths) == 1 && in.paths[0] != "-" {
			t.File = in.paths[0]
		}
		t.Command = "rocescope tui " + strings.Join(in.paths, " ")
	}
	return t
}

// screenOptions are the config file's, and the command line's over them.
func (a *app) screenOptions(o *tuiOptions) (tui.Options, error) {
	if !a.stdout.isTerminal {
		return tui.Options{}, errUsage("the screen needs a terminal; \"rocescope analyze\" and \"rocescope show\" write text")
	}
	s := tui.Options{Output: a.stdout.file, Depth: a.colorDepth(), ASCII: !speaksUnicode(), View: o.view, At: o.at}
	s.Kept, s.Keep = keptState()
	var err error
	if s.Config, s.ConfigPath, err = o.settings(s.Kept.Profiles); err != nil {
		return s, err
	}
	if o.view != "" && !slices.Contains(tui.Views(), o.view) {
		return s, errUsage("--view cannot be %q; there are %s", o.view, strings.Join(tui.Views(), ", "))
	}
	slow := s.Config.LowBandwidth
	if slow != nil && *slow {
		s.Depth, s.ASCII = min(s.Depth, cells.Color16), true
	}
	if s.Config.Unicode != nil {
		s.ASCII = !*s.Config.Unicode
	}
	if s.Config.Theme == "" || s.Config.Theme == "auto" {
		s.Config.Theme = "dark"
		if s.Depth > cells.NoColor && !termenv.NewOutput(a.stdout.file).HasDarkBackground() {
			s.Config.Theme = "light"
		}
	}
	return s, nil
}

// settings are the config file's with a profile, and the command line's over them.
func (o *tuiOptions) settings(saved map[string]tui.Config) (c tui.Config, path string, err error) {
	path, data, err := readConfig(o.config)
	if err != nil {
		return c, path, err
	}
	if c, err = tui.ParseConfig(path, data, ""); err != nil {
		return c, path, errUsage("%w", err)
	}
	c.AddProfiles(saved)
	if o.profile != "" {
		if c, err = c.Profile(o.profile); err != nil {
			return c, path, errUsage("--profile: %w", err)
		}
	}
	if o.theme != "" {
		if !c.HasTheme(o.theme) {
			return c, path, errUsage("--theme cannot be %q; there are dark, light, contrast, colorblind and mono, and those of the config file", o.theme)
		}
		c.Theme = o.theme
		c.Say("theme", "--theme")
	}
	if o.ascii {
		off := false
		c.Unicode = &off
		c.Say("unicode", "--ascii")
	}
	if o.flags == nil {
		return c, path, nil
	}
	if o.flags.Changed("mouse") {
		c.Mouse = &o.mouse
		c.Say("mouse", "--mouse")
	}
	if o.flags.Changed("low-bandwidth") {
		c.LowBandwidth = &o.slow
		c.Say("low-bandwidth", "--low-bandwidth")
	}
	if o.flags.Changed("fps") {
		if o.fps < 1 || o.fps > 30 {
			return c, path, errUsage("--fps cannot be %d; it is from 1 to 30", o.fps)
		}
		c.FPS = int(o.fps)
		c.Say("fps", "--fps")
	}
	return c, path, nil
}

// completeProfile completes the names of profiles.
func (o *tuiOptions) completeProfile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	kept, _ := keptState()
	c, _, err := (&tuiOptions{config: o.config}).settings(kept.Profiles)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.Profiles(), cobra.ShellCompDirectiveNoFileComp
}

// colorDepth is how many colours the terminal has, as far as its environment says.
func (a *app) colorDepth() cells.Depth {
	name := os.Getenv("TERM")
	switch {
	case a.color == colorNever, a.color != colorAlways && (os.Getenv("NO_COLOR") != "" || name == "dumb" || name == ""):
		return cells.NoColor
	case os.Getenv("COLORTERM") != "", strings.Contains(name, "256"), strings.Contains(name, "kitty"), strings.Contains(name, "alacritty"), strings.Contains(name, "direct"):
		return cells.Color256
	}
	return cells.Color16
}

// speaksUnicode says whether the terminal shows more than ASCII, as far as the locale tells.
func speaksUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	name := os.Getenv("TERM")
	return name != "linux" && name != "dumb" && !strings.HasPrefix(name, "vt")
}

// readConfig reads the config file. One that was not asked for by name may be absent.
func readConfig(path string) (string, []byte, error) {
	asked := path != ""
	if !asked {
		var err error
		if path, err = configPath(); err != nil {
			return "", nil, nil
		}
		asked = os.Getenv("ROCESCOPE_CONFIG") != ""
	}
	data, err := os.ReadFile(path)
	switch {
	case err == nil || (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) && !asked: // there may be none, or that of another user, as under sudo
		return path, data, nil
	default:
		return path, nil, errUsage("the config file cannot be read: %w", err)
	}
}

// mostHistory is how many filters are remembered.
const mostHistory = 200

// keptState is what earlier runs of the screen wanted to be remembered, and how to remember it of this one.
func keptState() (k tui.Kept, keep func(tui.Kept)) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return k, nil
	}
	path := filepath.Join(dir, "rocescope", "screen.json")
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &k) != nil {
		k = tui.Kept{} // whatever is in it, it is not ours
	}
	return k, func(k tui.Kept) {
		k.History = k.History[max(0, len(k.History)-mostHistory):]
		if data, err := json.MarshalIndent(k, "", "  "); err == nil && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			_ = os.WriteFile(path, append(data, '\n'), 0o600) // without it, the next run knows less
		}
	}
}

// opensScreen says whether `rocescope FILE` opens the screen: on a terminal, and where all options are the screen's.
func (a *app) opensScreen(root *cobra.Command, args []string) bool {
	if !a.stdout.isTerminal || os.Getenv("TERM") == "dumb" {
		return false
	}
	for _, c := range root.Commands() {
		if c.Name() != "tui" {
			continue
		}
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch {
			case arg == "-" || !strings.HasPrefix(arg, "-"):
			case strings.HasPrefix(arg, "--") && c.Flags().Lookup(name) == nil && root.PersistentFlags().Lookup(name) == nil:
				return false
			case !strings.HasPrefix(arg, "--") && c.Flags().ShorthandLookup(name[:1]) == nil && name != "h":
				return false
			}
		}
		return true
	}
	return false
}
