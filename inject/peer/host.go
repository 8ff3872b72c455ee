package peer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
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
	// Threads are how many threads there may be: each serves one of the interface's receive queues, or some in turn. 0 = 1. There is one
	// where Wrap or Rules want to see all that goes through the host in its order.
	Threads int
	// Wrap is put around the port before anything else, to see all that goes through it; nil = nothing.
	Wrap     func(port.Port) (port.Port, error)
	Rules    *fault.Set    // what happens to the host's packets, out and in; nil = nothing
	Patience time.Duration // for each word of a conversation, and for who is asked for his MAC; 0 = 10 s

	// Event is told of the device's asynchronous events, by the thread on which they happen, one at a time.
	Event func(rnic.Event)
	// State is told of each state that a queue pair comes to, in the same way.
	State func(rnic.StateChange)
}

// Host is a host on the wire.
type Host struct {
	o        Options
	threads  []*Thread
	faults   *fault.Port
	dev      *rnic.Device // the first thread's
	cm       *connect.CM
	answers  connect.Host
	resolver connect.Resolver
	kernel   bool // the addresses are the kernel's as well
	clock    func() int64
	asked    map[netip.Addr][]chan answer
	conns    map[connect.ConnID]*cmConn
	echoes   map[uint16]chan struct{} // of pings that are not answered, by their identifiers
	service  atomic.Pointer[service]

	due     int64 // when CM or the resolver has something to do
	reply   []byte
	telling sync.Mutex // Options.Event and State

	quit    atomic.Bool
	failing sync.Once
	done    chan struct{}
	failure error // valid when done is closed
	closing sync.Once
}

// New makes a host on a port, which it owns from then on. It asks for MACs itself.
func New(p port.Port, o Options) (*Host, error) { return newHost([]port.Port{p}, o, false) }

// NewQueues makes a host on the queues of an interface, as New does.
func NewQueues(ports []port.Port, o Options) (*Host, error) { return newHost(ports, o, false) }

func newHost(queues []port.Port, o Options, kernel bool) (*Host, error) {
	if o.Wrap != nil || o.Rules != nil {
		o.Threads = 1
	}
	ports := gather(queues, o.Threads)
	if o.Wrap != nil {
		var err error
		if ports[0], err = o.Wrap(ports[0]); err != nil {
			return nil, err
		}
	}
	var faults *fault.Port
	if o.Rules != nil {
		var err error
		if faults, err = fault.Wrap(ports[0], o.Rules); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRules, err)
		}
		ports[0] = faults
	}
	h := &Host{
		o: o, faults: faults, kernel: kernel, clock: port.Clock(ports[0]), answers: connect.Host{MAC: o.MAC, Addrs: o.Addrs},
		asked: map[netip.Addr][]chan answer{}, conns: map[connect.ConnID]*cmConn{}, done: make(chan struct{}),
	}
	if o.Patience == 0 {
		h.o.Patience = 10 * time.Second
	}
	device := o.Device
	device.MAC, device.Addrs, device.Clock = o.MAC, o.Addrs, h.clock
	devices, err := rnic.OpenQueues(ports, device)
	if err != nil {
		return nil, err
	}
	h.dev = devices[0]
	for i, dev := range devices {
		h.threads = append(h.threads, newThread(h, dev, ports[i]))
		h.report(dev)
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
	h.start()
	return h, nil
}

// report has a device tell what happens.
func (h *Host) report(dev *rnic.Device) {
	if f := h.o.Event; f != nil {
		dev.OnEvent(func(e rnic.Event) {
			h.telling.Lock()
			defer h.telling.Unlock()
			f(e)
		})
	}
	if f := h.o.State; f != nil {
		dev.OnState(func(c rnic.StateChange) {
			h.telling.Lock()
			defer h.telling.Unlock()
			f(c)
		})
	}
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

// Device is the host's software RNIC: that of its first thread.
func (h *Host) Device() *rnic.Device { return h.dev }

// Counters are those of the devices of all threads.
func (h *Host) Counters() (sum rnic.Counters) {
	for _, t := range h.threads {
		sum.Add(t.dev.Counters())
	}
	return sum
}

// Port is what the port says of itself, or what the ports of all queues say together.
func (h *Host) Port() (port.Info, port.Stats) {
	first := h.threads[0].port
	sum := first.Stats()
	for _, t := range h.threads[1:] {
		sum.Add(t.port.Stats())
	}
	return first.Info(), sum
}

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
		err = h.closePorts()
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

// AnyQPN is a number for the first queue pair of a device that others are connected to by CM: they remember the one before it for a
// while, and refuse the same number from the same address as a stale connection.
func AnyQPN() uint32 { return 0x100 + rand.Uint32N(1<<23) }
