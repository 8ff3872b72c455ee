package port

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// echo is a core that sends every frame back with its addresses swapped, some time after it arrived, one at a time.
type echo struct {
	delay int64
	now   int64
	idles bool // it says when it is idle
	queue []echoed
	out   []echoed
	asked int // times that it was run
}

type echoed struct {
	frame []byte
	at    int64
}

func (e *echo) Feed(frame []byte, at int64) {
	f := bytes.Clone(frame)
	copy(f[0:6], frame[6:12])
	copy(f[6:12], frame[0:6])
	e.queue = append(e.queue, echoed{f, max(at, e.now) + e.delay})
}

func (e *echo) Run(until int64) (reached, idle int64) {
	e.asked++
	if len(e.queue) > 0 && e.queue[0].at <= until {
		e.now = max(e.now, e.queue[0].at)
		e.out, e.queue = append(e.out, e.queue[0]), e.queue[1:]
	} else {
		e.now = until
	}
	switch {
	case !e.idles:
		return e.now, 0
	case len(e.queue) > 0:
		return e.now, e.queue[0].at
	}
	return e.now, math.MaxInt64
}

func (e *echo) Sent() ([]byte, int64) {
	if len(e.out) == 0 {
		return nil, 0
	}
	f := e.out[0]
	e.out = e.out[1:]
	return f.frame, f.at
}

// simulate runs a core behind a pipe, and says later how it ended.
func simulate(t testing.TB, core Core, o Options) (*Pipe, <-chan error) {
	t.Helper()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := ServePipe(theirIn, theirOut, 9000, core)
		theirOut.Close()
		theirIn.Close()
		ended <- err
	}()
	t.Cleanup(func() { ourIn.Close(); ourOut.Close() })
	return NewPipe(ourIn, ourOut, o), ended
}

func TestPipeKeepsSimulatedTime(t *testing.T) {
	core := &echo{delay: 700}
	p, ended := simulate(t, core, Options{MaxFrame: 4300})
	in := make([]In, 10)
	for i := range 50 {
		before := p.Now()
		sendNumbered(t, p, i, i+1, 60+i*80)
		if err := p.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		n, err := p.Receive(in)
		if n != 1 || err != nil || number(in[0].Data) != i || len(in[0].Data) != 60+i*80 || in[0].Data[5] != 2 {
			t.Fatalf("%d frames, %v, %x", n, err, in[0].Data)
		}
		if in[0].Time != before+700 || p.Now() != before+700 {
			t.Fatalf("the answer came at %d, it is %d, want %d", in[0].Time, p.Now(), before+700)
		}
		before = p.Now()
		if err := p.Wait(5 * time.Microsecond); err != nil { // nothing comes
			t.Fatal(err)
		}
		if p.Now() != before+5000 {
			t.Fatalf("5 µs after %d it is %d", before, p.Now())
		}
	}
	if s := p.Stats(); s.Sent != 50 || s.Received != 50 || s.SentBytes != s.RecvBytes {
		t.Errorf("counted %+v", s)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the simulation: %v", err)
	}
}

// TestPipeDoesNotAskIdleCores: a core that rests until a frame comes is left alone, however much time passes.
func TestPipeDoesNotAskIdleCores(t *testing.T) {
	core := &echo{delay: 700, idles: true}
	p, _ := simulate(t, core, Options{})
	for range 1000 {
		if err := p.Wait(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if p.Now() != 1000*int64(time.Hour) || core.asked != 1 {
		t.Errorf("it is %v, and the core was run %d times", time.Duration(p.Now()), core.asked)
	}
	sendNumbered(t, p, 0, 3, 64) // three at once: each stops the core
	in := make([]In, 10)
	for i := range 3 {
		if err := p.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
		if n, err := p.Receive(in); n != 1 || err != nil || number(in[0].Data) != i || in[0].Time != 1000*int64(time.Hour)+700 {
			t.Fatalf("answer %d: %d frames, %v, %+v", i, n, err, in[0])
		}
	}
	if core.asked != 4 {
		t.Errorf("the core was run %d times, want 4", core.asked)
	}
}

// TestPipeBorrows: what Receive gave out stays as it is while more arrives than there is room for.
func TestPipeBorrows(t *testing.T) {
	var b bytes.Buffer
	header, frame := new([pipeHeader]byte), make([]byte, 64)
	writeMessage(&b, header, PipeHello, 0, helloBody(9000))
	for i := range pipeFrames + 1 {
		fill(frame, i, 64)
		writeMessage(&b, header, PipeFrame, uint64(i), frame)
		if i == 0 {
			writeMessage(&b, header, PipeReached, 5, nil)
		}
	}
	writeMessage(&b, header, PipeReached, 1000, nil)
	p := NewPipe(&b, io.Discard, Options{MaxFrame: 100})
	in := make([]In, 1)
	for range 2 {
		if err := p.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
		if in[0].Data == nil {
			p.Receive(in)
		}
	}
	if number(in[0].Data) != 0 {
		t.Errorf("a borrowed frame was overwritten by frame %d", number(in[0].Data))
	}
	if s := p.Stats(); s.RecvLost != 1 { // the borrowed one takes a place
		t.Errorf("counted %+v", s)
	}
}

func TestPipeTellsWhatIsWrong(t *testing.T) {
	hello := func() []byte {
		var b bytes.Buffer
		writeMessage(&b, new([pipeHeader]byte), PipeHello, 0, helloBody(9000))
		return b.Bytes()
	}
	message := func(kind byte, at uint64, body []byte) []byte {
		var b bytes.Buffer
		writeMessage(&b, new([pipeHeader]byte), kind, at, body)
		return b.Bytes()
	}
	for _, c := range []struct {
		name string
		says []byte
		is   error
		text string
	}{
		{"prints", []byte("- V e r i l a t i o n   R e p o r t\n"), ErrFormat, "standard error"},
		{"ends", nil, ErrGone, "ended"},
		{"ends within a frame", append(hello(), message(PipeFrame, 5, make([]byte, 60))[:40]...), ErrGone, "ended"},
		{"does not greet", message(PipeReached, 5, nil), ErrFormat, "not HELLO"},
		{"speaks another version", append(message(PipeHello, 0, []byte{2, 0, 0, 0, 0, 16, 0, 0}), 1), ErrFormat, "version 2"},
		{"sends a short frame", append(hello(), message(PipeFrame, 5, make([]byte, 10))...), ErrFormat, "10 bytes"},
		{"sends a long frame", append(hello(), message(PipeFrame, 5, make([]byte, 5000))...), ErrFormat, ""},
		{"says what is ours to say", append(hello(), message(PipeAdvance, 5, nil)...), ErrFormat, "type 3"},
		{"stands still", append(hello(), message(PipeReached, 0, nil)...), ErrFormat, "stopped"},
		{"is idle for 3 bytes", append(hello(), message(PipeReached, 9, make([]byte, 3))...), ErrFormat, "3 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewPipe(bytes.NewReader(c.says), io.Discard, Options{MaxFrame: 4300})
			err := p.Wait(time.Second)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
			if _, again := p.Receive(make([]In, 1)); !errors.Is(again, c.is) {
				t.Errorf("and then %v", again)
			}
		})
	}
}

func TestPipeLosesPatience(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := NewPipe(r, io.Discard, Options{Patience: 10 * time.Millisecond})
	if err := p.Wait(time.Second); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "10ms of real time") {
		t.Errorf("got %v", err)
	}
}

// TestPipeOverflows: a core that floods without being asked loses frames, which are counted.
func TestPipeOverflows(t *testing.T) {
	var b bytes.Buffer
	header := new([pipeHeader]byte)
	writeMessage(&b, header, PipeHello, 0, helloBody(9000))
	frame := make([]byte, 64)
	for i := range pipeFrames + 7 {
		fill(frame, i, 64)
		writeMessage(&b, header, PipeFrame, uint64(i), frame)
	}
	writeMessage(&b, header, PipeReached, 1000, nil)
	p := NewPipe(&b, io.Discard, Options{MaxFrame: 100})
	if err := p.Wait(time.Second); err != nil {
		t.Fatal(err)
	}
	in := make([]In, 2*pipeFrames)
	if n, err := p.Receive(in); n != pipeFrames || err != nil || number(in[n-1].Data) != pipeFrames-1 {
		t.Errorf("received %d, %v", n, err)
	}
	if s := p.Stats(); s.RecvLost != 7 {
		t.Errorf("counted %+v", s)
	}
}

// TestPipeStartsASimulation: this test's own program is the core, in a process of its own.
func TestPipeStartsASimulation(t *testing.T) {
	switch os.Getenv("ROCESCOPE_TEST_CORE") {
	case "echo":
		if err := ServePipe(os.Stdin, os.Stdout, 9000, &echo{delay: 300}); err != nil {
			os.Exit(3)
		}
		os.Exit(0)
	case "fail":
		os.Exit(7)
	case "hang":
		time.Sleep(time.Hour)
	}
	start := func(core string, patience time.Duration) *Pipe {
		t.Setenv("ROCESCOPE_TEST_CORE", core)
		p, err := OpenPipe(Options{Command: []string{os.Args[0], "-test.run=^TestPipeStartsASimulation$"}, Patience: patience})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := start("echo", 0)
	in := make([]In, 1)
	sendNumbered(t, p, 5, 6, 1500)
	if err := p.Wait(time.Second); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Receive(in); n != 1 || err != nil || number(in[0].Data) != 5 || p.Now() != 300 {
		t.Errorf("%d frames, %v, at %d", n, err, p.Now())
	}
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	p = start("fail", 0)
	if err := p.Wait(time.Second); !errors.Is(err, ErrGone) {
		t.Errorf("a simulation that fails: %v", err)
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("close: %v", err)
	}
	p = start("hang", 50*time.Millisecond)
	if err := p.Wait(time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a simulation that hangs: %v", err)
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("close: %v", err)
	}
	if _, err := OpenPipe(Options{Command: []string{"/nonexistent/core"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
}

// TestPipeBothHalvesAtOnce: one goroutine sends more than the pipe holds while another lets time pass.
func TestPipeBothHalvesAtOnce(t *testing.T) {
	const frames = 2000
	p, ended := simulate(t, &echo{delay: 100, idles: true}, Options{Slots: 64})
	sent := make(chan error, 1)
	go func() {
		slots, out := make([]uint32, 64), make([]Out, 64)
		for n := 0; n < frames; {
			got := p.Take(slots[:min(64, frames-n)])
			for i, s := range slots[:got] {
				out[i] = fill(p.Room(s), n+i, 4000)
				out[i].Slot = s
			}
			if err := p.Send(out[:got]); err != nil {
				sent <- err
				return
			}
			n += got
		}
		sent <- nil
	}()
	in := make([]In, 10)
	for got := 0; got < frames; {
		if err := p.Wait(time.Microsecond); err != nil {
			t.Fatal(err)
		}
		n, err := p.Receive(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in[:n] {
			if number(f.Data) != got {
				t.Fatalf("frame %d came in place of frame %d", number(f.Data), got)
			}
			got++
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestPipeToAnotherLanguage: the format's description is enough to write the other side, here a few lines of Python.
func TestPipeToAnotherLanguage(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	p, err := OpenPipe(Options{Command: []string{python, "testdata/core.py"}})
	if err != nil {
		t.Fatal(err)
	}
	in := make([]In, 1)
	for i := range 100 {
		sent := p.Now()
		sendNumbered(t, p, i, i+1, 60+i*80)
		if err := p.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
		if n, err := p.Receive(in); n != 1 || err != nil || number(in[0].Data) != i || len(in[0].Data) != 60+i*80 || in[0].Time != sent+300 {
			t.Fatalf("frame %d: %d frames, %v, at %d", i, n, err, in[0].Time)
		}
		if err := p.Wait(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// mirror says the same again and again without end: a simulation that answers each ADVANCE with one frame.
type mirror struct {
	answer []byte
	at     int
	turns  uint64
}

func (m *mirror) Write(b []byte) (int, error) { return len(b), nil }

func (m *mirror) Read(b []byte) (int, error) {
	if m.at == len(m.answer) {
		m.at = 0
		m.turns++
		for _, at := range []int{24 - 16, len(m.answer) - pipeHeader + 8} { // the times
			for i := range 8 {
				m.answer[at+i] = byte(m.turns * 1000 >> (8 * i))
			}
		}
	}
	n := copy(b, m.answer[m.at:])
	m.at += n
	return n, nil
}

func newMirror() io.ReadWriter {
	var b bytes.Buffer
	header, frame := new([pipeHeader]byte), make([]byte, 64)
	fill(frame, 1, 64)
	writeMessage(&b, header, PipeFrame, 0, frame)
	writeMessage(&b, header, PipeReached, 0, nil)
	m := &mirror{answer: b.Bytes()}
	m.at = len(m.answer)
	var hello bytes.Buffer
	writeMessage(&hello, header, PipeHello, 0, helloBody(9000))
	return struct {
		io.Reader
		io.Writer
	}{io.MultiReader(&hello, m), m}
}

func pipeTurn(t testing.TB, p *Pipe, slots []uint32, in []In) {
	n := p.Take(slots)
	if n != 1 {
		t.Fatal("no slot")
	}
	if err := p.Send([]Out{{slots[0], 64}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Receive(in); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func TestPipeDoesNotAllocate(t *testing.T) {
	m := newMirror()
	p := NewPipe(m, m, Options{})
	slots, in := make([]uint32, 1), make([]In, 1)
	pipeTurn(t, p, slots, in)
	if n := testing.AllocsPerRun(100, func() { pipeTurn(t, p, slots, in) }); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}

func BenchmarkPipe(b *testing.B) {
	p, _ := simulate(b, &echo{delay: 10}, Options{})
	slots, in := make([]uint32, 1), make([]In, 1)
	b.ReportAllocs()
	for range b.N {
		pipeTurn(b, p, slots, in)
	}
}
