//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// patching compares the ICRC by tables, of a packet whose PSN, AckReq and address change, with computing it, and checks a
// million of them. Those that are timed are a stream's, packet after packet; those that are checked are random.
func patching(b *bench) ([]page.Row, error) {
	const checks = 1_000_000
	frame := newFrame(dissect.OpRCWriteOnly, 1024, 0)
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	bth, reth, icrc := p.Offset(dissect.LayerBTH), p.Offset(dissect.LayerRETH), p.Offset(dissect.LayerICRC)
	s := patcher{icrc: icrc}
	for _, w := range []struct {
		at   int
		word *dissect.ICRCWord
	}{{bth + 8, &s.psn}, {reth, &s.high}, {reth + 4, &s.low}} {
		var ok bool
		if *w.word, ok = dissect.NewICRCWord(w.at, icrc); !ok {
			return nil, fmt.Errorf("the tables do not reach from %d to %d", w.at, icrc)
		}
		w.word.Put(frame, 0)
	}
	var c dissect.ICRC
	s.zero, _ = c.Compute(&p, frame)

	rng := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	for range checks {
		s.patch(frame, rng.Uint32()&0x80FFFFFF, rng.Uint64())
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
				s.patch(frame, 1<<31|uint32(i), 0x7F00_0000_0000+uint64(i)*1024)
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
	return []page.Row{
		{
			What: "patch PSN, AckReq, VA and ICRC of a QP's WRITEs of 1 KiB, one after the other", Ours: fmt.Sprintf("%.1f ns", measure.Of(each(all[0], result.cost)).Median),
			Other: "compute its ICRC: " + nanoseconds(all[1]), Ratio: by.String(), Goal: "≥ 15", Met: page.Judge(by.Median >= 15),
		},
		{
			What: fmt.Sprintf("wrong ICRCs among %d random patches", checks), Ours: fmt.Sprint(wrong),
			Other: "the whole computation", Goal: "0", Met: page.Judge(wrong == 0),
		},
	}, nil
}

// patcher patches as inject/stream does: what the upper parts make of the ICRC is kept while they stay the same.
type patcher struct {
	psn, high, low dissect.ICRCWord
	zero           uint32 // the ICRC with zeros in all of them
	upper          uint64 // of PSN and address
	kept           uint32 // what they make of it
	icrc           int
}

// patch writes AckReq and PSN, address and ICRC.
func (s *patcher) patch(frame []byte, psn uint32, va uint64) {
	if upper := va>>16<<16 | uint64(psn>>16); upper != s.upper || s.kept == 0 {
		s.upper, s.kept = upper, s.zero^s.psn.Delta(psn&^0xFFFF)^s.high.Delta(uint32(va>>32))^s.low.Delta(uint32(va)&^0xFFFF)
	}
	h := (*[12]byte)(frame[s.psn.At():]) // the address follows
	binary.BigEndian.PutUint32(h[:], psn)
	binary.BigEndian.PutUint64(h[4:], va)
	binary.LittleEndian.PutUint32(frame[s.icrc:], s.kept^s.psn.Delta16(uint16(psn))^s.low.Delta16(uint16(va)))
}
