package rnic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// Options say what a device is. MAC and Addrs are needed, the zero values of all others are good.
type Options struct {
	MAC   [6]byte
	Addrs []netip.Addr // the table of GIDs, by Attr.AH.SGIDIndex
	VLAN  uint16       // tag (TCI) of the frames that are sent; its identifier is the one that is received
	PKeys []uint16     // the table of partition keys; 0xFFFF
	MTU   int          // the largest path MTU: what fits into the port's frames

	Clock    func() int64 // nanoseconds; the port's
	MaxQP    int          // queue pairs at most, rounded up to a power of two: 16384
	FirstQPN uint32       // 0x11

	MigReqOff   bool          // the migration request bit is sent as 0, as software stacks do; hardware sends 1
	LineRate    uint64        // bits per second, from which congestion control counts down: 100 Gb/s
	CNPInterval time.Duration // between congestion notifications of a queue pair, at least: 50 µs
	CNPTraffic  uint8         // traffic class of congestion notifications; 0 = that of the queue pair

	Misbehave []string // what the device does wrong on purpose, by the names of Misbehaviours
}

// Limits of a device.
const (
	MaxRdAtomic = 128 // READs and atomics outstanding, in either role
	maxSGEs     = 32
	maxInline   = 1024
	maxPKeys    = 128
	maxQPN      = 1<<24 - 2 // 0xFFFFFF is multicast
)

// Device is a software RNIC on a port, or the part of one that a queue of its interface has (OpenQueues).
type Device struct {
	*shared
	queue   int // its place among the devices that share
	do      *behaviour
	port    port.Port
	waker   port.Waker // the port, if it can be woken
	longest int        // frame of the port

	mu      sync.Mutex
	waiting atomic.Int32 // goroutines that wait for mu
	asleep  atomic.Bool
	liveQPs atomic.Int32

	now      int64
	lastBusy int64
	active   qpList
	timers   timerHeap
	mail     mailbox
	out      sender
	in       []port.In
	rx       arrival
	icrc     dissect.ICRC
	dec      dissect.Decoder

	onManagement, onOther func(frame []byte, at int64)
	onEvent               func(Event)
	management, other     []int // of the batch, what goes to the handlers
	diverted              []diversion
	onState               func(StateChange)
	events, told          []Event
	changes, changed      []StateChange

	handed   []handover // frames that other queues' devices took in, by their place
	roused   []bool     // devices that were handed something in this batch, by their place
	touching []*QP      // scratch of touchBatch
	touched  uint32

	counters Counters
}

// receiveBatch and sendBatch are how many frames a Step receives, and sends, at most.
const (
	receiveBatch = 256
	sendBatch    = 256
)

// Open makes a device on a port, which it uses alone from then on.
func Open(p port.Port, o Options) (*Device, error) {
	all, err := OpenQueues([]port.Port{p}, o)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// complete fills in what was left out, and finds what cannot be.
func (o *Options) complete(ports []port.Port) error {
	if len(o.Addrs) == 0 {
		return errors.New("rnic: open a device: it needs an address at least")
	}
	if len(o.PKeys) == 0 {
		o.PKeys = []uint16{dissect.DefaultPKey}
	}
	if len(o.PKeys) > maxPKeys {
		return fmt.Errorf("rnic: open a device: %d partition keys; it has room for %d", len(o.PKeys), maxPKeys)
	}
	if o.MaxQP == 0 {
		o.MaxQP = 16384
	}
	if o.MaxQP < 1 || o.MaxQP > maxQPN {
		return fmt.Errorf("rnic: open a device: %d queue pairs; it can have 1 … %d", o.MaxQP, maxQPN)
	}
	if o.FirstQPN == 0 {
		o.FirstQPN = 0x11
	}
	if o.FirstQPN < 2 || o.FirstQPN > maxQPN {
		return fmt.Errorf("rnic: open a device: first QPN %#x; it must be 2 … %#x", o.FirstQPN, maxQPN)
	}
	if o.Clock == nil {
		o.Clock = port.Clock(ports[0])
	}
	if o.LineRate == 0 {
		o.LineRate = 100e9
	}
	if o.CNPInterval == 0 {
		o.CNPInterval = 50 * time.Microsecond
	}
	room, around := ports[0].Info().MaxFrame, o.overhead()
	for _, p := range ports {
		room = min(room, p.Info().MaxFrame)
	}
	fits := 0
	for code := uint8(1); dissect.MTUBytes(code) != 0; code++ {
		if n := dissect.MTUBytes(code); n+around <= room {
			fits = n
		}
	}
	switch {
	case fits == 0:
		return fmt.Errorf("rnic: open a device: the port's longest frame has %d bytes, and the smallest path MTU needs %d", room, 256+around)
	case o.MTU == 0:
		o.MTU = fits
	case !dissect.ValidMTU(o.MTU) || o.MTU > fits:
		return fmt.Errorf("rnic: open a device: path MTU %d; this port's frames take 256, 512 … %d", o.MTU, fits)
	}
	return nil
}

// OnManagement sets who takes the management datagrams: frames with a good ICRC to QP 1 of one of the device's addresses. OnOther
// sets who takes frames that are no RoCE v2, such as ARP, ND and ICMP, if they are to the device's MAC or to a group.
//
// Handlers are called on the goroutine that calls Step, after the batch, without the device's lock: they may call every verb and
// SendFrame. The frame is borrowed for the call; at is when it arrived, by the port's clock. Set them before the first Step.
func (d *Device) OnManagement(f func(frame []byte, at int64)) { d.onManagement = f }

// OnOther: see OnManagement.
func (d *Device) OnOther(f func(frame []byte, at int64)) { d.onOther = f }

// OnEvent sets who is told of asynchronous events; as for OnManagement.
func (d *Device) OnEvent(f func(Event)) { d.onEvent = f }

// OnState sets who is told of each state that a queue pair comes to; as for OnManagement.
func (d *Device) OnState(f func(StateChange)) { d.onState = f }

// SendFrame sends a crafted frame as it is, before everything else in the next batch. The frame is copied. It may be called by any
// goroutine; an error says that too many frames wait already, or that the frame is longer than the port takes.
func (d *Device) SendFrame(frame []byte) error {
	if room := d.port.Info().MaxFrame; len(frame) > room || len(frame) < 14 {
		return fmt.Errorf("rnic: send a frame of %d bytes: %w; this port takes 14 … %d", len(frame), port.ErrFrameSize, room)
	}
	return d.mail.putFrame(frame)
}

// Addrs returns the table of GIDs.
func (d *Device) Addrs() []netip.Addr { return slices.Clone(d.opt.Addrs) }

// MAC returns the device's MAC address.
func (d *Device) MAC() [6]byte { return d.opt.MAC }

// MTU returns the largest path MTU.
func (d *Device) MTU() int { return d.mtu }

// QPs returns how many queue pairs the device has.
func (d *Device) QPs() int { return int(d.liveQPs.Load()) }

// QP returns the queue pair of a number, nil where there is none. It may be one of a device that shares with this one.
func (d *Device) QP(qpn uint32) *QP { return d.find(qpn) }

// own returns the device's queue pair of a number, nil where there is none.
func (d *Device) own(qpn uint32) *QP {
	if q := d.find(qpn); q != nil && q.dev == d {
		return q
	}
	return nil
}

func (d *Device) lock() {
	d.waiting.Add(1)
	d.mu.Lock()
	d.waiting.Add(-1)
}

func (d *Device) unlock() { d.mu.Unlock() }

func (d *Device) event(e Event) {
	if d.onEvent != nil {
		d.events = append(d.events, e)
	}
}

// Step does a batch: it receives, processes, sees to the timers and sends. busy says that there may be more to do at once; if not,
// nothing will be until a frame arrives, work is posted, or the time of Next.
func (d *Device) Step() (busy bool, err error) {
	if d.waiting.Load() > 0 {
		runtime.Gosched() // to who waits for the lock
	}
	d.mu.Lock()
	d.now = d.clock()
	d.takeMail()
	n, err := d.takeIn()
	d.counters.RxFrames += uint64(n)
	n += d.takeHanded(d.in[n:])
	d.touchBatch(n)
	for i := range d.in[:n] {
		d.receive(i)
	}
	d.rouse()
	d.expire()
	sent := d.transmit()
	d.counters.TxFrames += uint64(sent)
	more := d.active.len > 0
	d.events, d.told = d.told[:0], d.events
	d.changes, d.changed = d.changed[:0], d.changes
	d.mu.Unlock()
	if err != nil && !errors.Is(err, port.ErrDown) {
		return false, fmt.Errorf("rnic: receive: %w", err)
	}
	if n > 0 || sent > 0 {
		d.lastBusy = d.now
	}
	if err := d.out.push(more && len(d.out.slots) == 0 || d.now-d.lastBusy > pushAfter); err != nil {
		return false, fmt.Errorf("rnic: send: %w", err)
	}
	d.tell()
	return n > 0 || sent > 0 || more || d.mail.pending(), nil
}

// takeIn takes a batch from the port.
func (d *Device) takeIn() (int, error) {
	room := receiveBatch
	if len(d.queues) > 1 {
		if room = d.room(); room == 0 {
			return 0, nil
		}
	}
	return d.port.Receive(d.in[:room])
}

// pushAfter is how long after the last frame the device makes sure that all have left.
const pushAfter = int64(20 * time.Microsecond)

// tell calls the handlers.
func (d *Device) tell() {
	for _, i := range d.management {
		d.onManagement(d.in[i].Data, d.in[i].Time)
	}
	for _, i := range d.other {
		d.onOther(d.in[i].Data, d.in[i].Time)
	}
	for _, v := range d.diverted {
		v.q.diverted(d.in[v.index].Data, d.in[v.index].Time)
	}
	d.management, d.other, d.diverted = d.management[:0], d.other[:0], d.diverted[:0]
	for _, e := range d.told {
		d.onEvent(e)
	}
	for _, c := range d.changed {
		d.onState(c)
	}
}

// Next returns when the next timer is due, by the device's clock; ok is false where there is none.
func (d *Device) Next() (at int64, ok bool) {
	d.lock()
	defer d.unlock()
	if len(d.timers) == 0 {
		return 0, false
	}
	return d.timers[0].at, true
}

// How an idle device waits: first awake, so that an answer is quick, then asleep for longer and longer. Posting work does not wake
// it, so this is also how late a request may leave that was posted to a device long idle.
const (
	awake     = 200 * time.Microsecond
	napLeast  = 50 * time.Microsecond
	napMost   = time.Millisecond
	napGrowth = 2
)

// Wait returns when a frame can be received, another device hands one over, somebody calls Wake, or the time is over, whichever is
// first. It is for the goroutine that calls Step.
func (d *Device) Wait(timeout time.Duration) error {
	if len(d.handed) > 1 {
		d.asleep.Store(true)
		defer d.asleep.Store(false)
		if d.waker == nil {
			timeout = min(timeout, napLeast)
		}
		switch {
		case d.isHanded():
			return nil
		case d.room() == 0: // there are frames, and another device has to have its turn first
			time.Sleep(min(timeout, napLeast))
			return nil
		}
	}
	if err := d.port.Wait(timeout); err != nil && !errors.Is(err, port.ErrDown) {
		return fmt.Errorf("rnic: wait: %w", err)
	}
	return nil
}

// Wake ends a Wait that is under way, or else the next one, on ports that can be woken. It may be called by any goroutine.
func (d *Device) Wake() {
	if d.waker != nil {
		d.waker.Wake()
	}
}

// Run calls Step until the context ends or the port fails; it returns nil when the context ends.
func (d *Device) Run(ctx context.Context) error {
	done := ctx.Done()
	nap, idle, last := napLeast, int64(0), int64(0)
	for {
		select {
		case <-done:
			return nil
		default:
		}
		busy, err := d.Step()
		switch {
		case err != nil:
			return err
		case busy || d.waiting.Load() > 0:
			idle, nap = 0, napLeast
			continue
		}
		now := d.clock()
		if idle == 0 {
			idle = now
		}
		if now-idle < int64(awake) && now != last { // a clock that stands still is a simulation's, and runs while the port waits
			last = now
			runtime.Gosched()
			continue
		}
		sleep := nap
		if at, ok := d.Next(); ok {
			sleep = min(sleep, time.Duration(at-now))
		}
		if err := d.out.push(true); err != nil {
			return fmt.Errorf("rnic: send: %w", err)
		}
		if sleep > 0 {
			if err := d.Wait(sleep); err != nil {
				return err
			}
		}
		nap = min(nap*napGrowth, napMost)
	}
}
