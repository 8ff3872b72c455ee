package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
)

// endless is a source of numbered frames, as an interface gives them: one batch for
// each token.
type endless struct {
	next  uint64
	size  int
	step  chan int
	bytes []byte
}

func (s *endless) ReadBatch(dst []captures.Frame) (int, error) {
	n, ok := <-s.step
	if !ok {
		return 0, io.EOF
	}
	n = min(n, len(dst))
	s.bytes = s.bytes[:0]
	for range n {
		s.next++
		s.bytes = append(s.bytes, pattern(s.next, s.size)...)
	}
	at := 0
	for i := range n {
		number := s.next - uint64(n-1-i)
		size := len(pattern(number, s.size))
		dst[i] = captures.Frame{Time: int64(number) * 1000, HasTime: true, Data: s.bytes[at : at+size], WireLen: size, Link: dissect.LinkEthernet}
		at += size
	}
	return n, nil
}

func (s *endless) Interfaces() []captures.Interface {
	return []captures.Interface{{Name: "eth9", Link: dissect.LinkEthernet}}
}
func (s *endless) Close() error { return nil }

// pattern is the bytes of a frame: they tell which one it is, to the last.
func pattern(n uint64, size int) []byte {
	b := make([]byte, size+int(n%16)*8)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], n)
	}
	return b
}

// live begins a live capture; push has it take so many frames.
func live(t *testing.T, o Options) (x *Index, push func(frames int)) {
	t.Helper()
	src := &endless{size: 1000, step: make(chan int)}
	o.Live, o.Open = true, func(context.Context) (captures.Source, error) { return src, nil }
	x, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { close(src.step) })
	t.Cleanup(func() {
		end()
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	wake := x.watch.add()
	return x, func(frames int) {
		if frames == 0 {
			end()
			<-x.Done()
			return
		}
		to := x.Last() + uint64(frames)
		for frames > 0 {
			n := min(frames, engine.BatchSize)
			src.step <- n
			frames -= n
		}
		for x.Last() < to {
			<-wake
		}
	}
}

func TestRingKeepsTheNewest(t *testing.T) {
	x, push := live(t, Options{Ring: 2 << 20})
	r := x.NewReader()
	var row Row
	for range 10 {
		push(3000)
		first, last := x.First(), x.Last()
		for n := first; n <= last; n++ {
			if err := r.At(n, &row); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(row.Data, pattern(n, 1000)) || row.Time != int64(n)*1000 || row.Number != n {
				t.Fatalf("packet %d is another: %+v", n, row.Entry)
			}
		}
		p := x.Progress()
		if p.Packets > 2<<20+256<<10 {
			t.Errorf("%d bytes are held, the ring has 2 MiB", p.Packets)
		}
		if p.Gone != first-1 {
			t.Errorf("%d packets are gone, should be %d", p.Gone, first-1)
		}
		if last-first < 1500 {
			t.Errorf("only %d packets are there", last-first+1)
		}
	}
	if x.First() == 1 {
		t.Fatal("nothing ever went")
	}
	var gone *GoneError
	if err := r.At(1, &row); !errors.As(err, &gone) || gone.First != x.First() {
		t.Errorf("the first packet: %v", err)
	}
}

func TestRingSpoolsToDisk(t *testing.T) {
	x, push := live(t, Options{Ring: 1 << 20, SpoolBytes: 8 << 20, SpoolDir: t.TempDir()})
	push(20_000)
	push(0)
	first, last := x.First(), x.Last()
	r := x.NewReader()
	var row Row
	there := 0
	for n := first; n <= last; n++ {
		err := r.At(n, &row)
		if gone := (*GoneError)(nil); errors.As(err, &gone) {
			continue // the disk was too slow
		}
		if err != nil {
			t.Fatal(err)
		}
		there++
		if !bytes.Equal(row.Data, pattern(n, 1000)) {
			t.Fatalf("packet %d is another", n)
		}
	}
	p := x.Progress()
	if p.SpoolErr != nil {
		t.Fatal(p.SpoolErr)
	}
	if uint64(there)+p.Gone != last {
		t.Errorf("%d packets are there and %d gone, together they should be %d", there, p.Gone, last)
	}
	if p.Spooled > 8<<20 {
		t.Errorf("%d bytes are spooled, 8 MiB were allowed", p.Spooled)
	}
}

// TestReadingWhileTheRingTurns has readers, a view and searches at work while the
// oldest packets go: what they get must be right, or be said to be gone.
func TestReadingWhileTheRingTurns(t *testing.T) {
	for _, spool := range []int64{0, 4 << 20} {
		x, push := live(t, Options{Ring: 1 << 20, SpoolBytes: spool, SpoolDir: t.TempDir()})
		v, err := x.Filter(t.Context(), compile(t, "frame.len > 1050"))
		if err != nil {
			t.Fatal(err)
		}
		bytesView, err := x.Filter(t.Context(), compile(t, "eth and frame.len > 1050"))
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var all sync.WaitGroup
		for k := range 3 {
			all.Go(func() {
				r := x.NewReader()
				var row Row
				for i := uint64(0); ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					first, last := x.First(), x.Last()
					if last < first {
						continue
					}
					n := first + i*uint64(7+k)%(last-first+1)
					if k == 0 {
						n = first // the one that goes next
					}
					err := r.At(n, &row)
					if gone := (*GoneError)(nil); errors.As(err, &gone) {
						continue
					}
					if err != nil || !bytes.Equal(row.Data, pattern(n, 1000)) {
						t.Errorf("packet %d is another, %v", n, err)
						return
					}
				}
			})
		}
		for range 20 {
			push(1000)
		}
		push(0)
		close(stop)
		all.Wait()
		for _, view := range []*View{v, bytesView} {
			<-view.Done()
			if ok, err := view.State(); !ok {
				t.Fatal(err)
			}
			for i := range view.Len() {
				n, ok := view.Frame(i)
				if !ok || len(pattern(n, 1000)) <= 1050 || n < x.First() {
					t.Fatalf("number %d of the view is packet %d", i, n)
				}
			}
			if view.Len() == 0 {
				t.Error("the view is empty")
			}
		}
	}
}

// TestAddingAllocatesLittle: something for a batch and for a segment, nothing for a
// packet.
func TestAddingAllocatesLittle(t *testing.T) {
	r, err := newRing(&Options{Ring: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := newWhole()
	var b engine.Batch
	for i := range engine.BatchSize {
		data := pattern(uint64(i), 1000)
		b.Data = append(b.Data, data)
		b.Packets = append(b.Packets, dissect.Packet{Number: uint64(i) + 1, CapLen: uint32(len(data)), WireLen: uint32(len(data))})
		b.Frames = append(b.Frames, captures.Frame{Data: data, Offset: int64(i)*1100 + 24})
	}
	b.Marks = make([]flows.Mark, engine.BatchSize)
	for name, s := range map[string]store{"ring": r, "file": w} {
		n := testing.AllocsPerRun(100, func() {
			if err := s.add(&b); err != nil {
				t.Fatal(err)
			}
		})
		if n > 80 {
			t.Errorf("%s: %v allocations for %d packets", name, n, engine.BatchSize)
		}
	}
}
