package stream

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/crash"
)

// Stream is a configuration that is ready to be sent, once.
type Stream struct {
	plan    *plan
	qps     []*qp
	senders []*sender
	ports   []port.Port
	answers *answers
	looking bool         // answers are received
	start   atomic.Int64 // asked for by Progress, too
	wishes  atomic.Pointer[wish]
	until   int64

	halt  atomic.Bool  // sending is over
	over  atomic.Bool  // no more answers are waited for
	heard atomic.Int64 // when an answer came last
	took  time.Duration
}

// New makes the plan of a stream.
func New(c Config) (*Stream, error) {
	c.setDefaults()
	if err := errors.Join(c.checkAddresses(), c.check()); err != nil {
		return nil, err
	}
	p, err := newPlan(c)
	if err != nil {
		return nil, err
	}
	return &Stream{plan: p}, nil
}

// MaxFrame is how much room a port must have for a frame: the longest that will be sent, without FCS, or a little more.
func (s *Stream) MaxFrame() int { return max(s.plan.longest, leastRoom) }

// Asked is how many messages are to be sent, and how many packets if that can be told: with a count, and sizes without choice.
// Both are 0 where only time ends the stream.
func (s *Stream) Asked() (messages, packets uint64) {
	c := &s.plan.config
	for i := range s.plan.mixes {
		m := &s.plan.mixes[i]
		messages += c.Count * uint64(c.QPs)
		mean := 0.0
		for k := range m.ops {
			op := &m.ops[k]
			each := 0.0
			for j := range op.shapes {
				each += float64(op.shapes[j].packets)
			}
			mean += c.Mix[op.op].Weight * each / float64(len(op.shapes))
		}
		sum := 0.0
		for k := range m.ops {
			sum += c.Mix[m.ops[k].op].Weight
		}
		packets += uint64(float64(c.Count*uint64(c.QPs)) * mean / sum)
	}
	return messages, packets
}

// Expects reports whether anything in the stream is owed an answer.
func (s *Stream) Expects() bool {
	for i := range s.plan.mixes {
		if s.plan.mixes[i].answered {
			return true
		}
	}
	return false
}

// Looks reports, once Prepare was called, whether what comes back is looked at.
func (s *Stream) Looks() bool { return s.looking }

// SetRate changes how fast is sent, also while Run is under way; the zero Rate is as fast as can be.
func (s *Stream) SetRate(r Rate) error {
	if r.Packets < 0 || r.Bits < 0 || r.Packets > 0 && r.Bits > 0 {
		return errors.New("a rate is packets or bits per second, and not below 0")
	}
	s.change(func(w *wish) { w.rate = r })
	return nil
}

// Pause holds sending up until Resume; answers go on being looked at, and time goes on.
func (s *Stream) Pause() { s.change(func(w *wish) { w.paused = true }) }

// Resume goes on sending.
func (s *Stream) Resume() { s.change(func(w *wish) { w.paused = false }) }

func (s *Stream) change(how func(*wish)) {
	for {
		old := s.wishes.Load()
		w := wish{rate: s.plan.config.Rate}
		if old != nil {
			w = *old
		}
		if how(&w); s.wishes.CompareAndSwap(old, &w) {
			return
		}
	}
}

// Prepare divides the QPs over the ports. Run does it where it was not done before; to do it earlier is to know before
// anything is sent that there is memory enough.
func (s *Stream) Prepare(ports []port.Port) error {
	c := &s.plan.config
	switch {
	case len(ports) == 0 || s.senders != nil:
		return errors.New("a stream goes out of one port or more, once")
	case c.Turns && len(ports) > 1:
		return errors.New("a stream that sends and looks in turns has one port")
	}
	s.ports = ports
	var receiving []port.Port
	for _, p := range ports {
		info := p.Info()
		if _, generates := p.(port.Generator); info.MaxFrame < s.MaxFrame() && !generates {
			return fmt.Errorf("%s: %w: it takes %d bytes, and frames need room for %d", where(info), port.ErrFrameSize, info.MaxFrame, s.MaxFrame())
		}
		if info.Receives {
			receiving = append(receiving, p)
		}
	}
	s.looking = len(receiving) > 0
	s.start.Store(c.Clock.Now())
	s.until = 1<<63 - 1
	n := len(s.plan.qps)
	all, states, nothing := make([]qp, n), make([]shared, n), &shape{}
	s.qps = make([]*qp, n)
	for i := range all {
		q := &all[i]
		*q = qp{qpPlan: s.plan.qps[i], sh: &states[i], msg: message{shape: nothing}}
		if s.looking && q.mix.answered {
			q.sh.stamps = make([]stamp, atLeast(4<<20, n, 16, 4096))
			if c.OnNAK == GoBack {
				q.past = make([]past, atLeast(1<<20, n, 16, 4096))
			}
		}
		s.qps[i] = q
	}
	if s.looking {
		s.answers = newAnswers(s, receiving)
	}
	workers := min(len(ports), n)
	if c.Threads > 0 {
		workers = min(workers, c.Threads)
	}
	for i := range workers {
		var own []*qp
		for k := i; k < n; k += workers {
			own = append(own, s.qps[k])
		}
		w := newSender(s, ports[i], own, float64(len(own))/float64(n))
		if c.Packets > 0 {
			w.left = c.Packets / uint64(workers)
			if uint64(i) < c.Packets%uint64(workers) {
				w.left++
			}
		}
		s.senders = append(s.senders, w)
		if s.looking {
			for j, q := range own {
				a := &s.answers.qps[i+j*workers]
				a.orders, a.number = w.orders, q.number
			}
		}
	}
	return nil
}

func where(i port.Info) string {
	if i.Interface != "" {
		return i.Interface + " (" + i.Via + ")"
	}
	return i.Via
}

// Run sends everything, waits for the answers that are still owed, and says what became of it all. The end of the context ends
// it early; that is no error. After an error the result says how far it got.
func (s *Stream) Run(ctx context.Context, ports []port.Port) (*Result, error) {
	if s.senders == nil {
		if err := s.Prepare(ports); err != nil {
			return nil, err
		}
	}
	c := &s.plan.config
	start := c.Clock.Now()
	s.start.Store(start)
	if c.Duration > 0 {
		s.until = start + int64(c.Duration)
	}
	stop := context.AfterFunc(ctx, func() { s.halt.Store(true) })
	defer stop()

	var looking, sending sync.WaitGroup
	if s.looking && !c.Turns {
		looking.Go(s.answers.run)
	}
	for _, w := range s.senders {
		w.pacer.start = start
		sending.Go(func() {
			defer crash.Guard()
			runtime.LockOSThread() // a thread for each queue
			defer runtime.UnlockOSThread()
			if w.run(); w.err != nil {
				s.halt.Store(true)
			}
		})
	}
	sending.Wait()
	for _, w := range s.senders {
		s.took = max(s.took, time.Duration(w.last-start))
	}
	s.await(ctx)
	s.over.Store(true)
	if s.looking {
		s.answers.wake()
	}
	looking.Wait()
	return s.result(), s.problem()
}

// await waits for answers after a stream that time or a signal ended; otherwise its senders have done so.
func (s *Stream) await(ctx context.Context) {
	c := &s.plan.config
	ended := c.Clock.Now()
	for s.looking && !s.answers.failed.Load() && ctx.Err() == nil && ended >= s.until && !s.settled() {
		if c.Clock.Now()-max(ended, s.heard.Load()) > int64(c.Linger) {
			return
		}
		s.wait(nap)
	}
}

// wait lets time pass. Who sends and looks in turns looks then.
func (s *Stream) wait(d time.Duration) {
	if s.plan.config.Turns && s.looking {
		s.answers.step(d)
		return
	}
	s.plan.config.Clock.Wait(d)
}

// settled reports whether everything that was sent is acknowledged.
func (s *Stream) settled() bool {
	for _, q := range s.qps {
		if q.mix.answered && !q.stopped && q.sh.acked.Load() < q.sent {
			return false
		}
	}
	return true
}

// problem is why the stream could not go on.
func (s *Stream) problem() error {
	var all []error
	for _, w := range s.senders {
		all = append(all, w.err)
	}
	if s.answers != nil {
		all = append(all, s.answers.err)
	}
	return errors.Join(all...)
}
