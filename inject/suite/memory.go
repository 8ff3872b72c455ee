package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Target is a device under test, and how it is reached.
type Target interface {
	// Name says what it is.
	Name() string
	// open makes the connections of a case.
	open(ctx context.Context, c *Case, seed uint64) (*link, error)
}

// The places of a case in memory, and of simulations.
var (
	ourMAC, deviceMAC = [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
	ourAddrs          = []netip.Addr{netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("fd00:99::1")}
	deviceAddrs       = []netip.Addr{netip.MustParseAddr("10.99.0.2"), netip.MustParseAddr("fd00:99::2")}
)

// InMemory is our own RNIC as the device, in this process, with a clock that is driven. It does wrong what Misbehave names.
type InMemory struct{ Misbehave []string }

// Name implements Target.
func (t *InMemory) Name() string {
	if len(t.Misbehave) > 0 {
		return "rocescope's software RNIC, misbehaving: " + strings.Join(t.Misbehave, ", ")
	}
	return "rocescope's software RNIC, in memory"
}

// epoch is the driven clock's beginning.
const epoch = int64(1_700_000_000_000_000_000)

// step is how far the driven clock goes on while something happens, and tick at most while faults may hold frames.
const (
	driveStep = int64(time.Microsecond)
	driveTick = int64(20 * time.Microsecond)
)

func (t *InMemory) open(_ context.Context, c *Case, seed uint64) (*link, error) {
	now := epoch
	clock := func() int64 { return now }
	slots := 256
	if len(c.Faults) > 0 { // which may make many of one
		slots = 1024
	}
	near, far := port.Pair(port.MemoryOptions{Slots: slots, MaxFrame: 9216, Clock: clock})
	l, err := newLink(near, c, seed, ourMAC, ourAddrs, 4096)
	if err != nil {
		return nil, err
	}
	dut, err := rnic.Open(far, rnic.Options{MAC: deviceMAC, Addrs: deviceAddrs, Clock: clock, MTU: 4096, MaxQP: 2048, FirstQPN: 0x1234, Misbehave: t.Misbehave})
	if err != nil {
		return nil, err
	}
	answerPings(dut)
	cm, err := connect.NewCM(connect.CMConfig{Send: dut.SendFrame, Event: func(connect.Event) {}, Rand: rand.NewPCG(seed, 2)})
	if err != nil {
		return nil, err
	}
	dut.OnManagement(cm.Handle)
	if l.device, err = NewRNIC(dut, seed, nil, nil); err != nil {
		return nil, err
	}
	l.anew, l.driven, l.patient, l.quiet = true, true, 2*time.Millisecond, 500*time.Microsecond
	holds := len(c.Faults) > 0
	l.pass = func(until int64) error {
		for steps := 0; ; steps++ {
			ours, err := l.dev.Step()
			if err != nil {
				return err
			}
			theirs, err := dut.Step()
			if err != nil {
				return err
			}
			switch {
			case now >= until:
				return nil
			case ours || theirs:
				now = min(now+driveStep, until)
			case l.tap.waiting() > 0:
				return nil
			default:
				next := until
				for _, d := range []*rnic.Device{l.dev, dut} {
					if at, ok := d.Next(); ok {
						next = min(next, at)
					}
				}
				if holds {
					next = min(next, now+driveTick)
				}
				now = max(next, now+1)
			}
		}
	}
	l.connect = func(i int) (*pair, error) { return l.byHook(c, i, seed) }
	l.close = func() error { return nil }
	return l, nil
}

// answerPings has a device answer ARP, neighbour discovery and echo.
func answerPings(d *rnic.Device) {
	host := connect.Host{MAC: d.MAC(), Addrs: d.Addrs()}
	d.OnOther(func(frame []byte, _ int64) {
		if answer := host.Answer(nil, frame); len(answer) > 0 {
			_ = d.SendFrame(answer) // who is not answered asks again
		}
	})
}

func parseMAC(text string) (mac [6]byte, err error) {
	m, err := net.ParseMAC(text)
	if err != nil || len(m) != 6 {
		return mac, fmt.Errorf("%q is no MAC address", text)
	}
	copy(mac[:], m)
	return mac, nil
}
