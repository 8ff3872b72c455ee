//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/wire"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// source and entry are a second pair: what is sent on source comes in at entry, which the bridge joins to near.
const source, entry = "source", "entry"

// faulty measures an injector with rules.
func faulty(arrived func() (uint64, error), size int, rules ...string) contestant {
	return func(packets int) (r result, err error) {
		i, err := newInjectorWith(rules, "write", size, 1024, packets)
		if err != nil {
			return r, err
		}
		defer i.close()
		return loop(arrived, func() error {
			_, err := i.run()
			return err
		})
	}
}

// patient tries again for a while where a queue is still another one's, who has let go of it: the kernel takes its time.
func patient(c contestant) contestant {
	return func(packets int) (result, error) {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			r, err := c(packets)
			if !errors.Is(err, port.ErrBusy) || time.Now().After(end) {
				return r, err
			}
		}
	}
}

// parse reads rules.
func parse(texts []string) (*fault.Set, error) {
	s := &fault.Set{Seed: 1}
	for _, text := range texts {
		r, err := fault.Parse(text)
		if err != nil {
			return nil, err
		}
		s.Rules = append(s.Rules, r)
	}
	return s, nil
}

// withFaults compares senders with and without rules, and the bridge with a sender.
func withFaults(b *bench) ([]page.Row, error) {
	closer, err := pair(4200)
	if err != nil {
		return nil, err
	}
	defer closer()
	s, err := newSink()
	if err != nil {
		return nil, err
	}
	defer s.close()
	const size = 64
	all, err := inTurn(
		b.rounds, 128_000, patient(injected(s.arrived, "write", size, 1024)),
		patient(faulty(s.arrived, size, "drop when bth.opcode == RC_ACKNOWLEDGE")),
		patient(faulty(s.arrived, size, "drop when bth.opcode == RC_ACKNOWLEDGE", "corrupt when bth.destqp == 0xabcdef", "ecn when bth.opcode in {0xd..0x10}")),
		patient(faulty(s.arrived, size, "drop probability=1%")),
	)
	if err != nil {
		return nil, err
	}
	var rows []page.Row
	for i, c := range []struct {
		what  string
		least float64
		goal  string
	}{
		{"a rule that no packet meets", 0.97, "≥ 0.97"},
		{"three rules that no packet meets", 0.97, "≥ 0.97"},
		{"1 % of the packets dropped at random", 0.95, "≥ 0.95"},
	} {
		by := ratios(all[i+1], all[0], result.rate) // what was dropped on purpose did not arrive
		rows = append(rows, page.Row{
			What: fmt.Sprintf("`inject` over AF_XDP, WRITEs of %d bytes, with %s", size, c.what), Ours: millions(all[i+1]),
			Other: "without rules: " + millions(all[0]), Ratio: by.String(), Goal: c.goal, Met: page.Judge(by.Median >= c.least),
		})
	}
	bridged, err := bridge(b, s)
	return append(rows, bridged...), err
}

// bridge compares the bridge with a sender of constant frames.
func bridge(b *bench, s *sink) ([]page.Row, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = source, 4200
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = entry, 4200
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make a second pair of virtual interfaces: %w", err)
	}
	defer func() { _ = netlink.LinkDel(veth) }()
	for _, name := range []string{source, entry} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return nil, fmt.Errorf("set %s up: %w", name, err)
		}
	}
	var rows []page.Row
	for _, size := range []int{64, 1024} {
		frame := newFrame(dissect.OpRCWriteOnly, size, 0)
		all, err := inTurn(b.rounds, 65_536, patient(forwarded(s, frame)), patient(inGo(s, frame)))
		if err != nil {
			return nil, err
		}
		by := ratios(all[0], all[1], result.rate)
		rows = append(rows, page.Row{
			What: fmt.Sprintf("`wire` over AF_XDP, frames of %d bytes, one way", len(frame)), Ours: millions(all[0]),
			Other: "a sender of constant frames, a loop in Go: " + millions(all[1]), Ratio: by.String(), Goal: "≥ 0.45", Met: page.Judge(by.Median >= 0.45),
		})
	}
	return rows, nil
}

// waiting is how many frames wait for the bridge at a time: fewer than its ring holds.
const waiting = 8192

// forwarded measures the bridge alone: frames are put before it while it rests, and then it runs until they are through.
func forwarded(s *sink, frame []byte) contestant {
	return func(packets int) (sum result, err error) {
		w, err := wire.Open(wire.Options{Interfaces: [2]string{entry, near}, Via: port.ViaXDP})
		if err != nil {
			return sum, err
		}
		defer w.Close()
		from, err := port.OpenXDP(port.Options{Interface: source, SendOnly: true, Batch: batch, Queues: 1})
		if err != nil {
			return sum, err
		}
		defer from[0].Close()
		const warm = 4 * waiting // until all memory of frames was used, twice over
		for done := -warm; done < packets; done += waiting {
			if err := supply(from[0], frame, waiting); err != nil {
				return sum, err
			}
			before := w.Stats()[0].Received
			r, err := loop(s.arrived, func() error {
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- w.Run(ctx) }()
				for end := time.Now().Add(10 * time.Second); w.Stats()[0].Received-before < waiting; time.Sleep(100 * time.Microsecond) {
					if time.Now().After(end) {
						return errors.New("the bridge did not get all frames")
					}
				}
				stop()
				return <-ended
			})
			if err != nil {
				return sum, err
			}
			if done < 0 {
				continue
			}
			sum.arrived, sum.cpu, sum.mallocs = sum.arrived+r.arrived, sum.cpu+r.cpu, sum.mallocs+r.mallocs
		}
		return sum, nil
	}
}

// supply sends so many frames.
func supply(p port.Port, frame []byte, n int) error {
	slots, out := make([]uint32, 64), make([]port.Out, 64)
	for n > 0 {
		got := p.Take(slots[:min(n, len(slots))])
		for i, slot := range slots[:got] {
			out[i] = port.Out{Slot: slot, Len: int32(copy(p.Room(slot), frame))}
		}
		if err := p.Send(out[:got]); err != nil {
			return err
		}
		n -= got
		if got == 0 {
			if err := p.Flush(); err != nil {
				return err
			}
		}
	}
	return p.Flush()
}
