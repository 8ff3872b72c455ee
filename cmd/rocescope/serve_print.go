package main

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/report"
)

// servePrinter says what happens on a server, as text or as lines of JSON.
type servePrinter struct {
	a      *app
	o      *serveOptions
	began  time.Time
	last   servedCounters
	hits   uint64        // packets that rules struck until last
	missed atomic.Uint64 // events that found no room
}

func newServePrinter(a *app, o *serveOptions) *servePrinter { return &servePrinter{a: a, o: o} }

// serveLine is a line of --json.
type serveLine struct {
	Time    string            `json:"time"`
	Event   string            `json:"event"`
	Session int               `json:"session,omitempty"`
	Way     string            `json:"way,omitempty"`
	Peer    string            `json:"peer,omitempty"`
	QP      *serveQP          `json:"qp,omitempty"`
	Traffic any               `json:"traffic,omitempty"`
	Report  any               `json:"report,omitempty"`
	QPs     int               `json:"qps,omitempty"`
	Error   string            `json:"error,omitempty"`
	Listen  []string          `json:"listen,omitempty"`
	Where   string            `json:"where,omitempty"`
	Seconds float64           `json:"seconds,omitempty"`
	Totals  *load.Totals      `json:"totals,omitempty"`
	Counted map[string]uint64 `json:"counters,omitempty"`
	Faults  []faultCount      `json:"faults,omitempty"`
}

// serveQP is a queue pair of a line; numbers as people know them.
type serveQP struct {
	Transport  string `json:"transport"`
	State      string `json:"state"`
	QPN        uint32 `json:"qpn"`
	PSN        uint32 `json:"psn"`
	RemoteQPN  uint32 `json:"remote_qpn"`
	RemotePSN  uint32 `json:"remote_psn"`
	RemoteAddr string `json:"remote_address"`
	MTU        int    `json:"mtu"`
	RKey       uint32 `json:"rkey"`
	VA         uint64 `json:"va"`
	Length     uint64 `json:"length"`
}

func (p *servePrinter) line(l serveLine) {
	l.Time = time.Now().UTC().Format(time.RFC3339Nano)
	b, err := json.Marshal(l)
	if err != nil {
		return // nothing in it can fail
	}
	p.a.stdout.Write(append(b, '\n')) // its first error sticks, and Flush returns it
}

func (p *servePrinter) text(format string, args ...any) {
	fmt.Fprintf(p.a.stdout, time.Now().Format("15:04:05.000")+"  "+format+"\n", args...)
}

// greet says where the server is.
func (p *servePrinter) greet(h *peer.Host, at []net.Addr) {
	p.began = time.Now()
	p.last = countersOf(h)
	var listen []string
	for _, a := range at {
		listen = append(listen, a.String())
	}
	if p.o.json {
		p.line(serveLine{Event: "serving", Where: where(h), Listen: listen})
	}
	how := "CM port " + fmt.Sprint(p.o.port)
	if len(listen) > 0 {
		how += ", TCP " + strings.Join(listen, ", ")
	}
	fmt.Fprintf(p.a.stderr, "Serving on %s\n  connections by %s; Ctrl-C ends it\n", where(h), how)
	_ = p.a.stdout.Flush() // its error sticks
}

func (p *servePrinter) happened(e load.Happening) {
	if p.o.json {
		p.line(jsonOf(&e))
		return
	}
	who := fmt.Sprintf("#%d", e.Serving)
	if e.Serving == 0 {
		who = "-"
	}
	switch e.Kind {
	case load.Called:
		p.text("%s %v calls by %v", who, e.Peer, e.Way)
	case load.Planned:
		t := &e.Traffic
		text := fmt.Sprintf("%s of %s", t.Operation, report.Bytes(uint64(t.Size)))
		if t.Verify {
			text += ", data to be checked"
		}
		if t.Answer {
			text += ", each answered"
		}
		p.text("%s traffic: %s", who, text)
	case load.Connected:
		c := e.Conn
		p.text("%s %v QP 0x%06x PSN 0x%06x <-> %v QP 0x%06x PSN 0x%06x, MTU %d, memory %s at 0x%x rkey 0x%x: RTS", who,
			c.Local.Transport, c.Local.QPN, c.Local.PSN, c.Remote.Address, c.Remote.QPN, c.Remote.PSN, c.Remote.MTU,
			report.Bytes(c.Local.Memory.Length), c.Local.Memory.VA, c.Local.Memory.RKey)
	case load.Ready:
		p.text("%s ready", who)
	case load.Checked:
		r := &e.Report
		text := fmt.Sprintf("%s checked, %s wrong", report.Plural(r.Messages, "message"), report.Count(r.Wrong))
		if r.Lost > 0 {
			text += fmt.Sprintf(", %s lost", report.Count(r.Lost))
		}
		if r.First != "" {
			text += "; " + r.First
		}
		p.text("%s %s", who, text)
	case load.Broken:
		p.text("%s error: %v", who, e.Err)
	case load.Refused:
		if e.Serving == 0 {
			who = e.Peer.String()
		}
		p.text("%s refused: %v", who, e.Err)
	case load.Closed:
		how := "done"
		if e.Err != nil {
			how = e.Err.Error()
		}
		p.text("%s closed (%s): %s", who, report.Plural(uint64(e.QPs), "QP"), how)
	}
}

func jsonOf(e *load.Happening) serveLine {
	l := serveLine{Event: e.Kind.String(), Session: e.Serving, QPs: e.QPs}
	if e.Peer.IsValid() {
		l.Peer, l.Way = e.Peer.String(), e.Way.String()
	}
	if e.Err != nil {
		l.Error = e.Err.Error()
	}
	switch e.Kind {
	case load.Planned:
		l.Traffic = e.Traffic
	case load.Checked:
		l.Report = e.Report
	}
	if c := e.Conn; c != nil {
		l.QP = &serveQP{
			Transport: c.Local.Transport.String(), State: c.QP.State().String(), QPN: c.Local.QPN, PSN: uint32(c.Local.PSN), RemoteQPN: c.Remote.QPN,
			RemotePSN: uint32(c.Remote.PSN), RemoteAddr: c.Remote.Address.String(), MTU: c.Remote.MTU,
			RKey: c.Local.Memory.RKey, VA: c.Local.Memory.VA, Length: c.Local.Memory.Length,
		}
	}
	return l
}

// second says what the last second gave, if it gave anything.
func (p *servePrinter) second(h *peer.Host) {
	now := countersOf(h)
	d := now.minus(p.last)
	faults := p.struck(h)
	if d.Port.Received+d.Port.Sent > 0 && !p.o.quiet {
		if p.o.json {
			counts, _ := h.Faults()
			p.line(serveLine{Event: "second", Counted: d.table(), Faults: faultCounts(counts)})
		} else {
			p.text("%s%s", rates(now, p.last), faults)
		}
	}
	p.last = now
}

// struck says how many packets the rules struck in the last second.
func (p *servePrinter) struck(h *peer.Host) string {
	counts, _ := h.Faults()
	all := uint64(0)
	for _, c := range counts {
		all += c.Struck
	}
	n := all - p.hits
	p.hits = all
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("  %s struck by rules", report.Plural(n, "packet"))
}

// final is the last table.
func (p *servePrinter) final(h *peer.Host, r *load.Responder) {
	t := r.Totals()
	now := countersOf(h)
	counts, full := h.Faults()
	if p.o.json {
		p.line(serveLine{Event: "end", Seconds: time.Since(p.began).Seconds(), Totals: &t, Counted: now.table(), Faults: faultCounts(counts)})
		return
	}
	var b strings.Builder
	row := func(n uint64, what string) {
		if n > 0 {
			fmt.Fprintf(&b, "%14s  %s\n", report.Count(n), what)
		}
	}
	fmt.Fprintf(&b, "\n%14s  served\n", report.Duration(time.Since(p.began)))
	fmt.Fprintf(&b, "%14s  connections, %s\n", report.Count(t.Conversations), report.Plural(t.QPs, "QP"))
	row(t.Refused, "refused")
	row(t.Failed, "ended by an error")
	row(t.Checked, "messages with their data checked")
	row(t.Wrong, "of these wrong")
	row(t.Lost, "of these lost")
	fmt.Fprintf(&b, "%14s  frames in, %s\n", report.Count(now.Port.Received), report.Bytes(now.Port.RecvBytes))
	fmt.Fprintf(&b, "%14s  frames out, %s\n", report.Count(now.Port.Sent), report.Bytes(now.Port.SentBytes))
	for _, c := range now.notable() {
		row(c.n, c.what)
	}
	b.WriteString(ruled(p.o.host.Rules, counts))
	row(full, "packets met no fate, because too many were held")
	row(p.missed.Load(), "events that were too many to be shown")
	p.a.stdout.Write([]byte(b.String())) // its first error sticks
	for _, told := range port.Trouble(h.Port()) {
		fmt.Fprintln(p.a.stderr, "rocescope: "+told)
	}
}

// servedCounters are all counters of a host.
type servedCounters struct {
	Port   port.Stats
	Device rnic.Counters
}

func countersOf(h *peer.Host) (c servedCounters) {
	_, c.Port = h.Port()
	c.Device = h.Counters()
	return c
}

func (c servedCounters) minus(b servedCounters) servedCounters {
	c.Port.Received -= b.Port.Received
	c.Port.RecvBytes -= b.Port.RecvBytes
	c.Port.Sent -= b.Port.Sent
	c.Port.SentBytes -= b.Port.SentBytes
	c.Port.SendLost -= b.Port.SendLost
	c.Port.RecvLost -= b.Port.RecvLost
	c.Device = c.Device.Minus(b.Device)
	return c
}

type namedCount struct {
	name, what string
	n          uint64
}

// notable are the counters that say what was asked for and what went wrong, by their names in JSON and in words.
func (c *servedCounters) notable() []namedCount {
	d := &c.Device
	all := []namedCount{
		{"rx_write_requests", "WRITEs", d.RxWriteRequests},
		{"rx_read_requests", "READs", d.RxReadRequests},
		{"rx_send_requests", "SENDs", d.RxSendRequests},
		{"rx_atomic_requests", "atomics", d.RxAtomicRequests},
		{"duplicate_request", "duplicates", d.DuplicateRequest},
		{"out_of_sequence", "sequence NAKs sent", d.OutOfSequence},
		{"out_of_buffer", "RNR NAKs sent", d.OutOfBuffer},
		{"refused", "other NAKs sent", d.Refused},
		{"packet_seq_err", "sequence NAKs taken", d.PacketSeqErr},
		{"rnr_nak_retry_err", "RNR NAKs taken", d.RnrNakRetryErr},
		{"local_ack_timeout_err", "time-outs", d.LocalAckTimeoutErr},
		{"np_ecn_marked", "with ECN mark", d.NpEcnMarked},
		{"np_cnp_sent", "CNPs sent", d.NpCnpSent},
		{"rp_cnp_handled", "CNPs taken", d.RpCnpHandled},
		{"handed_over", "frames handed over to another queue's thread", d.HandedOver},
		{"send_lost", "frames lost on sending", c.Port.SendLost},
		{"recv_lost", "frames that found no room", c.Port.RecvLost},
	}
	for _, why := range rnic.Drops() {
		name := "dropped_" + strings.NewReplacer(" ", "_", "-", "_").Replace(why.String())
		all = append(all, namedCount{name, "dropped: " + why.String(), d.Dropped[why]})
	}
	return all
}

// table is all counters, for JSON.
func (c *servedCounters) table() map[string]uint64 {
	t := map[string]uint64{"frames_in": c.Port.Received, "bytes_in": c.Port.RecvBytes, "frames_out": c.Port.Sent, "bytes_out": c.Port.SentBytes}
	for _, n := range c.notable() {
		t[n.name] = n.n
	}
	return t
}
