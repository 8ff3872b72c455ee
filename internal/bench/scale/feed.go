//go:build unix

package main

import (
	"runtime"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// feed is the way of frames in memory through decoder and tracker, in batches as the engine makes them, and what came out.
type feed struct {
	dec     dissect.Decoder
	tracker *flows.Tracker
	batch   flows.Batch
	buf     []byte
	filled  int

	packets, messages, done uint64 // done: messages that ended well
	evicted, evictedPackets uint64 // connections whose record went to the sink, and what it said
	findings                uint64
	found                   map[string]uint64 // of each kind
	first                   string            // the name of a finding
}

const batchSize = 512

func newFeed(opt flows.Options) *feed {
	f := &feed{found: map[string]uint64{}, batch: flows.Batch{
		Packets: make([]dissect.Packet, batchSize), Data: make([][]byte, batchSize), Marks: make([]flows.Mark, batchSize),
	}}
	opt.Sink = flows.Sink{
		Message: func(m *flows.Message) {
			f.messages++
			if m.Status == flows.StatusSuccess {
				f.done++
			}
		},
		Finding: func(g *flows.Finding) {
			f.findings++
			f.found[g.Check().ID] += g.Count
			f.first = g.Check().Title
		},
		Connection: func(c *flows.Connection) {
			f.evicted++
			f.evictedPackets += c.Streams[0].Packets + c.Streams[1].Packets
		},
	}
	f.tracker = flows.New(opt)
	return f
}

// put takes a frame, which may be overwritten as soon as it returns.
func (f *feed) put(frame []byte, at int64) {
	if f.filled == batchSize || len(f.buf)+len(frame) > cap(f.buf) {
		f.flush()
		if len(frame) > cap(f.buf) {
			f.buf = make([]byte, 0, batchSize*len(frame))
		}
	}
	from := len(f.buf)
	f.buf = append(f.buf, frame...)
	f.decode(f.buf[from:], at)
}

func (f *feed) decode(frame []byte, at int64) {
	f.packets++
	p := &f.batch.Packets[f.filled]
	p.Number, p.Time = f.packets, at
	f.dec.Decode(dissect.LinkEthernet, frame, len(frame), p)
	f.batch.Data[f.filled] = frame
	f.filled++
}

// flush gives the tracker what waits.
func (f *feed) flush() {
	n := f.filled
	f.tracker.Track(&flows.Batch{Packets: f.batch.Packets[:n], Data: f.batch.Data[:n], Marks: f.batch.Marks[:n]})
	f.filled, f.buf = 0, f.buf[:0]
}

// run puts n packets of a generator.
func (f *feed) run(next func() ([]byte, int64), n int) {
	for range n {
		f.put(next())
	}
	f.flush()
}

// kept is packets that lie in memory, so that making them is not measured.
type kept struct {
	bytes []byte
	ends  []int
	times []int64
}

func keep(next func() ([]byte, int64), n int) *kept {
	k := &kept{}
	for range n {
		frame, at := next()
		k.bytes = append(k.bytes, frame...)
		k.ends, k.times = append(k.ends, len(k.bytes)), append(k.times, at)
	}
	return k
}

// replay decodes and tracks them.
func (f *feed) replay(k *kept) {
	from := 0
	for i, to := range k.ends {
		f.decode(k.bytes[from:to], k.times[i])
		if from = to; f.filled == batchSize {
			f.flush()
		}
	}
	f.flush()
}

// heap is how much memory is in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
