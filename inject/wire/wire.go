package wire

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/crash"
)

// Options say what is joined, and what happens to frames.
type Options struct {
	Interfaces [2]string
	Via        string     // port.ViaXDP or port.ViaPacket; the best that both can if it is empty
	Rules      *fault.Set // nil = none; a rule's way out is from the first interface to the second
	Ring       int        // frames that may wait to be forwarded, each way; default 16384
	// Record gets every frame as it came in, and those that rules changed or made as they went out; nil for none. Its interfaces
	// are those of Described.
	Record *captures.Recorder
}

// Wire is two interfaces joined.
type Wire struct {
	o     Options
	ports [2][]port.Port
	links *links
	lanes [2]*fault.Lane
	ways  [2]*direction
	why   string
	stop  atomic.Bool
	mu    sync.Mutex // of Record
	once  sync.Once
}

// slots is how many frames may be on their way out.
const slots = 2048

// Open joins two interfaces. From then on the host itself gets nothing from them, where the kind is AF_XDP.
func Open(o Options) (w *Wire, err error) {
	if o.Interfaces[0] == o.Interfaces[1] {
		return nil, fmt.Errorf("wire: %s cannot be joined to itself: name two interfaces", o.Interfaces[0])
	}
	w = &Wire{o: o}
	defer func() {
		if err != nil {
			w.Close()
			w = nil
		}
	}()
	if w.links, err = findLinks(o.Interfaces); err != nil {
		return w, err
	}
	kind := o.Via
	if kind == "" {
		kind, w.why = choose(&o)
	}
	for i, name := range o.Interfaces {
		po := options(&o, name, kind)
		if w.ports[i], _, err = port.Open(po); err != nil {
			return w, err
		}
	}
	a, b := w.ports[0][0].Info(), w.ports[1][0].Info()
	if a.MTU != b.MTU {
		return w, fmt.Errorf("wire: %s has an MTU of %d and %s of %d, so that frames of the one do not fit through the other: ip link set %s mtu %d", a.Interface, a.MTU, b.Interface, b.MTU, b.Interface, a.MTU)
	}
	if o.Rules != nil {
		if err = o.Rules.Suits(w.ports[0][0]); err != nil {
			return w, fmt.Errorf("wire: %w", err)
		}
		w.lanes = o.Rules.Start(min(a.MaxFrame, b.MaxFrame), time.Now().UnixNano())
	}
	for way := range w.ways {
		w.ways[way] = newDirection(w, fault.Way(way))
	}
	return w, nil
}

func options(o *Options, name, via string) port.Options {
	return port.Options{Interface: name, Via: via, All: true, Slots: slots, Ring: o.Ring}
}

// choose finds the best kind that both interfaces can have, and says why.
func choose(o *Options) (via, why string) {
	for _, name := range o.Interfaces {
		c, err := port.Choose(options(o, name, ""))
		if err == nil && c.Name != port.ViaXDP {
			return port.ViaPacket, name + ": " + c.Why
		}
	}
	return port.ViaXDP, ""
}

// Described is what a capture says of the two interfaces.
func Described(names [2]string) []captures.Interface {
	return []captures.Interface{{Name: names[0], Link: dissect.LinkEthernet}, {Name: names[1], Link: dissect.LinkEthernet}}
}

// Via says how frames get in and out, and why not by AF_XDP if they do not.
func (w *Wire) Via() (info port.Info, why string) { return w.ports[0][0].Info(), w.why }

// Run forwards until the context ends, or an interface is gone for good. It may be called again.
func (w *Wire) Run(ctx context.Context) error {
	w.stop.Store(false)
	done := make(chan error, len(w.ways))
	for _, d := range w.ways {
		go func() {
			defer crash.Guard()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := d.run(&w.stop)
			w.stop.Store(true)
			done <- err
		}()
	}
	var errs []error
	ended := ctx.Done()
	for range w.ways {
		select {
		case err := <-done:
			errs = append(errs, err)
			continue
		case <-ended:
			w.stop.Store(true)
			ended = nil
		}
		errs = append(errs, <-done)
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}

// Close takes the interfaces apart. The link between them is down then.
func (w *Wire) Close() (err error) {
	w.once.Do(func() {
		var errs []error
		for _, ports := range w.ports {
			for _, p := range ports {
				errs = append(errs, p.Close())
			}
		}
		if w.links != nil {
			w.links.close()
		}
		err = errors.Join(errs...)
	})
	return err
}

// Down names those of the interfaces that are not up now.
func (w *Wire) Down() []string { return w.links.down() }

// Stats is what became of one direction's frames.
type Stats struct {
	From, To  string
	Received  uint64 // that came in
	Bytes     uint64
	Forwarded uint64 // that went out as they came
	Made      uint64 // that went out because of rules: changed, copied, crafted, or held before
	Struck    uint64 // that met a rule
	Missed    uint64 // that came in and found no room
	TooLong   uint64 // that the other interface does not take
	Stuck     uint64 // that the other interface did not take for too long
	SendLost  uint64 // that it took, and lost
	Held      int    // that rules hold now
}

// Stats is what became of the frames of both directions.
func (w *Wire) Stats() (all [2]Stats) {
	for i, d := range w.ways {
		all[i] = d.stats()
	}
	return all
}

// Counts is what the rules did.
func (w *Wire) Counts() (all []fault.Count) {
	for _, l := range w.lanes {
		if l != nil {
			all = append(all, l.Counts()...)
		}
	}
	return all
}

// Full is how many frames met no fate because too many were held.
func (w *Wire) Full() (n uint64) {
	for _, l := range w.lanes {
		if l != nil {
			n += l.Full()
		}
	}
	return n
}
