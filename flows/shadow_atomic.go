package flows

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// shadowAtom is a word that atomics work on: its value, in the order of which
// its bytes lie is the responder's affair.
type shadowAtom struct {
	shadowWriter        // of the newest answer
	value        uint64 // that it left
	frame        uint64
	done         int64
	known        bool
	raced        bool           // several requesters work on it
	open         []shadowWriter // without answer, in order
	expected     [8]byte        // what its bytes were when the first atomic came
	expect       bool
	writer       uint64 // frame that left them
}

// maxAtomsOpen bounds the atomics without answer on one word.
const maxAtomsOpen = 256

func (g *shadowRegion) forgetAtoms(from, to uint64) {
	if len(g.atoms) == 0 {
		return
	}
	for va, a := range g.atoms {
		if va < to && from < va+8 {
			a.known, a.expect = false, false
			a.raced = a.raced || len(a.open) > 0
		}
	}
}

// compareAtoms compares the words read that atomics worked on.
func (s *shadow) compareAtoms(g *shadowRegion, reader shadowWriter, sent int64, va uint64, data []byte) (at uint64, want byte, writer uint64, differs bool) {
	if len(g.atoms) == 0 {
		return 0, 0, 0, false
	}
	look := func(a *shadowAtom, word uint64) {
		if differs || !a.known || len(a.open) > 0 || word < va || word-va+8 > uint64(len(data)) {
			return
		}
		if !a.leads(reader) && a.done+shadowSlack > sent {
			return
		}
		got := data[word-va : word-va+8]
		s.stats.Compared += 8
		var little [8]byte
		binary.LittleEndian.PutUint64(little[:], a.value)
		if bytes.Equal(got, little[:]) || binary.BigEndian.Uint64(got) == a.value {
			return
		}
		for i := range got {
			if got[i] != little[i] {
				at, want, writer, differs = word+uint64(i), little[i], a.frame, true
				break
			}
		}
		a.known = false
	}
	if uint64(len(data))/8 < uint64(len(g.atoms)) {
		for word := (va + 7) &^ 7; word+8 <= va+uint64(len(data)); word += 8 {
			if a := g.atoms[word]; a != nil {
				look(a, word)
			}
		}
	} else {
		for word, a := range g.atoms {
			look(a, word)
		}
	}
	return at, want, writer, differs
}

// atomic takes an atomic request.
func (s *shadow) atomic(t *Tracker, c *conn, d Direction, addr dissect.Addr, p *dissect.Packet) {
	g := s.region(addr, p.RKey, true)
	w := shadowWriter{c.id, d, p.PSN}
	a := g.atoms[p.VA]
	if a == nil {
		if len(g.atoms) >= maxAtoms {
			clear(g.atoms)
		}
		a = &shadowAtom{}
		g.atoms[p.VA] = a
	}
	at := len(a.open)
	for at > 0 && a.open[at-1].conn == w.conn && a.open[at-1].dir == w.dir && !a.open[at-1].psn.Before(w.psn) {
		at-- // it was missing until now, or is sent again
	}
	switch {
	case at < len(a.open) && a.open[at] == w:
		return
	case c.half[d].carriedOut(p.PSN):
		g.forgetRange(p.VA, endOf(p.VA, 8))
		return
	case len(a.open) == 0:
		a.expect = false
		switch {
		case !a.known:
			if !s.doubtful(t, c, d) && !g.busy(w, p.VA, endOf(p.VA, 8)) {
				a.expected, a.writer, a.expect = g.word(w, p.Time, p.VA)
			}
		case !a.leads(w) && a.done+shadowSlack > p.Time:
			a.known = false // the order of the two is not certain
		}
	case a.open[0].conn != w.conn, a.open[0].dir != w.dir, len(a.open) >= maxAtomsOpen:
		a.raced = true
	}
	g.forgetBytes(p.VA)
	if len(a.open) < maxAtomsOpen {
		a.open = slices.Insert(a.open, at, w)
	}
}

// forgetBytes makes the bytes of a word unknown.
func (g *shadowRegion) forgetBytes(va uint64) {
	for i := range uint64(8) {
		if p := g.page(va + i); p != nil {
			at := int((va + i) & (shadowPageSize - 1))
			p.setKnown(at, at+1, false)
		}
	}
}

// word returns the eight bytes at an address, if they are known for a reader
// sent at a time.
func (g *shadowRegion) word(reader shadowWriter, sent int64, va uint64) (b [8]byte, frame uint64, ok bool) {
	p := g.page(va)
	lo := int(va & (shadowPageSize - 1))
	if p == nil || lo+8 > shadowPageSize || !p.allKnown(lo, lo+8) {
		return b, 0, false
	}
	k := &p.chunk[lo/shadowChunkSize]
	if lo/shadowChunkSize != (lo+7)/shadowChunkSize || !k.settledBefore(reader, sent) {
		return b, 0, false
	}
	copy(b[:], p.data[lo:])
	return b, k.frame, true
}

// atomicDone takes an atomic's answer. It is compared only where no answer in
// front of it is missing.
func (s *shadow) atomicDone(t *Tracker, g *shadowRegion, c *conn, d Direction, f *inflight) {
	a := g.atoms[f.VA]
	w := shadowWriter{c.id, d, f.FirstPSN}
	at := -1
	if a != nil {
		at = slices.Index(a.open, w)
	}
	if at < 0 { // its answer was held, and so came before it
		g.forgetRange(f.VA, endOf(f.VA, 8))
		return
	}
	a.open = slices.Delete(a.open, at, at+1)
	raced := a.raced
	a.raced = raced && len(a.open) > 0
	overtaken := a.conn == w.conn && a.dir == w.dir && w.psn.Before(a.psn)
	switch {
	case f.Status != StatusSuccess || !f.HasOrig || raced:
		a.known, a.expect = false, false
		return
	case overtaken: // answered only when a later one had been
		return
	case at == 0 && !s.doubtful(t, c, d):
		s.compareAtomic(t, a, c, d, f)
	default:
		s.stats.Unknown += 8
	}
	a.expect = false
	a.value = f.Orig
	switch {
	case f.Op == OpFetchAdd:
		a.value += f.Swap
	case f.Orig == f.Compare:
		a.value = f.Swap
	}
	a.known, a.done, a.frame, a.shadowWriter = true, f.Completed, f.LastFrame, w
}

// compareAtomic compares what an atomic found with what was left there.
func (s *shadow) compareAtomic(t *Tracker, a *shadowAtom, c *conn, d Direction, f *inflight) {
	var got, want [8]byte
	binary.LittleEndian.PutUint64(got[:], f.Orig)
	frame := a.frame
	switch {
	case a.known:
		binary.LittleEndian.PutUint64(want[:], a.value)
	case a.expect && binary.BigEndian.Uint64(a.expected[:]) == f.Orig:
		want = got
	case a.expect:
		want, frame = a.expected, a.writer
	default:
		s.stats.Unknown += 8
		return
	}
	s.stats.Compared += 8
	for i := range got {
		if got[i] != want[i] {
			s.stats.Differing++
			t.reportAt(findReadDiffers, c, d.Reverse(), f.AnswerFrame, f.Completed, f.VA+uint64(i), uint64(want[i])<<8|uint64(got[i]), frame, uint64(f.RKey))
			return
		}
	}
}
