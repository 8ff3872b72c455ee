package flows

import (
	"bytes"
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

type shadow struct {
	stats   ShadowMemory
	regions map[shadowKey]*shadowRegion
	pages   []*shadowPage // in order of making; a ring when full
	next    int           // the oldest
	max     int           // pages
	holes   map[uint32]*conn
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

func (s *shadow) record() ShadowMemory {
	if s == nil {
		return ShadowMemory{}
	}
	r := s.stats
	r.Bytes = uint64(len(s.pages)) * shadowPageSize
	return r
}
