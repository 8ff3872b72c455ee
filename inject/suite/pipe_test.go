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
