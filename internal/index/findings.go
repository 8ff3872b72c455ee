package index

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/flows"
)

// Occurrence is a finding and the frame that proves it.
type Occurrence struct {
	Frame     uint64
	Conn      uint32
	ID        flows.FindingID
	Direction flows.Direction
	HasStream bool
}

// maxOccurrences bounds what is remembered of findings, one by one: 6 MB.
const maxOccurrences = 256 << 10

// findings collects occurrences as the tracker finds them, which is not always in
// the order of frames.
type findings struct {
	all       []Occurrence // the engine's goroutine appends
	published atomic.Pointer[[]Occurrence]
	more      atomic.Uint64 // that were not kept

	mu     sync.Mutex
	sorted []Occurrence
}

func (f *findings) add(o *flows.Finding) {
	if len(f.all) >= maxOccurrences {
		f.more.Add(1)
		return
	}
	f.all = append(f.all, Occurrence{o.Frame, o.Conn, o.ID, o.Direction, o.HasStream})
}

func (f *findings) publish() {
	if p := f.published.Load(); p != nil && len(*p) == len(f.all) || p == nil && len(f.all) == 0 {
		return
	}
	all := f.all
	f.published.Store(&all)
}

// inOrder are the occurrences by frame.
func (f *findings) inOrder() []Occurrence {
	p := f.published.Load()
	if p == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := len(f.sorted); have != len(*p) {
		all := append(slices.Clip(f.sorted), (*p)[have:]...) // others still look at the old one
		slices.SortStableFunc(all, func(a, b Occurrence) int { return cmp.Compare(a.Frame, b.Frame) })
		f.sorted = all
	}
	return f.sorted
}

func firstFrom(all []Occurrence, frame uint64) int {
	i, _ := slices.BinarySearchFunc(all, frame, func(o Occurrence, n uint64) int { return cmp.Compare(o.Frame, n) })
	return i
}

// Findings are all occurrences, by frame, and how many more there were that are
// not remembered one by one. The slice is not to be changed.
func (x *Index) Findings() (all []Occurrence, more uint64) {
	return x.found.inOrder(), x.found.more.Load()
}

// FindingsOf are the findings that a frame proves.
func (x *Index) FindingsOf(frame uint64) []Occurrence {
	all := x.found.inOrder()
	i := firstFrom(all, frame)
	j := firstFrom(all, frame+1)
	return all[i:j]
}

// NextFinding is the first frame behind one that proves a finding.
func (x *Index) NextFinding(frame uint64) (uint64, bool) {
	all := x.found.inOrder()
	if i := firstFrom(all, frame+1); i < len(all) {
		return all[i].Frame, true
	}
	return 0, false
}

// PrevFinding is the last frame in front of one that proves a finding.
func (x *Index) PrevFinding(frame uint64) (uint64, bool) {
	all := x.found.inOrder()
	if i := firstFrom(all, frame); i > 0 && all[i-1].Frame >= x.First() {
		return all[i-1].Frame, true
	}
	return 0, false
}
