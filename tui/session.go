package tui

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/internal/privacy"
)

// Input is what a Session reads.
type Input struct {
	Title string // as people know it: the file's name, the interface
	Open  func(context.Context) (captures.Source, error)
	// Again says that Open gives the same packets at every call: a file, not a pipe.
	Again  bool
	Live   bool
	Engine engine.Options
	// Ring is how many bytes of packets a live capture keeps in memory, 0 for 64 MiB; SpoolBytes and SpoolDir say how much of
	// what leaves it is kept on disk.
	Ring, SpoolBytes int64
	SpoolDir         string
	// Loss says how many packets the capture itself lost by now; nil where that is not known.
	Loss func() (lost uint64, known bool)
	// Engines says by which engine of the kernel packets are captured, "" before that is known, and why not by the one that was asked
	// for; nil where it is no interface.
	Engines func() (by, instead string)
	// File is the file that is read; "" where it is none, or several.
	File string
	// Command is the command line that opens it again: "rocescope trace.pcapng".
	Command string
	// Hint is shown while there are no packets: why there may be none.
	Hint []string
}

// Session reads a capture, on goroutines of its own, for a screen to look at.
type Session struct {
	in    Input
	index *index.Index
	rates *rates
	ctx   context.Context
	end   context.CancelFunc

	lost      uint64    // by the capture, as it said last
	lossKnown bool      //
	lossAt    time.Time // when it was asked

	mu     sync.Mutex
	reader *index.Reader // effects take turns
	first  atomic.Int64  // time of the first packet
}

// Batch notes when the capture begins.
func (ses *Session) Batch(b *engine.Batch) error {
	if ses.first.Load() == 0 && len(b.Packets) > 0 {
		ses.first.Store(b.Packets[0].Base)
	}
	return nil
}

// NewSession begins to read.
func NewSession(ctx context.Context, in Input) (*Session, error) {
	ctx, end := context.WithCancel(ctx)
	ses := &Session{in: in, ctx: ctx, end: end, rates: newRates(in.Live)}
	eo := in.Engine
	eo.CheckICRC, eo.Track, eo.Tracker.Series = true, true, true
	eo.Sinks = append(eo.Sinks, ses.rates, ses)
	var err error
	ses.index, err = index.Open(ctx, index.Options{
		Open: in.Open, Again: in.Again, Live: in.Live, Ring: in.Ring, SpoolDir: in.SpoolDir, SpoolBytes: in.SpoolBytes, Engine: eo,
	})
	if err != nil {
		end()
		return nil, err
	}
	ses.reader = ses.index.NewReader()
	go dissect.Fields() // it takes a while to make the tables, which the first packet that is looked at would have to wait for
	return ses, nil
}

// Live says that packets come from an interface or a pipe.
func (ses *Session) Live() bool { return ses.in.Live }

// Snapshot is the last one that was made; nil before the first.
func (ses *Session) Snapshot() *flows.Snapshot { return ses.index.Snapshot() }

// Request asks for the next one.
func (ses *Session) Request() { ses.index.RequestSnapshot() }

// Close ends reading and gives up what was kept.
func (ses *Session) Close() error {
	ses.end()
	return ses.index.Close()
}

// lossEvery is how often a live capture is asked for its losses: the kernel and the card have to be asked for that.
const lossEvery = time.Second

// sessionStatus is how far reading is.
type sessionStatus struct {
	packets, first uint64 // so far; the oldest whose bytes are there
	read, of       int64  // bytes
	done           bool
	failed         string
	lost           uint64 // by the capture
	lossKnown      bool
	ring, spooled  int64  // bytes of packets that are kept of a live capture
	engine, not    string // that captures, and why not the one that was asked for
}

// status is for one goroutine.
func (ses *Session) status() sessionStatus {
	p := ses.index.Progress()
	st := sessionStatus{packets: p.Last, first: p.First, read: p.Done, of: p.Total, done: p.Finished, ring: p.Packets, spooled: p.Spooled}
	if p.Err != nil {
		st.failed, _, _ = strings.Cut(p.Err.Error(), "\n") // whoever closes the session hears the rest
	}
	if now := time.Now(); st.done || now.Sub(ses.lossAt) >= lossEvery {
		ses.lossAt = now
		if ses.in.Loss != nil {
			ses.lost, ses.lossKnown = ses.in.Loss()
		} else {
			ses.lost, ses.lossKnown = lossOf(ses.index.Interfaces())
		}
	}
	st.lost, st.lossKnown = ses.lost, ses.lossKnown
	if ses.in.Engines != nil {
		st.engine, st.not = ses.in.Engines()
	}
	return st
}

// lossOf is what a file says that its capture lost.
func lossOf(ifaces []captures.Interface) (lost uint64, known bool) {
	for i := range ifaces {
		st := &ifaces[i].Stats
		known = known || st.Dropped >= 0 || st.OSDropped >= 0 || st.PacketDropped > 0
		lost += uint64(max(st.Dropped, st.OSDropped, st.PacketDropped, 0))
	}
	return lost, known
}

// Err is why reading ended early; nil while it goes on, and at a good end.
func (ses *Session) Err() error { return ses.index.Progress().Err }

// snapshotEvery is how often a snapshot is made: seldom enough that making them takes the tracker no more than a few hundredths
// of its time, whatever the number of connections.
func snapshotEvery(connections int) time.Duration {
	return max(250*time.Millisecond, time.Duration(connections)*100*time.Microsecond)
}

// row is a packet with its bytes.
type row = index.Row

// rows reads packets by their numbers; what is not there any more is left out.
func (ses *Session) rows(numbers []uint64) []row {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.read(numbers)
}

// rowsNow is rows, unless somebody else is reading.
func (ses *Session) rowsNow(numbers []uint64) (rows []row, ok bool) {
	if !ses.mu.TryLock() {
		return nil, false
	}
	defer ses.mu.Unlock()
	return ses.read(numbers), true
}

func (ses *Session) read(numbers []uint64) (out []row) {
	for i := 0; i < len(numbers); {
		n := 1
		for i+n < len(numbers) && numbers[i+n] == numbers[i]+uint64(n) {
			n++
		}
		got, _ := ses.reader.Window(numbers[i], n, nil) // what is gone is shown as gone
		out = append(out, got...)
		i += n
	}
	return out
}

// base is the time of the first packet, as far as known: 0 before any connection was seen.
func (ses *Session) base() int64 {
	if p := ses.first.Load(); p != 0 {
		return p
	}
	return 0
}

// export writes packets, all for nil, to a pcapng file, with findings as comments.
func (ses *Session) export(path string, view *index.View, masked bool) (uint64, error) {
	frames := ses.index.Frames()
	if view != nil {
		<-view.Done()
		frames = view.Frames()
	}
	o := index.ExportOptions{
		Overwrite: true, // the screen has asked
		Comment:   func(n uint64) []string { return commentsOf(ses.index.FindingsOf(n)) },
		Section:   captures.WriterOptions{Application: "rocescope"},
	}
	if masked {
		mask := privacy.New("")
		o.Mask = func(p *dissect.Packet, frame []byte) []byte {
			mask.Reset()
			return mask.Frame(p, frame)
		}
	}
	return ses.index.Export(ses.ctx, path, frames, o)
}
