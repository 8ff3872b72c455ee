package flows

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Shadow memory: a copy of the responders' memory, as far as WRITEs and atomics
// of the capture tell what is in it. Answers to READs and atomics are compared
// with it. A byte is compared only where the order of things is certain:
//
//   - what wrote it was on the same queue pair in front of the READ, or was
//     acknowledged before the READ was first sent;
//   - nothing else that might have written it was under way since;
//   - no requests of that responder are missing.

// ShadowMemory is what comparing found.
type ShadowMemory struct {
	On        bool
	Compared  uint64 // bytes of READ responses and atomic answers that were compared
	Unknown   uint64 // bytes that could not be
	Differing uint64 // answers with a byte that differs
	Bytes     uint64 // of memory that are held
	Forgotten uint64 // bytes of pages given up for want of room
}

const (
	shadowPageBits  = 12
	shadowPageSize  = 1 << shadowPageBits
	shadowChunkSize = 256
	shadowChunks    = shadowPageSize / shadowChunkSize
	// defaultShadow is how many bytes of memory are held.
	defaultShadow = 64 << 20
	maxShadowOpen = 8192 // WRITEs under way to one region
	maxAtoms      = 4096 // words of one region that atomics touched
	// shadowSlack is how much earlier than a READ on another queue pair a
	// WRITE must have been acknowledged: capture order is not wire order.
	shadowSlack = 10_000
)

type shadow struct {
	stats   ShadowMemory
	regions map[shadowKey]*shadowRegion
	pages   []*shadowPage // in order of making; a ring when full
	next    int           // the oldest
	max     int           // pages
	holes   map[uint32]*conn
}

// shadowKey is memory under one key of one responder.
type shadowKey struct {
	addr dissect.Addr
	rkey uint32
}

type shadowRegion struct {
	pages map[uint64]*shadowPage
	open  []shadowWrite
	atoms map[uint64]*shadowAtom
}

// shadowWriter is who wrote, or reads: a requester and a place in its order.
type shadowWriter struct {
	conn uint32
	dir  Direction
	psn  dissect.PSN
}

// shadowWrite is a WRITE under way.
type shadowWrite struct {
	shadowWriter
	from, to uint64
	raced    bool // another requester writes to the same bytes meanwhile
}

type shadowPage struct {
	region *shadowRegion
	number uint64
	data   [shadowPageSize]byte
	known  [shadowPageSize / 64]uint64
	chunk  [shadowChunks]shadowChunk
}

// shadowChunk is who wrote to a part of a page last.
type shadowChunk struct {
	shadowWriter
	done  int64 // when it was acknowledged; 0 = not yet
	frame uint64
}

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

func newShadow(limit int64) *shadow {
	if limit <= 0 {
		limit = defaultShadow
	}
	return &shadow{
		stats:   ShadowMemory{On: true},
		regions: map[shadowKey]*shadowRegion{}, holes: map[uint32]*conn{},
		max: int(max(limit/shadowPageSize, 1)),
	}
}

func (s *shadow) region(addr dissect.Addr, rkey uint32, create bool) *shadowRegion {
	k := shadowKey{addr, rkey}
	g := s.regions[k]
	if g == nil && create {
		if len(s.regions) >= s.max { // keys without end: begin anew
			s.forgetAll()
		}
		g = &shadowRegion{pages: map[uint64]*shadowPage{}, atoms: map[uint64]*shadowAtom{}}
		s.regions[k] = g
	}
	return g
}

func (s *shadow) forgetAll() {
	s.stats.Forgotten += uint64(len(s.pages)) * shadowPageSize
	s.pages, s.next = nil, 0
	clear(s.regions)
}

// forget drops what is known of a responder's memory.
func (s *shadow) forget(addr dissect.Addr) {
	for k, g := range s.regions {
		if k.addr != addr {
			continue
		}
		for _, p := range g.pages {
			clear(p.known[:])
		}
		clear(g.atoms)
	}
}

func (g *shadowRegion) page(va uint64) *shadowPage { return g.pages[va>>shadowPageBits] }

func (s *shadow) newPage(g *shadowRegion, va uint64) *shadowPage {
	var p *shadowPage
	if len(s.pages) < s.max {
		p = &shadowPage{}
		s.pages = append(s.pages, p)
	} else {
		p = s.pages[s.next]
		s.next = (s.next + 1) % len(s.pages)
		s.stats.Forgotten += shadowPageSize
		delete(p.region.pages, p.number)
		clear(p.known[:])
		p.chunk = [shadowChunks]shadowChunk{}
	}
	p.region, p.number = g, va>>shadowPageBits
	g.pages[p.number] = p
	return p
}

// setKnown marks bytes of a page as known or not.
func (p *shadowPage) setKnown(from, to int, known bool) {
	for from < to {
		w := from / 64
		n := min(to, (w+1)*64) - from
		mask := (^uint64(0) >> (64 - n)) << (from & 63)
		if known {
			p.known[w] |= mask
		} else {
			p.known[w] &^= mask
		}
		from += n
	}
}

func (p *shadowPage) allKnown(from, to int) bool {
	for from < to {
		w := from / 64
		n := min(to, (w+1)*64) - from
		mask := (^uint64(0) >> (64 - n)) << (from & 63)
		if p.known[w]&mask != mask {
			return false
		}
		from += n
	}
	return true
}

// forgetRange makes bytes unknown, and words that lie in them.
func (g *shadowRegion) forgetRange(from, to uint64) {
	for n := from >> shadowPageBits; n <= (to-1)>>shadowPageBits && from < to; n++ {
		if p := g.pages[n]; p != nil {
			base := n << shadowPageBits
			p.setKnown(int(max(from, base)-base), int(min(to-base, shadowPageSize)), false)
		} else if to-from > uint64(len(g.pages))<<shadowPageBits {
			g.forgetSparse(from, to)
			return
		}
	}
	g.forgetAtoms(from, to)
}

// forgetSparse is forgetRange for a range with more pages than are held.
func (g *shadowRegion) forgetSparse(from, to uint64) {
	for n, p := range g.pages {
		base := n << shadowPageBits
		if base < to && base+shadowPageSize > from {
			p.setKnown(int(max(from, base)-base), int(min(to-base, shadowPageSize)), false)
		}
	}
	g.forgetAtoms(from, to)
}

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

// before looks at an answer before it is accounted for, while its READ is
// still open. d is the answer's direction.
func (s *shadow) before(t *Tracker, c *conn, d Direction, p *dissect.Packet, frame []byte) {
	r := d.Reverse()
	h := &c.half[r]
	if p.Op().Family != dissect.Read || h.flags&halfRequests == 0 || c.flags&connProvisional != 0 || frame == nil {
		return
	}
	_, i := t.find(h, p.PSN)
	if i == 0 || t.open[i].Op != OpRead {
		return
	}
	f := &t.open[i]
	data := p.Payload(frame)
	skip := p.PSN.Sub(f.FirstPSN)
	mtu := h.mtuBytes()
	if mtu == 0 {
		mtu = c.half[d].mtuBytes()
	}
	if skip != 0 && mtu == 0 || len(data) == 0 {
		return
	}
	va := f.VA + uint64(skip*mtu)
	g := s.region(c.end[d].addr, f.RKey, false)
	if g == nil || s.doubtful(t, c, r) {
		s.stats.Unknown += uint64(len(data))
		return
	}
	reader := shadowWriter{c.id, r, f.FirstPSN}
	if g.busy(reader, va, va+uint64(len(data))) {
		s.stats.Unknown += uint64(len(data))
		return
	}
	if at, want, writer, differs := s.compare(g, reader, f.FirstSeen, va, data); differs {
		s.stats.Differing++
		t.report(findReadDiffers, c, d, p, nil, at, uint64(want)<<8|uint64(data[at-va]), writer, uint64(f.RKey))
	}
}

// doubtful reports whether requests to this responder are missing, so that
// nothing can be said of its memory.
func (s *shadow) doubtful(t *Tracker, c *conn, r Direction) bool {
	addr := c.end[r.Reverse()].addr
	doubt := false
	for key, o := range s.holes {
		from := Direction(key & 1)
		if o.id != key>>1 || o.flags&connLive == 0 || o.flags&connClosed != 0 { // gone with its holes open
			s.forgetAll()
			delete(s.holes, key)
			continue
		}
		x := t.extrasOf(o)
		if x == nil || len(x.gaps[from]) == 0 {
			delete(s.holes, key)
			continue
		}
		if o.end[from.Reverse()].addr != addr {
			continue
		}
		doubt = true
		if slices.ContainsFunc(x.gaps[from], func(g gap) bool { return g.acked && !g.naked }) {
			s.forget(addr)
		}
	}
	return doubt
}

// busy reports whether a WRITE under way, other than one in front of the
// reader on its own queue pair, goes to a range.
func (g *shadowRegion) busy(reader shadowWriter, from, to uint64) bool {
	for i := range g.open {
		w := &g.open[i]
		if w.from < to && from < w.to && !w.leads(reader) {
			return true
		}
	}
	return false
}

// leads reports whether w's work is carried out before the reader's for sure:
// it is in front of it on the same queue pair.
func (w *shadowWriter) leads(reader shadowWriter) bool {
	return w.conn == reader.conn && w.dir == reader.dir && w.psn.Before(reader.psn)
}

// settledBefore reports whether what wrote a chunk was done before a reader
// that was first sent at a time.
func (k *shadowChunk) settledBefore(reader shadowWriter, sent int64) bool {
	return k.leads(reader) || k.done != 0 && k.done+shadowSlack <= sent
}

// compare compares bytes read with what is known. It returns the address of
// the first one that differs.
func (s *shadow) compare(g *shadowRegion, reader shadowWriter, sent int64, va uint64, data []byte) (at uint64, want byte, writer uint64, differs bool) {
	if at, want, writer, differs = s.compareAtoms(g, reader, sent, va, data); differs {
		return at, want, writer, true
	}
	for done := 0; done < len(data); {
		a := va + uint64(done)
		lo := int(a & (shadowPageSize - 1))
		n := min(len(data)-done, shadowChunkSize-lo%shadowChunkSize)
		part := data[done : done+n]
		done += n
		p := g.page(a)
		if p == nil || !p.chunk[lo/shadowChunkSize].settledBefore(reader, sent) {
			s.stats.Unknown += uint64(n)
			continue
		}
		mine := p.data[lo : lo+n]
		if p.allKnown(lo, lo+n) && bytes.Equal(mine, part) {
			s.stats.Compared += uint64(n)
			continue
		}
		for i := range part {
			if p.known[(lo+i)/64]>>((lo+i)&63)&1 == 0 {
				s.stats.Unknown++
				continue
			}
			s.stats.Compared++
			if part[i] != mine[i] {
				if !differs {
					at, want, writer, differs = a+uint64(i), mine[i], p.chunk[lo/shadowChunkSize].frame, true
				}
				p.setKnown(lo+i, lo+i+1, false) // told once
			}
		}
	}
	return at, want, writer, differs
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

// after takes a request once its message is known.
func (s *shadow) after(t *Tracker, c *conn, d Direction, p *dissect.Packet, frame []byte, m *Mark) {
	if m.Bits&MarkAfterGap != 0 && len(s.holes) < 1<<16 {
		s.holes[c.id<<1|uint32(d)] = c
	}
	op := p.Op()
	addr := c.end[d.Reverse()].addr
	switch op.Family {
	case dissect.Write:
		s.write(t, c, d, addr, p, frame, m)
	case dissect.CompareSwap, dissect.FetchAdd:
		if c.flags&connProvisional != 0 || m.Bits&MarkDuplicate != 0 {
			break
		}
		if _, i := t.find(&c.half[d], p.PSN); i != 0 && t.open[i].FirstPSN == p.PSN { // else answered before
			s.atomic(t, c, d, addr, p)
		}
	case dissect.AtomicWrite:
		if op.Has(dissect.LayerRETH) {
			if g := s.region(addr, p.RKey, false); g != nil {
				g.forgetRange(p.VA, endOf(p.VA, 8))
			}
		}
	}
}

// write takes a packet of a WRITE.
func (s *shadow) write(t *Tracker, c *conn, d Direction, addr dissect.Addr, p *dissect.Packet, frame []byte, m *Mark) {
	begins := p.Op().Has(dissect.LayerRETH)
	if c.flags&connProvisional != 0 || c.transport != dissect.RC && c.transport != dissect.XRC {
		if begins { // it may arrive, but nobody says so; or it comes again
			if g := s.region(addr, p.RKey, false); g != nil {
				g.forgetRange(p.VA, endOf(p.VA, uint64(p.DMALen)))
			}
		}
		return
	}
	if m.Bits&MarkDuplicate != 0 {
		return
	}
	h := &c.half[d]
	_, i := t.find(h, p.PSN)
	if i == 0 || t.open[i].Op != OpWrite || t.open[i].flags&haveStart == 0 {
		return // acknowledged before, so not carried out again; or its address is not known
	}
	f := &t.open[i]
	g := s.region(addr, f.RKey, true)
	w := shadowWriter{c.id, d, p.PSN}
	if h.carriedOut(p.PSN) {
		g.forgetRange(f.VA, endOf(f.VA, f.Bytes))
		return
	}
	if begins {
		s.begin(g, shadowWrite{shadowWriter: w, from: f.VA, to: endOf(f.VA, f.Bytes)})
	}
	skip := p.PSN.Sub(f.FirstPSN)
	mtu := h.mtuBytes()
	if skip != 0 && mtu == 0 {
		return
	}
	s.store(g, w, f.VA+uint64(skip*mtu), p.Payload(frame), p.Number, m.Bits&MarkReordered == 0)
}

// carriedOut reports whether a request that the capture shows for the first
// time was carried out before: it is sent again behind its acknowledgement, and
// others have been at its place since.
func (h *half) carriedOut(psn dissect.PSN) bool {
	return h.flags&halfAckSeen != 0 && psn.Before(h.acked)
}

// begin notes a WRITE under way: what was at its place is no longer known.
func (s *shadow) begin(g *shadowRegion, w shadowWrite) {
	if w.from >= w.to {
		return
	}
	g.forgetRange(w.from, w.to)
	for i := range g.open {
		o := &g.open[i]
		if o.conn == w.conn && o.dir == w.dir {
			if o.psn == w.psn {
				return // sent again
			}
			continue
		}
		if o.from < w.to && w.from < o.to {
			o.raced, w.raced = true, true
		}
	}
	if len(g.open) >= maxShadowOpen {
		s.forgetAll()
		return
	}
	g.open = append(g.open, w)
}

// store puts bytes of a WRITE in place.
func (s *shadow) store(g *shadowRegion, w shadowWriter, va uint64, data []byte, frame uint64, known bool) {
	for done := 0; done < len(data); {
		a := va + uint64(done)
		lo := int(a & (shadowPageSize - 1))
		n := min(len(data)-done, shadowChunkSize-lo%shadowChunkSize)
		p := g.page(a)
		if p == nil {
			p = s.newPage(g, a)
		}
		k := &p.chunk[lo/shadowChunkSize]
		newer := k.conn == w.conn && k.dir == w.dir && k.done == 0 && k.psn.After(w.psn)
		if newer { // what is there was sent later, but this came later
			p.setKnown(lo, lo+n, false)
		} else {
			if k.conn != w.conn || k.dir != w.dir {
				// Bytes beside, by another requester, keep their worth only if done with.
				if k.conn != 0 && k.done == 0 {
					base := lo &^ (shadowChunkSize - 1)
					p.setKnown(base, base+shadowChunkSize, false)
				}
			}
			copy(p.data[lo:], data[done:done+n])
			p.setKnown(lo, lo+n, known)
			k.shadowWriter, k.done, k.frame = w, 0, frame
		}
		done += n
	}
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

// settled takes a message that has ended.
func (s *shadow) settled(t *Tracker, c *conn, d Direction, f *inflight) {
	if c.flags&connProvisional != 0 {
		return
	}
	addr := c.end[d.Reverse()].addr
	switch f.Op {
	case OpWrite:
		if f.flags&haveStart == 0 {
			s.forget(addr) // it went somewhere
		} else if g := s.region(addr, f.RKey, false); g != nil && f.Bytes > 0 {
			s.written(g, c, d, f)
		}
	case OpCompareSwap, OpFetchAdd:
		if g := s.region(addr, f.RKey, false); g != nil {
			s.atomicDone(t, g, c, d, f)
		}
	}
}

// written ends a WRITE under way.
func (s *shadow) written(g *shadowRegion, c *conn, d Direction, f *inflight) {
	unsure := true // its answer was held, and so came before it
	for i := range g.open {
		if o := &g.open[i]; o.conn == c.id && o.dir == d && o.psn == f.FirstPSN {
			unsure = o.raced
			g.open[i] = g.open[len(g.open)-1]
			g.open = g.open[:len(g.open)-1]
			break
		}
	}
	to := endOf(f.VA, f.Bytes)
	if f.Status != StatusSuccess || unsure {
		g.forgetRange(f.VA, to)
		return
	}
	for a := f.VA; a < to; a = (a | (shadowChunkSize - 1)) + 1 {
		p := g.page(a)
		if p == nil {
			continue
		}
		k := &p.chunk[a&(shadowPageSize-1)/shadowChunkSize]
		if k.conn == c.id && k.dir == d && !k.psn.Before(f.FirstPSN) && !k.psn.After(f.LastPSN) {
			k.done = f.Completed
		}
	}
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

func (s *shadow) record() ShadowMemory {
	if s == nil {
		return ShadowMemory{}
	}
	r := s.stats
	r.Bytes = uint64(len(s.pages)) * shadowPageSize
	return r
}
