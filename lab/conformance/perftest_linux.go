package conformance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/lab"
)

// Perftest is the hook of a device that has nothing but perftest: each queue pair is a client of ib_write_bw, of which this is the
// server. It sends one series of WRITEs, which has to be known when it begins (Command.Posts), takes WRITEs and nothing else, and
// its memory cannot be looked into: cases that need more are skipped.
type Perftest struct {
	guest *lab.Guest
	qps   map[string]*perftestQP
	port  int
}

// NewPerftest is the hook of the guest's device.
func NewPerftest(g *lab.Guest) *Perftest {
	return &Perftest{guest: g, qps: map[string]*perftestQP{}, port: connect.PerftestPort}
}

// perftestQP is one program and the conversation with it. It is the connect.Application of that.
type perftestQP struct {
	series   suite.Posted
	program  *lab.Program
	listener net.Listener
	told     chan connect.Parameters // the program's queue pair
	answer   chan connect.Parameters // ours
	up       chan struct{}           // closed when the program's queue pair is in RTS
	post     chan struct{}           // closed when it may send
	over     chan struct{}           // closed when it says that all has completed
	gone     chan struct{}           // closed when it is not wanted any more
	posted   bool
	ended    bool
}

// leastMessages is how few perftest sends.
const leastMessages = 5

// perftestArgs is the command line for a queue pair; an error says what perftest cannot do of it.
func perftestArgs(c *suite.Command, host netip.Addr, port int) (args []string, series suite.Posted, err error) {
	no := func(format string, a ...any) ([]string, suite.Posted, error) {
		return nil, series, fmt.Errorf("%w: "+format, append([]any{suite.ErrUnsupported}, a...)...)
	}
	switch {
	case c.PSN != nil:
		return no("perftest chooses its first PSN itself")
	case c.SRQ, c.BadReceive:
		return no("perftest posts its receives as it likes")
	case c.Transport == "UD":
		return no("datagrams")
	case len(c.Posts) > 1:
		return no("perftest sends messages of one kind and length only")
	}
	series = suite.Posted{Operation: "write", Length: 64, Count: leastMessages}
	if len(c.Posts) == 1 {
		series = c.Posts[0]
	}
	switch {
	case series.Operation != "write":
		return no("ib_write_bw posts no %s", series.Operation)
	case series.Count < leastMessages:
		return no("perftest sends %d messages at least", leastMessages)
	case series.Length == 0:
		return no("perftest sends no empty messages")
	case len(c.Posts) == 0:
		series.Length = perftestRegion
	}
	gid := lab.GIDIPv4
	if c.IPv6 {
		gid = lab.GIDIPv6
	}
	args = []string{
		"ib_write_bw", "-d", lab.Device, "-x", gid, "-p", strconv.Itoa(port), "-n", strconv.Itoa(series.Count), "-m", strconv.Itoa(c.MTU),
		"-s", strconv.Itoa(series.Length), "-F",
	}
	if c.Transport == "UC" {
		args = append(args, "-c", "UC")
	}
	return append(args, host.String()), series, nil
}

// Do implements suite.Device.
func (h *Perftest) Do(c *suite.Command) (*suite.Answer, error) {
	switch c.Do {
	case "hello":
		return &suite.Answer{Name: "perftest in the laboratory, Linux " + h.guest.Kernel}, nil
	case "create":
		return h.create(c)
	case "reset":
		for name := range h.qps {
			h.destroy(name)
		}
		return &suite.Answer{}, nil
	}
	q := h.qps[c.QP]
	if q == nil {
		return nil, fmt.Errorf("%w: %s without a queue pair", suite.ErrUnsupported, c.Do)
	}
	switch c.Do {
	case "connect":
		return &suite.Answer{}, q.connect(c)
	case "post":
		if q.posted || c.BadKey || (suite.Posted{Operation: c.Operation, Length: c.Length, Count: c.Count}) != q.series {
			return nil, fmt.Errorf("%w: perftest sends one series of messages", suite.ErrUnsupported)
		}
		q.posted = true
		close(q.post)
		return &suite.Answer{}, nil
	case "completions":
		return q.completions(), nil
	case "destroy":
		h.destroy(c.QP)
		return &suite.Answer{}, nil
	}
	return nil, suite.ErrUnsupported
}

// Close implements suite.Device.
func (h *Perftest) Close() error {
	for name := range h.qps {
		h.destroy(name)
	}
	return nil
}

// create starts a program, and lets it say which queue pair it has made.
func (h *Perftest) create(c *suite.Command) (*suite.Answer, error) {
	h.destroy(c.QP)
	h.port++
	args, series, err := perftestArgs(c, lab.Host.IP4.Addr(), h.port)
	if err != nil {
		return nil, err
	}
	q := &perftestQP{series: series, told: make(chan connect.Parameters, 1), answer: make(chan connect.Parameters, 1), up: make(chan struct{}), post: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{})}
	if q.listener, err = net.Listen("tcp", net.JoinHostPort(lab.Host.IP4.Addr().String(), strconv.Itoa(h.port))); err != nil {
		return nil, err
	}
	server := &connect.Server{
		Transport: map[string]dissect.Transport{"UC": dissect.UC}[c.Transport], MTU: c.MTU, Patience: time.Minute,
		New: func(connect.Via, net.Addr) (connect.Application, error) { return q, nil },
	}
	go func() { _ = server.Serve(q.listener) }()
	h.qps[c.QP] = q
	if q.program, err = h.guest.Start(args...); err != nil {
		return nil, err
	}
	select {
	case p := <-q.told:
		return &suite.Answer{Numbers: &suite.Numbers{
			Address: p.Address.String(), QPN: p.QPN, PSN: uint32(p.PSN), RKey: p.Memory.RKey, VA: p.Memory.VA, Length: max(series.Length, perftestCycle),
		}}, nil
	case <-q.program.Done():
		return nil, fmt.Errorf("%s ended: %s", args[0], q.program.Output())
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("%s tells no queue pair: %s", args[0], q.program.Output())
	}
}

// Bytes of perftest's memory: what a queue pair that posts nothing is started with, and the least.
const (
	perftestRegion = 65536
	perftestCycle  = 4096
)

// perftestProfile is what such a device does not do.
var perftestProfile = &suite.Profile{
	Name: "perftest", Title: "ib_write_bw", Source: "perftest's queue pairs give the one right that their program is about",
	Lacks: []string{"read", "atomic", "send"},
}

// connect tells the program our side, and waits until it has brought its queue pair to RTS.
func (q *perftestQP) connect(c *suite.Command) error {
	if c.Retries != 7 || c.RNRRetries != 7 {
		return fmt.Errorf("%w: perftest retries seven times", suite.ErrUnsupported)
	}
	addr, err := netip.ParseAddr(c.Remote.Address)
	if err != nil {
		return err
	}
	q.answer <- connect.Parameters{
		Address: addr, QPN: c.Remote.QPN, PSN: dissect.PSN(c.Remote.PSN), ResponderResources: 8, InitiatorDepth: 8,
		Memory: connect.Memory{RKey: c.Remote.RKey, VA: c.Remote.VA, Length: uint64(c.Remote.Length)},
	}
	select {
	case <-q.up:
		return nil
	case <-q.program.Done():
		return fmt.Errorf("perftest ended: %s", q.program.Output())
	case <-time.After(time.Minute):
		return fmt.Errorf("perftest does not connect its queue pair: %s", q.program.Output())
	}
}

var errNotWanted = errors.New("the queue pair is not wanted any more")

// Open implements connect.Application.
func (q *perftestQP) Open(remote connect.Parameters) (connect.Parameters, error) {
	q.told <- remote
	select {
	case p := <-q.answer:
		return p, nil
	case <-q.gone:
		return connect.Parameters{}, errNotWanted
	}
}

// Ready implements connect.Application: the program says so when its queue pair is in RTS, before it sends, and when all that it sent has
// completed.
func (q *perftestQP) Ready(n int) error {
	switch n {
	case 1:
		close(q.up)
		select {
		case <-q.post:
		case <-q.gone:
			return errNotWanted
		}
	case 3:
		close(q.over)
	}
	return nil
}

// Results implements connect.Application.
func (q *perftestQP) Results() connect.PerftestResults { return connect.PerftestResults{} }

// Told implements connect.Application.
func (q *perftestQP) Told(connect.PerftestResults) {}

// Closed implements connect.Application.
func (q *perftestQP) Closed(error) {}

var perftestStatus = regexp.MustCompile(`Failed status (\d+)`)

// statusNames are verbs' words of completions that failed, by their numbers.
var statusNames = []string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR",
	"REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
}

// perftestCompletions is what a program that ended says of its messages.
func perftestCompletions(count int, output string, failed bool) (all []suite.Completion) {
	if m := perftestStatus.FindStringSubmatch(output); m != nil {
		n, _ := strconv.Atoi(m[1])
		if n < len(statusNames) {
			return []suite.Completion{{Status: statusNames[n]}}
		}
	}
	if failed {
		return nil
	}
	for range count {
		all = append(all, suite.Completion{Status: "SUCCESS"})
	}
	return all
}

func (q *perftestQP) completions() *suite.Answer {
	a := &suite.Answer{State: "RESET"} // it goes with its program
	var text string
	var err error
	select {
	case <-q.over:
	case <-q.program.Done():
		text, err = q.program.Wait(time.Second)
	default:
		a.State = "RTS"
		return a
	}
	if !q.ended {
		q.ended = true
		a.Completions = perftestCompletions(q.series.Count, text, err != nil)
	}
	return a
}

// destroy ends a program.
func (h *Perftest) destroy(name string) {
	q := h.qps[name]
	if q == nil {
		return
	}
	delete(h.qps, name)
	close(q.gone)
	q.listener.Close()
	if q.program != nil {
		q.program.Kill()
		<-q.program.Done()
	}
}
