package tui

import (
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/exp/teatest"

	"github.com/rocescope/rocescope/tui/cells"
)

// user sits at the program: keys go through Bubble Tea, as they come from a terminal, and what is seen is what it draws then.
// Between two keys the program has come to rest, so that tests may look at the screen itself.
type user struct {
	t    *testing.T
	s    *screen
	tm   *teatest.TestModel
	left chan struct{}
	out  chan string // what was written to the terminal beside the screen: copies
}

// Write implements io.Writer for what the program writes beside the screen.
func (u *user) Write(p []byte) (int, error) {
	u.out <- string(p)
	return len(p), nil
}

// seated is the program with a way in for tests: functions that are sent to it run between two events. Nothing in it depends on
// the clock: moments to look for news come when a test waits for rest, and not else.
type seated struct {
	*app
	left chan struct{} // closed when the user has left
	once *sync.Once
}

// visit is a function that is sent to the program, which closes done when all that it asked for is taken up.
type visit struct {
	run  func()
	done chan struct{}
}

func (m seated) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	select {
	case <-m.left:
		return m, nil // the screen is the test's: see do
	default:
	}
	v, visited := msg.(visit)
	if visited {
		v.run()
		msg = endedMsg{}
	} else if _, tick := msg.(tickMsg); tick {
		return m, nil
	}
	_, cmd := m.app.Update(msg)
	if visited {
		close(v.done)
	}
	if m.screen.quit {
		m.once.Do(func() { close(m.left) })
	}
	return m, cmd
}

// openUser opens a capture, and waits until it was read.
func openUser(t *testing.T, path string, w, h int) *user {
	t.Helper()
	ses := openSession(t, path)
	<-ses.index.Done()
	return seat(t, Options{Depth: cells.Color256}, ses, w, h)
}

// seat starts the program, at a time that stays.
func seat(t *testing.T, o Options, ses *Session, w, h int) *user {
	t.Helper()
	s, err := newScreen(o, ses)
	if err != nil {
		t.Fatal(err)
	}
	fixed := time.Unix(1_700_000_000, 0)
	s.now = func() time.Time { return fixed }
	s.resize(w, h)
	u := &user{t: t, s: s, left: make(chan struct{}), out: make(chan string, 100)}
	u.tm = teatest.NewTestModel(t, seated{&app{screen: s, mouse: s.mouse, out: u}, u.left, new(sync.Once)}, teatest.WithInitialTermSize(w, h))
	t.Cleanup(func() {
		_ = u.tm.Quit() // it may have ended
		u.tm.WaitFinished(t, teatest.WithFinalTimeout(time.Minute))
		s.giveUp()
	})
	u.settle()
	return u
}

// do runs a function between two events of the program, and waits for it; behind the last one it simply runs it.
func (u *user) do(f func()) {
	done := make(chan struct{})
	u.tm.Send(visit{f, done})
	select {
	case <-done:
	case <-u.left:
		select {
		case <-done:
		default:
			f()
		}
	}
}

// settle waits until everything that was asked for has ended.
func (u *user) settle() {
	u.t.Helper()
	rest := 0
	for began := time.Now(); time.Since(began) < time.Minute; {
		busy := false
		u.do(func() {
			if v := u.s.filter.view; v != nil {
				complete, err := v.State()
				busy = !complete && err == nil
			}
			u.s.tick()
			u.s.draw() // asks for what is missing
			busy = busy || len(u.s.busy)+len(u.s.effects) > 0
		})
		if rest++; busy {
			rest = 0
			time.Sleep(time.Millisecond)
		}
		if rest == 2 {
			return
		}
	}
	u.t.Fatal("the screen does not come to rest")
}

// teaKeys are Bubble Tea's key presses by our names of them.
var teaKeys = func() map[string]tea.KeyMsg {
	all := map[string]tea.KeyMsg{}
	for k := tea.KeyType(-100); k <= 127; k++ {
		if m := (tea.KeyMsg{Type: k}); k != tea.KeyRunes && m.String() != "" {
			all[keyName(m.String())] = m
		}
	}
	return all
}()

// press presses keys; a word that is no key's name is typed.
func (u *user) press(keys ...string) *user {
	u.t.Helper()
	for _, k := range keys {
		if m, ok := teaKeys[k]; ok {
			u.tm.Send(m)
		} else if r := []rune(strings.TrimPrefix(k, "alt-")); len(r) == 1 && len(k) == len("alt-")+1 {
			u.tm.Send(tea.KeyMsg{Type: tea.KeyRunes, Runes: r, Alt: true})
		} else {
			u.tm.Type(k)
		}
		u.settle()
	}
	return u
}

// click clicks with the mouse.
func (u *user) click(x, y int) *user {
	u.t.Helper()
	u.tm.Send(tea.MouseMsg{X: x, Y: y, Button: tea.MouseButtonLeft, Action: tea.MouseActionPress})
	u.settle()
	return u
}

// drag moves the mouse with its button held.
func (u *user) drag(x, y, toX, toY int) *user {
	u.t.Helper()
	u.tm.Send(tea.MouseMsg{X: x, Y: y, Button: tea.MouseButtonLeft, Action: tea.MouseActionPress})
	u.tm.Send(tea.MouseMsg{X: toX, Y: toY, Button: tea.MouseButtonLeft, Action: tea.MouseActionMotion})
	u.tm.Send(tea.MouseMsg{X: toX, Y: toY, Action: tea.MouseActionRelease})
	u.settle()
	return u
}

// at is where a text is on the screen.
func (u *user) at(text string) (x, y int) {
	u.t.Helper()
	for y, line := range strings.Split(u.screen(), "\n") {
		if i := strings.Index(line, text); i >= 0 {
			return len([]rune(line[:i])), y
		}
	}
	u.t.Fatalf("%q is not on the screen:\n%s", text, u.screen())
	return 0, 0
}

// clickOn clicks on the last character of a text.
func (u *user) clickOn(text string) *user {
	u.t.Helper()
	x, y := u.at(text)
	return u.click(x+len([]rune(text))-1, y)
}

// screen is what is on the screen.
func (u *user) screen() (text string) {
	u.do(func() { text = u.s.draw().Plain() })
	return text
}

// sees fails unless all texts are on the screen.
func (u *user) sees(texts ...string) *user {
	u.t.Helper()
	screen := u.screen()
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			u.t.Fatalf("%q is not on the screen:\n%s", text, screen)
		}
	}
	return u
}

func (u *user) seesNot(texts ...string) *user {
	u.t.Helper()
	screen := u.screen()
	for _, text := range texts {
		if strings.Contains(screen, text) {
			u.t.Fatalf("%q is on the screen:\n%s", text, screen)
		}
	}
	return u
}
