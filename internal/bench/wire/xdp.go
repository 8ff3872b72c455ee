//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// qps is how many queue pairs all unique traffic goes to.
const qps = 64

// traffic is a stream of one operation.
func traffic(operation string, size, mtu, packets int) (stream.Config, error) {
	op, err := stream.ParseOp(operation, dissect.RC)
	return stream.Config{
		Outer: dissect.Outer{
			DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1},
			Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"),
		},
		Mix: []stream.Op{op}, Size: stream.Size(uint32(size)), MTU: mtu, QPs: qps, Burst: batch,
		LocalQPN: stream.Steps(0x800, 1), DestQPN: stream.Steps(0x100, 1), RKey: stream.Steps(0x1000, 1),
		VA: stream.Steps(0x7F00_0000_0000, 1<<32), Access: stream.Ring, Count: uint64(max(1, packets/qps)),
	}, err
}

// injector sends a stream over AF_XDP, as `rocescope inject --via xdp` does.
type injector struct {
	stream *stream.Stream
	ports  []port.Port
}

func newInjector(operation string, size, mtu, packets int) (*injector, error) {
	return newInjectorWith(nil, operation, size, mtu, packets)
}

// newInjectorWith has rules about what is sent.
func newInjectorWith(rules []string, operation string, size, mtu, packets int) (*injector, error) {
	c, err := traffic(operation, size, mtu, packets)
	if err != nil {
		return nil, err
	}
	s, err := stream.New(c)
	if err != nil {
		return nil, err
	}
	opened, err := port.OpenXDP(port.Options{Interface: near, SendOnly: true, Batch: batch, Queues: 1, MaxFrame: s.MaxFrame()})
	if err != nil {
		return nil, err
	}
	i := &injector{s, []port.Port{opened[0]}}
	if rules != nil {
		set, err := parse(rules)
		if err != nil {
			return nil, err
		}
		if i.ports[0], err = fault.Wrap(opened[0], set); err != nil {
			return nil, err
		}
	}
	if err := s.Prepare(i.ports); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// run sends it, and says what the interface dropped of it.
func (i *injector) run() (dropped uint64, err error) {
	r, err := i.stream.Run(context.Background(), i.ports)
	if err != nil {
		return 0, err
	}
	if r.NotSent > 0 {
		return 0, fmt.Errorf("%d messages were not sent", r.NotSent)
	}
	return r.Port.SendLost, nil
}

func (i *injector) close() { i.ports[0].Close() }

// injected measures it.
func injected(arrived func() (uint64, error), operation string, size, mtu int) contestant {
	return func(packets int) (r result, err error) {
		i, err := newInjector(operation, size, mtu, packets)
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

// overXDP compares unique frames over AF_XDP with constant ones of the same length.
func overXDP(b *bench) ([]page.Row, error) {
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
	var rows []page.Row
	for _, c := range []struct {
		what, operation string
		opcode          dissect.Opcode
		size            int
	}{
		{"SENDs of 8 bytes", "send", dissect.OpRCSendOnly, 8},
		{"WRITEs of 64 bytes", "write", dissect.OpRCWriteOnly, 64},
		{"WRITEs of 1024 bytes", "write", dissect.OpRCWriteOnly, 1024},
	} {
		frame := newFrame(c.opcode, c.size, 0)
		who := []contestant{injected(s.arrived, c.operation, c.size, 1024), inGo(s, frame)}
		if b.txonly != "" {
			who = append(who, b.inC(s, frame))
		}
		all, err := inTurn(b.rounds, 1_024_000, who...) // a long run: at its beginning each slot gets its frame, and its memory
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("`inject` over AF_XDP, %s: PSN, VA and ICRC of each, %d QPs, frames of %d bytes", c.what, qps, len(frame))
		compare := func(with string, other []result) {
			by := ratios(all[0], other, result.rate)
			rows = append(rows, page.Row{
				What: what, Ours: millions(all[0]), Other: with + ": " + millions(other),
				Ratio: by.String(), Goal: "≥ 0.95", Met: page.Judge(by.Median >= 0.95),
			})
		}
		compare("constant frames, a loop in Go", all[1])
		if b.txonly != "" {
			compare("constant frames, a loop in C", all[2])
		} else {
			rows = append(rows, page.Row{What: what, Other: "constant frames, a loop in C: there is no C compiler", Goal: "≥ 0.95", Met: page.NotMeasured})
		}
		most := mallocs(all[0])
		rows = append(rows, page.Row{What: "allocations per packet, at most, of the same", Ours: fmt.Sprintf("%.5f", most), Goal: "0", Met: page.Judge(most < 0.01)})
	}
	return rows, nil
}
