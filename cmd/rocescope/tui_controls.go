package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui"
)

// screenFlags are the options of commands that send, about a screen to steer them from.
type screenFlags struct {
	on bool
	tuiOptions
}

func (s *screenFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.on, "tui", false, "steer it from the screen: rates, rules and their hits, start, pause, stop")
}

// steered is what the screen steers: something that begins, goes on for a while and ends. It implements tui.Controls.
type steered struct {
	title   string
	asked   string
	begin   func(context.Context) error    // returns when it is over, or soon after the context's end
	fill    func(*tui.Status)              // what else it counts
	count   func() (packets, bytes uint64) // nil where packets are not counted
	counted string                         // what count counts: "sent"
	hold    func(pause bool)               // nil where it cannot pause
	rate    func(string) (string, error)   // nil where the rate cannot be changed; returns it as it is shown

	mu    sync.Mutex
	ctx   context.Context
	end   context.CancelFunc
	state tui.State
	since time.Time
	err   error
	done  chan struct{}
	past  []sampled
}

// sampled is what was counted at a time.
type sampled struct {
	at             time.Time
	packets, bytes uint64
}

// onScreen shows the screen until the user leaves it, and ends what it steers then. What it came to is returned.
func (a *app) onScreen(ctx context.Context, o *screenFlags, c *steered, begins bool) error {
	screen, err := a.screenOptions(&o.tuiOptions)
	if err != nil {
		return err
	}
	ctx, done := untilHangup(ctx)
	defer done()
	c.ctx = ctx
	screen.Controls = c
	if begins {
		if err := c.Start(); err != nil {
			return err
		}
	}
	err = tui.Run(ctx, nil, screen)
	c.mu.Lock()
	over := c.done
	if c.end != nil {
		c.end()
	}
	c.mu.Unlock()
	if over != nil {
		<-over
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return c.err
}

// Start implements tui.Controls.
func (c *steered) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return errors.New("it was started already, and is sent once")
	}
	ctx, end := context.WithCancel(c.ctx)
	c.end, c.state, c.since, c.done = end, tui.Running, time.Now(), make(chan struct{})
	go func() {
		err := crash.Sound(func() error { return c.begin(ctx) }) // the screen lives on, and says it
		c.mu.Lock()
		defer c.mu.Unlock()
		c.state, c.since = tui.Finished, time.Now()
		if err != nil {
			c.state, c.err = tui.Failed, err
		}
		close(c.done)
	}()
	return nil
}

// Stop implements tui.Controls.
func (c *steered) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		return errors.New("it has not been started")
	}
	c.end()
	return nil
}

// Pause implements tui.Controls.
func (c *steered) Pause() error { return c.held(true, tui.Running, tui.Paused) }

// Resume implements tui.Controls.
func (c *steered) Resume() error { return c.held(false, tui.Paused, tui.Running) }

func (c *steered) held(pause bool, from, to tui.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold == nil || c.state != from {
		return fmt.Errorf("it is %v, and that cannot be", c.state)
	}
	c.hold(pause)
	c.state = to
	return nil
}

// SetRate implements tui.Controls.
func (c *steered) SetRate(text string) error {
	if c.rate == nil {
		return errors.New("the rate of this cannot be changed")
	}
	asked, err := c.rate(text)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = asked
	return nil
}

// Status implements tui.Controls.
func (c *steered) Status() tui.Status {
	var packets, bytes uint64
	if c.count != nil {
		packets, bytes = c.count()
	}
	c.mu.Lock()
	live := c.state == tui.Running || c.state == tui.Paused
	st := tui.Status{
		Title: c.title, State: c.state, Since: c.since, Asked: c.asked, Err: c.err, Counted: c.counted, Sent: packets, Done: -1,
		CanStart: c.done == nil, CanStop: live, CanPause: c.hold != nil && live, CanRate: c.rate != nil && c.state != tui.Finished && c.state != tui.Failed,
	}
	st.Packet = c.achieved(packets, bytes)
	c.mu.Unlock()
	if c.fill != nil {
		c.fill(&st)
	}
	return st
}

// achieved is what was counted over the last second.
func (c *steered) achieved(packets, bytes uint64) (r tui.Rates) {
	now := time.Now()
	for len(c.past) > 1 && now.Sub(c.past[1].at) >= time.Second {
		c.past = c.past[1:]
	}
	if len(c.past) > 0 {
		if over := now.Sub(c.past[0].at).Seconds(); over > 0 {
			r = tui.Rates{PacketsPerSecond: float64(packets-c.past[0].packets) / over, BitsPerSecond: float64(bytes-c.past[0].bytes) * 8 / over}
		}
	}
	c.past = append(c.past, sampled{now, packets, bytes})
	return r
}

// rulesOf are fault rules and their hits.
func rulesOf(counts []fault.Count, ways [2]string) []tui.Rule {
	var all []tui.Rule
	for _, n := range counts {
		all = append(all, tui.Rule{Text: n.Rule.Text + " (" + ways[n.Way] + ")", Seen: n.Matched, Applied: n.Struck})
	}
	return all
}

// count is a fact that is shown once there is something to count.
func countFact(st *tui.Status, name string, n uint64, bad bool) {
	if n > 0 {
		st.Facts = append(st.Facts, tui.Fact{Name: name, Value: report.Count(n), Bad: bad})
	}
}

// steer makes a stream something that the screen steers; what it came to is put into end.
func (i *injection) steer(end func(*stream.Result, error)) *steered {
	s := i.stream
	c := &steered{title: "inject " + i.o.describe(), asked: "as fast as can be"}
	if rate := i.o.config.Rate; rate != (stream.Rate{}) {
		c.asked = rateText(rate)
	}
	c.begin = func(ctx context.Context) error {
		r, err := s.Run(ctx, i.ports)
		end(r, err)
		return err
	}
	c.counted = "sent"
	c.count = func() (uint64, uint64) {
		p := s.Progress()
		return p.Packets, p.Bytes
	}
	c.hold = func(pause bool) {
		if pause {
			s.Pause()
		} else {
			s.Resume()
		}
	}
	c.rate = func(text string) (string, error) {
		var r stream.Rate
		if text != "max" {
			var err error
			if r, err = stream.ParseRate(text); err != nil {
				return "", err
			}
		}
		if err := s.SetRate(r); err != nil {
			return "", err
		}
		if r == (stream.Rate{}) {
			return "as fast as can be", nil
		}
		return rateText(r), nil
	}
	_, asked := s.Asked()
	c.fill = func(st *tui.Status) {
		p := s.Progress()
		if asked > 0 {
			st.Left = asked - min(asked, p.Packets)
			st.Done = float64(p.Packets) / float64(max(asked, 1))
		}
		if p.Slots > 0 {
			st.Facts = append(st.Facts, tui.Fact{Name: "ring", Value: fmt.Sprintf("%d %% full", p.Port.Outstanding*100/p.Slots)})
		}
		countFact(st, "answered", p.Answered, false)
		countFact(st, "ACKs", p.ACKs, false)
		countFact(st, "NAKs", p.NAKs, true)
		countFact(st, "RNR NAKs", p.RNRs, true)
		countFact(st, "CNPs", p.CNPs, false)
		countFact(st, "resent", p.Resent, true)
		countFact(st, "lost", p.Port.SendLost+p.Port.LinkDropped, true)
		countFact(st, "unseen", p.Port.RecvLost, true)
		st.Rules = rulesOf(i.faultCounts(), faultWays)
	}
	return c
}

// runOnScreen sends when the user says so, and reports behind the screen.
func (i *injection) runOnScreen(ctx context.Context) error {
	var result *stream.Result
	var failed error
	c := i.steer(func(r *stream.Result, err error) { result, failed = r, err })
	err := i.a.onScreen(ctx, &i.o.screen, c, false)
	if result == nil && failed == nil {
		return err // nothing was sent
	}
	return i.finish(result, failed)
}

// runOnScreen joins the interfaces while the screen is open.
func (c *cable) runOnScreen(ctx context.Context) error {
	var failed error
	s := &steered{title: fmt.Sprintf("wire %s and %s", c.o.interfaces[0], c.o.interfaces[1])}
	s.begin = func(ctx context.Context) error {
		failed = c.wire.Run(ctx)
		return failed
	}
	s.counted = "received"
	s.count = func() (packets, bytes uint64) {
		for _, st := range c.wire.Stats() {
			packets, bytes = packets+st.Received, bytes+st.Bytes
		}
		return packets, bytes
	}
	s.fill = func(st *tui.Status) {
		for _, w := range c.wire.Stats() {
			text := fmt.Sprintf("%s received, %s as they came, %s by rules", report.Count(w.Received), report.Count(w.Forwarded), report.Count(w.Made))
			lost := w.Missed + w.TooLong + w.Stuck + w.SendLost
			if lost > 0 {
				text += ", " + report.Count(lost) + " lost"
			}
			if w.Held > 0 {
				text += fmt.Sprintf(", %d held now", w.Held)
			}
			st.Facts = append(st.Facts, tui.Fact{Name: w.From + " → " + w.To, Value: text, Bad: lost > 0})
		}
		st.Rules = rulesOf(c.wire.Counts(), c.ways())
	}
	c.began = time.Now()
	if err := c.a.onScreen(ctx, &c.o.screen, s, true); err != nil && failed == nil {
		return errors.Join(err, c.finish(nil))
	}
	return c.finish(failed)
}

// hostSteered is what a software RNIC counts, for the screen.
func hostSteered(title string, h *peer.Host) *steered {
	s := &steered{title: title, counted: "both ways"}
	s.count = func() (uint64, uint64) {
		n := countersOf(h)
		return n.Port.Sent + n.Port.Received, n.Port.SentBytes + n.Port.RecvBytes
	}
	s.fill = func(st *tui.Status) {
		n := countersOf(h)
		counts, _ := h.Faults()
		st.Facts = append(st.Facts,
			tui.Fact{Name: "in", Value: fmt.Sprintf("%s, %s", report.Plural(n.Port.Received, "frame"), report.Bytes(n.Port.RecvBytes))},
			tui.Fact{Name: "out", Value: fmt.Sprintf("%s, %s", report.Plural(n.Port.Sent, "frame"), report.Bytes(n.Port.SentBytes))})
		for _, k := range n.notable() {
			countFact(st, k.what, k.n, false)
		}
		st.Rules = rulesOf(counts, faultWays)
	}
	return s
}

// serveOnScreen serves while the screen is open. Its last word is that of serving without one.
func (a *app) serveOnScreen(ctx context.Context, o *serveOptions, h *peer.Host, p *servePrinter, happenings <-chan load.Happening) error {
	var told []load.Happening
	s := hostSteered("serve on "+where(h), h)
	s.begin = func(ctx context.Context) error {
		for {
			select {
			case e := <-happenings:
				if len(told) < serveEvents {
					told = append(told, e)
				} else {
					p.missed.Add(1)
				}
			case <-h.Done():
				return peerError(h.Err(), o.iface)
			case <-ctx.Done():
				return nil
			}
		}
	}
	err := a.onScreen(ctx, &o.screen, s, true)
	for _, e := range told {
		p.happened(e)
	}
	return err
}

// benchOnScreen measures while the screen is open, and prints the table behind it.
func (a *app) benchOnScreen(ctx context.Context, o *benchOptions, h *peer.Host, out *benchPrinter) error {
	var results []*load.Result
	s := hostSteered("bench "+o.describe()+" to "+fmt.Sprint(o.to), h)
	s.begin = func(ctx context.Context) error {
		return a.measure(ctx, o, h, func(r *load.Result) { results = append(results, r) })
	}
	failed := a.onScreen(ctx, &o.screen, s, true)
	for _, r := range results {
		out.row(r)
	}
	return a.benched(o, h, out, failed)
}
