package xsk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// TestEveryFrameArrivesOnce sends frames of all shapes from one socket to another and compares each with what was sent. It
// counts at the receiver: a completion only says that the kernel is done with a chunk.
func TestEveryFrameArrivesOnce(t *testing.T) {
	lengths := []int{60, 78, 1098, 3840, 3841, 4096, 4097, 4154, 4198}
	for _, c := range []struct {
		name   string
		attach AttachMode
		umem   UMEMOptions
		budget int
		always bool
	}{
		{"native", AttachNative, UMEMOptions{}, 0, false},
		{"native, chunks of 2048", AttachNative, UMEMOptions{ChunkSize: 2048}, 0, false},
		{"native, budget", AttachNative, UMEMOptions{}, 256, false},
		{"native, no need-wakeup", AttachNative, UMEMOptions{}, 0, true},
		{"native, metadata area", AttachNative, UMEMOptions{TxMetadata: true}, 0, false},
		{"native, headroom", AttachNative, UMEMOptions{Headroom: 64}, 0, false},
		{"generic", AttachGeneric, UMEMOptions{}, 0, false},
		{"generic, chunks of 2048", AttachGeneric, UMEMOptions{ChunkSize: 2048}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			newWire(t, 9000, 1)
			if c.umem.Chunks == 0 {
				c.umem.Chunks = 4096
			}
			p := attachProgram(t, right, ProgramOptions{}, c.attach)
			rx := receiver(t, p, Options{Interface: right, UMEM: newTestUMEM(t, c.umem), RX: 4096, RXChunks: 4096, MultiBuffer: true, AlwaysKick: c.always})
			u := newTestUMEM(t, c.umem)
			tx := openSocket(t, Options{Interface: left, UMEM: u, TX: 512, MultiBuffer: true, TxBudget: c.budget, AlwaysKick: c.always, MaxFrame: 4198})
			if tx.Info().Mode != Copy || rx.Info().Mode != Copy {
				t.Errorf("modes %v and %v on a virtual interface", tx.Info().Mode, rx.Info().Mode)
			}

			const frames = 2000
			want := make([][]byte, frames)
			for i := range want {
				o := frameOptions{mark: uint32(i), length: lengths[i%len(lengths)], ipv6: i%3 == 1}
				if i%5 == 0 {
					o.vlan = []uint16{etherTypeVLAN}
				}
				if i%7 == 0 {
					o.vlan = []uint16{etherTypeService, etherTypeVLAN}
				}
				want[i] = o.build(nil)
			}
			free, _ := u.Take(1024)
			done := make([]uint64, 64)
			next, checked := 0, 0
			check := func(frame []byte) {
				if checked < frames && !bytes.Equal(frame, want[checked]) {
					t.Errorf("frame %d: %d bytes with mark %d, want %d bytes", checked, len(frame), binary.BigEndian.Uint32(frame[len(frame)-4:]), len(want[checked]))
				}
				checked++
			}
			packets := make([]Packet, 64)
			buffer := make([]byte, 0, 8192)
			receive := func() {
				n := rx.Receive(packets)
				for _, p := range packets[:n] {
					buffer = rx.Append(buffer[:0], p)
					check(buffer)
				}
				rx.Release()
			}
			for end := time.Now().Add(20 * time.Second); (next < frames || tx.TX.Pending() > 0) && time.Now().Before(end) && !t.Failed(); {
				// No more on the way than the far end's ring of 256 has room for, should its half run late.
				for next < frames && next-checked < 192 {
					size := u.ChunkSize() - u.TxDataOffset()
					need := (len(want[next]) + size - 1) / size
					if len(free) < need || tx.TX.Free() < need {
						break
					}
					if n := tx.Queue(place(u, free, want[next])); n != need {
						t.Fatalf("%d of %d descriptors queued", n, need)
					}
					free = free[need:]
					next++
				}
				if _, err := tx.Kick(); err != nil {
					t.Fatal(err)
				}
				n := tx.Reap(done)
				for _, a := range done[:n] {
					free = append(free, a&u.mask)
				}
				receive()
			}
			for end := time.Now().Add(time.Second); checked < frames && time.Now().Before(end); {
				rx.Wait(10 * time.Millisecond)
				receive()
			}
			time.Sleep(10 * time.Millisecond)
			receive()
			if checked != frames {
				t.Errorf("%d of %d frames received", checked, frames)
			}
			if ok, err := tx.Drain(time.Second); !ok || err != nil {
				t.Errorf("drained: %v, %v", ok, err)
			}
			s, r, got := stats(t, tx), stats(t, rx), counters(t, p)
			if s.TxPackets != frames || s.TxCompleted != s.TxDescs || s.TxInvalid != 0 || s.TxRefused != 0 {
				t.Errorf("sender: %+v", s)
			}
			if r.RxPackets != frames || r.RxLost() != 0 || r.RxBroken != 0 {
				t.Errorf("receiver: %+v", r)
			}
			if got[RedirectedRoCEv2] != frames {
				t.Errorf("program: %v", got)
			}
		})
	}
}

// TestLongFrameComesInParts pins how the kernel divides a frame in copy mode.
func TestLongFrameComesInParts(t *testing.T) {
	w := newWire(t, 4500, 1)
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	rx := receiver(t, p, Options{Interface: right, RX: 64, MultiBuffer: true})
	send(t, w.left, frameOptions{length: 4198}.build(nil))
	var packets [2]Packet
	if ready, err := rx.Wait(time.Second); !ready {
		t.Fatalf("nothing came: %v", err)
	}
	if n := rx.Receive(packets[:]); n != 1 || packets[0].Descs != 2 || len(rx.Part(packets[0], 0)) != 3840 || len(rx.Part(packets[0], 1)) != 358 {
		t.Errorf("%d packets, %+v", n, packets[0])
	}
	rx.Release()
}

// TestWhatIsRedirected sends one frame of each kind as the kernel would, and looks at the verdicts and at who got it.
func TestWhatIsRedirected(t *testing.T) {
	ports := ProgramOptions{TCPPorts: []uint16{18515, 4420}}
	for _, c := range []struct {
		name    string
		program ProgramOptions
		frame   frameOptions
		want    Verdict
	}{
		{"RoCE v2 over IPv4", ProgramOptions{}, frameOptions{}, RedirectedRoCEv2},
		{"RoCE v2 over IPv6", ProgramOptions{}, frameOptions{ipv6: true}, RedirectedRoCEv2},
		{"one tag", ProgramOptions{}, frameOptions{vlan: []uint16{0x8100}}, RedirectedRoCEv2},
		{"one tag, IPv6", ProgramOptions{}, frameOptions{vlan: []uint16{0x8100}, ipv6: true}, RedirectedRoCEv2},
		{"two tags", ProgramOptions{}, frameOptions{vlan: []uint16{0x88A8, 0x8100}}, RedirectedRoCEv2},
		{"two tags, IPv6", ProgramOptions{}, frameOptions{vlan: []uint16{0x88A8, 0x8100}, ipv6: true}, RedirectedRoCEv2},
		{"three tags", ProgramOptions{}, frameOptions{vlan: []uint16{0x88A8, 0x8100, 0x8100}}, PassedOther},
		{"IPv4 options", ProgramOptions{}, frameOptions{options: 40}, RedirectedRoCEv2},
		{"hop-by-hop options", ProgramOptions{}, frameOptions{ipv6: true, options: 24}, RedirectedRoCEv2},
		{"routing header", ProgramOptions{}, frameOptions{ipv6: true, options: 8, extension: 43}, RedirectedRoCEv2},
		{"destination options", ProgramOptions{}, frameOptions{ipv6: true, options: 8, extension: 60}, RedirectedRoCEv2},
		{"first fragment, IPv6", ProgramOptions{}, frameOptions{ipv6: true, options: 8, extension: 44}, RedirectedRoCEv2},
		{"later fragment, IPv4", ProgramOptions{}, frameOptions{fragment: 100}, PassedFragment},
		{"later fragment, IPv6", ProgramOptions{}, frameOptions{ipv6: true, fragment: 100, extension: 44}, PassedFragment},
		{"later fragment of another protocol", ProgramOptions{}, frameOptions{fragment: 100, protocol: 47}, PassedOther},
		{"another UDP port", ProgramOptions{}, frameOptions{port: 4790}, PassedOther},
		{"from port 4791 to another", ProgramOptions{}, frameOptions{source: 4791, port: 53}, PassedOther},
		{"RoCE v1", ProgramOptions{}, frameOptions{etherType: 0x8915}, RedirectedRoCEv1},
		{"RoCE v1, tagged", ProgramOptions{}, frameOptions{etherType: 0x8915, vlan: []uint16{0x8100}}, RedirectedRoCEv1},
		{"pause", ProgramOptions{Pause: true}, frameOptions{etherType: 0x8808}, RedirectedPause},
		{"pause, not asked for", ProgramOptions{}, frameOptions{etherType: 0x8808}, PassedOther},
		{"ARP", ProgramOptions{}, frameOptions{etherType: 0x0806}, PassedOther},
		{"TCP to a port", ports, frameOptions{protocol: 6, port: 4420}, RedirectedTCP},
		{"TCP from a port", ports, frameOptions{protocol: 6, port: 33000, source: 18515}, RedirectedTCP},
		{"TCP over IPv6", ports, frameOptions{protocol: 6, port: 4420, ipv6: true}, RedirectedTCP},
		{"TCP, other ports", ports, frameOptions{protocol: 6, port: 443}, PassedOther},
		{"TCP to 4791", ports, frameOptions{protocol: 6}, PassedOther},
		{"TCP, not asked for", ProgramOptions{}, frameOptions{protocol: 6, port: 4420}, PassedOther},
		{"UDP beside TCP ports", ports, frameOptions{}, RedirectedRoCEv2},
		{"UDP to a TCP port", ports, frameOptions{port: 4420}, PassedOther},
		{"UDP cut off", ProgramOptions{}, frameOptions{length: 14 + 20 + 8 - 3}, PassedShort},
		{"everything", ProgramOptions{All: true}, frameOptions{etherType: 0x0806}, RedirectedAny},
	} {
		for _, mode := range []AttachMode{AttachNative, AttachGeneric} {
			t.Run(fmt.Sprintf("%s, %v", c.name, mode), func(t *testing.T) {
				w := newWire(t, 1500, 1)
				p := attachProgram(t, right, c.program, mode)
				rx := receiver(t, p, Options{Interface: right, RX: 64})
				frame := c.frame.build(nil)
				if n := c.frame.length; n > 0 && n < len(frame) {
					frame = frame[:n]
				}
				send(t, w.left, frame)
				want := 0
				if c.want < PassedOther {
					want = 1
				}
				got := 0
				for end := time.Now().Add(time.Second); counters(t, p) == (Counters{}) && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				if want == 1 {
					got = collect(t, rx, 1, func(b []byte) {
						if !bytes.Equal(b, frame) {
							t.Errorf("received\n%x\nsent\n%x", b, frame)
						}
					})
				}
				c2 := counters(t, p)
				if got != want || c2[c.want] != 1 || c2.Passed()+c2.Redirected() != 1 {
					t.Errorf("received %d, want %d; counters %v, want one of %q", got, want, c2, c.want)
				}
			})
		}
	}
}

// TestNoSocketOnTheQueue: what the program wants goes to the kernel where nobody is there to take it.
func TestNoSocketOnTheQueue(t *testing.T) {
	w := newWire(t, 1500, 1)
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	frame := frameOptions{}.build(nil)
	send(t, w.left, frame)
	waitFor(t, "the frame", func() bool { return counters(t, p)[PassedNoSocket] == 1 })

	s := openSocket(t, Options{Interface: right, RX: 64})
	if err := p.Register(s); err != nil {
		t.Fatal(err)
	}
	send(t, w.left, frame)
	waitFor(t, "the frame", func() bool { return counters(t, p)[RedirectedRoCEv2] == 1 })
	if err := s.Close(); err != nil { // it takes itself out of the program's map
		t.Fatal(err)
	}
	send(t, w.left, frame)
	waitFor(t, "the frame", func() bool { return counters(t, p)[PassedNoSocket] == 2 })
}

func waitFor(t testing.TB, what string, true func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Second); !true(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no sign of %s", what)
		}
	}
}
