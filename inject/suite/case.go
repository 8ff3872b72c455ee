package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// runner carries out one case.
type runner struct {
	ctx     context.Context
	o       *Options
	c       *Case
	l       *link
	seed    uint64
	salt    int
	w       *watch
	crafter dissect.Crafter

	main    Numbers
	model   []byte // the device's memory, as it has to be
	vague   []bool // of it: nobody knows
	others  map[string][]byte
	pending []*sent // executed, and not yet acknowledged
	last    *sent
	meters  map[string]int64

	step     int
	from     int // the step's first record
	problems []Problem
	probe    Probe
	pings    *bool
	begun    int64
}

var errFlood = errors.New("the device floods: more frames came than a case may record")

// digest looks at what was recorded since.
func (r *runner) digest() error {
	fresh, flooded := r.l.tap.take()
	r.w.add(fresh)
	if r.o.Seen != nil {
		for i := len(r.w.records) - len(fresh); i < len(r.w.records); i++ {
			r.o.Seen(r.packet(i))
		}
	}
	if flooded {
		return errFlood
	}
	return nil
}

// await lets time pass until something holds, or for so long.
func (r *runner) await(d time.Duration, holds func() bool) (bool, error) {
	until := r.l.clock() + int64(d)
	for {
		if err := r.digest(); err != nil {
			return false, err
		}
		if holds() {
			return true, nil
		}
		if err := r.ctx.Err(); err != nil {
			return false, context.Cause(r.ctx)
		}
		if r.l.clock() >= until {
			return false, nil
		}
		if err := r.l.pass(until); err != nil {
			return false, err
		}
	}
}

func never() bool { return false }

// run carries the case out.
func (r *runner) run() error {
	r.w = newWatch()
	r.begun = r.l.clock()
	for i := range r.c.Setup.QPs {
		p, err := r.l.connect(i)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		r.l.pairs = append(r.l.pairs, p)
	}
	r.main = r.l.pairs[0].remote
	if err := r.learn(); err != nil {
		return err
	}
	if r.pings == nil && r.l.addrs != nil {
		ok, err := r.ping()
		if err != nil {
			return err
		}
		r.pings = &ok
	}
	for i := range r.c.Steps {
		r.step = i + 1
		if err := r.digest(); err != nil {
			return err
		}
		r.from = len(r.w.records)
		s := &r.c.Steps[i]
		for range s.Times {
			if err := r.do(s); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
	}
	r.step = 0
	if err := r.live(); err != nil {
		return err
	}
	if err := r.compare(); err != nil {
		return err
	}
	r.w.tracker.Finish()
	r.findings()
	return nil
}

// learn takes note of the device's memory and counters.
func (r *runner) learn() error {
	r.vague = make([]bool, r.main.Length)
	a, err := r.l.ask(&Command{Do: "memory", QP: pairName(0), Memory: "region", Length: r.main.Length})
	switch {
	case errors.Is(err, ErrUnsupported):
		r.model = make([]byte, r.main.Length)
		for i := range r.vague {
			r.vague[i] = true
		}
	case err != nil:
		return err
	default:
		r.model = a.Data
	}
	r.others = map[string][]byte{}
	for _, name := range []string{"foreign", "readonly"} {
		if _, ok := r.l.pairs[0].keys[name]; !ok {
			continue
		}
		if a, err := r.l.ask(&Command{Do: "memory", QP: pairName(0), Memory: name, Length: otherSize}); err == nil {
			r.others[name] = a.Data
		}
	}
	r.meters, err = r.counters()
	return err
}

func (r *runner) counters() (map[string]int64, error) {
	if r.o.Counters != nil {
		return r.o.Counters(r.ctx)
	}
	a, err := r.l.ask(&Command{Do: "counters"})
	if errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a.Counters, nil
}

// pair is the connection that a step is about.
func (r *runner) pair(s *Step) (*pair, error) {
	i := 0
	switch s.QP {
	case "", "subject":
	case "other":
		i = 1
	default:
		if _, err := fmt.Sscan(s.QP, &i); err != nil {
			return nil, fmt.Errorf("no queue pair is called %q", s.QP)
		}
	}
	if i < 0 || i >= len(r.l.pairs) {
		return nil, fmt.Errorf("there is no queue pair %d: setup.qps says how many there are", i)
	}
	return r.l.pairs[i], nil
}

// do does a step.
func (r *runner) do(s *Step) error {
	p, err := r.pair(s)
	if err != nil {
		return err
	}
	switch {
	case s.Send != "":
		x, err := r.craft(p, s)
		if err != nil {
			return err
		}
		r.last = x
		return r.offer(p, s, x)
	case s.Repeat:
		if r.last == nil {
			return errors.New("nothing was sent that could be repeated")
		}
		return r.offer(p, s, r.last)
	case s.Post != "":
		return r.post(p, s)
	case s.Device != "":
		return r.request(p, s)
	case s.Lose > 0:
		p.gap += uint32(s.Lose)
	case s.Wait > 0:
		_, err := r.await(s.Wait, never)
		return err
	case s.Reset != "":
		return r.reset(p)
	case s.CM:
		return r.askCM(p, s)
	case s.Hook != "":
		return r.command(p, s)
	case s.State != "":
		return r.comesTo(p, s)
	case s.Packet != nil:
		r.count(s.Packet)
	case s.Meter != nil:
		return r.meter(s.Meter)
	}
	return nil
}

// within is how long a step may take: on a wire no less than the device may for any answer.
func (r *runner) within(s *Step) time.Duration {
	switch {
	case s.Within == 0:
		return r.l.patient
	case r.l.driven:
		return s.Within
	}
	return max(s.Within, r.l.patient)
}

func (r *runner) problem(p Problem) {
	p.Step = r.step
	if len(r.problems) < 32 {
		r.problems = append(r.problems, p)
	}
}

// postMost is how much of our RNIC's is posted at a time.
const postMost = 256

// reset makes a connection anew.
func (r *runner) reset(p *pair) error {
	if err := r.l.do(func() error {
		_ = p.qp.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState)
		return p.qp.Destroy()
	}); err != nil {
		return err
	}
	fresh, err := r.l.connect(p.index)
	if err != nil {
		return fmt.Errorf("connect anew: %w", err)
	}
	*p = *fresh
	return nil
}

// command has the device do something.
func (r *runner) command(p *pair, s *Step) error {
	c := &Command{Do: s.Hook, QP: pairName(p.index), Receives: s.Count, Memory: s.Key}
	if s.Hook == "error" {
		c.Do, c.State = "modify", "ERROR"
		p.dead = true
	}
	if s.Hook == "destroy" {
		p.dead = true
	}
	_, err := r.l.ask(c)
	return err
}

// count counts packets.
func (r *runner) count(c *PacketCheck) {
	if err := r.digest(); err != nil {
		return
	}
	var hits []int
	for i := range r.w.records {
		a := &r.w.records[i]
		if c.From != "both" && a.ours != (c.From == "us") {
			continue
		}
		if c.filter.Match(&a.p, a.data, &a.mark) {
			hits = append(hits, i)
		}
	}
	if len(hits) >= c.Min && (c.Max == nil || len(hits) <= *c.Max) {
		return
	}
	want := fmt.Sprintf("at least %d", c.Min)
	switch {
	case c.Max != nil && *c.Max == c.Min:
		want = fmt.Sprint(c.Min)
	case c.Max != nil && c.Min > 0:
		want = fmt.Sprintf("%d to %d", c.Min, *c.Max)
	case c.Max != nil:
		want = fmt.Sprintf("at most %d", *c.Max)
	}
	p := Problem{Kind: "packets", Required: fmt.Sprintf("%s packets: %s", want, cmp.Or(c.What, c.Filter)), Seen: fmt.Sprint(len(hits))}
	for _, i := range hits[:min(len(hits), 12)] {
		p.Packets = append(p.Packets, r.packet(i))
	}
	r.problem(p)
}

// meter looks how a counter moved.
func (r *runner) meter(c *CounterCheck) error {
	now, err := r.counters()
	if err != nil {
		return err
	}
	v, ok := now[c.Name]
	if !ok {
		return nil // a device has the counters that it has
	}
	if moved := v - r.meters[c.Name]; moved < c.Min {
		r.problem(Problem{Kind: "counter", Required: fmt.Sprintf("%s counts %d", c.Name, c.Min), Seen: fmt.Sprint(moved)})
	}
	return nil
}
