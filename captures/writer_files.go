package captures

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Rotation says when a Recorder begins another file, and how many it keeps. The
// zero value is one file. The first limit that is reached counts; a file is begun
// only when there is a frame for it.
type Rotation struct {
	Bytes    int64         // a file's length
	Packets  uint64        // packets in a file
	Duration time.Duration // since the file was begun
	Files    int           // files to keep: the oldest is deleted; 0 keeps all
}

func (r *Rotation) some() bool { return r.Bytes > 0 || r.Packets > 0 || r.Duration > 0 }

// Limits end a recording. The zero value never does.
type Limits struct {
	Packets uint64 // in all files together
	Bytes   int64  // a file's length
	Files   int    // whole files
}

// RecorderOptions say what a Recorder writes, and where.
type RecorderOptions struct {
	WriterOptions
	// Path is the file to write. With a Rotation it is the pattern: capture.pcapng
	// becomes capture_00001_20240102030405.pcapng, as dumpcap names files.
	Path string
	// Output is written instead of Path where it is set; there is no rotation.
	Output io.Writer
	// Force overwrites a file that is there.
	Force  bool
	Rotate Rotation
	Stop   Limits
	// Queue bounds the bytes that wait for the disk; 0 is 64 MiB.
	Queue int
	// Statistics is asked at the end of each file what to say of the
	// interfaces, by the goroutine that calls Record or Close.
	Statistics func() []InterfaceStats
}

// RecorderStats is what became of the frames. After Close
// Accepted = Written + Failed, and what Record was given is Accepted + Dropped.
type RecorderStats struct {
	Accepted uint64 // frames written or waiting
	Written  uint64 // frames that are whole in a file
	Failed   uint64 // frames that could not be written, because writing failed
	Dropped  uint64 // frames that found the queue full
	Bytes    uint64 // written to all files
	Queued   int64  // bytes waiting now
	Files    int    // begun
	File     string // the newest
}

// WriteError is why a Recorder stopped.
type WriteError struct {
	File   string
	Frames uint64 // whole in that file
	Err    error
}

// Error says what is left, for that is what one wants to know.
func (e *WriteError) Error() string {
	return fmt.Sprintf("captures: write %s: %v; the file is readable and holds %d packets", e.File, e.Err, e.Frames)
}

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// chunkSize is what is written at a time, and what the queue is made of.
const chunkSize = 256 << 10

// A small write is followed by a pause in which the next ones can come together,
// unless there is more to write: smallWrite bytes, at most pauses of a millisecond.
const (
	smallWrite = 64 << 10
	pauses     = 10
)

// chunk is whole blocks on their way to a file.
type chunk struct {
	buf         []byte
	frames      uint64
	first, last bool // of its file
	begun       time.Time
}

// Recorder writes frames to files on a goroutine of its own. Record copies them
// into a bounded queue and never waits: frames that find it full are counted, and
// so is everything else. Record and Close are for one goroutine, Stats for any.
type Recorder struct {
	o        RecorderOptions
	header   []byte
	started  time.Time
	made     []string // our files, oldest first
	openFile func(name string, force bool) (*os.File, error)

	mu     sync.Mutex
	wake   sync.Cond
	cur    *chunk // being filled; nil where there is no free one
	queue  []*chunk
	free   []*chunk
	chunks int // made so far
	most   int
	closed bool
	failed error // why the writing goroutine gave up

	// Of the file that is being filled:
	fileBytes  int64
	fileFrames uint64
	fileBegan  time.Time
	fileNumber int
	taken      uint64 // accepted in all

	// The writing goroutine's:
	out      io.Writer
	file     *os.File
	name     string
	at       int64
	inFile   uint64
	finished chan struct{}
	broken   chan struct{} // closed when writing fails

	accepted, written, lost, dropped, bytes atomic.Uint64
	queued                                  atomic.Int64
	files                                   atomic.Int64
	newest                                  atomic.Pointer[string]
}

// NewRecorder opens the first file and writes its header, so that whatever is
// wrong with it is known before the capture begins.
func NewRecorder(o RecorderOptions) (*Recorder, error) {
	switch {
	case o.Output == nil && o.Path == "":
		return nil, errors.New("captures: no file to write was named")
	case o.Rotate.Files > 0 && !o.Rotate.some():
		return nil, errors.New("captures: to keep a number of files, say when to begin the next: by size, time or packets")
	case o.Output != nil && o.Rotate.some():
		return nil, errors.New("captures: only files can be rotated")
	}
	r := &Recorder{
		o: o, started: time.Now(), openFile: createFile, finished: make(chan struct{}), broken: make(chan struct{}),
		most: max(2, cmp.Or(o.Queue, 64<<20)/chunkSize),
	}
	r.wake.L = &r.mu
	r.header = o.appendHeader(nil)
	first := r.take()
	r.begin(first, r.started)
	if err := r.start(first); err != nil {
		return nil, err
	}
	if err := r.write(first); err != nil {
		r.closeFile()
		return nil, err
	}
	first.reset()
	r.cur = first
	go r.run()
	return r, nil
}

func (c *chunk) reset() { *c = chunk{buf: c.buf[:0]} }

// take returns an empty chunk, nil where the queue is full. r.mu is held, or
// nobody else is there yet.
func (r *Recorder) take() *chunk {
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		return c
	}
	if r.chunks == r.most {
		return nil
	}
	r.chunks++
	return &chunk{buf: make([]byte, 0, chunkSize)}
}

// begin makes c the first chunk of the next file.
func (r *Recorder) begin(c *chunk, now time.Time) {
	r.fileNumber++
	r.fileBegan, r.fileFrames, r.fileBytes = now, 0, int64(len(r.header))
	c.first, c.begun = true, now
	c.buf = append(c.buf, r.header...)
}

// Record takes frames over: each is copied, or counted as dropped. It returns
// how many it took before a limit of Stop was reached (io.EOF then), or before
// writing failed (a *WriteError).
func (r *Recorder) Record(frames []Frame) (int, error) { return r.RecordWith(frames, nil) }

// RecordWith is Record with a comment on each frame; "" is none.
func (r *Recorder) RecordWith(frames []Frame, comments []string) (int, error) {
	now := time.Now()
	var on []string // the comments of a frame
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.wake.Signal()
	for i := range frames {
		if r.failed != nil {
			r.accepted.Add(uint64(len(frames) - i))
			r.lost.Add(uint64(len(frames) - i))
			return len(frames), r.failed
		}
		if r.done() {
			return i, io.EOF
		}
		on = nil
		if comments != nil && comments[i] != "" {
			on = comments[i : i+1]
		}
		if !r.room(&frames[i], on, now) {
			r.dropped.Add(1)
			continue
		}
		f, c := &frames[i], r.cur
		before := len(c.buf)
		c.buf = appendPacket(c.buf, f, on)
		c.frames++
		r.fileFrames++
		r.taken++
		r.fileBytes += int64(len(c.buf) - before)
		r.queued.Add(int64(len(c.buf) - before))
		r.accepted.Add(1)
	}
	if r.done() {
		return len(frames), io.EOF
	}
	return len(frames), nil
}

// done says whether a limit is reached.
func (r *Recorder) done() bool {
	stop := &r.o.Stop
	return stop.Packets > 0 && r.taken >= stop.Packets ||
		stop.Bytes > 0 && r.fileFrames > 0 && r.fileBytes >= stop.Bytes ||
		stop.Files > 0 && r.fileNumber >= stop.Files && r.full(time.Now())
}

// full says whether the file at hand has all that it is to have.
func (r *Recorder) full(now time.Time) bool {
	rot := &r.o.Rotate
	return r.fileFrames > 0 && (rot.Bytes > 0 && r.fileBytes >= rot.Bytes ||
		rot.Packets > 0 && r.fileFrames >= rot.Packets ||
		rot.Duration > 0 && now.Sub(r.fileBegan) >= rot.Duration)
}

// room makes r.cur a chunk that f and its comments fit in, beginning another file
// where that is due. It returns false where the queue is full.
func (r *Recorder) room(f *Frame, comments []string, now time.Time) bool {
	if r.cur == nil {
		if r.cur = r.take(); r.cur == nil {
			return false
		}
	}
	switch next := r.full(now); {
	case next:
		c := r.take()
		if c == nil {
			return false
		}
		r.endFile()
		r.push()
		r.cur = c
		r.begin(c, now)
		r.queued.Add(int64(len(c.buf)))
	case len(r.cur.buf) > 0 && len(r.cur.buf)+packetLength(f, comments) > chunkSize:
		// Also where there is no other: a smaller frame that would still fit is not to
		// get ahead of this one.
		r.push()
		if r.cur = r.take(); r.cur == nil {
			return false
		}
	}
	return true
}

// endFile makes r.cur the last chunk of its file.
func (r *Recorder) endFile() {
	c := r.cur
	before := len(c.buf)
	if r.o.Statistics != nil {
		end := time.Now().UnixNano()
		for i, s := range r.o.Statistics() {
			c.buf = appendStatistics(c.buf, i, &s, r.started.UnixNano(), end)
		}
	}
	c.last = true
	r.queued.Add(int64(len(c.buf) - before))
}

func (r *Recorder) push() {
	r.queue = append(r.queue, r.cur)
	r.cur = nil
}

// run is the writing goroutine.
func (r *Recorder) run() {
	defer close(r.finished)
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var c *chunk
		switch {
		case len(r.queue) > 0:
			c = r.queue[0]
			copy(r.queue, r.queue[1:])
			r.queue = r.queue[:len(r.queue)-1]
		case r.cur != nil && len(r.cur.buf) > 0: // the disk is idle: no reason to wait for more
			c, r.cur = r.cur, nil
		case r.closed:
			return
		default:
			r.wake.Wait()
			continue
		}
		failed := r.failed
		r.mu.Unlock()
		size := int64(len(c.buf))
		if failed == nil {
			failed = r.handle(c)
		} else {
			r.lost.Add(c.frames)
		}
		r.queued.Add(-size)
		c.reset()
		r.mu.Lock()
		if r.failed == nil && failed != nil {
			r.failed = failed
			close(r.broken)
		}
		r.free = append(r.free, c)
		for i := 0; i < pauses && size < smallWrite && len(r.queue) == 0 && !r.closed; i++ {
			r.mu.Unlock()
			time.Sleep(time.Millisecond)
			r.mu.Lock()
		}
	}
}

// handle writes a chunk, to a new file where it is the first of one.
func (r *Recorder) handle(c *chunk) error {
	if c.first {
		if err := r.start(c); err != nil {
			r.lost.Add(c.frames)
			return err
		}
	}
	err := r.write(c)
	if c.last || err != nil {
		if cerr := r.closeFile(); err == nil && cerr != nil {
			err = &WriteError{r.name, r.inFile, cerr}
		}
	}
	return err
}

// start opens the file that c begins.
func (r *Recorder) start(c *chunk) error {
	r.at, r.inFile = 0, 0
	if r.o.Output != nil {
		r.out, r.name = r.o.Output, "standard output"
	} else {
		r.name = r.o.Path
		if r.o.Rotate.some() {
			r.name = rotatedName(r.o.Path, int(r.files.Load())+1, c.begun)
		}
		f, err := r.openFile(r.name, r.o.Force)
		if err != nil {
			return fmt.Errorf("captures: %w", err)
		}
		r.out, r.file = f, f
		if keep := r.o.Rotate.Files; keep > 0 {
			r.made = append(r.made, r.name)
			if len(r.made) > keep {
				// One that somebody took away, or keeps us from deleting, is no
				// reason to stop.
				_ = os.Remove(r.made[0])
				r.made = append(r.made[:0], r.made[1:]...)
			}
		}
	}
	r.files.Add(1)
	name := r.name
	r.newest.Store(&name)
	return nil
}

func (r *Recorder) write(c *chunk) error {
	whole, err := writeBlocks(r.out, c.buf, r.at)
	r.at += int64(whole)
	r.bytes.Add(uint64(whole))
	frames := c.frames
	if err != nil {
		frames = countPackets(c.buf[:whole])
		r.lost.Add(c.frames - frames)
	}
	r.inFile += frames
	r.written.Add(frames)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // the name is said once
		}
		return &WriteError{r.name, r.inFile, err}
	}
	return nil
}

func (r *Recorder) closeFile() error {
	f := r.file
	r.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// Close writes what is queued, ends the file with its statistics, and returns
// what went wrong with any file.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		<-r.finished
		return r.failed
	}
	if r.failed == nil {
		if r.cur == nil {
			r.cur = &chunk{}
		}
		r.endFile()
		r.push()
	}
	r.closed = true
	r.wake.Signal()
	r.mu.Unlock()
	<-r.finished
	return r.failed
}

// Broken is closed when writing has failed, for those who wait for frames
// meanwhile. Close says why.
func (r *Recorder) Broken() <-chan struct{} { return r.broken }

// Stats returns what became of the frames so far.
func (r *Recorder) Stats() RecorderStats {
	s := RecorderStats{
		Accepted: r.accepted.Load(), Written: r.written.Load(), Failed: r.lost.Load(), Dropped: r.dropped.Load(),
		Bytes: r.bytes.Load(), Queued: r.queued.Load(), Files: int(r.files.Load()),
	}
	if name := r.newest.Load(); name != nil {
		s.File = *name
	}
	return s
}

// rotatedName is how dumpcap names the files of a series.
func rotatedName(path string, number int, begun time.Time) string {
	dir, base := filepath.Split(path)
	stem, ending := base, ""
	if at := strings.LastIndexByte(base, '.'); at > 0 {
		stem, ending = base[:at], base[at:]
	}
	return fmt.Sprintf("%s%s_%05d_%s%s", dir, stem, number%100000, begun.Format("20060102150405"), ending)
}

// createFile makes a file, and leaves alone one that is there unless forced to
// overwrite it. Devices and named pipes are written to as they are.
func createFile(name string, force bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // what is in it was in other people's memory
	if !errors.Is(err, os.ErrExist) {
		return f, err
	}
	if st, serr := os.Stat(name); serr == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return os.OpenFile(name, os.O_WRONLY, 0)
	}
	if !force {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
}
