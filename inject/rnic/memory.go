package rnic

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
)

// Access says what may be done with a memory region, or through a queue pair, by whom.
type Access uint8

// The access flags. Local reading is always allowed.
const (
	LocalWrite Access = 1 << iota
	RemoteWrite
	RemoteRead
	RemoteAtomic
	// RemoteInvalidate lets a peer's SEND with Invalidate close the region to remote access. It makes the region what verbs
	// call a fast-registered one, or a window of type 2.
	RemoteInvalidate
)

// PD is a protection domain: queue pairs reach the memory of their own domain only.
type PD struct {
	dev  *Device
	uses int // MRs, QPs, SRQs and AHs
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() *PD { return &PD{dev: d} }

// MR is a memory region: bytes that work requests name by a local key, and peers by a remote key.
type MR struct {
	pd     *PD
	mem    []byte
	va     uint64
	access Access
	key    uint32
	closed atomic.Bool // invalidated by a peer
}

// The key of a region is its place in the table, and in the low byte a count, so that a key that was given back does not open
// the region that comes behind it.
const (
	keyBits  = 8
	maxMRs   = 1 << 20
	mrVABase = 0x7F00_0000_0000

	firstRegions = 64 // room of the table at first
	pageSize     = 4096
)

// RegMR registers mem under a virtual address of the device's choice.
func (pd *PD) RegMR(mem []byte, access Access) (*MR, error) { return pd.RegMRAt(mem, access, 0) }

// RegMRAt registers mem under the virtual address va; 0 leaves it to the device.
func (pd *PD) RegMRAt(mem []byte, access Access, va uint64) (*MR, error) {
	switch {
	case access&(RemoteWrite|RemoteAtomic) != 0 && access&LocalWrite == 0:
		return nil, errors.New("rnic: register a region: remote write or atomic access needs local write access too")
	case va+uint64(len(mem)) < va:
		return nil, fmt.Errorf("rnic: register a region: %d bytes at %#x go beyond the end of the address space", len(mem), va)
	}
	s := pd.dev.shared
	s.verbs.Lock()
	defer s.verbs.Unlock()
	if va == 0 {
		va = s.nextVA
		s.nextVA += (uint64(len(mem))+pageSize-1)/pageSize*pageSize + pageSize
	}
	at, ok := s.regions.reserve()
	if !ok {
		return nil, fmt.Errorf("rnic: register a region: all %d are in use", maxMRs)
	}
	s.regions.counts[at]++
	mr := &MR{pd: pd, mem: mem, va: va, access: access, key: at<<keyBits | uint32(s.regions.counts[at])}
	s.regions.all()[at].Store(mr)
	pd.uses++
	return mr, nil
}

// regions is the table of regions, by the upper bits of their keys. Devices read it at any time; who changes it has the verbs' lock.
type regions struct {
	table  atomic.Pointer[[]atomic.Pointer[MR]]
	counts []uint8 // how often each place was given, modulo 256; its length is how many were given ever
	free   []uint32
}

func (r *regions) all() []atomic.Pointer[MR] { return *r.table.Load() }

// grow makes the table longer, by a new one.
func (r *regions) grow(size int) {
	long := make([]atomic.Pointer[MR], size)
	if r.table.Load() != nil {
		for i := range r.all() {
			long[i].Store(r.all()[i].Load())
		}
	}
	r.table.Store(&long)
}

// reserve finds a free place.
func (r *regions) reserve() (at uint32, ok bool) {
	if n := len(r.free); n > 0 {
		at, r.free = r.free[n-1], r.free[:n-1]
		return at, true
	}
	n := len(r.counts)
	if n == maxMRs {
		return 0, false
	}
	if n == len(r.all()) {
		r.grow(2 * n)
	}
	r.counts = append(r.counts, 0)
	return uint32(n), true
}

// Deregister ends a region. Requests that name it later are refused, those under way at their next packet: behind it no device uses
// the memory any more.
func (mr *MR) Deregister() error {
	s := mr.pd.dev.shared
	s.verbs.Lock()
	at := mr.key >> keyBits
	place := &s.regions.all()[at]
	if place.Load() != mr {
		s.verbs.Unlock()
		return errors.New("rnic: deregister a region: it is not registered any more")
	}
	place.Store(nil)
	s.regions.free = append(s.regions.free, at)
	mr.pd.uses--
	s.verbs.Unlock()
	for _, d := range s.queues { // behind the batches in which it was found
		d.lock()
		d.unlock()
	}
	return nil
}

// Dealloc ends a protection domain that nothing uses any more.
func (pd *PD) Dealloc() error {
	pd.dev.verbs.Lock()
	defer pd.dev.verbs.Unlock()
	if pd.uses > 0 {
		return fmt.Errorf("rnic: deallocate a protection domain: %d objects still use it", pd.uses)
	}
	return nil
}

// LKey returns the key by which work requests name the region.
func (mr *MR) LKey() uint32 { return mr.key }

// RKey returns the key by which peers name the region.
func (mr *MR) RKey() uint32 { return mr.key }

// VA returns the virtual address of the region's first byte.
func (mr *MR) VA() uint64 { return mr.va }

// Len returns the region's length.
func (mr *MR) Len() int { return len(mr.mem) }

// Bytes returns the region's memory. The device writes to it on its own goroutine.
func (mr *MR) Bytes() []byte { return mr.mem }

// SGE names a part of the region for a work request.
func (mr *MR) SGE(offset, length int) SGE {
	return SGE{VA: mr.va + uint64(offset), Length: uint32(length), LKey: mr.key}
}

// SGE is a scatter/gather element: local memory of a work request.
type SGE struct {
	VA     uint64
	Length uint32
	LKey   uint32
}

// region returns the region of a key, nil where there is none, or it belongs to another domain.
func (d *Device) region(key uint32, pd *PD) *MR {
	all := d.regions.all()
	at := key >> keyBits
	if int(at) >= len(all) {
		return nil
	}
	mr := all[at].Load()
	if mr == nil || mr.key != key || mr.pd != pd {
		return nil
	}
	return mr
}

// part returns n bytes at va, nil and false where they do not lie in the region.
func (mr *MR) part(va, n uint64) ([]byte, bool) {
	off := va - mr.va
	size := uint64(len(mr.mem))
	if va < mr.va || off > size || n > size-off {
		return nil, false
	}
	return mr.mem[off : off+n : off+n], true
}

// remote returns the memory that a peer asked for, false where its key, the access or the bounds forbid it (IBA 9.7.4.1.5).
func (d *Device) remote(key uint32, pd *PD, va uint64, n uint64, need Access) ([]byte, bool) {
	mr := d.region(key, pd)
	if mr == nil || mr.closed.Load() || mr.access&need != need {
		return nil, false
	}
	return mr.part(va, n)
}

// local returns the part of a local element, false where its key, the access or the bounds forbid it.
func (d *Device) local(s *SGE, pd *PD, off, n uint32, need Access) ([]byte, bool) {
	mr := d.region(s.LKey, pd)
	if mr == nil || mr.access&need != need {
		return nil, false
	}
	return mr.part(s.VA+uint64(off), uint64(n))
}

// gather copies the bytes of a scatter/gather list from offset on into dst.
func (d *Device) gather(dst []byte, sgl []SGE, pd *PD, offset uint32) bool {
	for i := range sgl {
		s := &sgl[i]
		if offset >= s.Length {
			offset -= s.Length
			continue
		}
		n := min(s.Length-offset, uint32(len(dst)))
		part, ok := d.local(s, pd, offset, n, 0)
		if !ok {
			return false
		}
		copy(dst, part)
		if dst = dst[n:]; len(dst) == 0 {
			return true
		}
		offset = 0
	}
	return len(dst) == 0
}

// scatter copies src into the bytes of a scatter/gather list from offset on.
func (d *Device) scatter(sgl []SGE, pd *PD, offset uint32, src []byte) bool {
	for i := range sgl {
		if len(src) == 0 {
			return true
		}
		s := &sgl[i]
		if offset >= s.Length {
			offset -= s.Length
			continue
		}
		n := min(s.Length-offset, uint32(len(src)))
		part, ok := d.local(s, pd, offset, n, LocalWrite)
		if !ok {
			return false
		}
		copy(part, src)
		src, offset = src[n:], 0
	}
	return len(src) == 0
}

// allowed reports whether the elements of a list may be used: right keys, inside their regions.
func (d *Device) allowed(sgl []SGE, pd *PD, need Access) bool {
	for i := range sgl {
		if sgl[i].Length == 0 {
			continue
		}
		if _, ok := d.local(&sgl[i], pd, 0, sgl[i].Length, need); !ok {
			return false
		}
	}
	return true
}

// listLength returns how many bytes a list names.
func listLength(sgl []SGE) (n uint64) {
	for i := range sgl {
		n += uint64(sgl[i].Length)
	}
	return n
}

// maxMessage is the longest message (IBA 9.3.3: DMA length).
const maxMessage = 1 << 31

// accessOf says what a peer's operation needs of region and queue pair.
var accessOf = [...]Access{
	dissect.Write:       RemoteWrite,
	dissect.Read:        RemoteRead,
	dissect.CompareSwap: RemoteAtomic,
	dissect.FetchAdd:    RemoteAtomic,
	dissect.Congestion:  0, // the table is as long as the families
	dissect.Vendor:      0,
}
