package tui

import (
	"errors"
	"testing"
	"time"

	"github.com/rocescope/rocescope/tui/cells"
)

// fakeControls is a generator that notes what it was told.
type fakeControls struct {
	state State
	rate  string
	told  []string
}

func (f *fakeControls) Status() Status {
	return Status{
		Title: "inject write to 10.0.0.2", State: f.state, Since: time.Unix(1_700_000_000-90, 0), Asked: "10Gbps",
		Packet: Rates{PacketsPerSecond: 1_150_000, BitsPerSecond: 9.97e9}, Sent: 103_500_000, Left: 11_500_000, Done: 0.9,
		Facts: []Fact{{Name: "acked", Value: "103,400,112"}, {Name: "NAKs", Value: "12 PSN sequence error", Bad: true}},
		Rules: []Rule{{Text: "drop:psn=+5", Seen: 103_500_000, Applied: 12}, {Text: "icrc:flip", Seen: 9}},
		Cases: []Case{
			{Name: "write only", Verdict: "pass", Took: 12 * time.Millisecond},
			{Name: "duplicate READ", Verdict: "fail", Why: "answered with other data", Took: 90 * time.Millisecond},
		},
		CanStart: true, CanPause: true, CanStop: true, CanRate: true,
	}
}

func (f *fakeControls) tell(what string) error { f.told = append(f.told, what); return nil }
func (f *fakeControls) Start() error           { f.state = Running; return f.tell("start") }
func (f *fakeControls) Stop() error            { f.state = Stopped; return f.tell("stop") }
func (f *fakeControls) Pause() error           { f.state = Paused; return f.tell("pause") }
func (f *fakeControls) Resume() error          { f.state = Running; return f.tell("resume") }

func (f *fakeControls) SetRate(rate string) error {
	if rate == "fast" {
		return errors.New("\"fast\" is no rate; rates look like 10Gbps")
	}
	f.rate = rate
	return f.tell("rate")
}

func TestTrafficIsSteered(t *testing.T) {
	ctl := &fakeControls{}
	s, err := newScreen(Options{Controls: ctl, Depth: cells.Color256}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	s.resize(100, 30)
	u := &user{t, s}
	u.settle()
	u.sees("inject write to 10.0.0.2", "9.97 Gbit/s", "drop:psn=+5", "duplicate READ", "answered with other data")
	u.press("S").sees("Start inject write to 10.0.0.2, at 10Gbps?").press("y").sees("running for 1m30s")
	u.press("p").sees("paused").press("p")
	u.press("r", "ctrl-u", "fast", "enter").sees("is no rate")
	u.press("r", "ctrl-u", "5Gbps", "enter")
	if ctl.rate != "5Gbps" {
		t.Errorf("rate %q", ctl.rate)
	}
	u.press("q").sees("Traffic is being sent. Stop it and quit?").press("n")
	if s.quit {
		t.Error("quit although it was not meant")
	}
	u.press("/", "4", "e", "w")
}
