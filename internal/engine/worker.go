package engine

import (
	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/filter"
)

// worker does stage 1 on one goroutine.
type worker struct {
	decoder dissect.Decoder
	filter  *filter.Filter // nil where it has to wait for stage 2
	run     *run
	part    *part
	work    func() error // decode, made once: a method value allocates
}

func (w *worker) init(r *run) {
	w.run = r
	w.decoder.CheckICRC = r.o.CheckICRC
	if !r.lateFilter {
		w.filter = r.o.Filter
	}
	w.work = w.decode
}

// do runs stage 1 on a part. A memory fault ends it early, behind what was
// whole.
func (w *worker) do(pt *part) {
	w.part = pt
	pt.reset()
	pt.err = captures.Guard(w.work)
}

func (w *worker) decode() error {
	pt := w.part
	base, prev := pt.base, pt.prev
	for i := range pt.frames {
		f, p := &pt.frames[i], &pt.packets[i]
		p.Number, p.Time, p.Base, p.Prev, p.Iface = pt.first+uint64(i), f.Time, base, prev, uint16(f.Iface)
		p.NoTime, p.Direction = !f.HasTime, uint8(f.Direction)
		prev = f.Time
		w.decoder.Decode(f.Link, f.Data, f.WireLen, p)
		pt.data[i] = f.Data
		pt.matched[i] = w.filter == nil || w.filter.Match(p, f.Data, nil)
		pt.count(p)
		pt.n = i + 1
	}
	return nil
}
