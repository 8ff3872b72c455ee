package replay

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Region is memory that a conversation is about.
type Region struct {
	RKey   uint32
	VA     uint64
	Before []byte // as far as answers tell, else 0
	After  []byte // when all requests are done
	known  []bool
}

const (
	mostMemory = 1 << 30
	atomicSize = 8
)

// Regions finds the memory that requests name: what answers say that it held, and what it holds in the end. Atomics are taken as a
// little-endian responder executes them.
func (c *Conversation) Regions() ([]*Region, error) {
	type span struct{ lo, hi uint64 }
	spans := map[uint32]span{}
	refused := c.refused()
	for _, i := range c.Fresh {
		p := &c.Packets[i]
		if refused[p.PSN] {
			continue // what its key would open is not known to be there
		}
		n := uint64(atomicSize)
		if p.Has(dissect.LayerRETH) {
			n = uint64(p.DMALen)
		} else if !p.Has(dissect.LayerAtomicETH) {
			continue
		}
		if p.VA+n < p.VA {
			return nil, fmt.Errorf("frame %d: its request names %d bytes from %#x on, beyond the last address", p.Number, n, p.VA)
		}
		s, ok := spans[p.RKey]
		if !ok {
			s = span{p.VA, p.VA + n}
		}
		spans[p.RKey] = span{min(s.lo, p.VA), max(s.hi, p.VA+n)}
	}
	var all []*Region
	total := uint64(0)
	for rkey, s := range spans {
		if total += s.hi - s.lo; total > mostMemory {
			return nil, fmt.Errorf("rkey %#x: requests name %d bytes from %#x on: a replay has room for %d in all", rkey, s.hi-s.lo, s.lo, mostMemory)
		}
		n := s.hi - s.lo
		all = append(all, &Region{RKey: rkey, VA: s.lo, Before: make([]byte, n), After: make([]byte, n), known: make([]bool, n)})
	}
	slices.SortFunc(all, func(a, b *Region) int { return cmp.Compare(a.RKey, b.RKey) })
	c.execute(all)
	return all, nil
}

// refused are the requests that were answered by a NAK for good.
func (c *Conversation) refused() map[dissect.PSN]bool {
	all := map[dissect.PSN]bool{}
	for i := range c.Packets {
		p := &c.Packets[i]
		if !p.Request && p.Op().Family == dissect.Acknowledge && p.Syndrome.Kind() == dissect.KindNAK && p.Syndrome.NAK() != dissect.NAKSequence {
			all[p.PSN] = true
		}
	}
	return all
}

// execute does what the requests say.
func (c *Conversation) execute(all []*Region) {
	answers := map[dissect.PSN]*Packet{}
	for i := range c.Packets {
		if p := &c.Packets[i]; !p.Request && p.Op().Family != dissect.Acknowledge {
			answers[p.PSN] = p
		}
	}
	var va uint64
	var rkey uint32
	refused := c.refused()
	for _, i := range c.Fresh {
		p := &c.Packets[i]
		op := p.Op()
		if refused[p.PSN] {
			break // nothing behind it was executed
		}
		switch {
		case op.Family == dissect.Write:
			if op.Starts() {
				va, rkey = p.VA, p.RKey
			}
			data := p.Payload(p.Frame)
			if r := find(all, rkey); r != nil {
				r.put(va, data)
			}
			va += uint64(len(data))
		case op.Family == dissect.Read:
			r := find(all, p.RKey) // there: a request that is not refused has its region
			at := p.VA
			for k := range c.packets(p) {
				a := answers[p.PSN.Add(k)]
				if a == nil || a.Op().Family != dissect.Read {
					break
				}
				r.saw(at, a.Payload(a.Frame))
				at += uint64(a.PayloadLen())
			}
		case op.Has(dissect.LayerAtomicETH):
			r := find(all, p.RKey)
			if a := answers[p.PSN]; a != nil && a.Op().Family == dissect.AtomicAcknowledge {
				r.saw(p.VA, binary.LittleEndian.AppendUint64(nil, a.Orig))
			}
			at := r.After[p.VA-r.VA:]
			value := binary.LittleEndian.Uint64(at)
			if op.Family == dissect.FetchAdd {
				value += p.Swap
			} else if value == p.Compare {
				value = p.Swap
			}
			r.put(p.VA, binary.LittleEndian.AppendUint64(nil, value))
		}
	}
}

func find(all []*Region, rkey uint32) *Region {
	for _, r := range all {
		if r.RKey == rkey {
			return r
		}
	}
	return nil
}

// put writes, as far as it lies in the region.
func (r *Region) put(va uint64, data []byte) {
	if off := va - r.VA; off <= uint64(len(r.After)) {
		n := copy(r.After[off:], data)
		for i := range n {
			r.known[int(off)+i] = true
		}
	}
}

// saw notes what memory held that nobody wrote before.
func (r *Region) saw(va uint64, data []byte) {
	off := va - r.VA
	for i, b := range data {
		if at := off + uint64(i); at < uint64(len(r.known)) && !r.known[at] {
			r.known[at], r.Before[at], r.After[at] = true, b, b
		}
	}
}
