package connect

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

var (
	addrA, addrB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	pathAB       = dissect.Outer{DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, Src: addrA, Dst: addrB}
	rpingService = dissect.IPCMServiceID(dissect.PortSpaceTCP, 7174)
)

const ms = int64(time.Millisecond)

// host is a CM and what it said and was told.
type host struct {
	*CM
	sent   [][]byte
	events []Event
	on     func(Event) // besides
}

func newHost(t testing.TB, change func(*CMConfig)) *host {
	t.Helper()
	h := &host{}
	cfg := CMConfig{
		GUID: 0x0200000000000001, Rand: rand.NewPCG(1, 2),
		Send: func(f []byte) error { h.sent = append(h.sent, slices.Clone(f)); return nil },
		Event: func(e Event) {
			e.Private = slices.Clone(e.Private)
			h.events = append(h.events, e)
			if h.on != nil {
				h.on(e)
			}
		},
	}
	if change != nil {
		change(&cfg)
	}
	m, err := NewCM(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.CM = m
	return h
}

// take returns the frames that were sent.
func (h *host) take() [][]byte {
	f := h.sent
	h.sent = nil
	return f
}

// last is the event that came last.
func (h *host) last(t testing.TB, kind EventKind) Event {
	t.Helper()
	if len(h.events) == 0 {
		t.Fatalf("no event, want %v", kind)
	}
	if e := h.events[len(h.events)-1]; e.Kind == kind {
		return e
	}
	t.Fatalf("event %v, want %v", h.events[len(h.events)-1], kind)
	return Event{}
}

// carry lets two hosts talk until neither says more.
func carry(at int64, a, b *host) {
	for len(a.sent)+len(b.sent) > 0 {
		for _, f := range a.take() {
			b.Handle(f, at)
		}
		for _, f := range b.take() {
			a.Handle(f, at)
		}
	}
}

func message(t testing.TB, frame []byte) dissect.CM {
	t.Helper()
	var d dissect.Decoder
	var p dissect.Packet
	d.CheckICRC = true
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	m, ok := p.CM(frame)
	if !ok || p.ICRC != dissect.ICRCValid || !m.Whole() || len(p.Problems()) > 0 {
		t.Fatalf("no sound CM message: %v %v", p.ICRC, p.Problems())
	}
	return m
}

// said checks which messages were sent, and returns them.
func said(t testing.TB, h *host, want ...dissect.CMAttribute) (ms []dissect.CM) {
	t.Helper()
	var got []dissect.CMAttribute
	for _, f := range h.sent {
		m := message(t, f)
		got, ms = append(got, m.Attribute), append(ms, m)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sent %v, want %v", got, want)
	}
	return ms
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rcRequest() Request {
	return Request{
		Path: pathAB, Service: rpingService, SrcPort: 43967, Private: []byte("hello"),
		Local: Parameters{Transport: dissect.RC, QPN: 0x11, MTU: 1024, ResponderResources: 16, InitiatorDepth: 4, RetryCount: 7, RNRRetryCount: 6, AckTimeout: 19},
	}
}

// connected is two hosts with a connection.
func connected(t testing.TB) (a, b *host, idA, idB ConnID) {
	t.Helper()
	a, b = newHost(t, nil), newHost(t, func(c *CMConfig) { c.GUID, c.Rand = 2, rand.NewPCG(3, 4) })
	must(t, b.Listen(rpingService))
	psnB := dissect.PSN(0xBBBBBB)
	r := rcRequest()
	r.Expect = &psnB
	idA, err := a.Connect(0, r)
	must(t, err)
	said(t, a, dissect.CMAttrREQ)
	carry(0, a, b)
	idB = b.last(t, EventRequest).ID
	psnA := dissect.PSN(0xAAAAAA)
	must(t, b.Accept(0, idB, Answer{Local: Parameters{QPN: 0x22, ResponderResources: 8, InitiatorDepth: 32, RNRRetryCount: 5}, Expect: &psnA, Private: []byte("welcome")}))
	said(t, b, dissect.CMAttrREP)
	carry(0, a, b)
	a.last(t, EventResponse)
	must(t, a.Confirm(0, idA, []byte("go")))
	said(t, a, dissect.CMAttrRTU)
	carry(0, a, b)
	return a, b, idA, idB
}

func TestCMConnects(t *testing.T) {
	a, b, idA, idB := connected(t)
	ea, eb := a.last(t, EventEstablished), b.last(t, EventEstablished)
	if ea.Local.PSN != 0xAAAAAA || ea.Remote.PSN != 0xBBBBBB || eb.Local.PSN != 0xBBBBBB || eb.Remote.PSN != 0xAAAAAA {
		t.Errorf("PSNs: a %x %x, b %x %x", ea.Local.PSN, ea.Remote.PSN, eb.Local.PSN, eb.Remote.PSN)
	}
	wantB := Parameters{
		Transport: dissect.RC, Address: addrB, QPN: 0x22, PSN: 0xBBBBBB, MTU: 1024, PKey: 0xFFFF, FlowLabel: 0x4E827,
		ResponderResources: 4, InitiatorDepth: 16, RetryCount: 7, RNRRetryCount: 5, AckTimeout: 19,
	}
	if ea.Remote != wantB || eb.Local != wantB {
		t.Errorf("b is\n%+v to a, and\n%+v to itself, want\n%+v", ea.Remote, eb.Local, wantB)
	}
	wantA := Parameters{
		Transport: dissect.RC, Address: addrA, QPN: 0x11, PSN: 0xAAAAAA, MTU: 1024, PKey: 0xFFFF, FlowLabel: 0x4E827,
		ResponderResources: 16, InitiatorDepth: 4, RetryCount: 7, RNRRetryCount: 6, AckTimeout: 19,
	}
	if eb.Remote != wantA || ea.Local != wantA {
		t.Errorf("a is\n%+v to b, and\n%+v to itself, want\n%+v", eb.Remote, ea.Local, wantA)
	}
	if req := b.events[0]; string(req.Private[:5]) != "hello" || len(req.Private) != 56 || req.Src != netip.MustParseAddrPort("10.0.0.1:43967") || req.Dst != netip.MustParseAddrPort("10.0.0.2:7174") {
		t.Errorf("the request: private %q, %v to %v", req.Private, req.Src, req.Dst)
	}
	if rep := a.events[0]; string(rep.Private[:7]) != "welcome" || len(rep.Private) != 196 {
		t.Errorf("the response's private data: %q", rep.Private)
	}
	if string(eb.Private[:2]) != "go" {
		t.Errorf("the RTU's private data: %q", eb.Private)
	}
	if s := b.Stats(); s.Connections != 1 || s.Pending != 0 {
		t.Errorf("stats %+v", s)
	}
	must(t, a.Disconnect(5*ms, idA, []byte("bye")))
	dreq := dissect.CMDREQ(said(t, a, dissect.CMAttrDREQ)[0].Data)
	if dreq.RemoteQPN() != 0x22 {
		t.Errorf("DREQ names QP %#x", dreq.RemoteQPN())
	}
	carry(5*ms, a, b)
	a.last(t, EventDisconnected)
	if e := b.last(t, EventDisconnected); string(e.Private[:3]) != "bye" {
		t.Errorf("the DREQ's private data: %q", e.Private)
	}
	if a.State(idA) != StateTimeWait || b.State(idB) != StateTimeWait {
		t.Errorf("states %v, %v", a.State(idA), b.State(idB))
	}
	for _, h := range []*host{a, b} {
		if next := h.Tick(5 * ms); next != 5*ms+int64(time.Second) {
			t.Errorf("next tick at %v", next)
		}
		if next := h.Tick(5*ms + int64(time.Second)); next != never || h.Stats().Connections != 0 {
			t.Errorf("after the wait: next %v, %+v", next, h.Stats())
		}
		h.last(t, EventClosed)
	}
	if err := a.Disconnect(0, idA, nil); !errors.Is(err, ErrUnknownID) {
		t.Errorf("a second end: %v", err)
	}
}

func TestCMNobodyListens(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, nil)
	_, err := a.Connect(0, rcRequest())
	must(t, err)
	carry(0, a, b)
	if e := a.last(t, EventRejected); e.Reason != dissect.RejInvalidServiceID {
		t.Error(e)
	}
	if a.Stats().Connections != 0 || b.Stats().Connections != 0 || a.Tick(0) != never {
		t.Errorf("left: %+v, %+v", a.Stats(), b.Stats())
	}
}

func TestCMApplicationRefuses(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, nil)
	must(t, b.Listen(rpingService))
	b.on = func(e Event) {
		if e.Kind == EventRequest {
			must(t, b.Reject(0, e.ID, dissect.RejConsumer, []byte("not you")))
		}
	}
	_, err := a.Connect(0, rcRequest())
	must(t, err)
	carry(0, a, b)
	if e := a.last(t, EventRejected); e.Reason != dissect.RejConsumer || string(e.Private[:7]) != "not you" || len(e.Private) != 148 {
		t.Errorf("%v %q", e, e.Private)
	}
	if b.Stats().Pending != 0 || b.Stats().Connections != 0 {
		t.Errorf("left: %+v", b.Stats())
	}
}

// TestCMRefusesREP: the active application does not like the answer.
func TestCMRefusesREP(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, nil)
	must(t, b.Listen(rpingService))
	b.on = func(e Event) {
		if e.Kind == EventRequest {
			must(t, b.Accept(0, e.ID, Answer{Local: Parameters{QPN: 9}}))
		}
	}
	a.on = func(e Event) {
		if e.Kind == EventResponse {
			must(t, a.Reject(0, e.ID, dissect.RejConsumer, nil))
		}
	}
	_, err := a.Connect(0, rcRequest())
	must(t, err)
	carry(0, a, b)
	if e := b.last(t, EventRejected); e.Reason != dissect.RejConsumer || b.Stats().Pending != 0 || a.Stats().Connections != 0 {
		t.Error(e)
	}
}

// TestCMRetries: a REQ is sent as often as told, at the times told, then given up, which the other side is told.
func TestCMRetries(t *testing.T) {
	a := newHost(t, func(c *CMConfig) { c.ResponseTimeout, c.MaxRetries = 12, 3 }) // 16.777216 ms
	_, err := a.Connect(0, rcRequest())
	must(t, err)
	interval := int64(dissect.CMTimeout(12))
	for i := int64(1); i <= 3; i++ {
		if next := a.Tick(i*interval - 1); next != i*interval {
			t.Fatalf("next at %d, want %d", next, i*interval)
		}
		a.Tick(i * interval)
	}
	said(t, a, dissect.CMAttrREQ, dissect.CMAttrREQ, dissect.CMAttrREQ, dissect.CMAttrREQ)
	if next := a.Tick(4 * interval); next != never {
		t.Errorf("next at %d after the end", next)
	}
	a.last(t, EventUnreachable)
	rej := dissect.CMREJ(said(t, a, dissect.CMAttrREQ, dissect.CMAttrREQ, dissect.CMAttrREQ, dissect.CMAttrREQ, dissect.CMAttrREJ)[4].Data)
	if rej.Reason() != dissect.RejTimeout || rej.InfoLen() != 8 || rej.Info()[0] != 2 || rej.Message() != aboutREQ {
		t.Errorf("REJ %v about %d, info %x", rej.Reason(), rej.Message(), rej.Info()[:8])
	}
}

// TestCMDuplicates: each duplicate gets the answer that may have been lost, and tells the application nothing.
func TestCMDuplicates(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, nil)
	must(t, b.Listen(rpingService))
	idA, err := a.Connect(0, rcRequest())
	must(t, err)
	req := a.take()[0]
	b.Handle(req, 0)
	b.Handle(req, 1)
	mra := dissect.CMMRA(said(t, b, dissect.CMAttrMRA)[0].Data)
	if mra.Message() != aboutREQ || dissect.CMTimeout(mra.ServiceTimeout()) < 30*time.Second {
		t.Errorf("MRA about %d, wait %v", mra.Message(), dissect.CMTimeout(mra.ServiceTimeout()))
	}
	a.Handle(b.take()[0], 2)
	if next := a.Tick(3); a.State(idA) != StateREPWait || next != 2+int64(dissect.CMTimeout(mra.ServiceTimeout())+dissect.CMTimeout(18)) {
		t.Errorf("after the MRA: state %v, next %v", a.State(idA), time.Duration(next))
	}
	idB := b.last(t, EventRequest).ID
	must(t, b.Accept(4, idB, Answer{Local: Parameters{QPN: 9}}))
	first := b.take()[0]
	b.Handle(req, 5)
	if again := message(t, b.take()[0]); again.Attribute != dissect.CMAttrREP || !slices.Equal(again.Data, message(t, first).Data) {
		t.Error("a REQ after the REP is not answered by the same REP")
	}
	a.Handle(first, 6)
	a.Handle(first, 7)
	if mra := dissect.CMMRA(said(t, a, dissect.CMAttrMRA)[0].Data); mra.Message() != aboutREP {
		t.Errorf("a REP that is thought about: MRA about %d", mra.Message())
	}
	b.Handle(a.take()[0], 7)
	if next := b.Tick(7); next != 4+int64(30*time.Second) { // patient, but half open no longer than allowed
		t.Errorf("after the MRA: next %v", time.Duration(next))
	}
	must(t, a.Confirm(8, idA, []byte("go")))
	a.Handle(first, 9)
	said(t, a, dissect.CMAttrRTU, dissect.CMAttrRTU)
	rtu := a.take()
	if !slices.Equal(message(t, rtu[0]).Data, message(t, rtu[1]).Data) {
		t.Error("the RTU is another one when it is said again")
	}
	b.Handle(rtu[0], 10)
	b.Handle(rtu[1], 11)
	b.Handle(req, 12)
	said(t, b)
	must(t, a.Disconnect(13, idA, nil))
	dreq := a.take()[0]
	b.Handle(dreq, 14)
	b.Handle(dreq, 15)
	said(t, b, dissect.CMAttrDREP, dissect.CMAttrDREP)
	b.Handle(req, 16)
	rej := dissect.CMREJ(said(t, b, dissect.CMAttrDREP, dissect.CMAttrDREP, dissect.CMAttrREJ)[2].Data)
	if rej.Reason() != dissect.RejStaleConnection {
		t.Errorf("a REQ after the end: %v", rej.Reason())
	}
	b.Tick(20 + int64(2*time.Second))
	b.Handle(dreq, 21+int64(2*time.Second)) // it is forgotten, and still told so
	said(t, b, dissect.CMAttrDREP, dissect.CMAttrDREP, dissect.CMAttrREJ, dissect.CMAttrDREP)
	var kinds []EventKind
	for _, e := range b.events {
		kinds = append(kinds, e.Kind)
	}
	if want := []EventKind{EventRequest, EventEstablished, EventDisconnected, EventClosed}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if d := b.Stats().Duplicates; d != 6 {
		t.Errorf("%d duplicates counted", d)
	}
}

// TestCMStale: a peer that restarted uses a QPN again that a connection here still has.
func TestCMStale(t *testing.T) {
	a, b, _, idB := connected(t)
	a2 := newHost(t, func(c *CMConfig) { c.Rand = rand.NewPCG(9, 9) }) // the same host after a restart
	_, err := a2.Connect(0, rcRequest())
	must(t, err)
	carry(0, a2, b)
	if e := a2.last(t, EventRejected); e.Reason != dissect.RejStaleConnection {
		t.Error(e)
	}
	if e := b.last(t, EventDisconnected); e.ID != idB || e.Reason != dissect.RejStaleConnection {
		t.Error(e)
	}
	if b.State(idB) != StateTimeWait { // the DREQ went to a2, which knows of nothing and agrees
		t.Errorf("state %v", b.State(idB))
	}
	_, err = a2.Connect(1, rcRequest())
	must(t, err)
	carry(1, a2, b)
	b.last(t, EventRequest)
	_ = a
}

// TestCMHalfOpen: whatever is left half open ends in time, on either side.
func TestCMHalfOpen(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, nil)
	must(t, b.Listen(rpingService))
	ask := func() ConnID {
		_, err := a.Connect(0, rcRequest())
		must(t, err)
		for _, f := range a.take() {
			b.Handle(f, 0)
		}
		return b.last(t, EventRequest).ID
	}
	t.Run("the application does not accept", func(t *testing.T) {
		ask()
		if next := b.Tick(0); next != int64(30*time.Second) {
			t.Errorf("next %v", time.Duration(next))
		}
		b.Tick(int64(30 * time.Second))
		b.last(t, EventUnreachable)
		said(t, b, dissect.CMAttrREJ)
	})
	t.Run("no RTU", func(t *testing.T) {
		b.take()
		at := int64(40 * time.Second)
		id := ask()
		must(t, b.Accept(at, id, Answer{Local: Parameters{QPN: 9}}))
		for next := b.Tick(at); next != never; next = b.Tick(next) {
			at = next
		}
		b.last(t, EventUnreachable)
		if at > int64(70*time.Second) {
			t.Errorf("given up only after %v", time.Duration(at)-40*time.Second)
		}
		ms := said(t, b, slices.Concat(slices.Repeat([]dissect.CMAttribute{dissect.CMAttrREP}, 8), []dissect.CMAttribute{dissect.CMAttrREJ})...)
		if rej := dissect.CMREJ(ms[8].Data); rej.Reason() != dissect.RejTimeout || rej.Message() != aboutREP {
			t.Errorf("%v about %d", rej.Reason(), rej.Message())
		}
	})
	t.Run("no RTU, but data", func(t *testing.T) {
		id := ask()
		must(t, b.Accept(0, id, Answer{Local: Parameters{QPN: 9}}))
		b.Arrived(0, id)
		b.last(t, EventEstablished)
	})
	if s := b.Stats(); s.Pending != 0 || s.Connections != 1 {
		t.Errorf("left %+v", s)
	}
}

// TestCMMillionREQs: a flood is refused without keeping or allocating anything, connections live on, and room comes back.
func TestCMMillionREQs(t *testing.T) {
	b := newHost(t, func(c *CMConfig) { c.MaxPending = 100 })
	sent := 0
	b.cfg.Send = func([]byte) error { sent++; return nil }
	must(t, b.Listen(rpingService))
	a := newHost(t, nil)
	_, err := a.Connect(0, rcRequest())
	must(t, err)
	frame := a.take()[0]
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	m, _ := p.CM(frame)
	req := dissect.CMREQ(m.Data)
	var craft dissect.Crafter
	flood := func(from, n int) {
		for i := from; i < from+n; i++ {
			req.SetLocalCommID(uint32(i + 1))
			req.SetLocalQPN(uint32(i)&0xFFFFF + 2)
			must(t, craft.Reseal(dissect.LinkEthernet, frame))
			b.Handle(frame, 0)
		}
	}
	flood(0, 1_000_000)
	if s := b.Stats(); s.Pending != 100 || s.Connections != 100 || s.NoRoom != 999_900 || len(b.events) != 100 {
		t.Errorf("%+v, %d events", s, len(b.events))
	}
	next := 2_000_000
	if n := testing.AllocsPerRun(100, func() { flood(next, 1); next++ }); n > 0 {
		t.Errorf("%v allocations to refuse a REQ", n)
	}
	b.Tick(int64(30 * time.Second))
	if s := b.Stats(); s.Pending != 0 || s.Connections != 0 {
		t.Errorf("after the time for it: %+v", s)
	}
	flood(3_000_000, 1)
	b.last(t, EventRequest)
}

func TestCMRefusesNonsense(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dissect.CMREQ)
		want   dissect.RejReason
	}{
		{"no service", func(m dissect.CMREQ) { m.SetServiceID(7) }, dissect.RejInvalidServiceID},
		{"RD", func(m dissect.CMREQ) { m.SetServiceType(2) }, dissect.RejInvalidTransport},
		{"XRC", func(m dissect.CMREQ) { m.SetServiceType(3); m.SetExtendedTransport(1) }, dissect.RejInvalidTransport},
		{"unknown transport", func(m dissect.CMREQ) { m.SetServiceType(3); m.SetExtendedTransport(6) }, dissect.RejInvalidTransport},
		{"QP 1", func(m dissect.CMREQ) { m.SetLocalQPN(1) }, dissect.RejUnsupported},
		{"multicast QP", func(m dissect.CMREQ) { m.SetLocalQPN(0xFFFFFF) }, dissect.RejUnsupported},
		{"MTU 0", func(m dissect.CMREQ) { m.SetMTU(0) }, dissect.RejInvalidMTU},
		{"MTU 6", func(m dissect.CMREQ) { m.SetMTU(6) }, dissect.RejInvalidMTU},
		{"IP version 5", func(m dissect.CMREQ) { m.IPCM().SetIPVersion(5) }, dissect.RejUnsupported},
		{"another's GID", func(m dissect.CMREQ) { m.Primary().SetRemoteGID(dissect.AddrFrom(addrA)) }, dissect.RejInvalidGID},
		{"in another's name", func(m dissect.CMREQ) { m.Primary().SetLocalGID(dissect.AddrFrom(addrB)) }, dissect.RejInvalidGID},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newHost(t, nil), newHost(t, nil)
			must(t, b.Listen(rpingService))
			_, err := a.Connect(0, rcRequest())
			must(t, err)
			f := a.take()[0]
			c.change(dissect.CMREQ(message(t, f).Data))
			var craft dissect.Crafter
			must(t, craft.Reseal(dissect.LinkEthernet, f))
			b.Handle(f, 0)
			carry(0, a, b)
			if e := a.last(t, EventRejected); e.Reason != c.want {
				t.Errorf("%v, want %v", e.Reason, c.want)
			}
		})
	}
}

func TestCMUsage(t *testing.T) {
	if _, err := NewCM(CMConfig{}); err == nil {
		t.Error("a CM without Send and Event")
	}
	a := newHost(t, func(c *CMConfig) { c.MaxConnections = 1 })
	must(t, a.Listen(rpingService))
	if err := a.Listen(rpingService); !errors.Is(err, ErrListening) {
		t.Error(err)
	}
	a.Unlisten(rpingService)
	must(t, a.Listen(rpingService))
	r := rcRequest()
	r.Private = make([]byte, 57)
	if _, err := a.Connect(0, r); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	r = rcRequest()
	r.Local.QPN = 0
	if _, err := a.Connect(0, r); err == nil {
		t.Error("a REQ for QP 0")
	}
	r = rcRequest()
	r.Path.Dst = netip.MustParseAddr("::1")
	if _, err := a.Connect(0, r); err == nil {
		t.Error("a REQ from IPv4 to IPv6")
	}
	id, err := a.Connect(0, rcRequest())
	must(t, err)
	if _, err := a.Connect(0, rcRequest()); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	if err := a.Confirm(0, id, nil); !errors.Is(err, ErrState) {
		t.Error(err)
	}
	must(t, a.Disconnect(0, id, nil)) // called off
	if a.State(id) != StateIdle {
		t.Error(a.State(id))
	}
}

func TestSIDR(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, nil)
	service := dissect.IPCMServiceID(dissect.PortSpaceUDP, 7174)
	must(t, b.ListenSIDR(service, func(r SIDRRequest) SIDRAnswer {
		if r.From != addrA || r.Src != netip.MustParseAddrPort("10.0.0.1:5000") || string(r.Private[:2]) != "hi" {
			return SIDRAnswer{Status: dissect.SIDRRejected}
		}
		return SIDRAnswer{QPN: 0x33, QKey: UDPQKey, Private: []byte("here")}
	}))
	r := Request{Path: pathAB, Service: service, SrcPort: 5000, Private: []byte("hi")}
	_, err := a.Resolve(0, r)
	must(t, err)
	f := a.take()[0]
	b.Handle(f, 0)
	b.Handle(f, 0) // and again: the same answer, nothing kept
	said(t, b, dissect.CMAttrSIDRREP, dissect.CMAttrSIDRREP)
	carry(0, a, b)
	e := a.last(t, EventResolved)
	if e.Remote.QPN != 0x33 || e.Remote.QKey != UDPQKey || string(e.Private[:4]) != "here" || len(a.events) != 1 {
		t.Errorf("%v %+v", e, e.Remote)
	}
	r.Private = nil
	_, err = a.Resolve(0, r)
	must(t, err)
	carry(0, a, b)
	if e := a.last(t, EventRejected); e.Status != dissect.SIDRRejected {
		t.Error(e)
	}
	r.Service++
	_, err = a.Resolve(0, r)
	must(t, err)
	carry(0, a, b)
	if e := a.last(t, EventRejected); e.Status != dissect.SIDRUnsupported {
		t.Error(e)
	}
	_, err = a.Resolve(0, r)
	must(t, err)
	for next := a.Tick(0); next != never; next = a.Tick(next) {
	}
	a.last(t, EventUnreachable)
	if a.Stats().Connections != 0 || b.Stats().Connections != 0 {
		t.Error("something is left")
	}
}
