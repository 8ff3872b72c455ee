package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/noquery"
)

func init() { noquery.Over() } // by now Bubble Tea has been initialised

// Options say what the screen shows, and how.
type Options struct {
	Config Config
	// ConfigPath is the config file; "" without one.
	ConfigPath string
	Filter     string // in force from the start
	// View is what to begin with, by its action's name, and At the packet to go to; "" and 0 for the overview.
	View     string
	At       uint64
	Controls Controls   // a generator or suite; nil without
	Kept     Kept       // by earlier runs
	Keep     func(Kept) // called at the end, to keep it for later ones; nil keeps nothing
	Depth    cells.Depth
	ASCII    bool
	Input    io.Reader // standard input unless set
	Output   io.Writer // standard output unless set
}

// Kept is what the screen remembers from one run to the next.
type Kept struct {
	History []string          `json:"history,omitempty"` // filters, newest last
	Filters map[string]string `json:"filters,omitempty"` // those that were saved under a name
	Split   int               `json:"split,omitempty"`   // how much of the height lists get, in hundredths
	// Profiles are settings that were saved on the screen, by name: those of them that differ from none.
	Profiles map[string]Config `json:"profiles,omitempty"`
}

// app is the Bubble Tea model: it turns events into what the screen understands, runs effects, and keeps the text that was drawn
// last, so that nothing is drawn twice.
type app struct {
	screen *screen
	text   string
	asked  time.Time // for a snapshot
	every  time.Duration
	mouse  bool
	out    io.Writer
}

// tickMsg is a moment to look for news.
type tickMsg struct{}

// endedMsg is an effect that is over.
type endedMsg struct {
	key  string
	done func(*screen)
}

// Run shows the screen until the user leaves it or the context ends. The session stays open; it may be nil where there are
// controls. However Run ends, the terminal is as it was before.
func Run(ctx context.Context, ses *Session, o Options) error {
	s, err := newScreen(o, ses)
	if err != nil {
		return err
	}
	if o.Output == nil {
		o.Output = os.Stdout
	}
	a := &app{screen: s, every: o.Config.frame(), mouse: s.mouse}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithFPS(30)}
	if o.Input != nil {
		options = append(options, tea.WithInput(o.Input))
	}
	if s.mouse {
		options = append(options, tea.WithMouseCellMotion())
	}
	defer s.giveUp()
	defer wholeAgain(&o)()
	options = append(options, tea.WithOutput(o.Output))
	a.out = o.Output
	_, err = tea.NewProgram(a, options...).Run()
	if o.Keep != nil {
		o.Keep(s.kept())
	}
	switch {
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("the screen broke down: %w", &crash.Error{Value: err})
	case errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("the screen: %w", err)
	}
	return s.quitErr
}

// Init implements tea.Model.
func (a *app) Init() tea.Cmd { return a.next() }

// Update implements tea.Model. It does no I/O.
func (a *app) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	s := a.screen
	redraw := true
	var again tea.Cmd
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.resize(m.Width, m.Height)
	case tea.KeyMsg:
		s.tick() // keys are about what there is now
		for _, k := range pressesOf(m) {
			s.press(k)
		}
	case tea.MouseMsg:
		e, ok := mouseOf(m)
		if !ok {
			return a, nil
		}
		s.mouseAt(e)
	case endedMsg:
		s.ended(m.key, m.done)
	case tickMsg:
		redraw = a.tick()
		again = a.next()
	default:
		return a, nil
	}
	if s.quit {
		return a, tea.Quit
	}
	if redraw || a.text == "" {
		a.text = s.text()
	}
	cmds := []tea.Cmd{again}
	for _, e := range a.soon(s.takeEffects()) {
		cmds = append(cmds, func() tea.Msg { return endedMsg{e.key, e.run()} })
	}
	if len(s.out) > 0 {
		out := s.out
		s.out = nil
		cmds = append(cmds, func() tea.Msg {
			for _, text := range out {
				io.WriteString(a.out, text) // a terminal that does not know the sequence leaves it out
			}
			return nil
		})
	}
	for _, l := range s.takeLent() {
		cmds = append(cmds, tea.ExecProcess(l.cmd, func(err error) tea.Msg {
			return endedMsg{"", func(s *screen) { l.done(s, err) }}
		}))
	}
	if s.mouse != a.mouse {
		a.mouse = s.mouse
		if s.mouse {
			cmds = append(cmds, tea.EnableMouseCellMotion)
		} else {
			cmds = append(cmds, tea.DisableMouse)
		}
	}
	return a, tea.Batch(cmds...)
}

// grace is how long the event loop waits for packets that are to be shown: mostly they are in memory, and a goroutine that nobody
// waits for gets its turn when those that track have had theirs, a frame later.
const grace = 4 * time.Millisecond

// soon takes over what effects read that are done within the grace, and returns those that are to run beside the event loop.
func (a *app) soon(effects []effect) (late []effect) {
	s := a.screen
	for _, e := range effects {
		if !strings.HasPrefix(e.key, "rows ") {
			late = append(late, e)
			continue
		}
		done := make(chan func(*screen), 1)
		var broken error
		go func() {
			var f func(*screen)
			broken = crash.Sound(func() error { f = e.run(); return nil })
			done <- f
		}()
		await := func() func(*screen) {
			f := <-done
			if broken != nil {
				panic(broken) // where all panics of effects end
			}
			return f
		}
		over := time.NewTimer(grace)
		select {
		case f := <-done:
			done <- f
			s.ended(e.key, await())
			a.text = s.text()
			late = append(late, s.takeEffects()...)
		case <-over.C:
			late = append(late, effect{e.key, await})
		}
		over.Stop()
	}
	return late
}

// View implements tea.Model.
func (a *app) View() string { return a.text }

// tick looks for news, and asks for the next snapshot when it is time.
func (a *app) tick() bool {
	s := a.screen
	if s.ses != nil && !s.status.done {
		if now := time.Now(); now.Sub(a.asked) >= snapshotEvery(len(s.snapshot().Connections)) {
			a.asked = now
			s.ses.Request()
		}
	}
	changed := s.tick()
	return changed || s.working()
}

// next is the next tick: as often as there are frames while something moves, else now and then.
func (a *app) next() tea.Cmd {
	every := a.every
	if !a.screen.moving() {
		every = 500 * time.Millisecond
	}
	return tea.Tick(every, func(time.Time) tea.Msg { return tickMsg{} })
}
