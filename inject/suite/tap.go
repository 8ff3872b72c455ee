package suite

import (
	"slices"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
)

// What a case may record: beyond that the device floods, and the case ends.
const (
	maxFrames = 1 << 16
	maxBytes  = 128 << 20
)

// record is a frame of a case.
type record struct {
	time int64
	ours bool // we sent it
	data []byte
	p    dissect.Packet
	mark flows.Mark
}

// tap is a port that writes down what goes through it. The device's thread sends and receives; another one looks.
type tap struct {
	port.Port
	clock func() int64

	mu      sync.Mutex
	fresh   []record // not yet looked at
	frames  int
	bytes   int
	flooded bool
	arrived chan struct{} // signalled at arrivals
	silent  bool
}

func newTap(p port.Port) *tap {
	return &tap{Port: p, clock: port.Clock(p), arrived: make(chan struct{}, 1)}
}

// Now is the time of the port's clock.
func (t *tap) Now() int64 { return t.clock() }

// Send implements port.Port.
func (t *tap) Send(frames []port.Out) error {
	now := t.clock()
	t.mu.Lock()
	for _, f := range frames {
		t.keep(now, true, t.Room(f.Slot)[:f.Len])
	}
	t.mu.Unlock()
	return t.Port.Send(frames)
}

// Receive implements port.Port.
func (t *tap) Receive(in []port.In) (int, error) {
	n, err := t.Port.Receive(in)
	if n > 0 {
		t.mu.Lock()
		for _, f := range in[:n] {
			t.keep(f.Time, false, f.Data)
		}
		t.mu.Unlock()
		select {
		case t.arrived <- struct{}{}:
		default:
		}
	}
	return n, err
}

func (t *tap) keep(at int64, ours bool, data []byte) {
	if t.silent {
		return
	}
	if t.frames >= maxFrames || t.bytes+len(data) > maxBytes {
		t.flooded = true
		return
	}
	t.frames++
	t.bytes += len(data)
	t.fresh = append(t.fresh, record{time: at, ours: ours, data: slices.Clone(data)})
}

// take gives out what was recorded since.
func (t *tap) take() (fresh []record, flooded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh, t.fresh = t.fresh, nil
	return fresh, t.flooded
}

// waiting reports whether there is something that take would give.
func (t *tap) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for i := range t.fresh {
		if !t.fresh[i].ours {
			n++
		}
	}
	return n
}

// watch follows the recorded exchange.
type watch struct {
	dec      dissect.Decoder
	tracker  *flows.Tracker
	records  []record
	findings []flows.Finding
	base     int64
}

func newWatch() *watch {
	w := &watch{dec: dissect.Decoder{CheckICRC: true}}
	w.tracker = flows.New(flows.Options{MaxConnections: 1024, MaxFindings: 4096, MaxDetails: -1, Sink: flows.Sink{Finding: func(f *flows.Finding) {
		w.findings = append(w.findings, *f)
	}}})
	return w
}

// add decodes and tracks frames.
func (w *watch) add(fresh []record) {
	if len(fresh) == 0 {
		return
	}
	from := len(w.records)
	w.records = append(w.records, fresh...)
	list := w.records[from:]
	b := flows.Batch{Packets: make([]dissect.Packet, len(list)), Data: make([][]byte, len(list)), Marks: make([]flows.Mark, len(list))}
	for i := range list {
		r := &list[i]
		if w.base == 0 {
			w.base = r.time
		}
		p := &b.Packets[i]
		p.Number, p.Time, p.Base = uint64(from+i+1), r.time, w.base
		p.Direction = 1
		if r.ours {
			p.Direction = 2
		}
		w.dec.Decode(dissect.LinkEthernet, r.data, len(r.data), p)
		r.p, b.Data[i] = *p, r.data
	}
	w.tracker.Track(&b)
	for i := range list {
		list[i].p, list[i].mark = b.Packets[i], b.Marks[i]
	}
}
