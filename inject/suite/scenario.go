package suite

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/internal/config"
	"github.com/rocescope/rocescope/internal/filter"
)

// Scenario is a list of cases, as a file holds it.
type Scenario struct {
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	// Target is how the device is reached that the cases are for; nil where that is left to who runs them.
	Target *Reach `yaml:"target"`
	Cases  []Case `yaml:"cases"`
}

// Case is one thing that is tried, and what has to come of it.
type Case struct {
	ID       string   `yaml:"id"`
	Title    string   `yaml:"title"`    // default: the catalogue's, of the first row
	Role     string   `yaml:"role"`     // of the device: responder (default) or requester
	Rows     []string `yaml:"rows"`     // of the fault catalogue, and D numbers of reported device failures; default: the ID
	Tier     string   `yaml:"tier"`     // quick (default), full or soak
	Required string   `yaml:"required"` // in words; default: the catalogue's
	Rule     string   `yaml:"rule"`     // where that is written; default: the catalogue's
	Report   string   `yaml:"report"`   // why another outcome is only shown
	Disputed string   `yaml:"disputed"` // who differs from whom, without a third source
	Finds    []string `yaml:"finds"`    // misbehaviours of our RNIC that this case is meant to find
	Needs    []string `yaml:"needs"`    // operations and abilities, as a profile names them
	Allow    []string `yaml:"allow"`    // findings about the device's packets that this case brings about
	Setup    Setup    `yaml:"setup"`
	Faults   []string `yaml:"faults"` // rules for what our side sends, all through the case
	Steps    []Step   `yaml:"steps"`

	file string
}

// Setup is how the two sides of a case are connected. Zero values are the usual ones; others need a device with a hook.
type Setup struct {
	Transport    string   `yaml:"transport"`    // RC (default), UC or UD
	MTU          int      `yaml:"mtu"`          // path MTU; default 1024, or the profile's
	QPs          int      `yaml:"qps"`          // default 2: the subject and the bystander
	PSN          *uint32  `yaml:"psn"`          // our first
	DevicePSN    *uint32  `yaml:"device_psn"`   // the device's first
	Receives     *int     `yaml:"receives"`     // that the device posts; default 8
	ReceiveSize  int      `yaml:"receive_size"` // bytes; default 2048
	OurReceives  *int     `yaml:"our_receives"` // that we post; default 16
	Access       []string `yaml:"access"`       // that the device's queue pair gives: write, read, atomic; default: all
	Depth        int      `yaml:"depth"`        // READs and atomics that the device answers at a time; default 8
	DeviceDepth  int      `yaml:"device_depth"` // READs and atomics that it may have outstanding; default 8
	SRQ          bool     `yaml:"srq"`          // the device's receives are shared
	BadReceive   bool     `yaml:"bad_receive"`  // the memory of the device's receives must not be written by it
	CQ           int      `yaml:"cq"`           // room of the device's receive completion queue; default 256
	Timeout      int      `yaml:"timeout"`      // code of the device's acknowledgement time-out; default 8 (1 ms)
	Retries      *int     `yaml:"retries"`      // of the device; default 7
	RNRRetries   *int     `yaml:"rnr_retries"`  // of the device; default 7, for ever
	RNRTimer     int      `yaml:"rnr_timer"`    // code that the device sends; default 1 (10 µs)
	Huge         int64    `yaml:"huge"`         // bytes of a memory "huge" that the device offers besides
	IPv6         bool     `yaml:"ipv6"`
	TrafficClass int      `yaml:"traffic_class"` // of what we send
}

// Step is one thing that happens. Of Send, Repeat, Post, Device, Lose, Wait, Reset, CM, Hook, State, Packet
// and Meter, one says what.
type Step struct {
	// Send is the opcode of a crafted packet to the device: RC_RDMA_WRITE_ONLY. Its fields are those of a good next packet,
	// unless others are given.
	Send   string            `yaml:"send"`
	QP     string            `yaml:"qp"`     // subject (default), other, or a number
	Times  int               `yaml:"times"`  // how often, with the next PSN each time
	PSN    int64             `yaml:"psn"`    // relative to the next one
	Length *int              `yaml:"length"` // payload; of a READ what is asked for; default 64
	At     int64             `yaml:"at"`     // offset in the target memory
	DMALen *int64            `yaml:"dmalen"` // in the RETH; default what the message has
	Total  int               `yaml:"total"`  // of a message of several packets: what FIRST announces
	Key    string            `yaml:"key"`    // whose memory: main (default), foreign, readonly, writeonly, stale, huge, receive, own
	Add    uint64            `yaml:"add"`    // FETCH_ADD; COMPARE_SWAP: what is put in
	Cmp    *uint64           `yaml:"compare"`
	Imm    uint32            `yaml:"imm"`
	AckReq *bool             `yaml:"ackreq"` // default: on packets that end a message
	Synd   *uint8            `yaml:"syndrome"`
	MSN    int64             `yaml:"msn"`    // of answers that we send
	Set    map[string]string `yaml:"set"`    // fields set afterwards, as the action set has them; the ICRC is made anew
	Fault  string            `yaml:"fault"`  // a rule, or the catalogue's ID of one, that strikes this packet
	Repeat bool              `yaml:"repeat"` // the packet that was sent before, byte by byte
	Late   bool              `yaml:"late"`   // it repairs a gap: its PSN is the one that the device waits for

	// Post is an operation of our RNIC, Device one of the device's: write, write-imm, read, send, send-imm, compare-swap, fetch-add.
	Post       string `yaml:"post"`
	Device     string `yaml:"device"`
	Count      int    `yaml:"count"` // how many; default 1
	NoWait     bool   `yaml:"no_wait"`
	Unrecorded bool   `yaml:"unrecorded"` // too many packets to keep
	BadKey     bool   `yaml:"bad_key"`    // with a local key that is not valid

	Lose   int           `yaml:"lose"`  // so many PSNs of ours are skipped, as if the network lost them
	Wait   time.Duration `yaml:"wait"`  // so long nothing is done
	Reset  string        `yaml:"reset"` // a queue pair is made anew, on both sides: subject or other
	CM     bool          `yaml:"cm"`    // a request by CM for a service that nobody offers: it is to be rejected
	Hook   string        `yaml:"hook"`  // a command for the device: deregister, receive, error, destroy
	State  string        `yaml:"state"` // what the device's queue pair has to come to: RTS, ERROR …
	Packet *PacketCheck  `yaml:"packets"`
	Meter  *CounterCheck `yaml:"counter"`

	// Expect is what may come of it: ACK, DROP, NAK-SEQ, NAK-INV, NAK-ACC, NAK-OP, RNR, DUP-ACK, REPLAY, ANY; of operations how they
	// complete: SUCCESS, RETRY_EXC_ERR …
	Expect words         `yaml:"expect"`
	Within time.Duration `yaml:"within"` // how long it may take

	line, column int
}

// PacketCheck counts packets since the case began.
type PacketCheck struct {
	Filter string `yaml:"filter"`
	From   string `yaml:"from"` // device (default), us or both
	Min    int    `yaml:"min"`
	Max    *int   `yaml:"max"`
	What   string `yaml:"what"` // in words

	filter *filter.Filter
}

// CounterCheck asks how a counter of the device moved since the case began.
type CounterCheck struct {
	Name string `yaml:"name"`
	Min  int64  `yaml:"min"`
}

// words is a word, or a list of them.
type words []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = strings.Fields(strings.ReplaceAll(n.Value, ",", " "))
		return nil
	}
	return n.Decode((*[]string)(w))
}

// UnmarshalYAML implements yaml.Unmarshaler: a step knows its place.
func (s *Step) UnmarshalYAML(n *yaml.Node) error {
	type plain Step
	if err := n.Decode((*plain)(s)); err != nil {
		return err
	}
	s.line, s.column = n.Line, n.Column
	return nil
}

// ReadFile reads a scenario from a file.
func ReadFile(name string) (*Scenario, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// Parse reads a scenario from YAML; name is what errors call it.
func Parse(name string, data []byte) (*Scenario, error) {
	d, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var s Scenario
	if err := d.Decode(&s); err != nil {
		return nil, err
	}
	if len(s.Cases) == 0 {
		return nil, fmt.Errorf("%s: it has no cases", name)
	}
	if t := s.Target; t != nil {
		if err := t.check(); err != nil {
			return nil, d.Error(t.line, t.column, "target: %v", err)
		}
	}
	seen := map[string]bool{}
	for i := range s.Cases {
		c := &s.Cases[i]
		c.file = name
		line, column := 0, 0
		if len(c.Steps) > 0 {
			line, column = c.Steps[0].line, c.Steps[0].column
		}
		fail := func(format string, args ...any) error {
			return d.Error(line, column, "case %s: %s", c.ID, fmt.Sprintf(format, args...))
		}
		switch {
		case c.ID == "":
			return nil, fail("it has no id")
		case seen[strings.ToUpper(c.ID)]:
			return nil, fail("there are two of this id")
		}
		seen[strings.ToUpper(c.ID)] = true
		if err := c.complete(); err != nil {
			return nil, fail("%v", err)
		}
		for j := range c.Steps {
			line, column = c.Steps[j].line, c.Steps[j].column
			if err := c.Steps[j].complete(c); err != nil {
				return nil, fail("step %d: %v", j+1, err)
			}
		}
	}
	return &s, nil
}

// Tiers are what can be asked for, each with all before it.
var Tiers = []string{"quick", "full", "soak"}

// Abilities are what a case may need of a device, and a profile may deny.
var Abilities = []string{"write", "write-imm", "read", "send", "send-imm", "send-inv", "atomic", "zero-length", "unaligned", "cnp", "rnr", "uc", "ud", "srq", "ipv6", "requester", "ping", "cm"}

const (
	responder = "responder"
	requester = "requester"
)

// complete sets what is not said, and looks whether what is said can be.
func (c *Case) complete() error {
	if len(c.Rows) == 0 {
		c.Rows = []string{c.ID}
	}
	for _, r := range c.Rows {
		f := fault.Find(r)
		if f == nil {
			if strings.HasPrefix(r, "D") && failure(r) != nil {
				continue
			}
			if c.Required != "" && c.Rule != "" {
				continue
			}
			return fmt.Errorf("%q is no row of the fault catalogue (rocescope faults); a case of one's own says required and rule", r)
		}
		if c.Title == "" {
			c.Title = f.What
		}
		if c.Required == "" {
			c.Required = f.Outcome
		}
		if c.Rule == "" {
			c.Rule = f.Source
		}
		if c.Rule == "" && strings.Contains(f.Outcome, "IMPL") {
			c.Rule = "left to the vendor"
		}
		if f.Open != "" && c.Report == "" {
			c.Report = "not confirmed: " + f.Open
		}
	}
	if c.Role == "" {
		c.Role = responder
	}
	if c.Tier == "" {
		c.Tier = Tiers[0]
	}
	switch {
	case c.Role != responder && c.Role != requester:
		return fmt.Errorf("role cannot be %q; it is responder or requester", c.Role)
	case !slices.Contains(Tiers, c.Tier):
		return fmt.Errorf("tier cannot be %q; there are %s", c.Tier, strings.Join(Tiers, ", "))
	case c.Title == "" || c.Required == "" || c.Rule == "":
		return errors.New("it needs a title, what is required, and the rule that says so")
	case c.Setup.MTU != 0 && !dissect.ValidMTU(c.Setup.MTU):
		return fmt.Errorf("mtu cannot be %d; path MTUs are 256, 512, 1024, 2048 and 4096", c.Setup.MTU)
	case c.Setup.QPs < 0 || c.Setup.QPs > 64:
		return fmt.Errorf("qps cannot be %d; it is 1 to 64", c.Setup.QPs)
	case !slices.Contains([]string{"", "RC", "UC", "UD"}, c.Setup.Transport):
		return fmt.Errorf("transport cannot be %q; it is RC, UC or UD", c.Setup.Transport)
	}
	for _, n := range c.Needs {
		if !slices.Contains(Abilities, n) {
			return fmt.Errorf("needs cannot name %q; there are %s", n, strings.Join(Abilities, ", "))
		}
	}
	for _, a := range c.Setup.Access {
		if !slices.Contains([]string{"write", "read", "atomic"}, a) {
			return fmt.Errorf("access cannot name %q; there are write, read and atomic", a)
		}
	}
	for _, text := range c.Faults {
		if _, err := fault.Parse(text); err != nil {
			return err
		}
	}
	if c.Setup.QPs == 0 {
		c.Setup.QPs = 2
	}
	if c.Role == requester && !slices.Contains(c.Needs, "requester") {
		c.Needs = append(c.Needs, "requester")
	}
	return nil
}

// complete sets what is not said, and looks whether what is said can be.
func (s *Step) complete(c *Case) error {
	does := 0
	for _, d := range []bool{s.Send != "" || s.Repeat, s.Post != "", s.Device != "", s.Lose != 0, s.Wait != 0, s.Reset != "", s.CM, s.Hook != "", s.State != "", s.Packet != nil, s.Meter != nil} {
		if d {
			does++
		}
	}
	if does != 1 {
		return errors.New("a step does one thing: send, repeat, post, device, lose, wait, reset, cm, hook, state, packets or counter")
	}
	if s.State != "" && !slices.Contains(stateNames, s.State) {
		return fmt.Errorf("state cannot be %q; there are %s", s.State, strings.Join(stateNames, ", "))
	}
	if s.Send != "" {
		if _, ok := opcodes()[s.Send]; !ok {
			return fmt.Errorf("%q is no opcode (rocescope opcodes)", s.Send)
		}
	}
	for _, op := range []string{s.Post, s.Device} {
		if op != "" && !slices.Contains(operationNames, op) {
			return fmt.Errorf("%q is no operation; there are %s", op, strings.Join(operationNames, ", "))
		}
	}
	if s.Fault != "" {
		if _, err := fault.Parse(s.Fault); err != nil {
			return err
		}
	}
	for _, e := range s.Expect {
		if s.Post != "" || s.Device != "" {
			continue // the device's words
		}
		if !slices.Contains(outcomeNames, e) {
			return fmt.Errorf("expect cannot be %q; there are %s", e, strings.Join(outcomeNames, ", "))
		}
	}
	if p := s.Packet; p != nil {
		f, err := filter.Compile(p.Filter)
		if err != nil {
			return err
		}
		if f.Needs() == filter.NeedEnd {
			return fmt.Errorf("the filter %q asks for what is known only when the exchange is over", p.Filter)
		}
		if p.filter = f; p.From == "" {
			p.From = "device"
		}
		if p.Max == nil && p.Min == 0 {
			return errors.New("packets needs min or max")
		}
	}
	if s.Times == 0 {
		s.Times = 1
	}
	if s.Count == 0 {
		s.Count = 1
	}
	return nil
}
