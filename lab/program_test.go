package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/rocescope/rocescope/lab/control"
)

// fakeGuest answers an agent's requests as told.
func fakeGuest(t *testing.T, answer func(control.Request, func(control.Answer))) *agent {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	out := json.NewEncoder(there)
	go func() {
		for in := bufio.NewScanner(there); in.Scan(); {
			var r control.Request
			if json.Unmarshal(in.Bytes(), &r) == nil {
				answer(r, func(a control.Answer) { _ = out.Encode(a) })
			}
		}
	}()
	return newAgent(here)
}

func TestProgramRuns(t *testing.T) {
	a := fakeGuest(t, func(r control.Request, say func(control.Answer)) {
		say(control.Answer{ID: r.ID, Out: []byte("to ")})
		say(control.Answer{ID: r.ID, Out: []byte(r.Run[1])})
		say(control.Answer{ID: r.ID, Done: true, Exit: len(r.Run) - 2})
	})
	if out, err := a.Run(time.Minute, "echo", "you"); out != "to you" || err != nil {
		t.Errorf("a good program: %q, %v", out, err)
	}
	var exit *ExitError
	if out, err := a.Run(time.Minute, "echo", "me", "not"); out != "to me" || !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("a bad program: %q, %v", out, err)
	}
}

func TestProgramThatDoesNotEndIsKilled(t *testing.T) {
	a := fakeGuest(t, func(r control.Request, say func(control.Answer)) {
		if r.Kill != 0 {
			say(control.Answer{ID: r.Kill, Done: true, Exit: 137})
		}
	})
	if _, err := a.Run(time.Nanosecond, "sleep", "forever"); !errors.Is(err, ErrPatience) {
		t.Errorf("it ended with %v", err)
	}
}

func TestGuestThatIsGoneEndsItsPrograms(t *testing.T) {
	var a *agent
	ready := make(chan struct{})
	a = fakeGuest(t, func(control.Request, func(control.Answer)) {
		<-ready
		a.conn.Close()
	})
	close(ready)
	if _, err := a.Run(time.Minute, "sleep", "forever"); err == nil {
		t.Error("it ended well")
	}
}
