package port

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestInterfaceDeleted: who sends or waits learns of it, soon.
func TestInterfaceDeleted(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name+" while sending", func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			p := openIn(t, lab.A, k, Options{SendOnly: true})
			ended := make(chan error, 1)
			started := make(chan bool)
			go func() {
				slots, out := make([]uint32, 64), make([]Out, 64)
				for first := true; ; first = false {
					n := p.Take(slots)
					for i, s := range slots[:n] {
						out[i] = Out{s, int32(roce(p.Room(s), i, 100, false, false))}
					}
					err := p.Send(out[:n])
					if err == nil {
						err = p.Flush()
					}
					if err != nil {
						ended <- err
						return
					}
					if first {
						close(started)
					}
				}
			}()
			<-started
			lab.A.Delete()
			wantGone(t, ended)
			if s := p.Stats(); s.Sent == 0 {
				t.Errorf("counted %+v", s)
			}
		})
		t.Run(k.name+" while receiving", func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			p := openIn(t, lab.A, k, Options{Ring: 2048})
			ended := make(chan error, 1)
			go func() {
				in := make([]In, 10)
				for {
					_, err := p.Receive(in)
					if err == nil {
						err = p.Wait(time.Hour)
					}
					if err != nil {
						ended <- err
						return
					}
				}
			}()
			time.Sleep(20 * time.Millisecond) // it makes no difference whether it waits already, but it should be able to
			lab.A.Delete()
			wantGone(t, ended)
		})
	}
}

// TestInterfaceDownForAWhile: frames wait until it is up again.
func TestInterfaceDownForAWhile(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			from := openIn(t, lab.A, k, Options{Ring: 2048})
			to := openIn(t, lab.B, k, Options{Ring: 2048})
			frame := func(b []byte, n int) int { return roce(b, n, 100, false, false) }
			run(t, from, to, 100, frame)
			lab.A.SetUp(false)
			slots, out := make([]uint32, 50), make([]Out, 50)
			from.Take(slots)
			for i, s := range slots {
				out[i] = Out{s, int32(frame(from.Room(s), i))}
			}
			if err := from.Send(out); !errors.Is(err, ErrDown) {
				t.Fatalf("sent: %v", err)
			}
			if err := from.Flush(); !errors.Is(err, ErrDown) {
				t.Fatalf("flushed: %v", err)
			}
			if err := from.Wait(5 * time.Millisecond); err != nil {
				t.Errorf("waited: %v", err)
			}
			lab.A.SetUp(true)
			if err := from.Flush(); err != nil {
				t.Fatalf("flushed: %v", err)
			}
			in, want, got := make([]In, 60), make([]byte, 100), 0
			for end := time.Now().Add(10 * time.Second); got < 50; to.Wait(time.Millisecond) {
				n, err := to.Receive(in)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range in[:n] {
					if frame(want, got); string(f.Data) != string(want) {
						t.Fatalf("frame %d is another one", got)
					}
					got++
				}
				if time.Now().After(end) {
					t.Fatalf("%d frames arrived; %+v, %+v", got, from.Stats(), to.Stats())
				}
			}
			run(t, to, from, 100, frame)
		})
	}
}

func wantGone(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrGone) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}

// TestOpeningIsRefused says what is wrong, and what to do about it.
func TestOpeningIsRefused(t *testing.T) {
	for _, k := range onInterfaces {
		for _, c := range []struct {
			name    string
			options Options
			before  func(*testkit.Lab)
			is      error
			says    string
		}{
			{"frames longer than the MTU", Options{MaxFrame: 4198}, nil, ErrFrameSize, "ip link set veth0 mtu 4184"},
			{"an interface that is down", Options{}, func(l *testkit.Lab) { l.A.SetUp(false) }, ErrDown, "ip link set veth0 up"},
			{"an interface that is not there", Options{}, func(l *testkit.Lab) { l.A.Delete() }, ErrGone, "ip link"},
		} {
			t.Run(k.name+" "+c.name, func(t *testing.T) {
				lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
				if c.before != nil {
					c.before(lab)
				}
				p, err := tryIn(lab.A, k, c.options)
				if err == nil {
					p.Close()
				}
				if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v", err)
				}
			})
		}
		t.Run(k.name+" without privilege", func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			lab.A.Do(func() { // on a thread that ends with this function
				if err := capabilities(); err != nil {
					t.Error(err)
					return
				}
				_, err := k.open(Options{Interface: lab.A.Iface})
				if !errors.Is(err, ErrPrivilege) || !strings.Contains(err.Error(), "setcap cap_net_raw") {
					t.Errorf("opened: %v", err)
				}
				_, err = Choose(Options{Interface: lab.A.Iface})
				if !errors.Is(err, ErrPrivilege) || !strings.Contains(err.Error(), "setcap cap_net_raw") {
					t.Errorf("chosen: %v", err)
				}
			})
		})
	}
}

// capabilities drops all but some of the thread's.
func capabilities(keep ...int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range keep {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&header, &data[0])
}

// TestFramesAreRefused: what cannot go out is told when it is sent.
func TestFramesAreRefused(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			p := openIn(t, lab.A, k, Options{SendOnly: true})
			slots := make([]uint32, 2)
			p.Take(slots)
			if err := p.Send([]Out{{slots[0], int32(roce(p.Room(slots[0]), 0, 1500+15, false, false))}}); !errors.Is(err, ErrFrameSize) {
				t.Errorf("an untagged frame that is too long: %v", err)
			}
			if err := p.Send([]Out{{slots[1], int32(roce(p.Room(slots[1]), 0, 1500+18, false, true))}}); err != nil {
				t.Errorf("a tagged frame: %v", err)
			}
			if err := p.Send([]Out{{slots[1], 1500 + 19}}); !errors.Is(err, ErrFrameSize) {
				t.Errorf("a frame that is too long: %v", err)
			}
			if err := p.Flush(); err != nil {
				t.Error(err)
			}
			wantReceived(t, lab.B, 1)
		})
	}
}

// TestSecondOnTheQueue: the queue of an AF_XDP port is taken, and the interface's XDP program too.
func TestSecondOnTheQueue(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
	xdp := onInterfaces[0]
	first := openIn(t, lab.A, xdp, Options{Ring: 2048})
	for _, o := range []Options{{Ring: 2048}, {SendOnly: true}} {
		p, err := tryIn(lab.A, xdp, o)
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "another AF_XDP socket has this queue") {
			t.Errorf("got %v", err)
		}
	}
	lab.A.Do(func() {
		c, err := Choose(Options{Interface: lab.A.Iface})
		if err != nil || c.Name != ViaPacket || !strings.Contains(c.Why, "not xdp: ") {
			t.Errorf("beside it, %q is chosen, %v", c.Why, err)
		}
	})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openIn(t, lab.A, xdp, Options{Ring: 2048})
}

// TestPortsOfQueues: one program serves a port on each queue, until the last is closed.
func TestPortsOfQueues(t *testing.T) {
	const queues, frames = 3, 500
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 4200, Queues: queues})
	var from, to []*XDP
	lab.A.Do(func() {
		ports, err := OpenXDP(Options{Interface: lab.A.Iface, Queues: queues, SendOnly: true})
		if err != nil {
			t.Error(err)
		}
		from = ports
	})
	lab.B.Do(func() {
		ports, err := OpenXDP(Options{Interface: lab.B.Iface, Ring: 3 * 2048}) // all that there are
		if err != nil {
			t.Error(err)
		}
		to = ports
	})
	if len(from) != queues || len(to) != queues {
		t.Fatalf("%d and %d ports", len(from), len(to))
	}
	for q := range queues { // a virtual link keeps queues apart
		if from[q].Info().Queue != q || to[q].Info().Queue != q {
			t.Fatalf("port %d is on queue %d, %d", q, from[q].Info().Queue, to[q].Info().Queue)
		}
		run(t, from[q], to[q], frames, mixed)
		if s := to[q].Stats(); s.Received != frames {
			t.Errorf("queue %d: %+v", q, s)
		}
		if q > 0 { // the program stays when others are closed
			if err := to[q-1].Close(); err != nil {
				t.Error(err)
			}
		}
	}
	to[queues-1].Close()
	for _, p := range from {
		p.Close()
	}
	// Nothing stays behind.
	lab.B.Do(func() {
		ports, err := OpenXDP(Options{Interface: lab.B.Iface, Queue: 1, Queues: 1, Ring: 2048})
		if err != nil {
			t.Error(err)
			return
		}
		ports[0].Close()
		if _, err := OpenXDP(Options{Interface: lab.B.Iface, Queue: 7, Queues: 1, Ring: 2048}); err == nil || !strings.Contains(err.Error(), "queue 7") {
			t.Errorf("a queue that is not there: %v", err)
		}
	})
}

// TestSlowFarEnd: the far end of a virtual link drops what it has no room for, although it was completed. It is counted, and
// told.
func TestSlowFarEnd(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
	far := openIn(t, lab.B, onInterfaces[0], Options{Ring: 32768})
	lab.B.Do(func() { threaded(t, lab.B.Iface) })
	p := openIn(t, lab.A, onInterfaces[0], Options{SendOnly: true, Slots: 2048, Batch: 2048}).(*XDP)
	// Usually the socket's own buffer limit holds it back just before the far end's ring of 256 is full.
	if err := unix.SetsockoptInt(p.sock.FD(), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20); err != nil {
		t.Skip(err)
	}
	const frames = 20000
	slots, out := make([]uint32, 2048), make([]Out, 2048)
	for sent := 0; sent < frames; {
		n := p.Take(slots[:min(2048, frames-sent)])
		for i, s := range slots[:n] {
			out[i] = Out{s, int32(roce(p.Room(s), sent+i, 100, false, false))}
		}
		if err := p.Send(out[:n]); err != nil {
			t.Fatal(err)
		}
		if sent += n; n == 0 {
			p.Flush()
		}
	}
	for p.Stats().Outstanding > 0 {
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	in, settled := make([]In, 256), p.Stats().Sent
	for end := time.Now().Add(10 * time.Second); far.Stats().Received < settled && time.Now().Before(end); far.Wait(time.Millisecond) {
		if _, err := far.Receive(in); err != nil {
			t.Fatal(err)
		}
	}
	p.Close() // so that the link's counters are the last ones
	s, r := p.Stats(), far.Stats()
	t.Logf("sender %+v, receiver %+v", s, r)
	if s.Sent+s.SendLost != frames || r.Received+r.RecvLost != s.Sent {
		t.Errorf("%d frames: sender %+v, receiver %+v", frames, s, r)
	}
	if s.SendLost == 0 {
		t.Skip("this time the far end kept up")
	}
	if s.LinkDropped != s.SendLost {
		t.Errorf("the link counted %d drops, we %d", s.LinkDropped, s.SendLost)
	}
	if told := Trouble(p.Info(), s); len(told) != 1 || !strings.Contains(told[0], "tc qdisc replace dev veth0 root pfifo") {
		t.Errorf("told: %q", told)
	}
}

// threaded makes the receiving half of a virtual interface run on a kernel thread of its own.
func threaded(t *testing.T, name string) {
	t.Helper()
	// The file is that of the test's namespace only where sysfs is mounted in it; a private mount does not reach anybody else.
	dir := t.TempDir()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("sysfs", dir, "sysfs", 0, "")
	}
	if err == nil {
		err = os.WriteFile(dir+"/class/net/"+name+"/threaded", []byte(strconv.Itoa(1)), 0o644)
	}
	if err != nil {
		t.Logf("no threaded receiver: %v", err)
	}
}

// TestReceiverOverflows: what finds no room is counted.
func TestReceiverOverflows(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			from := openIn(t, lab.A, k, Options{SendOnly: true})
			to := openIn(t, lab.B, k, Options{Ring: 2048})
			const frames = 6000
			slots, out := make([]uint32, 64), make([]Out, 64)
			for sent := 0; sent < frames; {
				n := from.Take(slots[:min(64, frames-sent)])
				for i, s := range slots[:n] {
					out[i] = Out{s, int32(roce(from.Room(s), sent+i, 100, false, false))}
				}
				if err := from.Send(out[:n]); err != nil {
					t.Fatal(err)
				}
				sent += n
				from.Flush()
			}
			wantReceived(t, lab.B, frames)
			in, got := make([]In, 100), 0
			for end := time.Now().Add(10 * time.Second); to.Stats().Received+to.Stats().RecvLost < frames && time.Now().Before(end); {
				n, err := to.Receive(in)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range in[:n] { // the first ones had room
					if want := make([]byte, 100); got < 2048 && (roce(want, got, 100, false, false) != len(f.Data) || string(want) != string(f.Data)) {
						t.Fatalf("frame %d is another one", got)
					}
					got++
				}
			}
			s := to.Stats()
			if got < 2048 || s.Received != uint64(got) || s.Received+s.RecvLost != frames {
				t.Errorf("received %d; %+v", got, s)
			}
			if told := Trouble(to.Info(), s); len(told) != 1 || !strings.Contains(told[0], "found no room") {
				t.Errorf("told: %q", told)
			}
		})
	}
}

// TestBothHalvesAtOnce: one goroutine sends, one receives, and somebody looks at the counters.
func TestBothHalvesAtOnce(t *testing.T) {
	const frames = 5000
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 4200})
			ports := []Port{openIn(t, lab.A, k, Options{Ring: 16384}), openIn(t, lab.B, k, Options{Ring: 16384})}
			done := make(chan error, 4)
			for _, p := range ports {
				go func() {
					slots, out := make([]uint32, 64), make([]Out, 64)
					for sent := 0; sent < frames; {
						n := p.Take(slots[:min(64, frames-sent)])
						for i, s := range slots[:n] {
							out[i] = Out{s, int32(mixed(p.Room(s), sent+i))}
						}
						err := p.Send(out[:n])
						if err == nil && n == 0 {
							err = p.Flush()
						}
						if err != nil {
							done <- err
							return
						}
						sent += n
					}
					done <- p.Flush()
				}()
				go func() {
					in, want := make([]In, 64), make([]byte, 5000)
					for got := 0; got < frames; {
						n, err := p.Receive(in)
						if n == 0 && err == nil {
							if s := p.Stats(); s.RecvLost > 0 {
								err = fmt.Errorf("lost: %+v", s)
							} else {
								err = p.Wait(time.Second)
							}
						}
						if err != nil {
							done <- err
							return
						}
						for _, f := range in[:n] {
							if length := mixed(want, got); string(f.Data) != string(want[:length]) {
								done <- fmt.Errorf("frame %d is another one", got)
								return
							}
							got++
						}
					}
					done <- nil
				}()
			}
			for range 4 {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("stuck: %+v, %+v", ports[0].Stats(), ports[1].Stats())
				}
			}
		})
	}
}

// TestSendsWithoutPrivilege: once open, nothing of it is needed.
func TestSendsWithoutPrivilege(t *testing.T) {
	for _, k := range onInterfaces {
		t.Run(k.name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
			from := openIn(t, lab.A, k, Options{Ring: 2048})
			to := openIn(t, lab.B, k, Options{Ring: 2048})
			lab.A.Do(func() {
				if err := capabilities(); err != nil {
					t.Error(err)
					return
				}
				run(t, from, to, 500, func(b []byte, n int) int { return roce(b, n, 100, false, false) })
				if s := from.Stats(); s.Sent != 500 || s.Received != 0 {
					t.Errorf("counted %+v", s)
				}
				if err := from.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func ExampleTrouble() {
	for _, s := range Trouble(Info{Interface: "eth0"}, Stats{Received: 100, RecvLost: 3}) {
		fmt.Println(s)
	}
	// Output: eth0: 3 frames arrived and found no room, 100 were received: make the ring larger, or give the receiver a core of its own
}
