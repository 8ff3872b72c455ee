package port

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"
)

// fill writes a frame that says its number.
func fill(room []byte, number, length int) Out {
	clear(room[:length])
	copy(room, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x88\xb5")
	binary.BigEndian.PutUint32(room[14:], uint32(number))
	return Out{Len: int32(length)}
}

// sendNumbered sends frames first to end of a length, as far as there are slots, and says where it got to.
func sendNumbered(t testing.TB, p Port, first, end, length int) int {
	t.Helper()
	slots := make([]uint32, 64)
	frames := make([]Out, 64)
	n := p.Take(slots[:min(64, end-first)])
	for i, s := range slots[:n] {
		frames[i] = fill(p.Room(s), first+i, length)
		frames[i].Slot = s
	}
	if err := p.Send(frames[:n]); err != nil {
		t.Fatal(err)
	}
	return first + n
}

func number(f []byte) int { return int(binary.BigEndian.Uint32(f[14:])) }

func TestMemoryInTurns(t *testing.T) {
	clock := int64(1000)
	a, b := Pair(MemoryOptions{Slots: 8, Clock: func() int64 { return clock }})
	in := make([]In, 5)
	sent, received := 0, 0
	for received < 100 {
		clock += 10
		sent = sendNumbered(t, a, sent, 100, 60+sent)
		n, err := b.Receive(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in[:n] {
			if number(f.Data) != received {
				t.Fatalf("frame %d came in place of frame %d", number(f.Data), received)
			}
			if f.Time > clock || f.Time%10 != 0 {
				t.Fatalf("frame %d arrived at %d, it is %d", received, f.Time, clock)
			}
			received++
		}
		if err := b.Wait(time.Hour); err != nil { // a driven pair does not sleep
			t.Fatal(err)
		}
	}
	if Clock(a)() != clock {
		t.Errorf("it is %d, want %d", Clock(a)(), clock)
	}
	sa, sb := a.Stats(), b.Stats()
	if sa.Sent != 100 || sb.Received != 100 || sa.SentBytes != sb.RecvBytes || sa.SendLost+sb.RecvLost != 0 || sa.Outstanding != 0 {
		t.Errorf("sender %+v, receiver %+v", sa, sb)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	a, b := Pair(MemoryOptions{Slots: 5})
	if n := sendNumbered(t, a, 0, 10, 64); n != 5 {
		t.Fatalf("%d frames found a slot, want 5", n)
	}
	if n := a.Take(make([]uint32, 1)); n != 0 {
		t.Fatal("a slot is free although all frames are on their way")
	}
	in := make([]In, 10)
	if n, _ := b.Receive(in); n != 5 {
		t.Fatalf("received %d", n)
	}
	if n := a.Take(make([]uint32, 1)); n != 0 {
		t.Fatal("a slot came back while its frame is borrowed")
	}
	if n, _ := b.Receive(in); n != 0 {
		t.Fatalf("received %d more", n)
	}
	if n := a.Take(make([]uint32, 10)); n != 5 {
		t.Fatalf("%d slots came back, want 5", n)
	}
}

// TestMemoryKeepsBytes: a slot's bytes are what was written last, so that only differences need be written.
func TestMemoryKeepsBytes(t *testing.T) {
	a, b := Pair(MemoryOptions{Slots: 1})
	in := make([]In, 1)
	slot := make([]uint32, 1)
	a.Take(slot)
	fill(a.Room(slot[0]), 7, 64)
	for i := range 3 {
		a.Room(slot[0])[20] = byte(i)
		if err := a.Send([]Out{{slot[0], 64}}); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Receive(in); n != 1 || err != nil || number(in[0].Data) != 7 || in[0].Data[20] != byte(i) {
			t.Fatalf("got %d frames, %v, %x", n, err, in[0].Data)
		}
		b.Receive(in)
		if a.Take(slot) != 1 {
			t.Fatal("the slot did not come back")
		}
	}
}

// TestMemoryBetweenGoroutines moves frames both ways at once, with four goroutines.
func TestMemoryBetweenGoroutines(t *testing.T) {
	const frames = 20000
	a, b := Pair(MemoryOptions{Slots: 256})
	done := make(chan error, 4)
	for _, ends := range [][2]*Memory{{a, b}, {b, a}} {
		go func() {
			slots, out := make([]uint32, 32), make([]Out, 32)
			for i := 0; i < frames; {
				n := ends[0].Take(slots[:min(32, frames-i)])
				for k, s := range slots[:n] {
					out[k] = fill(ends[0].Room(s), i+k, 64)
					out[k].Slot = s
				}
				if err := ends[0].Send(out[:n]); err != nil {
					done <- err
					return
				}
				if i += n; n == 0 {
					time.Sleep(10 * time.Microsecond)
				}
			}
			done <- nil
		}()
		go func() {
			in := make([]In, 50)
			for i := 0; i < frames; {
				n, err := ends[1].Receive(in)
				if n == 0 && err == nil {
					err = ends[1].Wait(time.Second)
				}
				if err != nil {
					done <- err
					return
				}
				for _, f := range in[:n] {
					if number(f.Data) != i {
						done <- errors.New("out of order")
						return
					}
					i++
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemoryWakesAndCloses(t *testing.T) {
	a, b := Pair(MemoryOptions{})
	woken := make(chan error)
	go func() { woken <- b.Wait(time.Hour) }()
	sendNumbered(t, a, 0, 1, 64)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	in := make([]In, 4)
	if n, err := b.Receive(in); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	go func() { woken <- b.Wait(time.Hour) }()
	sendNumbered(t, a, 1, 2, 64)
	a.Close()
	<-woken
	if n, err := b.Receive(in); n != 1 || err != nil {
		t.Fatalf("what was sent before closing: %d frames, %v", n, err)
	}
	if _, err := b.Receive(in); !errors.Is(err, ErrGone) {
		t.Errorf("receive from a closed end: %v", err)
	}
	if err := b.Wait(time.Hour); !errors.Is(err, ErrGone) {
		t.Errorf("wait for a closed end: %v", err)
	}
	if err := b.Send(nil); !errors.Is(err, ErrGone) {
		t.Errorf("send to a closed end: %v", err)
	}
	if err := a.Send(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("send on a closed end: %v", err)
	}
	if _, err := a.Receive(in); !errors.Is(err, ErrClosed) {
		t.Errorf("receive on a closed end: %v", err)
	}
}

func TestMemoryRefusesFrames(t *testing.T) {
	a, b := Pair(MemoryOptions{Slots: 4, MaxFrame: 100})
	for _, c := range []struct {
		frame Out
		is    error
	}{{Out{0, 101}, ErrFrameSize}, {Out{0, 13}, nil}, {Out{4, 60}, nil}} {
		err := a.Send([]Out{c.frame})
		if err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%+v: %v", c.frame, err)
		}
	}
	if n, err := b.Receive(make([]In, 4)); n != 0 || err != nil {
		t.Errorf("received %d, %v", n, err)
	}
	if !bytes.Equal(a.Room(0), make([]byte, 100)) {
		t.Error("the room is not 100 bytes")
	}
}

func TestMemoryDoesNotAllocate(t *testing.T) {
	a, b := Pair(MemoryOptions{})
	slots, frames, in := make([]uint32, 64), make([]Out, 64), make([]In, 64)
	if n := testing.AllocsPerRun(100, func() { turn(t, a, b, slots, frames, in) }); n != 0 {
		t.Errorf("%v allocations for 64 frames", n)
	}
}

// turn sends a batch and receives it.
func turn(t testing.TB, a, b Port, slots []uint32, frames []Out, in []In) {
	n := a.Take(slots)
	for i, s := range slots[:n] {
		frames[i] = Out{s, 64}
	}
	if err := a.Send(frames[:n]); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Receive(in); got != n || err != nil {
		t.Fatalf("received %d of %d, %v", got, n, err)
	}
}

func ExamplePair() {
	a, b := Pair(MemoryOptions{})

	slots := make([]uint32, 1)
	a.Take(slots)
	n := copy(a.Room(slots[0]), "an Ethernet frame")
	if err := a.Send([]Out{{Slot: slots[0], Len: int32(n)}}); err != nil {
		fmt.Println(err)
	}

	in := make([]In, 8)
	n, err := b.Receive(in)
	fmt.Printf("%d: %s %v\n", n, in[0].Data, err)
	// Output: 1: an Ethernet frame <nil>
}

func BenchmarkMemory(bench *testing.B) {
	a, b := Pair(MemoryOptions{})
	slots, frames, in := make([]uint32, 64), make([]Out, 64), make([]In, 64)
	b.Receive(in)
	bench.ReportAllocs()
	for i := 0; i < bench.N; i += 64 {
		turn(bench, a, b, slots, frames, in)
	}
}
