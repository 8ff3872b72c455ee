package peer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/crash"
)

// Options say what a host is. Open needs Interface; New needs MAC and Addrs.
type Options struct {
	Interface string
	Via       string // kind of port; the best one
	// Addrs are addresses that the kernel does not have: the host answers ARP, neighbour discovery and pings for them. Without
	// any, it shares the interface's own, for which the kernel does that.
	Addrs  []netip.Addr
	MAC    [6]byte    // the interface's
	Router netip.Addr // where frames to others than neighbours go, from addresses that the kernel does not have

	Device rnic.Options     // of the device; MAC, Addrs and Clock are set here
	CM     connect.CMConfig // limits and times of CM; Send and Event are set here
	// Wrap is put around the port before anything else, to see all that goes through it; nil = nothing.
	Wrap     func(port.Port) (port.Port, error)
	Rules    *fault.Set    // what happens to the host's packets, out and in; nil = nothing
	Patience time.Duration // for each word of a conversation, and for who is asked for his MAC; 0 = 10 s

	// Event is told of the device's asynchronous events, by the host's thread.
	Event func(rnic.Event)
	// State is told of each state that a queue pair comes to, by the host's thread.
	State func(rnic.StateChange)
}

// Host is a host on the wire.
type Host struct {
	o        Options
	port     port.Port
	faults   *fault.Port
	dev      *rnic.Device
	cm       *connect.CM
	answers  connect.Host
	resolver connect.Resolver
	kernel   bool // the addresses are the kernel's as well
	clock    func() int64
	asked    map[netip.Addr][]chan answer
	conns    map[connect.ConnID]*cmConn
	echoes   map[uint16]chan struct{} // of pings that are not answered, by their identifiers
	service  *service

	calls   chan call
	workers []*Worker
	due     int64 // when CM or the resolver has something to do
	spin    int64 // for how long an idle thread stays awake, nanoseconds
	reply   []byte

	quit    atomic.Bool
	done    chan struct{}
	failure error // valid when done is closed
	closing sync.Once
}

// New makes a host on a port, which it owns from then on. It asks for MACs itself.
func New(p port.Port, o Options) (*Host, error) { return newHost(p, o, false) }

func newHost(p port.Port, o Options, kernel bool) (*Host, error) {
	if o.Wrap != nil {
		var err error
		if p, err = o.Wrap(p); err != nil {
			return nil, err
		}
	}
	var faults *fault.Port
	if o.Rules != nil {
		var err error
		if faults, err = fault.Wrap(p, o.Rules); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRules, err)
		}
		p = faults
	}
	h := &Host{
		o: o, port: p, faults: faults, kernel: kernel, clock: port.Clock(p), answers: connect.Host{MAC: o.MAC, Addrs: o.Addrs},
		asked: map[netip.Addr][]chan answer{}, conns: map[connect.ConnID]*cmConn{},
		calls: make(chan call, 64), done: make(chan struct{}),
	}
	if o.Patience == 0 {
		h.o.Patience = 10 * time.Second
	}
	if p.Info().Interface != "" {
		h.spin = int64(awake)
	}
	device := o.Device
	device.MAC, device.Addrs, device.Clock = o.MAC, o.Addrs, h.clock
	var err error
	if h.dev, err = rnic.Open(p, device); err != nil {
		return nil, err
	}
	cm := o.CM
	cm.Send, cm.Event = h.dev.SendFrame, h.cmEvent
	if h.cm, err = connect.NewCM(cm); err != nil {
		return nil, err
	}
	h.resolver = connect.Resolver{Host: &h.answers, Send: h.dev.SendFrame, Found: h.found}
	if vlan := o.Device.VLAN; vlan != 0 {
		h.resolver.VLANs = []uint16{vlan}
	}
	h.dev.OnManagement(func(frame []byte, at int64) {
		h.cm.Handle(frame, at)
		h.due = 0
	})
	h.dev.OnOther(h.other)
	if o.Event != nil {
		h.dev.OnEvent(o.Event)
	}
	if o.State != nil {
		h.dev.OnState(o.State)
	}
	go h.run()
	return h, nil
}

// other takes what is no RoCE: questions for the host's addresses, and answers to its own.
func (h *Host) other(frame []byte, _ int64) {
	if h.kernel {
		return
	}
	if h.reply = h.answers.Answer(h.reply[:0], frame); len(h.reply) > 0 {
		_ = h.dev.SendFrame(h.reply) // who is not answered asks again
	}
	h.resolver.Handle(frame)
	h.echoed(frame)
	h.due = 0
}

// Device is the host's software RNIC.
func (h *Host) Device() *rnic.Device { return h.dev }

// Port is what the port says of itself.
func (h *Host) Port() (port.Info, port.Stats) { return h.port.Info(), h.port.Stats() }

// ErrRules: the port cannot apply the rules that it was given.
var ErrRules = errors.New("these rules cannot be applied")

// Faults are what the rules did so far, and how many packets met no fate because too many were held.
func (h *Host) Faults() (counts []fault.Count, full uint64) {
	if h.faults == nil {
		return nil, 0
	}
	return h.faults.Counts(), h.faults.Full()
}

// Addrs are the host's addresses.
func (h *Host) Addrs() []netip.Addr { return h.dev.Addrs() }

// Now is the time of the host's clock.
func (h *Host) Now() int64 { return h.clock() }

// CMStats are the counters of CM.
func (h *Host) CMStats() (s connect.CMStats) {
	_ = h.Do(func() error { s = h.cm.Stats(); return nil })
	return s
}

// Done is closed when the host has ended; Err says why.
func (h *Host) Done() <-chan struct{} { return h.done }

// ErrClosed is what is tried on a host that was closed.
var ErrClosed = errors.New("the host was closed")

// Err is why the host ended: nil if it was closed, or runs.
func (h *Host) Err() error {
	select {
	case <-h.done:
		return h.failure
	default:
		return nil
	}
}

// Close ends the host and its port. It says goodbye to who is connected by CM; sockets tell the others by themselves.
func (h *Host) Close() (err error) {
	h.closing.Do(func() {
		h.goodbye()
		h.quit.Store(true)
		<-h.done
		err = h.port.Close()
	})
	return err
}

// goodbye ends all connections by CM, and waits a moment for the answers.
func (h *Host) goodbye() {
	for until := time.Now().Add(goodbyeTime); time.Now().Before(until); time.Sleep(napMost) {
		left := 0
		err := h.Do(func() error {
			for id, x := range h.conns {
				switch h.cm.State(id) {
				case connect.StateIdle, connect.StateTimeWait:
					continue
				case connect.StateEstablished:
					_ = h.cm.Disconnect(h.clock(), id, nil) // its state allows it
				case connect.StateDREQSent:
				default: // nothing follows
					_ = h.cm.Disconnect(h.clock(), id, nil)
					h.cmEnd(x, nil)
					delete(h.conns, id)
				}
				left++
			}
			h.due = 0
			return nil
		})
		if err != nil || left == 0 {
			return
		}
	}
}

// goodbyeTime is how long a host waits for answers to its goodbyes before it goes.
const goodbyeTime = 300 * time.Millisecond

// Worker is work of the host's users that its thread does once per batch, after what arrived was processed: poll completions, post
// more. Busy says that there is more to do at once.
type Worker struct {
	Work func(now int64) (busy bool)
}

// Attach begins to do a worker's work, Detach ends it. Both are for the host's thread.
func (h *Host) Attach(w *Worker) { h.workers = append(h.workers, w) }

// Detach: see Attach.
func (h *Host) Detach(w *Worker) {
	all := make([]*Worker, 0, len(h.workers)) // the old slice may be under way
	for _, x := range h.workers {
		if x != w {
			all = append(all, x)
		}
	}
	h.workers = all
}

type call struct {
	f    func() error
	done chan error
}

// Do has something done by the host's thread, and waits for it. It is not for that thread itself.
func (h *Host) Do(f func() error) error {
	c := call{f, make(chan error, 1)}
	select {
	case h.calls <- c:
	case <-h.done:
		return h.ended()
	}
	select {
	case err := <-c.done:
		return err
	case <-h.done:
		return h.ended()
	}
}

func (h *Host) ended() error {
	if h.failure != nil {
		return h.failure
	}
	return ErrClosed
}

// How an idle thread waits: first awake, so that an answer is quick, then asleep, for longer and longer. A frame wakes it; what
// others ask by Do waits.
const (
	awake    = 100 * time.Microsecond
	napLeast = 50 * time.Microsecond
	napMost  = 2 * time.Millisecond
	downTime = 10 * time.Millisecond // between looks at an interface that is down
)

// run is the host's thread.
func (h *Host) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(h.done)
	defer crash.Guard()
	var idle int64
	nap := napLeast
	for !h.quit.Load() {
		calls := len(h.calls)
		for range calls {
			c := <-h.calls
			c.done <- c.f()
		}
		busy, err := h.dev.Step()
		busy = busy || calls > 0 // others may follow
		switch {
		case errors.Is(err, port.ErrDown):
			time.Sleep(downTime) // frames wait for the interface
		case err != nil:
			h.failure = fmt.Errorf("the port failed: %w", err)
			return
		}
		now := h.clock()
		for _, w := range h.workers {
			busy = w.Work(now) || busy
		}
		if now >= h.due {
			h.due = min(h.cm.Tick(now), h.resolver.Tick(now))
		}
		if busy {
			idle, nap = 0, napLeast
			continue
		}
		if idle == 0 {
			idle = now
		}
		if now-idle < h.spin {
			continue
		}
		if err := h.rest(now, nap); err != nil {
			h.failure = fmt.Errorf("the port failed: %w", err)
			return
		}
		nap = min(2*nap, napMost)
	}
}

// rest waits until a frame comes, something is due, or the nap is over.
func (h *Host) rest(now int64, nap time.Duration) error {
	until := h.due
	if at, ok := h.dev.Next(); ok {
		until = min(until, at)
	}
	if until != math.MaxInt64 {
		nap = min(nap, time.Duration(until-now))
	}
	if nap <= 0 {
		return nil
	}
	err := h.port.Wait(nap)
	if errors.Is(err, port.ErrDown) {
		return nil
	}
	return err
}

// AnyQPN is a number for the first queue pair of a device that others are connected to by CM: they remember the one before it for a
// while, and refuse the same number from the same address as a stale connection.
func AnyQPN() uint32 { return 0x100 + rand.Uint32N(1<<23) }
