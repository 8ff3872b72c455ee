package port

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// writeFrame is a WRITE with a payload of zeros.
func writeFrame(t *testing.T, op dissect.Opcode, qp uint32, payload int) []byte {
	t.Helper()
	o := dissect.Outer{
		DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1},
		Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), SrcPort: 49152,
	}
	b := o.AppendTo(nil)
	at := len(b)
	b = dissect.AppendTransport(b, op)
	dissect.BTH(b[at:]).SetDestQP(qp)
	var c dissect.Crafter
	b, err := c.Seal(&o, append(b, make([]byte, payload)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLive: messages of three frames on four queue pairs, with consecutive PSNs and addresses, arrive in order.
func TestLive(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	lab.B.Do(func() {
		if _, err := OpenLive(Options{Interface: lab.B.Iface}, Messages{QPs: []MessageQP{{Frames: [][]byte{writeFrame(t, dissect.OpRCWriteOnly, 5, 64)}}}}); !errors.Is(err, ErrNotSupported) {
			t.Errorf("where the far end takes no redirected frames: %v", err)
		}
	})
	var in Port
	lab.B.Do(func() {
		ports, err := OpenXDP(Options{Interface: lab.B.Iface, Queues: 1})
		if err != nil {
			t.Error(err)
			return
		}
		in = ports[0]
	})
	if in == nil {
		t.FailNow()
	}
	defer in.Close()
	lab.A.Do(func() {
		m := Messages{Segments: 3, AckEvery: 1}
		for q := range 4 {
			n := uint32(16 + q)
			m.QPs = append(m.QPs, MessageQP{
				Frames: [][]byte{writeFrame(t, dissect.OpRCWriteFirst, n, 1024), writeFrame(t, dissect.OpRCWriteMiddle, n, 1024), writeFrame(t, dissect.OpRCWriteLast, n, 100)},
				PSN:    0xFFFFFE, VA: uint64(q) << 32, VAStep: 4096, VASpan: 4 * 4096,
			})
		}
		p, err := OpenLive(Options{Interface: lab.A.Iface}, m)
		if err != nil {
			t.Error(err)
			return
		}
		defer p.Close()
		const frames = 1200
		if n, err := p.Run(frames); n != frames || err != nil {
			t.Error(n, err)
		}
		if s := p.Stats(); s.Sent != frames || s.LinkDropped != 0 || s.SentBytes != frames/3*(1098+1082+158) {
			t.Errorf("%+v", s)
		}
		if psn, err := p.PSN(1); err != nil || psn != dissect.PSN(0xFFFFFE).Add(frames/4) {
			t.Error(psn, err)
		}
		var d dissect.Decoder
		var packet dissect.Packet
		var icrc dissect.ICRC
		next := [4]dissect.PSN{0xFFFFFE, 0xFFFFFE, 0xFFFFFE, 0xFFFFFE}
		messages := [4]uint64{}
		got := 0
		batch := make([]In, 64)
		for got < frames {
			n, err := in.Receive(batch)
			if err != nil || n == 0 {
				t.Fatalf("%d of %d frames, %v", got, frames, err)
			}
			for _, f := range batch[:n] {
				d.Decode(dissect.LinkEthernet, f.Data, len(f.Data), &packet)
				q := packet.DestQP - 16
				if got/3%4 != int(q) || packet.PSN != next[q] || icrc.Verify(&packet, f.Data) != dissect.ICRCValid {
					t.Fatalf("frame %d: queue pair %d, PSN %d, ICRC %v", got, packet.DestQP, packet.PSN, icrc.Verify(&packet, f.Data))
				}
				next[q] = next[q].Add(1)
				if got%3 == 0 {
					if want := uint64(q)<<32 + messages[q]%4*4096; packet.VA != want {
						t.Fatalf("frame %d: VA %#x, not %#x", got, packet.VA, want)
					}
					messages[q]++
				}
				if packet.AckReq != (got%3 == 2) {
					t.Fatalf("frame %d: AckReq %v", got, packet.AckReq)
				}
				got++
			}
		}
	})
}

// TestLiveSlowFarEnd: live frames go past every queue that could hold them back, so that a slow far end drops most of them. What
// the interface counts makes up for what does not arrive, and is told.
func TestLiveSlowFarEnd(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
	far := openIn(t, lab.B, onInterfaces[0], Options{Ring: 32768})
	lab.B.Do(func() { threaded(t, lab.B.Iface) })
	const frames = 100_000
	var s Stats
	var info Info
	lab.A.Do(func() {
		p, err := OpenLive(Options{Interface: lab.A.Iface}, Messages{QPs: []MessageQP{{Frames: [][]byte{writeFrame(t, dissect.OpRCWriteOnly, 5, 64)}}}})
		if err != nil {
			t.Error(err)
			return
		}
		if n, err := p.Run(frames); n != frames || err != nil {
			t.Error(n, err)
		}
		p.Close() // so that the link's counters are the last ones
		s, info = p.Stats(), p.Info()
	})
	in := make([]In, 256)
	for quiet := 0; quiet < 100; quiet++ {
		n, err := far.Receive(in)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			quiet = 0
			continue
		}
		far.Wait(time.Millisecond)
	}
	r := far.Stats()
	t.Logf("sender %+v, receiver %+v", s, r)
	if s.Sent != frames || r.Received+r.RecvLost+s.LinkDropped != frames {
		t.Errorf("%d frames: sender %+v, receiver %+v", frames, s, r)
	}
	if s.LinkDropped > 0 && len(Trouble(info, s)) != 1 {
		t.Errorf("told: %q", Trouble(info, s))
	}
}

// TestLiveTemplates: what is wrong with a template is said before anything is sent.
func TestLiveTemplates(t *testing.T) {
	good := writeFrame(t, dissect.OpRCWriteOnly, 5, 64)
	if k, err := liveKind(good); err != nil || k.PSN != 50 || k.VA != 54 || k.Payload != 70 {
		t.Errorf("%+v, %v", k, err)
	}
	for what, change := range map[string]func([]byte) []byte{
		"ICRC":     func(b []byte) []byte { b[60]++; return b },
		"cut":      func(b []byte) []byte { return b[:100] },
		"trailer":  func(b []byte) []byte { return append(b, 0) },
		"not RoCE": func(b []byte) []byte { b[36], b[37] = 0, 53; return b },
		"checksum": func(b []byte) []byte { b[41] = 1; return b },
	} {
		if _, err := liveKind(change(append([]byte(nil), good...))); !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Log(what, err)
		}
	}
}
