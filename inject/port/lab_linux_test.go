package port

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rocescope/rocescope/internal/testkit"
)

// opener opens ports of one kind that has an interface.
type opener struct {
	name string
	open func(Options) ([]Port, error)
}

// onInterfaces are the kinds that tests in network namespaces go through.
var onInterfaces = []opener{
	{"xdp", func(o Options) ([]Port, error) { return listed(OpenXDP(o)) }},
	{"packet", func(o Options) ([]Port, error) { return alone(OpenPacket(o)) }},
}

// openIn opens a port in a namespace, until the test ends.
func openIn(t testing.TB, n *testkit.Namespace, k opener, o Options) Port {
	t.Helper()
	p, err := tryIn(n, k, o)
	if errors.Is(err, ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func tryIn(n *testkit.Namespace, k opener, o Options) (p Port, err error) {
	o.Interface = n.Iface
	n.Do(func() {
		var all []Port
		if all, err = k.open(o); err == nil {
			p = all[0]
		}
	})
	return p, err
}

// run sends frames from one port to another and compares what arrives, byte by byte and in order.
func run(t testing.TB, from, to Port, frames int, write shape) {
	t.Helper()
	slots, out, in := make([]uint32, 64), make([]Out, 64), make([]In, 100)
	want := make([]byte, from.Info().MaxFrame)
	sent, received := 0, 0
	for deadline := time.Now().Add(20 * time.Second); received < frames; {
		n := from.Take(slots[:min(64, frames-sent)])
		for i, s := range slots[:n] {
			out[i] = Out{s, int32(write(from.Room(s), sent+i))}
		}
		if err := from.Send(out[:n]); err != nil {
			t.Fatal(err)
		}
		sent += n
		if n == 0 {
			if err := from.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := to.Receive(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in[:got] {
			length := write(want, received)
			if !bytes.Equal(f.Data, want[:length]) {
				t.Fatalf("frame %d of %d bytes: got %d bytes\n%x\nwant\n%x", received, length, len(f.Data), f.Data, want[:length])
			}
			if age := time.Since(time.Unix(0, f.Time)); age < -time.Second || age > 20*time.Second {
				t.Fatalf("frame %d arrived %v ago", received, age)
			}
			received++
		}
		if got == 0 {
			if err := to.Wait(10 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d frames arrived; sender %+v, receiver %+v", received, frames, from.Stats(), to.Stats())
		}
	}
	if n, err := to.Receive(in); n != 0 || err != nil {
		t.Fatalf("%d frames too many, %v", n, err)
	}
}

// wantReceived compares the interface's own count, which it makes a moment after the frames are there.
func wantReceived(t testing.TB, n *testkit.Namespace, frames uint64) {
	t.Helper()
	got := n.Received()
	for end := time.Now().Add(10 * time.Second); got < frames && time.Now().Before(end); got = n.Received() {
		time.Sleep(time.Millisecond)
	}
	if got != frames {
		t.Errorf("the interface received %d frames, want %d", got, frames)
	}
}

// TestFramesArrive sends through each kind and receives through each kind: every frame arrives once, in order, unchanged.
func TestFramesArrive(t *testing.T) {
	const frames = 4 * 11 * 20
	for _, k := range onInterfaces {
		for _, l := range onInterfaces {
			t.Run(k.name+" to "+l.name, func(t *testing.T) {
				lab := testkit.NewLab(t, testkit.LabOptions{MTU: 4200})
				from := openIn(t, lab.A, k, Options{Ring: 2048})
				to := openIn(t, lab.B, l, Options{Ring: 2048})
				run(t, from, to, frames, mixed)
				run(t, to, from, frames, mixed)
				s, r := from.Stats(), to.Stats()
				if s.Sent != frames || r.Received != frames || s.Received != frames || r.Sent != frames {
					t.Errorf("counted %+v and %+v, want %d each way", s, r, frames)
				}
				if s.SentBytes != r.RecvBytes || s.SendLost+r.SendLost+s.RecvLost+r.RecvLost != 0 || s.LinkDropped != 0 {
					t.Errorf("counted %+v and %+v", s, r)
				}
				wantReceived(t, lab.B, frames)
			})
		}
	}
}

// TestEveryLengthArrives: whatever memory is cut into, no length is special.
func TestEveryLengthArrives(t *testing.T) {
	const mtu, least = 4200, 64
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: mtu})
			from := openIn(t, lab.A, k, Options{SendOnly: true})
			to := openIn(t, lab.B, k, Options{Ring: 4096})
			run(t, from, to, mtu+18+1-least, func(b []byte, n int) int { return roce(b, n, least+n, false, least+n > mtu+14) })
		})
	}
}

// TestSmallFramesArrive: with frames that fit into one page, and an MTU that is larger or not.
func TestSmallFramesArrive(t *testing.T) {
	for _, k := range onInterfaces {
		for _, mtu := range []int{1500, 9000} {
			t.Run(fmt.Sprint(k.name, " ", mtu), func(t *testing.T) {
				lab := testkit.NewLab(t, testkit.LabOptions{MTU: mtu})
				from := openIn(t, lab.A, k, Options{MaxFrame: 1200, Slots: 100, SendOnly: true})
				to := openIn(t, lab.B, k, Options{Ring: 2048})
				run(t, from, to, 3000, func(b []byte, n int) int { return roce(b, n, 70+n%1130, false, false) })
				if from.Info().Receives || !to.Info().Receives {
					t.Error("who receives is mixed up")
				}
			})
		}
	}
}

// TestOnlyWhatWasAskedFor: RoCE arrives in any case; pause frames, TCP and all else only on request.
func TestOnlyWhatWasAskedFor(t *testing.T) {
	plain := func(b []byte, n int) int { return roce(b, n, 80, false, false) }
	patched := func(patch func(b []byte)) shape {
		return func(b []byte, n int) int {
			length := plain(b, n)
			patch(b)
			return length
		}
	}
	pause := patched(func(b []byte) { b[12], b[13] = 0x88, 0x08 })
	arp := patched(func(b []byte) { b[12], b[13] = 0x08, 0x06 })
	v1 := patched(func(b []byte) { b[12], b[13] = 0x89, 0x15 })
	tcp := patched(func(b []byte) { b[23], b[36], b[37] = 6, 18515>>8, 18515&0xFF })
	tagged := func(b []byte, n int) int { // twice
		length := roce(b, n, 84, n&1 != 0, true)
		copy(b[16:], b[12:length])
		copy(b[12:], "\x88\xa8\x00\x07")
		return length + 4
	}
	for _, c := range []struct {
		name    string
		options Options
		comes   []shape
		not     []shape
	}{
		{"RoCE", Options{}, []shape{plain, v1, tagged}, []shape{pause, arp, tcp}},
		{"and pause frames", Options{Pause: true}, []shape{plain, pause}, []shape{arp, tcp}},
		{"and TCP", Options{TCPPorts: []uint16{18515}}, []shape{plain, tcp}, []shape{arp, pause}},
		{"everything", Options{All: true}, []shape{plain, v1, tagged, pause, arp, tcp}, nil},
	} {
		for _, k := range onInterfaces {
			t.Run(k.name+" "+c.name, func(t *testing.T) {
				lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
				from := openIn(t, lab.A, k, Options{SendOnly: true})
				c.options.Ring = 2048
				to := openIn(t, lab.B, k, c.options)
				slots := make([]uint32, 1)
				for i, write := range c.not {
					from.Take(slots)
					if err := from.Send([]Out{{slots[0], int32(write(from.Room(slots[0]), 1000+i))}}); err != nil {
						t.Fatal(err)
					}
				}
				run(t, from, to, 10*len(c.comes), func(b []byte, n int) int { return c.comes[n%len(c.comes)](b, n) })
			})
		}
	}
}

// TestPortsDoNotAllocate, neither to send nor to receive.
func TestPortsDoNotAllocate(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 4200})
			from := openIn(t, lab.A, k, Options{SendOnly: true})
			to := openIn(t, lab.B, k, Options{Ring: 4096})
			slots, out, in := make([]uint32, 64), make([]Out, 64), make([]In, 64)
			got := 0
			if n := testing.AllocsPerRun(50, func() {
				n := from.Take(slots)
				for i, s := range slots[:n] {
					out[i] = Out{s, int32(roce(from.Room(s), i, 100+i%2*4070, false, false))}
				}
				if err := from.Send(out[:n]); err != nil {
					t.Fatal(err)
				}
				if err := from.Flush(); err != nil {
					t.Fatal(err)
				}
				if err := to.Wait(time.Second); err != nil {
					t.Fatal(err)
				}
				m, err := to.Receive(in)
				if err != nil {
					t.Fatal(err)
				}
				got += m
			}); n != 0 {
				t.Errorf("%v allocations for 64 frames", n)
			}
			if got == 0 {
				t.Error("nothing was received")
			}
			if n := testing.AllocsPerRun(1000, func() { from.Stats(); to.Stats() }); n != 0 {
				t.Errorf("%v allocations to look at the counters", n)
			}
		})
	}
}

// TestWaitingDoesNotAllocate, nor does it return early.
func TestWaitingDoesNotAllocate(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			p := openIn(t, lab.A, k, Options{Ring: 2048})
			shortest := time.Hour
			if n := testing.AllocsPerRun(50, func() {
				began := time.Now()
				if err := p.Wait(20 * time.Microsecond); err != nil {
					t.Fatal(err)
				}
				shortest = min(shortest, time.Since(began))
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if shortest < 20*time.Microsecond {
				t.Errorf("it waited %v", shortest)
			}
			t.Logf("20 µs took %v at best", shortest)
		})
	}
}
