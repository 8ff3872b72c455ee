package suite

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Schema names the form of a Result as JSON.
const Schema = "rocescope.test/1"

// Status is what became of a case.
type Status string

// The statuses. Of these, Failed, Hung and Broken make a run fail.
const (
	Passed     Status = "passed"
	Failed     Status = "failed"     // something required did not come, or something forbidden did
	Hung       Status = "hung"       // the device does no longer answer as before the case
	Broken     Status = "error"      // the case could not be carried out: the connection, the hook, or our side failed
	Reported   Status = "reported"   // another outcome, which the specification leaves open, or which nobody confirms
	Disputed   Status = "disputed"   // our RNIC and Linux differ here, and nobody else says which is right
	Documented Status = "documented" // another outcome, which the device's profile announces
	Skipped    Status = "skipped"    // not carried out, for Why
)

// Statuses lists the statuses in the order in which they are told.
var Statuses = []Status{Failed, Hung, Broken, Disputed, Reported, Documented, Passed, Skipped}

// Bad reports whether a case of this status makes a run fail.
func (s Status) Bad() bool { return s == Failed || s == Hung || s == Broken }

// Result is what became of a run.
type Result struct {
	Schema   string         `json:"schema"`
	Suite    string         `json:"suite"`
	Target   string         `json:"target"`
	Profile  string         `json:"profile,omitempty"`
	Tier     string         `json:"tier"`
	Seed     uint64         `json:"seed"`
	Started  time.Time      `json:"started"`
	Took     Seconds        `json:"seconds"`
	Complete bool           `json:"complete"`          // every case was carried out, or skipped for a reason of its own
	Stopped  string         `json:"stopped,omitempty"` // why not
	Totals   map[Status]int `json:"totals"`
	Cases    []CaseResult   `json:"cases"`
}

// Failed reports whether a case failed.
func (r *Result) Failed() bool {
	for i := range r.Cases {
		if r.Cases[i].Status.Bad() {
			return true
		}
	}
	return false
}

// Seconds is a duration that JSON has as seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return []byte(fmt.Sprintf("%.6f", time.Duration(s).Seconds())), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var f float64
	err := json.Unmarshal(text, &f)
	*s = Seconds(f * 1e9)
	return err
}

// CaseResult is what became of a case.
type CaseResult struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Role     string   `json:"role"` // of the device
	Rows     []string `json:"rows"` // of the fault catalogue, and reported device failures (D…)
	Round    int      `json:"round,omitempty"`
	Status   Status   `json:"status"`
	Why      string   `json:"why,omitempty"` // of statuses but passed and failed
	Required string   `json:"required"`      // by the specification, in words
	Seen     string   `json:"seen"`          // in one sentence: the first problem, or that all was right
	Rule     string   `json:"rule"`          // where it is written
	Took     Seconds  `json:"seconds"`       // of the device's time
	// Problems are what was not as required, in the order in which it was noticed.
	Problems []Problem `json:"problems,omitempty"`
	Probe    Probe     `json:"probe"`
	// Packets are the shortest list of packets that shows the case: those of the step that decided it and, of a case that passed,
	// those of its last step.
	Packets   []Packet `json:"packets,omitempty"`
	Frames    int      `json:"frames"`            // recorded
	Reproduce string   `json:"reproduce"`         // a command line
	Capture   string   `json:"capture,omitempty"` // its pcapng file
	// Findings are what flows found in the whole exchange, of all packets; only Problems are held against the device.
	Findings []string `json:"findings,omitempty"`
}

// Problem is something that was not as required.
type Problem struct {
	Kind     string   `json:"kind"` // answer, completion, memory, packets, counter, finding, probe or run
	Step     int      `json:"step,omitempty"`
	Required string   `json:"required"`
	Seen     string   `json:"seen"`
	Rule     string   `json:"rule,omitempty"` // where it is not the case's
	Packets  []Packet `json:"packets,omitempty"`
}

// Packet is a packet of a case, in a line.
type Packet struct {
	Frame int     `json:"frame"` // in the case's capture
	Time  Seconds `json:"time"`  // since the case began
	From  string  `json:"from"`  // us or device
	Text  string  `json:"text"`
}

// Probe is whether the device was alive behind the case: ok, silent, answers wrongly, or ok on a new connection. Empty words are
// probes that were not made.
type Probe struct {
	Ping  string `json:"ping,omitempty"`
	Same  string `json:"same_qp,omitempty"`
	Other string `json:"other_qp,omitempty"`
}

// WriteJSON writes the result as JSON.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Host     string      `xml:"hostname,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the result as JUnit XML. Hung cases are failures; what is only shown has its words in system-out.
func (r *Result) WriteJUnit(w io.Writer) error {
	s := junitSuite{
		Name: r.Suite, Tests: len(r.Cases), Time: fmt.Sprintf("%.3f", time.Duration(r.Took).Seconds()), Host: "localhost",
		Stamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		j := junitCase{Class: r.Suite + "." + c.Role, Name: c.ID + " " + c.Title, Time: fmt.Sprintf("%.6f", time.Duration(c.Took).Seconds())}
		text := &junitText{Message: c.Seen, Type: string(c.Status), Text: c.Text()}
		switch c.Status {
		case Failed, Hung:
			j.Failure = text
			s.Failures++
		case Broken:
			j.Error = text
			s.Errors++
		case Skipped:
			j.Skipped = &junitText{Message: c.Why}
			s.Skipped++
		case Reported, Disputed, Documented:
			j.Out = c.Text()
		}
		s.Cases = append(s.Cases, j)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// Text is all that is known of the case, on several lines.
func (c *CaseResult) Text() string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, text)
		}
	}
	line("status", string(c.Status))
	line("why", c.Why)
	line("required", c.Required)
	line("rule", c.Rule)
	line("seen", c.Seen)
	packets := func(list []Packet) {
		for _, p := range list {
			fmt.Fprintf(&b, "    %5d %12.6f  %-6s  %s\n", p.Frame, time.Duration(p.Time).Seconds(), p.From, p.Text)
		}
	}
	for _, p := range c.Problems {
		step := ""
		if p.Step > 0 {
			step = fmt.Sprintf(", step %d", p.Step)
		}
		fmt.Fprintf(&b, "- %s%s: required: %s; seen: %s", p.Kind, step, p.Required, p.Seen)
		if p.Rule != "" {
			fmt.Fprintf(&b, " (%s)", p.Rule)
		}
		b.WriteString("\n")
		packets(p.Packets)
	}
	if len(c.Problems) == 0 {
		packets(c.Packets)
	}
	if c.Status.Bad() || len(c.Problems) > 0 {
		line("again", c.Reproduce)
	}
	line("capture", c.Capture)
	return b.String()
}
