//go:build linux

package main

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// liveFrames compares unique live frames with constant ones, and with what AF_XDP makes of constant frames on the same link.
func liveFrames(b *bench) ([]page.Row, error) {
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
	for _, payload := range []int{0, 1024, 2048} {
		frame := newFrame(dissect.OpRCWriteOnly, payload, 0)
		constant, stop, err := constantLive(s, frame)
		if err != nil {
			return nil, err
		}
		defer stop()
		g, err := uniqueLive(dissect.OpRCWriteOnly, payload)
		if err != nil {
			return nil, err
		}
		defer g.Close()
		unique := func(packets int) (result, error) { return loop(s.arrived, func() error { return runLive(g, packets) }) }
		all, err := inTurn(max(b.rounds, 21), 1_000_000, unique, constant)
		if err != nil {
			return nil, err
		}
		by := ratios(all[0], all[1], result.rate)
		rows = append(rows, page.Row{
			What: fmt.Sprintf("live frames of %d bytes: PSN, VA and ICRC of each, %d QPs", len(frame), qps), Ours: millions(all[0]),
			Other: "constant live frames: " + millions(all[1]), Ratio: by.String(), Goal: "≥ 0.85", Met: page.Judge(by.Median >= 0.85),
		})
		if payload == 0 {
			continue
		}
		if all, err = inTurn(9, 200_000, unique, inGo(s, frame)); err != nil {
			return nil, err
		}
		by = ratios(all[0], all[1], result.rate)
		rows = append(rows, page.Row{
			What: fmt.Sprintf("the same live frames of %d bytes", len(frame)), Ours: millions(all[0]),
			Other: "constant frames over AF_XDP: " + millions(all[1]), Ratio: by.String(), Goal: "> 1", Met: page.Judge(by.Low > 1),
		})
	}
	return rows, nil
}

// uniqueLive makes WRITEs to many queue pairs, each at the next address of a gigabyte.
func uniqueLive(opcode dissect.Opcode, payload int) (*port.Live, error) {
	var m port.Messages
	for q := range qps {
		m.QPs = append(m.QPs, port.MessageQP{
			Frames: [][]byte{newFrame(opcode, payload, q)}, VA: 0x7F00_0000_0000 + uint64(q)<<32, VAStep: max(uint64(payload), 64), VASpan: 1 << 30,
		})
	}
	return port.OpenLive(port.Options{Interface: near}, m)
}

func runLive(g *port.Live, packets int) error {
	_, err := g.Run(packets)
	return err
}

// constantLive sends the same frame as it is, by a program that does nothing but redirect it.
func constantLive(s *sink, frame []byte) (c contestant, stop func(), err error) {
	device, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, nil, err
	}
	l, err := netlink.LinkByName(near)
	if err == nil {
		err = device.Put(uint32(0), uint32(l.Attrs().Index))
	}
	if err != nil {
		device.Close()
		return nil, nil, err
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R1, device.FD()),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRedirectMap.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		device.Close()
		return nil, nil, err
	}
	stop = func() { p.Close(); device.Close() }
	return func(packets int) (result, error) {
		return loop(s.arrived, func() error {
			// In pieces as large as ours.
			for packets > 0 {
				n := min(packets, 1<<17)
				if _, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(n), Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: 64}); err != nil {
					return err
				}
				packets -= n
			}
			return nil
		})
	}, stop, nil
}
