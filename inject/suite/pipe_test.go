package suite

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/inject/port"
)

// simulation is a target of our simulated RNIC behind a pipe.
func simulation(misbehave ...string) *Piped {
	return &Piped{Title: "a simulated core", Open: func(context.Context) (*port.Pipe, Device, error) {
		core, err := NewSimulatedRNIC(3, misbehave...)
		if err != nil {
			return nil, nil, err
		}
		theirs, ours := io.Pipe()
		our, their := io.Pipe()
		go func() { _ = port.ServePipe(theirs, their, 9216, core); their.Close() }()
		return port.NewPipe(our, ours, port.Options{MaxFrame: 9000}), core.Hook, nil
	}}
}

// TestPipe: a simulated core behind a pipe passes what our RNIC in memory passes, and what it does wrong is found there too.
func TestPipe(t *testing.T) {
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Seed: 1, Only: []string{"GOOD-*", "BTH-0*", "RETH-0[17]", "PSN-0*", "Q-WRITE", "Q-READ", "ACK-0[12]", "RNR-01", "D6", "D7"}}
	res, err := Execute(t.Context(), simulation(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range res.Cases {
		if c := &res.Cases[i]; c.Status != Passed {
			t.Errorf("%s: %s", c.ID, c.Text())
		}
	}
	for misbehaviour, id := range map[string]string{"pad-written": "D6", "gap-silent": "PSN-01", "rnr-as-ack": "RNR-01"} {
		res, err := Execute(t.Context(), simulation(misbehaviour), s, Options{Seed: 1, Cases: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		if c := &res.Cases[0]; !c.finds() {
			t.Errorf("%s does not find %s: %s", id, misbehaviour, c.Text())
		}
	}
}

// flooding is a core that sends without end once it got a frame.
type flooding struct {
	*SimulatedRNIC
	fed  bool
	left int
}

func (f *flooding) Feed(frame []byte, time int64) {
	f.fed = true
	f.SimulatedRNIC.Feed(frame, time)
}

func (f *flooding) Run(until int64) (int64, int64) {
	if !f.fed {
		return f.SimulatedRNIC.Run(until)
	}
	f.now, f.left = min(f.now+100, until), 64
	return f.now, 0
}

func (f *flooding) Sent() ([]byte, int64) {
	if f.left == 0 {
		return f.SimulatedRNIC.Sent()
	}
	f.left--
	return append(append(append([]byte(nil), ourMAC[:]...), deviceMAC[:]...), make([]byte, 48)...), f.now
}

// mute is a core that takes frames and never sends one.
type mute struct{ *SimulatedRNIC }

func (m *mute) Feed([]byte, int64) {}

// inTurn is a target whose second device is another one than the first and the third.
func inTurn(second func(*SimulatedRNIC) (port.Core, Device)) *Piped {
	n := 0
	return &Piped{Title: "a core that is not always itself", Open: func(context.Context) (*port.Pipe, Device, error) {
		core, err := NewSimulatedRNIC(3)
		if err != nil {
			return nil, nil, err
		}
		var c port.Core = core
		var d Device = core.Hook
		if n++; n == 2 {
			c, d = second(core)
		}
		theirs, ours := io.Pipe()
		our, their := io.Pipe()
		go func() { _ = port.ServePipe(theirs, their, 9216, c); their.Close() }()
		return port.NewPipe(our, ours, port.Options{MaxFrame: 9000}), d, nil
	}}
}

// TestMute: a device that never answers, and a hook that never does, cost bounded time and are named as that; the results before and
// behind them are kept.
func TestMute(t *testing.T) {
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		second func(*SimulatedRNIC) (port.Core, Device)
		want   Status
		says   string
	}{
		{func(c *SimulatedRNIC) (port.Core, Device) { return &mute{c}, c.Hook }, Hung, "the device answers no ping and executes requests on no queue pair any more"},
		{func(c *SimulatedRNIC) (port.Core, Device) {
			h, err := StartHook(t.Context(), "exec sleep 1000", 10*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			return c, h
		}, Broken, "did not answer"},
	} {
		res, err := Execute(t.Context(), inTurn(x.second), s, Options{Cases: []string{"BTH-01", "GOOD-WRITE", "BTH-06"}})
		if err != nil || len(res.Cases) != 3 {
			t.Fatal(res, err)
		}
		for i, want := range []Status{Passed, x.want, Passed} {
			if c := &res.Cases[i]; c.Status != want {
				t.Errorf("%s: %s; want %s\n%s", c.ID, c.Status, want, c.Text())
			}
		}
		if text := res.Cases[1].Text(); !strings.Contains(text, x.says) {
			t.Errorf("the case does not say %q:\n%s", x.says, text)
		}
	}
}

// TestHookThatStays: a hook's program that does not end with its input is ended.
func TestHookThatStays(t *testing.T) {
	h, err := StartHook(t.Context(), "exec sleep 1000", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err == nil || !strings.Contains(err.Error(), "and was killed") {
		t.Errorf("it ended with %v", err)
	}
	if h, err = StartHook(t.Context(), "cat >/dev/null", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil && !strings.Contains(err.Error(), "and was killed") { // on a busy machine
		t.Error(err)
	}
}

// TestFlood: a device that floods costs bounded memory and time, and the results so far are kept.
func TestFlood(t *testing.T) {
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	target := inTurn(func(c *SimulatedRNIC) (port.Core, Device) { return &flooding{SimulatedRNIC: c}, c.Hook })
	res, err := Execute(t.Context(), target, s, Options{Cases: []string{"BTH-01", "BTH-05", "BTH-06"}})
	if err != nil || len(res.Cases) != 3 {
		t.Fatal(res, err)
	}
	for i, want := range []Status{Passed, Failed, Passed} {
		if c := &res.Cases[i]; c.Status != want || c.Frames > maxFrames {
			t.Errorf("%s: %s, %d frames; want %s\n%s", c.ID, c.Status, c.Frames, want, c.Text())
		}
	}
}
