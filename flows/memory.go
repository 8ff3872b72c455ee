package flows

import (
	"fmt"
	"math"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// MemoryMap is the responder's memory that a requester used, as its messages
// name it.
type MemoryMap struct {
	Regions  []MemoryRegion // by R_Key, in order of first use
	Refused  []Refusal      // the first ones
	Overlaps uint64         // WRITEs that overlapped an earlier one which was still outstanding
	More     bool           // there were more R_Keys than are kept
}

// MemoryRegion is what was done under one R_Key. Ranges are merged where they
// touch, and ascending.
type MemoryRegion struct {
	RKey                    uint32
	Written, Read, Atomic   []AddressRange
	Writes, Reads, Atomics  uint64 // messages
	Merged                  bool   // ranges that do not touch were merged, for there were too many
	FirstFrame, LatestFrame uint64
}

// AddressRange is the addresses From ≤ VA < To.
type AddressRange struct{ From, To uint64 }

// Refusal is an access that the responder refused with a NAK.
type Refusal struct {
	Op     Operation
	VA     uint64
	RKey   uint32
	Bytes  uint64
	Status Status
	Frame  uint64 // of the NAK
}

// Bounds of a memory map.
const (
	maxRegions  = 64
	maxRanges   = 32
	maxRefusals = 16
)

const (
	accessWrite = iota
	accessRead
	accessAtomic
	numAccesses
)

// memoryMap is what MemoryMap is made from.
type memoryMap struct {
	regions  []memoryRegion
	refused  []Refusal
	newest   int // region used last
	writes   [4]openWrite
	at       uint8
	overlaps uint64
	more     bool
}

type memoryRegion struct {
	rkey          uint32
	merged        bool
	ranges        [numAccesses][]AddressRange
	count         [numAccesses]uint64
	latest        [numAccesses]int // range used last
	first, newest uint64           // frames
}

// openWrite is a WRITE that was begun a short while ago.
type openWrite struct {
	rkey     uint32
	last     dissect.PSN
	used     bool
	from, to uint64
	frame    uint64
}

func accessOf(op Operation) int {
	switch op {
	case OpWrite, OpAtomicWrite:
		return accessWrite
	case OpRead:
		return accessRead
	case OpCompareSwap, OpFetchAdd:
		return accessAtomic
	}
	return -1
}

// settled takes a message that has ended.
func (m *memoryMap) settled(f *inflight) {
	kind := accessOf(f.Op)
	if kind < 0 || f.flags&haveStart == 0 && kind != accessRead {
		return
	}
	switch f.Status {
	case StatusSuccess, StatusSent:
	case StatusRemAccess, StatusRemInvReq, StatusRemOp:
		if len(m.refused) < maxRefusals {
			m.refused = append(m.refused, Refusal{Op: f.Op, VA: f.VA, RKey: f.RKey, Bytes: f.Bytes, Status: f.Status, Frame: f.AnswerFrame})
		}
		return
	default:
		return
	}
	if f.Bytes == 0 {
		return // a key is not even looked at
	}
	r := m.region(f.RKey)
	if r == nil {
		m.more = true
		return
	}
	if r.first == 0 {
		r.first = f.FirstFrame
	}
	r.newest = f.LastFrame
	r.count[kind]++
	r.add(kind, f.VA, endOf(f.VA, f.Bytes))
}

func endOf(va, n uint64) uint64 {
	if va > math.MaxUint64-n {
		return math.MaxUint64
	}
	return va + n
}

func (m *memoryMap) region(rkey uint32) *memoryRegion {
	if m.newest < len(m.regions) && m.regions[m.newest].rkey == rkey {
		return &m.regions[m.newest]
	}
	for i := range m.regions {
		if m.regions[i].rkey == rkey {
			m.newest = i
			return &m.regions[i]
		}
	}
	if len(m.regions) >= maxRegions {
		return nil
	}
	m.newest = len(m.regions)
	m.regions = append(m.regions, memoryRegion{rkey: rkey})
	return &m.regions[m.newest]
}

// add adds a range to those of a kind of access.
func (r *memoryRegion) add(kind int, from, to uint64) {
	list := r.ranges[kind]
	if i := r.latest[kind]; i < len(list) && list[i].From <= from && from <= list[i].To && (i+1 == len(list) || to < list[i+1].From) {
		list[i].To = max(list[i].To, to)
		return
	}
	// i is the first range that ends at from or behind it.
	i, _ := slices.BinarySearchFunc(list, from, func(a AddressRange, from uint64) int {
		if a.To < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(list) && list[j].From <= to; j++ {
		from, to = min(from, list[j].From), max(to, list[j].To)
	}
	if j > i {
		list[i] = AddressRange{from, to}
		list = slices.Delete(list, i+1, j)
	} else {
		list = slices.Insert(list, i, AddressRange{from, to})
	}
	r.ranges[kind], r.latest[kind] = list, i
	if len(list) > maxRanges {
		r.mergeNearest(kind)
	}
}

// mergeNearest joins the two ranges with the least space between them.
func (r *memoryRegion) mergeNearest(kind int) {
	list := r.ranges[kind]
	at := 1
	for i := 2; i < len(list); i++ {
		if list[i].From-list[i-1].To < list[at].From-list[at-1].To {
			at = i
		}
	}
	list[at-1].To = list[at].To
	r.ranges[kind] = slices.Delete(list, at, at+1)
	r.latest[kind] = 0
	r.merged = true
}

// overlapping looks whether a WRITE that begins overlaps one that is not yet
// acknowledged.
func (t *Tracker) overlapping(c *conn, d Direction, mem *memoryMap, p *dissect.Packet, m *Mark) {
	h := &c.half[d]
	w := openWrite{rkey: p.RKey, from: p.VA, to: endOf(p.VA, uint64(p.DMALen)), last: p.PSN, used: true, frame: p.Number}
	if mtu := uint32(h.mtuBytes()); mtu != 0 && p.DMALen > 0 {
		w.last = p.PSN.Add(int((p.DMALen - 1) / mtu))
	}
	for i := range uint8(len(mem.writes)) { // the oldest first
		o := &mem.writes[(mem.at+i)%uint8(len(mem.writes))]
		if !o.used || o.rkey != w.rkey || o.from >= w.to || w.from >= o.to {
			continue
		}
		if o.last.Before(h.acked) {
			o.used = false
			continue
		}
		mem.overlaps++
		if o.from == w.from && o.to == w.to {
			break // a buffer that is written over and over: benchmarks do
		}
		t.report(findWriteOverlap, c, d, p, m, max(o.from, w.from), min(o.to, w.to), uint64(w.rkey), o.frame)
		break
	}
	mem.writes[mem.at%uint8(len(mem.writes))] = w
	mem.at++
}

func (m *memoryMap) record() MemoryMap {
	r := MemoryMap{Refused: slices.Clone(m.refused), Overlaps: m.overlaps, More: m.more}
	for i := range m.regions {
		g := &m.regions[i]
		r.Regions = append(r.Regions, MemoryRegion{
			RKey: g.rkey, Merged: g.merged, FirstFrame: g.first, LatestFrame: g.newest,
			Written: slices.Clone(g.ranges[accessWrite]), Read: slices.Clone(g.ranges[accessRead]), Atomic: slices.Clone(g.ranges[accessAtomic]),
			Writes: g.count[accessWrite], Reads: g.count[accessRead], Atomics: g.count[accessAtomic],
		})
	}
	return r
}

// The checks on memory.
var (
	checkWriteOverlap = Check{
		ID: "write_overlap", Severity: Note, Title: "WRITEs to the same bytes were outstanding together",
		Explain: "A WRITE went to bytes that an earlier one, not yet acknowledged, went to as well. On one queue pair they are carried out in order, so the later one wins; benchmarks do this all the time. A program that means to keep both loses the first.",
		Rule:    "IBA Vol 1, 9.5 (ordering), 10.8.3.3",
		Try:     "If the program's buffers are meant to be distinct, look at how it hands them out.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s (first: 0x%x to 0x%x under R_Key 0x%x, over the one of frame %d)", plural(int(f.Count), "overlapping WRITE", "overlapping WRITEs"), f.Args[0], f.Args[1], f.Args[2], f.Args[3])
		},
	}
	checkReadDiffers = Check{
		ID: "read_differs", Severity: Warning, Title: "Memory is read otherwise than it was written",
		Explain: "A READ, or the value that an atomic found, differs from what earlier WRITEs and atomics in this capture left at that address. Either a write was spoilt at the responder, or the read was served from stale data, or the memory was changed in a way that this capture does not show: by the responder's own program, or by another path.",
		Rule:    "IBA Vol 1, 9.5 (ordering of READ behind WRITE), 9.4.3, 9.4.4",
		Try:     "If the responder's program does not touch that memory, compare the bytes: pad bytes or the end of a buffer written wrongly, a lane or offset error, or old contents point to different places in the core.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s from what was written (first: at 0x%x under R_Key 0x%x, byte 0x%02x where frame %d left 0x%02x)", plural(int(f.Count), "answer differs", "answers differ"), f.Args[0], f.Args[3], f.Args[1]&0xFF, f.Args[2], f.Args[1]>>8)
		},
	}
)
