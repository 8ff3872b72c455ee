package port

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pipeBuffer = 64 << 10
	pipeFrames = 256             // that may have arrived, and wait to be received
	pipeLast   = 5 * time.Second // that a simulation may take to end
)

// Pipe is a port to a simulated core, over two streams of bytes. Their format is described with PipeHello.
//
// Its time is the simulation's: nanoseconds from 0 on, by Now, and by In.Time. It passes in Wait, whose timeout is of that
// time, and nowhere else; whoever waits for something on this port must count by Now. With one goroutine that sends and
// receives in turns, every run is the same.
type Pipe struct {
	info   Info
	counts counts
	now    atomic.Int64
	child  *exec.Cmd
	output io.Closer // to the child
	closed atomic.Bool
	theirs atomic.Int64 // longest frame that the core takes

	mu      sync.Mutex // of writing: Send does, and Wait
	w       *bufio.Writer
	scratch [pipeHeader]byte
	disturb bool // frames were sent since the core said until when it is idle

	// The sender's.
	rooms []byte
	free  []uint32

	// The receiver's.
	r        *bufio.Reader
	from     io.Reader
	patience time.Duration
	header   [pipeHeader]byte
	greeted  bool
	idle     uint64 // until when the core is
	arrived  []In   // a ring of pipeFrames
	store    []byte // their bytes
	next     int    // in arrived
	have     int    // not received
	held     int    // before next: borrowed
	err      error  // what ended it
}

// OpenPipe makes a port to the simulation that Options.Command starts, whose standard input and output are the pipe, and else
// over our own standard input and output.
func OpenPipe(o Options) (*Pipe, error) {
	if len(o.Command) == 0 {
		return NewPipe(os.Stdin, os.Stdout, o), nil
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, failed(o.Command[0], "start the simulation", err, "")
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return nil, failed(o.Command[0], "start the simulation", err, "")
	}
	if err := cmd.Start(); err != nil {
		return nil, failed(o.Command[0], "start the simulation", err, "")
	}
	p := NewPipe(from, to, o)
	p.child, p.output = cmd, to
	return p, nil
}

// NewPipe makes a port to what reads from w and writes to r. The first exchange happens in the first Wait.
func NewPipe(r io.Reader, w io.Writer, o Options) *Pipe {
	o.complete()
	if o.MaxFrame <= 0 {
		o.MaxFrame = DefaultMaxFrame
	}
	p := &Pipe{
		info: Info{Via: ViaPipe, MaxFrame: o.MaxFrame, Slots: o.Slots, Receives: true, Detail: "simulated time"},
		w:    bufio.NewWriterSize(w, pipeBuffer), r: bufio.NewReaderSize(r, pipeBuffer), from: r, patience: o.Patience,
		rooms: make([]byte, o.Slots*o.MaxFrame), arrived: make([]In, pipeFrames), store: make([]byte, pipeFrames*o.MaxFrame),
	}
	p.theirs.Store(int64(o.MaxFrame))
	for slot := range o.Slots {
		p.free = append(p.free, uint32(o.Slots-1-slot))
	}
	// Into the buffer: an error shows when that is flushed.
	_ = writeMessage(p.w, &p.scratch, PipeHello, 0, helloBody(o.MaxFrame))
	return p
}

// Now is the simulated time, in nanoseconds.
func (p *Pipe) Now() int64 { return p.now.Load() }

// Info implements Port.
func (p *Pipe) Info() Info { return p.info }

// Take implements Port.
func (p *Pipe) Take(slots []uint32) int {
	n := min(len(slots), len(p.free))
	copy(slots[:n], p.free[len(p.free)-n:])
	p.free = p.free[:len(p.free)-n]
	return n
}

// Room implements Port.
func (p *Pipe) Room(slot uint32) []byte {
	at, n := int(slot)*p.info.MaxFrame, p.info.MaxFrame
	return p.rooms[at : at+n : at+n]
}

// Send implements Port. The frames arrive at the core now, in simulated time.
func (p *Pipe) Send(frames []Out) error {
	if err := p.info.check(p, frames); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return failed("pipe", "send", ErrClosed, "")
	}
	p.counts.hand(len(frames), lengths(frames))
	for i, f := range frames {
		if theirs := p.theirs.Load(); int64(f.Len) > theirs {
			p.counts.sendLost.Add(uint64(len(frames) - i))
			return failed("pipe", fmt.Sprintf("send a frame of %d bytes", f.Len), ErrFrameSize, fmt.Sprintf("the simulation said that it takes %d", theirs))
		}
		if err := writeMessage(p.w, &p.scratch, PipeFrame, uint64(p.now.Load()), p.Room(f.Slot)[:f.Len]); err != nil {
			p.counts.sendLost.Add(uint64(len(frames) - i))
			return p.gone("send", err)
		}
		p.free = append(p.free, f.Slot)
		p.disturb = true
	}
	return nil
}

// Flush implements Port. The core gets to see the frames when time passes.
func (p *Pipe) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.w.Flush(); err != nil {
		return p.gone("send", err)
	}
	return nil
}

// gone is what an error of the streams means.
func (p *Pipe) gone(doing string, err error) error {
	switch {
	case p.closed.Load():
		return failed("pipe", doing, ErrClosed, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return failed("pipe", doing, err, fmt.Sprintf("the simulation did not answer for %v of real time", p.patience))
	case errors.Is(err, ErrFormat):
		return failed("pipe", doing, err, "")
	}
	return failed("pipe", doing, fmt.Errorf("%w: the simulation ended (%w)", ErrGone, err), "its standard error may say why")
}

// Receive implements Port.
func (p *Pipe) Receive(in []In) (int, error) {
	p.held = 0
	n := min(len(in), p.have)
	if n == 0 {
		return 0, p.err
	}
	for i := range n {
		in[i] = p.arrived[(p.next+i)%pipeFrames]
	}
	p.next, p.have, p.held = (p.next+n)%pipeFrames, p.have-n, n
	p.counts.receive(in[:n])
	return n, nil
}

// Wait implements Port: it lets simulated time pass, until a frame leaves the core or so much of that time is over.
func (p *Pipe) Wait(timeout time.Duration) error {
	if p.have > 0 || p.err != nil || timeout <= 0 {
		return p.err
	}
	until := p.now.Load() + min(int64(timeout), math.MaxInt64-p.now.Load())
	for p.have == 0 && p.now.Load() < until {
		before := p.now.Load()
		rest, err := p.ask(uint64(until))
		switch {
		case rest && err == nil:
			p.now.Store(until)
		case err == nil:
			err = p.listen()
		}
		if err == nil && p.have == 0 && p.now.Load() == before {
			err = fmt.Errorf("%w: the simulation was to go on from %d ns to %d, and stopped where it was", ErrFormat, before, until)
		}
		if err != nil {
			p.err = p.gone("wait for frames", err)
			return p.err
		}
	}
	return nil
}

// ask lets the core run, unless it is known that it would rest all of the time.
func (p *Pipe) ask(until uint64) (rest bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return false, ErrClosed
	}
	if p.idle >= until && !p.disturb {
		return true, nil
	}
	p.disturb = false
	if err := writeMessage(p.w, &p.scratch, PipeAdvance, until, nil); err != nil {
		return false, err
	}
	return false, p.w.Flush()
}

// listen reads what the simulation says until it is our turn.
func (p *Pipe) listen() error {
	if d, ok := p.from.(interface{ SetReadDeadline(time.Time) error }); ok && p.patience > 0 {
		_ = d.SetReadDeadline(time.Now().Add(p.patience)) // where that is not possible, patience has no end
	}
	if !p.greeted {
		theirs, err := readHello(p.r, &p.header)
		if err != nil {
			return err
		}
		p.greeted = true
		p.theirs.Store(int64(theirs))
	}
	for {
		m, err := p.message()
		if err != nil {
			return err
		}
		if now := p.now.Load(); m.time > uint64(now) && m.time <= math.MaxInt64 {
			p.now.Store(int64(m.time))
		}
		switch m.kind {
		case PipeFrame:
			err = p.arrive(m)
		case PipeReached:
			return p.reached(m)
		default:
			err = fmt.Errorf("%w: a message of type %d came where FRAME or REACHED is due", ErrFormat, m.kind)
		}
		if err != nil {
			return err
		}
	}
}

func (p *Pipe) message() (m pipeMessage, err error) {
	if _, err := io.ReadFull(p.r, p.header[:]); err != nil {
		return m, err
	}
	return m, m.get(&p.header, p.info.MaxFrame)
}

// arrive stores a frame. Where there is no room for it, it is lost.
func (p *Pipe) arrive(m pipeMessage) error {
	if m.length < minFrame || m.length > uint32(p.info.MaxFrame) {
		return fmt.Errorf("%w: a frame of %d bytes; %d to %d are possible", ErrFormat, m.length, minFrame, p.info.MaxFrame)
	}
	if p.have+p.held == pipeFrames {
		p.counts.recvLost.Add(1)
		_, err := p.r.Discard(int(m.length))
		return err
	}
	i := (p.next + p.have) % pipeFrames
	at := i * p.info.MaxFrame
	data := p.store[at : at+int(m.length) : at+int(m.length)]
	if _, err := io.ReadFull(p.r, data); err != nil {
		return err
	}
	p.arrived[i] = In{Data: data, Time: int64(m.time)}
	p.have++
	return nil
}

// reached takes note of until when the core is idle.
func (p *Pipe) reached(m pipeMessage) error {
	p.idle = 0
	switch m.length {
	case 0:
	case 8:
		if _, err := io.ReadFull(p.r, p.header[:8]); err != nil {
			return err
		}
		p.idle = binary.LittleEndian.Uint64(p.header[:])
	default:
		return fmt.Errorf("%w: REACHED with a body of %d bytes; it has none, or 8", ErrFormat, m.length)
	}
	return nil
}

// Stats implements Port.
func (p *Pipe) Stats() Stats { return p.counts.stats() }

// Close implements Port. It ends the simulation, and says how a simulation that we started ended.
func (p *Pipe) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	if p.child != nil { // it may hang, and then not even read that it is over
		last := pipeLast
		if p.patience > 0 {
			last = min(last, p.patience)
		}
		defer time.AfterFunc(last, func() { p.child.Process.Kill() }).Stop()
	}
	p.mu.Lock()
	err := writeMessage(p.w, &p.scratch, PipeEnd, uint64(p.now.Load()), nil)
	if err == nil {
		err = p.w.Flush()
	}
	p.mu.Unlock()
	if p.child != nil {
		p.output.Close()
		if err := p.child.Wait(); err != nil {
			return failed(p.child.Path, "simulate", err, "")
		}
		return nil
	}
	if p.err != nil { // it was told before
		return nil
	}
	return err
}
