package flows

import (
	"github.com/rocescope/rocescope/dissect"
)

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
