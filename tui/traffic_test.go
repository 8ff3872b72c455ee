package tui

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/tui/cells"
)

// fakeControls is a generator that notes what it was told.
type fakeControls struct {
	mu      sync.Mutex // the screen reads while what it asked for runs
	state   State
	suite   bool
	capture string // of the failed case
	rate    string
	told    []string
}

func (f *fakeControls) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.suite {
		return f.suiteStatus()
	}
	return Status{
		Title: "inject write to 10.0.0.2", State: f.state, Since: time.Unix(1_700_000_000-90, 0), Asked: "10Gbps",
		Counted: "sent", Packet: Rates{PacketsPerSecond: 1_150_000, BitsPerSecond: 9.97e9}, Sent: 103_500_000, Left: 11_500_000, Done: 0.9,
		Facts:    []Fact{{Name: "acked", Value: "103,400,112"}, {Name: "NAKs", Value: "12 PSN sequence error", Bad: true}},
		Rules:    []Rule{{Text: "drop:psn=+5", Seen: 103_500_000, Applied: 12}, {Text: "icrc:flip", Seen: 9}},
		CanStart: f.state == Stopped, CanPause: true, CanStop: true, CanRate: true,
	}
}

// suiteStatus is that of a suite.
func (f *fakeControls) suiteStatus() Status {
	return Status{
		Title: "conformance against memory", State: f.state, Since: time.Unix(1_700_000_000-4, 0), Done: 2. / 141,
		Facts: []Fact{{Name: "cases", Value: "2 of 141: 1 failed, 1 passed", Bad: true}},
		Total: 141,
		Cases: []Case{
			{Name: "GOOD-WRITE", Title: "good WRITEs", Verdict: CasePassed, Status: "passed", Took: 12 * time.Millisecond, Seen: "as required"},
			{
				Name: "PSN-04", Title: "duplicate READ", Verdict: CaseFailed, Status: "failed", Took: 90 * time.Millisecond,
				Required: "the same data again", Seen: "answered with other data", Rule: "IBA 9.7.5.1.1", Again: "rocescope test --case PSN-04", Capture: f.capture,
				Packets: []CasePacket{
					{Number: 7, Time: 1200 * time.Microsecond, Ours: true, Text: "RC RDMA READ Request to QP 0x001234, PSN 2"},
					{Number: 8, Time: 1300 * time.Microsecond, Text: "RC RDMA READ Response Only to QP 0x000011, PSN 2"},
				},
			},
		},
		CanPause: true, CanStop: true,
	}
}

// becomes notes what was told, and the state that comes of it.
func (f *fakeControls) becomes(state State, told string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.told = state, append(f.told, told)
	return nil
}

func (f *fakeControls) Start() error  { return f.becomes(Running, "start") }
func (f *fakeControls) Stop() error   { return f.becomes(Stopped, "stop") }
func (f *fakeControls) Pause() error  { return f.becomes(Paused, "pause") }
func (f *fakeControls) Resume() error { return f.becomes(Running, "resume") }

func (f *fakeControls) SetRate(rate string) error {
	if rate == "fast" {
		return errors.New("\"fast\" is no rate; rates look like 10Gbps")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.told = rate, append(f.told, "rate")
	return nil
}

func TestTrafficIsSteered(t *testing.T) {
	ctl := &fakeControls{}
	u := seat(t, Options{Controls: ctl, Depth: cells.Color256}, nil, 100, 40)
	u.sees("inject write to 10.0.0.2", "asked     10Gbps", "drop:psn=+5")
	u.press("S").sees("Start inject write to 10.0.0.2, at 10Gbps?").press("y").sees("running for 1m30s", "9.97 Gbit/s")
	u.press("p").sees("paused").press("p")
	u.press("r", "ctrl-u", "fast", "enter").sees("is no rate")
	u.press("r", "ctrl-u", "5Gbps", "enter")
	if ctl.rate != "5Gbps" {
		t.Errorf("rate %q", ctl.rate)
	}
	u.press("q").sees("Traffic is being sent. Stop it and quit?").press("n")
	if u.s.quit {
		t.Error("quit although it was not meant")
	}
	u.press("/", "4", "e", "w")
}

// TestCasesAreFollowedAndOpened goes from a suite to a case, and from there to its packets as a capture of their own.
func TestCasesAreFollowedAndOpened(t *testing.T) {
	ctl := &fakeControls{suite: true, state: Running}
	u := seat(t, Options{Controls: ctl, Depth: cells.Color256}, nil, 100, 40)
	u.sees("Cases (2 of 141)", "✗ PSN-04", "required  the same data again", "answered with other data", "us ──▶ device  RC RDMA READ Request", "us ◀── device")
	u.seesNot("achieved", "change the rate")
	u.press("enter").sees("its packets are there when it has ended")
	u.press("g").sees("good WRITEs", "required").seesNot("us ──▶ device")
	ctl.mu.Lock()
	ctl.capture = sampleFile(t, samples.Default)
	ctl.mu.Unlock()
	u.press("G", "enter").sees("PSN-04 ▸", "Ladder of #1", "NAK PSN sequence error", "8 Traffic")
	u.press("/", "flow.nak", "enter").sees("/  flow.nak")
	u.press("8").sees("Cases (2 of 141)")
	u.press("enter").sees("PSN-04 ▸", "Ladder of #1", "NAK PSN sequence error").seesNot("flow.nak")
	u.press("esc", "esc").sees("Cases (2 of 141)")
}
