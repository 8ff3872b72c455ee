package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// ExchangeVersion is the version of rocescope's own exchange; docs/connect.md describes it.
const ExchangeVersion = 1

// maxLine is the length of the longest line, newline included.
const maxLine = 256 << 10

// hexNumber is a number that stands in JSON as text, "0x…": 64 bits are more than JSON's numbers carry everywhere.
type hexNumber uint64

// MarshalText is for encoding/json.
func (n hexNumber) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(n)), nil }

// UnmarshalText is for encoding/json.
func (n *hexNumber) UnmarshalText(b []byte) error {
	digits, ok := strings.CutPrefix(string(b), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("%q: it is to be 0x and up to 16 hexadecimal digits", b)
	}
	*n = hexNumber(v)
	return nil
}

// exchangeLine is one line of the exchange; which of its parts are there says what it is.
type exchangeLine struct {
	Version   int          `json:"rocescope"`
	Transport string       `json:"transport,omitempty"`
	MTU       int          `json:"mtu,omitempty"`
	QPs       []exchangeQP `json:"qps,omitempty"`
	Traffic   *Traffic     `json:"traffic,omitempty"`
	Report    *Report      `json:"report,omitempty"`
	Ready     bool         `json:"ready,omitempty"`
	Done      bool         `json:"done,omitempty"`
	Error     string       `json:"error,omitempty"`
}

// Traffic is what a client says is going to happen, so that the server can do its part.
type Traffic struct {
	Operation string `json:"operation"`        // write, write-imm, read, send, send-imm, compare-swap or fetch-add
	Size      int    `json:"size"`             // of a message, bytes
	Slots     int    `json:"slots"`            // messages that a queue pair's memory holds, one behind the other
	Verify    bool   `json:"verify,omitempty"` // data is the pattern of Seed, and is to be checked by who gets it
	Seed      uint64 `json:"seed,omitempty"`
	Answer    bool   `json:"answer,omitempty"` // each SEND is to be answered by one of the same length
}

// Report is what a side tells with "ready" of the messages until then.
type Report struct {
	Messages uint64 `json:"messages"`        // the client: sent on each queue pair; the server: received, on all of them
	Wrong    uint64 `json:"wrong,omitempty"` // of these, with wrong data
	Lost     uint64 `json:"lost,omitempty"`  // not received whole
	First    string `json:"first,omitempty"` // the first wrong one
}

// Planned is an Application that takes what only rocescope's exchange tells.
type Planned interface {
	Application
	// Traffic is called before Open, if the client tells.
	Traffic(Traffic) error
	// Tell is called before Ready with what the client reports, nil for nothing, and Report behind it.
	Tell(theirs *Report)
	Report() *Report
}

type exchangeQP struct {
	Address            netip.Addr      `json:"address"`
	QPN                hexNumber       `json:"qpn"`
	PSN                hexNumber       `json:"psn"`
	PKey               hexNumber       `json:"pkey,omitempty"`
	QKey               hexNumber       `json:"qkey,omitempty"`
	FlowLabel          hexNumber       `json:"flow_label,omitempty"`
	ResponderResources uint8           `json:"responder_resources,omitempty"`
	InitiatorDepth     uint8           `json:"initiator_depth,omitempty"`
	AckTimeout         uint8           `json:"ack_timeout,omitempty"`
	RetryCount         uint8           `json:"retry_count,omitempty"`
	RNRRetryCount      uint8           `json:"rnr_retry_count,omitempty"`
	SRQ                bool            `json:"srq,omitempty"`
	FlowControl        bool            `json:"flow_control,omitempty"`
	Memory             *exchangeMemory `json:"memory,omitempty"`
}

type exchangeMemory struct {
	RKey   hexNumber `json:"rkey"`
	VA     hexNumber `json:"va"`
	Length uint64    `json:"length"`
}

// exchangeOf is the line that tells queue pairs.
func exchangeOf(transport dissect.Transport, mtu int, pairs []Parameters) exchangeLine {
	l := exchangeLine{Version: ExchangeVersion, Transport: transport.String(), MTU: mtu}
	for i := range pairs {
		p := &pairs[i]
		q := exchangeQP{
			Address: p.Address, QPN: hexNumber(p.QPN), PSN: hexNumber(p.PSN), PKey: hexNumber(p.PKey), QKey: hexNumber(p.QKey), FlowLabel: hexNumber(p.FlowLabel),
			ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, AckTimeout: p.AckTimeout,
			RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, FlowControl: p.FlowControl,
		}
		if !p.Memory.IsZero() {
			q.Memory = &exchangeMemory{hexNumber(p.Memory.RKey), hexNumber(p.Memory.VA), p.Memory.Length}
		}
		l.QPs = append(l.QPs, q)
	}
	return l
}

// parameters are what a line tells, checked.
func (l *exchangeLine) parameters(maxQPs int) ([]Parameters, error) {
	transport, ok := transportNames[strings.ToLower(l.Transport)]
	switch {
	case !ok:
		return nil, fmt.Errorf("transport %q: it is to be RC, UC or UD", l.Transport)
	case !dissect.ValidMTU(l.MTU):
		return nil, fmt.Errorf("mtu %d: path MTUs are 256, 512, 1024, 2048 and 4096", l.MTU)
	case len(l.QPs) == 0 || len(l.QPs) > maxQPs:
		return nil, fmt.Errorf("%d queue pairs: it is to be from 1 to %d", len(l.QPs), maxQPs)
	}
	out := make([]Parameters, len(l.QPs))
	for i := range l.QPs {
		q := &l.QPs[i]
		if q.QPN > max24 || q.PSN > max24 || q.PKey > 0xFFFF || q.QKey > 1<<32-1 || q.FlowLabel > 0xFFFFF || q.Memory != nil && q.Memory.RKey > 1<<32-1 {
			return nil, fmt.Errorf("qps[%d]: qpn and psn have 24 bits, pkey 16, qkey and rkey 32, flow_label 20", i)
		}
		if !unicast(q.Address) || q.Address.Zone() != "" {
			return nil, fmt.Errorf("qps[%d]: address %v: it is to be one of one station", i, q.Address)
		}
		out[i] = Parameters{
			Transport: transport, MTU: l.MTU, Address: q.Address.Unmap(), QPN: uint32(q.QPN), PSN: dissect.PSN(q.PSN), PKey: uint16(q.PKey),
			QKey: uint32(q.QKey), FlowLabel: uint32(q.FlowLabel), ResponderResources: q.ResponderResources, InitiatorDepth: q.InitiatorDepth,
			AckTimeout: q.AckTimeout, RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount, SRQ: q.SRQ, FlowControl: q.FlowControl,
		}
		if q.Memory != nil {
			out[i].Memory = Memory{uint32(q.Memory.RKey), uint64(q.Memory.VA), q.Memory.Length}
		}
		if err := out[i].Check(); err != nil {
			return nil, fmt.Errorf("qps[%d]: %w", i, err)
		}
	}
	return out, nil
}

func (t *talk) writeLine(l exchangeLine) error {
	l.Version = ExchangeVersion
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return t.write(append(b, '\n'), "a line of the exchange")
}

// readLine reads a line: the version first, for the rest depends on it, then strictly.
func (t *talk) readLine(wait time.Duration, what string) (l exchangeLine, err error) {
	b, err := t.line(wait, what)
	if err != nil {
		return l, err
	}
	var v struct {
		Version *int `json:"rocescope"`
	}
	if err := json.Unmarshal(b, &v); err != nil || v.Version == nil {
		return l, garbage(b, what+", a line of JSON with \"rocescope\"")
	}
	if *v.Version != ExchangeVersion {
		return l, fmt.Errorf("%s: version %d of the exchange, where version %d is known: take the same rocescope on both sides", what, *v.Version, ExchangeVersion)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, fmt.Errorf("%s: %w: %w", what, err, ErrGarbage)
	}
	if l.Error != "" {
		return l, fmt.Errorf("%s: the other side refuses: %.200q", what, l.Error)
	}
	return l, nil
}

// line reads up to a newline, within one time for all of it.
func (t *talk) line(wait time.Duration, what string) ([]byte, error) {
	if err := t.allow(wait); err != nil {
		return nil, fmt.Errorf("wait for %s: %w", what, err)
	}
	b, seen := t.ahead, 0
	t.ahead = nil
	for {
		if i := bytes.IndexByte(b[seen:], '\n'); i >= 0 {
			t.ahead = b[seen+i+1:]
			return b[:seen+i], nil
		}
		seen = len(b)
		if seen >= maxLine {
			return nil, fmt.Errorf("%s: a line of more than %d bytes: %w", what, maxLine, ErrGarbage)
		}
		var part [4096]byte
		n, err := t.s.Read(part[:min(len(part), maxLine-seen)])
		b = append(b, part[:n]...)
		if n == 0 && err != nil {
			return nil, failed(err, seen, what, wait)
		}
	}
}

const (
	offerWhat = "the exchange's queue pairs"
	readyWhat = "the exchange's \"ready\""
)

// Exchange is the client's side of rocescope's own exchange.
type Exchange struct {
	Traffic *Traffic // if not nil, told with the queue pairs
	Own     *Report  // if not nil, told with the next "ready"
	Theirs  *Report  // what the server told with the last

	t *talk
}

// NewExchange begins one. A patience of 0 is 10 s.
func NewExchange(s Stream, patience time.Duration) *Exchange {
	return &Exchange{t: newTalk(s, patience)}
}

// Offer tells the own queue pairs, all of one transport and path MTU, and returns the server's, one for each; their path MTU
// is the one agreed on.
func (x *Exchange) Offer(local []Parameters) ([]Parameters, error) {
	if len(local) == 0 {
		return nil, errors.New("there are no queue pairs to tell")
	}
	offer := exchangeOf(local[0].Transport, local[0].MTU, local)
	offer.Traffic = x.Traffic
	if err := x.t.writeLine(offer); err != nil {
		return nil, err
	}
	l, err := x.t.readLine(x.t.patience, offerWhat)
	if err != nil {
		return nil, err
	}
	remote, err := l.parameters(len(local))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", offerWhat, err, ErrGarbage)
	case len(remote) != len(local), remote[0].Transport != local[0].Transport, l.MTU > local[0].MTU:
		return nil, fmt.Errorf("%s: %d of %v, MTU %d, in answer to %d of %v, MTU %d: %w",
			offerWhat, len(remote), remote[0].Transport, l.MTU, len(local), local[0].Transport, local[0].MTU, ErrGarbage)
	}
	return remote, nil
}

// Ready tells that the own queue pairs are ready, or that a phase of the traffic is over, and returns when the server says the
// same.
func (x *Exchange) Ready() error {
	if err := x.t.writeLine(exchangeLine{Ready: true, Report: x.Own}); err != nil {
		return err
	}
	l, err := x.t.readLine(x.t.patience, readyWhat)
	x.Theirs = l.Report
	if err == nil && !l.Ready {
		err = fmt.Errorf("%s: another line came: %w", readyWhat, ErrGarbage)
	}
	return err
}

// Done ends the exchange.
func (x *Exchange) Done() error { return x.t.writeLine(exchangeLine{Done: true}) }

func (s *Server) answerExchange(t *talk, a Application) error {
	err := s.exchange(t, a)
	if err != nil && !errors.Is(err, ErrHungUp) && !errors.Is(err, ErrSilent) {
		_ = t.writeLine(exchangeLine{Error: err.Error()}) // the other side may have gone
	}
	return err
}

func (s *Server) exchange(t *talk, a Application) error {
	l, err := t.readLine(t.patience, offerWhat)
	if err != nil {
		return err
	}
	remote, err := l.parameters(s.maxQPs())
	if err != nil {
		return fmt.Errorf("%s: %w: %w", offerWhat, err, ErrGarbage)
	}
	planned, _ := a.(Planned)
	if l.Traffic != nil && planned != nil {
		if err := planned.Traffic(*l.Traffic); err != nil {
			return err
		}
	}
	local := make([]Parameters, len(remote))
	for i := range remote {
		remote[i].MTU = min(l.MTU, s.mtu())
		if local[i], err = s.open(a, remote[i]); err != nil {
			return err
		}
	}
	if err := t.writeLine(exchangeOf(remote[0].Transport, remote[0].MTU, local)); err != nil {
		return err
	}
	wait := t.patience
	for n := 1; ; n++ {
		l, err := t.readLine(wait, readyWhat)
		switch {
		case err != nil && n > 1 && errors.Is(err, ErrHungUp), err == nil && l.Done:
			return nil
		case err != nil:
			return err
		case !l.Ready:
			return fmt.Errorf("%s: another line came: %w", readyWhat, ErrGarbage)
		}
		if planned != nil {
			planned.Tell(l.Report)
		}
		if err := a.Ready(n); err != nil {
			return err
		}
		answer := exchangeLine{Ready: true}
		if planned != nil {
			answer.Report = planned.Report()
		}
		if err := t.writeLine(answer); err != nil {
			return err
		}
		wait = s.idle()
	}
}
