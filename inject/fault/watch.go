package fault

import (
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// watcher finds out what frames are to their connections where no sender says it. It sees both ways.
type watcher struct {
	mu      sync.Mutex
	tracker *flows.Tracker
	batch   flows.Batch // of one packet
	number  uint64
	time    int64
}

func newWatcher() *watcher {
	return &watcher{
		tracker: flows.New(flows.Options{MaxConnections: 1 << 20, MaxFindings: 1, MaxDetails: -1}),
		batch:   flows.Batch{Packets: make([]dissect.Packet, 1), Data: make([][]byte, 1), Marks: make([]flows.Mark, 1)},
	}
}

// see is the mark of a frame.
func (w *watcher) see(p *dissect.Packet, frame []byte) flows.Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	w.batch.Packets[0], w.batch.Data[0], w.batch.Marks[0] = *p, frame, flows.Mark{}
	q := &w.batch.Packets[0]
	w.time = max(w.time, q.Time) // of two goroutines the later one may have read its clock first
	q.Number, q.Time = w.number, w.time
	w.tracker.Track(&w.batch)
	w.batch.Data[0] = nil
	return w.batch.Marks[0]
}

// past is the last packets that a rule matched.
type past struct {
	frames [][]byte
	n      uint64
}

func newPast(n, most int) *past {
	p := &past{frames: make([][]byte, n)}
	for i := range p.frames {
		p.frames[i] = make([]byte, 0, most)
	}
	return p
}

func (p *past) add(frame []byte) {
	at := &p.frames[p.n%uint64(len(p.frames))]
	*at = append((*at)[:0], frame...)
	p.n++
}

// before is the packet so many ago, or the first if there were fewer; nil where there was none.
func (p *past) before(back int) []byte {
	b := min(uint64(back), p.n-1)
	if p.n < 2 {
		return nil
	}
	return p.frames[(p.n-1-b)%uint64(len(p.frames))]
}
