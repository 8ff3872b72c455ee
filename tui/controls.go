package tui

import "time"

// Controls is a generator or a suite that runs while the screen is open, as far as the screen steers it. All methods may be called
// from any goroutine and do not wait for packets.
type Controls interface {
	// Status is what it does now.
	Status() Status
	// Start begins, or begins again; Stop ends; Pause and Resume hold the traffic up without ending it. Each fails with a
	// sentence where it cannot be.
	Start() error
	Stop() error
	Pause() error
	Resume() error
	// SetRate changes the rate that is asked for, in the words of --rate ("10Gbps", "1Mpps", "max").
	SetRate(rate string) error
}

// State is what a generator or suite does.
type State uint8

// The states.
const (
	Stopped State = iota
	Running
	Paused
	Finished
	Failed
)

func (s State) String() string {
	return [...]string{"stopped", "running", "paused", "finished", "failed"}[s%5]
}

// Status is a generator or suite at one moment. What it does not have is zero, and not shown.
type Status struct {
	Title  string // what runs: "inject write to 10.0.0.2"
	State  State
	Since  time.Time
	Asked  string // the rate that was asked for, as text; "max"
	Packet Rates  // achieved
	Err    error  // why it failed
	// Counted says what Sent, and the achieved rate, count: "sent", "sent and received". "" where packets are not counted.
	Counted string
	Sent    uint64  // packets
	Left    uint64  // packets to go; 0 = no limit
	Done    float64 // share of the whole, 0 to 1; negative = not known

	Facts []Fact // in order: completions, NAKs received, latency …
	Rules []Rule
	Cases []Case // of a suite, those that have begun
	Total int    // cases of the whole suite
	// CanStart and so on say which of the methods do something.
	CanStart, CanPause, CanStop, CanRate bool
}

// Rates are what was achieved, over the last second.
type Rates struct {
	PacketsPerSecond, BitsPerSecond float64
}

// Fact is one more thing worth knowing, in words.
type Fact struct {
	Name, Value string
	Bad         bool
}

// Rule is a fault rule and how often it struck.
type Rule struct {
	Text    string
	Seen    uint64 // packets that it looked at and that fit
	Applied uint64
}

// Case is a case of a suite.
type Case struct {
	Name    string
	Title   string
	Verdict Verdict
	Status  string // the suite's own word for what became of it: "passed", "hung", "documented"
	Took    time.Duration

	Required, Seen, Why, Rule string
	Again                     string // the command line that runs it alone
	// Packets are those that show the case; of one that runs, the newest.
	Packets []CasePacket
	Capture string // a file of all its packets, "" without: it opens as a capture of its own
}

// CasePacket is a packet of a case, in a line.
type CasePacket struct {
	Number int
	Time   time.Duration // since the case began
	Ours   bool          // we sent it, and not the device
	Text   string
}

// Verdict is what a case's status means for the run.
type Verdict uint8

// The verdicts.
const (
	CaseRuns Verdict = iota
	CasePassed
	CaseFailed  // makes the run fail
	CaseNoted   // otherwise than required, in a way that does not
	CaseSkipped // not carried out
)
