package engine

import (
	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// BatchSize is the largest number of packets that a sink gets at a time.
const BatchSize = 512

// Batch is a run of packets in the order of the capture, decoded and tracked.
// It is borrowed for the call of the sink that gets it.
type Batch struct {
	flows.Batch

	// Frames are what the packets were decoded from.
	Frames []captures.Frame
	// Matched says of each packet whether the filter selects it; all true
	// without a filter.
	Matched []bool

	end *ending // what the end of the capture says; nil in a first pass
}

// Outcome fills o with what the whole capture said of packet i's connection and
// message. It returns nil where the run had no second pass (Options.Outcomes).
func (b *Batch) Outcome(i int, o *flows.Outcome) *flows.Outcome {
	if b.end == nil {
		return nil
	}
	b.end.outcome(&b.Packets[i], &b.Marks[i], o)
	return o
}

// Sink takes batches, one at a time, in the order of the capture. It may read
// the frames' bytes, and only until it returns. An error ends the run.
type Sink interface {
	Batch(b *Batch) error
}

// SinkFunc is a function as a Sink.
type SinkFunc func(b *Batch) error

// Batch implements Sink.
func (f SinkFunc) Batch(b *Batch) error { return f(b) }

// part is what stage 1 works on at a time, with room for its results.
type part struct {
	room    []captures.Frame
	frames  []captures.Frame // of room; their bytes are borrowed from the source
	readErr error            // what the source said instead
	first   uint64           // number of frames[0]
	base    int64            // time of the capture's first frame
	prev    int64            // time of the frame before frames[0]
	n       int              // packets decoded; less than frames only after a fault
	err     error            // the fault

	packets []dissect.Packet
	data    [][]byte
	marks   []flows.Mark
	matched []bool

	bytes, captured      uint64
	truncated, malformed uint64
	hasTime              bool // at least one frame has
	earliest, latest     int64
	links                [8]dissect.LinkType // distinct ones; a part has hardly more than one
	numLinks             int
}

func newPart() *part {
	return &part{
		room:    make([]captures.Frame, BatchSize),
		packets: make([]dissect.Packet, BatchSize),
		data:    make([][]byte, BatchSize),
		marks:   make([]flows.Mark, BatchSize),
		matched: make([]bool, BatchSize),
	}
}

// reset makes the part ready for stage 1.
func (pt *part) reset() {
	pt.n = 0
	pt.bytes, pt.captured, pt.truncated, pt.malformed, pt.numLinks = 0, 0, 0, 0, 0
	pt.hasTime = false
}

func (pt *part) count(p *dissect.Packet) {
	pt.bytes += uint64(p.WireLen)
	pt.captured += uint64(p.CapLen)
	if p.CapLen < p.WireLen {
		pt.truncated++
	}
	if p.Malformed() {
		pt.malformed++
	}
	if !p.NoTime {
		if !pt.hasTime {
			pt.hasTime, pt.earliest, pt.latest = true, p.Time, p.Time
		}
		pt.earliest, pt.latest = min(pt.earliest, p.Time), max(pt.latest, p.Time)
	}
	for _, l := range pt.links[:pt.numLinks] {
		if l == p.Link {
			return
		}
	}
	if pt.numLinks < len(pt.links) {
		pt.links[pt.numLinks] = p.Link
		pt.numLinks++
	}
}
