//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/rocescope/rocescope/dissect"
)

// patching compares the ICRC by tables, of a packet whose PSN, AckReq and address change, with computing it, and checks a
// million of them.
func patching(b *bench) ([]row, error) {
	const checks = 1_000_000
	frame := newFrame(dissect.OpRCWriteOnly, 1024, 0)
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	bth, reth, icrc := p.Offset(dissect.LayerBTH), p.Offset(dissect.LayerRETH), p.Offset(dissect.LayerICRC)
	var words [3]dissect.ICRCWord // AckReq and PSN; address
	for i, at := range []int{bth + 8, reth, reth + 4} {
		w, ok := dissect.NewICRCWord(at, icrc)
		if !ok {
			return nil, fmt.Errorf("the tables do not reach from %d to %d", at, icrc)
		}
		words[i] = w
		w.Put(frame, 0)
	}
	var c dissect.ICRC
	zero, _ := c.Compute(&p, frame)

	rng := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	for range checks {
		patch(frame, &words, zero, rng.Uint32()&0x80FFFFFF, rng.Uint64(), icrc)
		d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
		if c.Verify(&p, frame) != dissect.ICRCValid {
			wrong++
		}
	}
	// Each side is a loop of its own, without calls into the unknown.
	timed := func(f func(n int)) contestant {
		return func(n int) (result, error) {
			return loop(func() (uint64, error) { return 0, nil }, func() error { f(n); return nil })
		}
	}
	network := p.Offset(dissect.LayerIPv4)
	const n = 1_000_000
	all, err := inTurn(b.rounds, n,
		timed(func(n int) {
			for i := range n {
				patch(frame, &words, zero, uint32(i), 0x7F00_0000_0000+uint64(i)*1024, icrc)
			}
		}),
		timed(func(n int) {
			for range n {
				binary.LittleEndian.PutUint32(frame[icrc:], c.Sum(frame[network:icrc], dissect.LayerIPv4, bth-network))
			}
		}))
	if err != nil {
		return nil, err
	}
	for _, of := range all {
		for i := range of {
			of[i].arrived = n
		}
	}
	by := ratios(all[1], all[0], result.cost)
	return []row{
		{
			what: "patch PSN, AckReq, VA and ICRC of a WRITE of 1 KiB", ours: fmt.Sprintf("%.1f ns", spreadOf(each(all[0], result.cost)).median),
			other: "compute its ICRC: " + nanoseconds(all[1]), ratio: by.String(), goal: "≥ 15", met: judge(by.median >= 15),
		},
		{
			what: fmt.Sprintf("wrong ICRCs among %d random patches", checks), ours: fmt.Sprint(wrong),
			other: "the whole computation", goal: "0", met: judge(wrong == 0),
		},
	}, nil
}

// patch writes AckReq and PSN, address and ICRC.
func patch(frame []byte, words *[3]dissect.ICRCWord, zero, psn uint32, va uint64, icrc int) {
	crc := zero ^ words[0].Put(frame, psn) ^ words[1].Put(frame, uint32(va>>32)) ^ words[2].Put(frame, uint32(va))
	binary.LittleEndian.PutUint32(frame[icrc:], crc)
}
