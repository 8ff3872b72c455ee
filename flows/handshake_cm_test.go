package flows

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

var cmPair = testkit.ExchangeOptions{
	QPNA: 0x111, QPNB: 0x222, PSNA: 0xA00000, PSNB: 0xB00000, MTU: 2048,
	RetryCount: 6, RNRRetryCount: 5, AckTimeout: 18, ReadDepth: 9, ServiceID: 0x0000000001061C06,
}

// edit changes the 232 bytes of a CM message.
func edit(p *testkit.Packet, change func(d []byte)) *testkit.Packet {
	return p.Edit(func(q *dissect.Packet, data []byte) { change(q.Payload(data)[24:]) })
}

// mad writes a CM message: attribute, transaction, then what set puts into its
// 232 bytes.
func mad(e *testkit.End, attr dissect.CMAttribute, transaction uint64, set func(d []byte)) *testkit.Packet {
	b := make([]byte, 256)
	b[0], b[1], b[2], b[3] = 1, 7, 2, 3
	binary.BigEndian.PutUint64(b[8:], transaction)
	binary.BigEndian.PutUint16(b[16:], uint16(attr))
	set(b[24:])
	return e.MAD(b)
}

func ids(d []byte, local, remote uint32) {
	binary.BigEndian.PutUint32(d, local)
	binary.BigEndian.PutUint32(d[4:], remote)
}

func put24(d []byte, v uint32) { d[0], d[1], d[2] = byte(v>>16), byte(v>>8), byte(v) }

func TestCMConnection(t *testing.T) {
	x := testkit.NewExchange(cmPair)
	edit(x.A.REQ(), func(d []byte) { d[51] |= 8; d[35], d[39] = 4, 16; copy(d[140+36:], "hi\x00there") })
	edit(x.B.REP(), func(d []byte) { d[24], d[25], d[27] = 7, 3, 2<<5 })
	x.A.RTU()
	x.A.DREQ()
	x.B.DREP()
	got := shake(x.Frames())
	wantKinds(t, got, "half, pair, established, disconnect request, disconnected")

	half := got[0]
	if !half.HasA || half.HasB || half.HasPSNA || !half.HasPSNB || half.NegB.StartPSN != 0xB00000 || half.PrivateLen != 8 || half.Why != "CM REQ in frame 1" {
		t.Errorf("the REQ proves %+v", half)
	}
	for _, e := range got[1:] {
		if e.By != ByCM || !e.RolesKnown || !e.HasA || !e.HasB || !e.VLANKnown || e.Late {
			t.Errorf("%v: %+v", e.Kind, e)
		}
		if e.A != (QPName{addrOf("10.0.0.1"), -1, 0x111}) || e.B != (QPName{addrOf("10.0.0.2"), -1, 0x222}) {
			t.Errorf("%v: a is %v, b is %v", e.Kind, e.A, e.B)
		}
		if !e.HasTransport || e.Transport != dissect.RC || e.ServiceID != 0x0000000001061C06 || e.CommA != 0xA1 || e.CommB != 0xB1 {
			t.Errorf("%v: %+v", e.Kind, e)
		}
	}
	pair := got[1]
	if pair.Frame != 2 || pair.FromA || pair.Message != dissect.CMAttrREP || pair.Why != "CM REQ in frame 1, REP in frame 2" {
		t.Errorf("the pair is proved by %v in frame %d: %s", pair.Message, pair.Frame, pair.Why)
	}
	// a asked for 16 READs at a time, and b grants 7.
	if want := (Negotiated{Set: true, PathMTU: 2048, StartPSN: 0xA00000, RetryCount: 6, RNRRetryCount: 2, ResponderResources: 4, InitiatorDepth: 7, AckTimeout: 18, SRQ: true}); pair.NegA != want {
		t.Errorf("a negotiated %+v, want %+v", pair.NegA, want)
	}
	if want := (Negotiated{Set: true, PathMTU: 2048, StartPSN: 0xB00000, RetryCount: 6, RNRRetryCount: 5, ResponderResources: 7, InitiatorDepth: 3, AckTimeout: 18}); pair.NegB != want {
		t.Errorf("b negotiated %+v, want %+v", pair.NegB, want)
	}
}

// TestCMStories are about the kinds of events that messages lead to.
func TestCMStories(t *testing.T) {
	for _, c := range []struct {
		name, want string
		write      func(x *testkit.Exchange)
		check      func(t *testing.T, got []handshakeEvent)
	}{
		{"resent messages are no new connection", "half, resent, pair, resent, established, resent, disconnect request, resent, disconnected, resent", func(x *testkit.Exchange) {
			for _, say := range []func() *testkit.Packet{x.A.REQ, x.B.REP, x.A.RTU, x.A.DREQ, x.B.DREP} {
				say().SendAgain()
			}
		}, nil},
		{"both sides ask for the end at once", "half, pair, established, disconnect request, disconnect request, disconnected, disconnected", func(x *testkit.Exchange) {
			x.Connect()
			x.A.DREQ()
			x.B.DREQ()
			x.B.DREP()
			x.A.DREP()
		}, func(t *testing.T, got []handshakeEvent) {
			if !got[3].FromA || got[4].FromA || got[5].FromA || !got[6].FromA {
				t.Error("who sent what is mixed up")
			}
		}},
		{"nobody listens", "half, rejected, resent", func(x *testkit.Exchange) {
			x.A.REQ()
			edit(x.B.REJ(8), func(d []byte) { ids(d, 0, 0xA1) }).SendAgain()
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[1]; e.Reason != 8 || e.Rejected != 0 || !e.HasA || e.A.QPN != 0x111 || e.FromA {
				t.Errorf("%+v", e)
			}
		}},
		{"the active side refuses the REP", "half, pair, rejected", func(x *testkit.Exchange) {
			x.A.REQ()
			x.B.REP()
			edit(x.A.REJ(28), func(d []byte) { d[8] = 1 << 6 })
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[2]; e.Reason != 28 || e.Rejected != 1 || !e.FromA || !e.HasB {
				t.Errorf("%+v", e)
			}
		}},
		{"a REJ alone", "rejected", func(x *testkit.Exchange) { x.B.REJ(10) }, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; e.HasA || e.HasB || e.Reason != 10 || e.A.Addr != addrOf("10.0.0.2") {
				t.Errorf("%+v", e)
			}
		}},
		{"wait longer", "half, MRA, pair", func(x *testkit.Exchange) {
			x.A.REQ()
			x.B.MRA()
			x.B.REP()
		}, nil},
		{"the same identifier and number anew", "half, pair, established, half, pair, established", func(x *testkit.Exchange) {
			x.Connect()
			edit(x.A.REQ(), func(d []byte) { put24(d[44:], 7) })
			edit(x.B.REP(), func(d []byte) { put24(d[20:], 8) })
			x.A.RTU()
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[4]; e.NegA.StartPSN != 8 || e.NegB.StartPSN != 7 || e.Why != "CM REQ in frame 4, REP in frame 5" {
				t.Errorf("%+v", e)
			}
		}},
		{"the REQ was not captured", "half, established, disconnect request", func(x *testkit.Exchange) {
			x.B.REP()
			x.A.RTU()
			x.A.DREQ()
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; e.HasA || !e.HasB || e.B.QPN != 0x222 || e.NegA.StartPSN != 0xA00000 || !e.HasPSNA || e.HasPSNB ||
				!e.RolesKnown || e.NegA.PathMTU != 0 || e.NegA.RetryCount != -1 || e.NegB.ResponderResources != 9 || e.HasTransport {
				t.Errorf("%+v", e)
			}
		}},
		{"REP and the passive side's DREQ", "half, pair, disconnect request", func(x *testkit.Exchange) {
			x.B.REP()
			x.B.DREQ()
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[1]; !e.Late || e.A.QPN != 0x111 || e.B.QPN != 0x222 || e.A.Addr != addrOf("10.0.0.1") || e.Why != "CM REP in frame 1, DREQ in frame 2" {
				t.Errorf("%+v", e)
			}
		}},
		{"REQ and the active side's DREQ", "half, pair, disconnect request, disconnected", func(x *testkit.Exchange) {
			x.A.REQ()
			x.A.DREQ()
			x.B.DREP()
		}, nil},
		{"crossed DREQs alone", "disconnect request, pair, disconnect request", func(x *testkit.Exchange) {
			x.B.DREQ()
			x.A.DREQ()
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; e.HasA || !e.HasB || e.B != (QPName{addrOf("10.0.0.1"), -1, 0x111}) || e.RolesKnown {
				t.Errorf("%+v", e)
			}
			if e := got[1]; !e.Late || e.RolesKnown || e.A.QPN != 0x222 || e.B.QPN != 0x111 || e.NegA.Set || e.Why != "CM DREQ in frame 1, DREQ in frame 2" {
				t.Errorf("%+v", e)
			}
		}},
		{"a DREQ that names another queue pair ends another connection", "half, pair, disconnect request", func(x *testkit.Exchange) {
			x.A.REQ()
			x.B.REP()
			edit(x.A.DREQ(), func(d []byte) { put24(d[8:], 0x999) })
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[2]; e.HasA || e.B.QPN != 0x999 {
				t.Errorf("%+v", e)
			}
		}},
		{"RTU and DREP alone prove nothing", "", func(x *testkit.Exchange) {
			x.A.RTU()
			x.B.DREP()
		}, nil},
		{"an alternate path", "half, pair, migration, migration", func(x *testkit.Exchange) {
			x.A.REQ()
			x.B.REP()
			mad(x.A, dissect.CMAttrLAP, 5, func(d []byte) { ids(d, 0xA1, 0xB1); put24(d[12:], 0x222) })
			mad(x.B, dissect.CMAttrAPR, 5, func(d []byte) { ids(d, 0xB1, 0xA1); d[9] = 3 })
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[3]; e.Reason != 3 || e.FromA || !e.HasA {
				t.Errorf("%+v", e)
			}
		}},
		{"a UD queue pair is asked for", "SIDR, resent, SIDR, resent", func(x *testkit.Exchange) {
			mad(x.A, dissect.CMAttrSIDRREQ, 9, func(d []byte) { ids(d, 0x51, 0xFFFF0000); binary.BigEndian.PutUint64(d[8:], 77) }).SendAgain()
			mad(x.B, dissect.CMAttrSIDRREP, 9, func(d []byte) {
				ids(d, 0x51, 0)
				put24(d[8:], 0x333)
				binary.BigEndian.PutUint64(d[12:], 77)
				binary.BigEndian.PutUint32(d[20:], 0xABCD)
			}).SendAgain()
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[2]; e.B != (QPName{addrOf("10.0.0.2"), -1, 0x333}) || !e.HasB || e.HasA || e.QKey != 0xABCD || e.ServiceID != 77 || e.Transport != dissect.UD || e.FromA {
				t.Errorf("%+v", e)
			}
		}},
		{"a UD queue pair is refused, by an answer alone", "rejected", func(x *testkit.Exchange) {
			mad(x.B, dissect.CMAttrSIDRREP, 9, func(d []byte) { ids(d, 0x51, 0x03000000) })
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; e.HasB || e.Reason != 3 || e.A.Addr != addrOf("10.0.0.1") {
				t.Errorf("%+v", e)
			}
		}},
		{"damaged messages prove nothing", "half, pair", func(x *testkit.Exchange) {
			x.A.REQ().BreakICRC()
			x.A.REQ()
			x.B.REP().BreakICRC()
			x.A.DREQ().BreakICRC()
			x.B.REP()
		}, nil},
		{"cut messages prove what was captured of them", "half, pair", func(x *testkit.Exchange) {
			const headers = 14 + 20 + 8 + 12 + 8 + 24
			x.A.REQ().Snap(headers + 95)
			x.A.REQ().Snap(headers + 96)
			x.B.REP().Snap(headers + 27)
			x.B.REP().Snap(headers + 28)
		}, nil},
		{"XRC", "half", func(x *testkit.Exchange) {
			edit(x.A.REQ(), func(d []byte) { d[43] |= 6; d[51] |= 1 })
		}, func(t *testing.T, got []handshakeEvent) {
			if !got[0].HasTransport || got[0].Transport != dissect.XRC {
				t.Errorf("transport is %v", got[0].Transport)
			}
		}},
		{"the REQ's GIDs are where the queue pairs are", "half", func(x *testkit.Exchange) {
			edit(x.A.REQ(), func(d []byte) { d[71], d[87] = 71, 87 })
		}, func(t *testing.T, got []handshakeEvent) {
			if got[0].A.Addr != addrOf("10.0.0.71") || got[0].B.Addr != addrOf("10.0.0.87") {
				t.Errorf("a is at %v, b at %v", got[0].A.Addr, got[0].B.Addr)
			}
		}},
		{"other management classes are not CM's", "", func(x *testkit.Exchange) {
			x.A.REQ().Edit(func(q *dissect.Packet, data []byte) { q.Payload(data)[1] = 3 })
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(cmPair)
			c.write(x)
			got := shake(x.Frames())
			wantKinds(t, got, c.want)
			if c.check != nil {
				c.check(t, got)
			}
		})
	}
}

func TestCMAtBothEndsOfOneHost(t *testing.T) {
	o := cmPair
	o.A, o.B = "10.0.0.1", "10.0.0.1"
	x := testkit.NewExchange(o)
	x.Connect()
	x.B.DREQ()
	x.A.DREP()
	got := shake(x.Frames())
	wantKinds(t, got, "half, pair, established, disconnect request, disconnected")
	if e := got[1]; e.A.QPN != 0x111 || e.B.QPN != 0x222 || e.FromA {
		t.Errorf("%+v", e)
	}
	if got[3].FromA || !got[4].FromA {
		t.Error("who sent what is mixed up")
	}
}

func TestCMOfManyHostsAtOnce(t *testing.T) {
	// All hosts use the same identifiers, transactions and numbers.
	x := testkit.NewExchange(cmPair)
	all := []*testkit.Exchange{x}
	for _, b := range []string{"10.0.0.3", "10.0.0.4"} {
		all = append(all, x.Beside(func(o *testkit.ExchangeOptions) { o.B, o.QPNA, o.QPNB = b, 0x111, 0x222 }))
	}
	all = append(all, x.Beside(func(o *testkit.ExchangeOptions) { o.VLANs, o.QPNA, o.QPNB = []uint16{5}, 0x111, 0x222 }))
	for _, x := range all {
		x.A.REQ()
	}
	for _, x := range all {
		x.B.REP()
	}
	pairs := ofKind(shake(x.Frames()), evPair)
	if len(pairs) != 4 {
		t.Fatalf("%d pairs, want 4", len(pairs))
	}
	for i, b := range []QPName{{addrOf("10.0.0.2"), -1, 0x222}, {addrOf("10.0.0.3"), -1, 0x222}, {addrOf("10.0.0.4"), -1, 0x222}, {addrOf("10.0.0.2"), 5, 0x222}} {
		if pairs[i].B != b || pairs[i].A.VLAN != b.VLAN {
			t.Errorf("b is %v, want %v", pairs[i].B, b)
		}
	}
}

// TestCMTableIsBounded sends a million REQs that nobody answers.
func TestCMTableIsBounded(t *testing.T) {
	x := testkit.NewExchange(cmPair)
	x.A.REQ()
	x.B.REP()
	packets, data := testkit.Decode(x.Frames())
	req, frame := &packets[0], data[0]
	cm := dissect.CMREQ(req.MAD(frame)[24:])
	h := newHandshakes(handshakeLimits{CM: 1 << 12})
	var events []handshakeEvent
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	n := 1 << 20
	if testing.Short() {
		n = 1 << 16
	}
	for i := range n {
		if i == n/8 {
			before = memory()
		}
		cm.SetLocalCommID(uint32(i) + 1)
		events = h.packet(req, frame, events[:0])
	}
	if after := memory(); after > before+1<<20 {
		t.Errorf("memory grew from %d to %d bytes", before, after)
	}
	if len(h.cm.index) != 1<<12 || len(h.cm.convs.items) != 1<<12 {
		t.Errorf("%d conversations in the index, %d in the table", len(h.cm.index), len(h.cm.convs.items))
	}
	rep := dissect.CMREP(packets[1].MAD(data[1])[24:])
	rep.SetRemoteCommID(uint32(n))
	if events = h.packet(&packets[1], data[1], events[:0]); kinds(events) != "pair" {
		t.Errorf("the newest REQ's REP is %q", kinds(events))
	}
	rep.SetRemoteCommID(1)
	if events = h.packet(&packets[1], data[1], events[:0]); kinds(events) != "half" {
		t.Errorf("the oldest REQ's REP is %q", kinds(events))
	}
}
