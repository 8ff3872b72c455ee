package suite

import (
	"context"
	"io"
	"testing"

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

// TestFlood: a device that floods costs bounded memory and time, and the results so far are kept.
func TestFlood(t *testing.T) {
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	target := &Piped{Title: "a core that floods", Open: func(context.Context) (*port.Pipe, Device, error) {
		core, err := NewSimulatedRNIC(3)
		if err != nil {
			return nil, nil, err
		}
		var c port.Core = core
		if n++; n == 2 {
			c = &flooding{SimulatedRNIC: core}
		}
		theirs, ours := io.Pipe()
		our, their := io.Pipe()
		go func() { _ = port.ServePipe(theirs, their, 9216, c); their.Close() }()
		return port.NewPipe(our, ours, port.Options{MaxFrame: 9000}), core.Hook, nil
	}}
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
