package connect

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// BenchmarkConnect is a whole connection, both sides: REQ, REP, RTU, DREQ, DREP, and the end of the waiting.
func BenchmarkConnect(b *testing.B) {
	x, y, _, _ := connected(b)
	now := int64(1)
	x.on = func(e Event) {
		if x.events = x.events[:0]; e.Kind == EventResponse {
			must(b, x.Confirm(now, e.ID, nil))
		}
	}
	y.on = func(e Event) {
		if y.events = y.events[:0]; e.Kind == EventRequest {
			must(b, y.Accept(now, e.ID, Answer{Local: Parameters{QPN: 9}}))
		}
	}
	r := rcRequest()
	for i := uint32(0); b.Loop(); i++ {
		r.Local.QPN = 0x100 + i&0xFFFF // not that of the connection that lives
		id, err := x.Connect(now, r)
		must(b, err)
		carry(now, x, y)
		must(b, x.Disconnect(now, id, nil))
		carry(now, x, y)
		now += 2_000 * ms
		x.Tick(now)
		y.Tick(now)
	}
}

// BenchmarkRefuse is what a REQ costs that is refused for want of room.
func BenchmarkRefuse(b *testing.B) {
	y := newHost(b, func(c *CMConfig) { c.MaxPending = 1 })
	must(b, y.Listen(rpingService))
	x := newHost(b, nil)
	for range 2 {
		_, err := x.Connect(0, rcRequest())
		must(b, err)
	}
	y.Handle(x.sent[0], 0)
	frame := x.sent[1]
	req := dissect.CMREQ(message(b, frame).Data)
	req.SetLocalQPN(0x999)
	var craft dissect.Crafter
	must(b, craft.Reseal(dissect.LinkEthernet, frame))
	y.cfg.Send = func([]byte) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		y.Handle(frame, 0)
	}
	if y.Stats().NoRoom == 0 {
		b.Fatal("it was not refused")
	}
}

// TestCMMemory: 10 000 connections take what docs/connect.md says.
func TestCMMemory(t *testing.T) {
	const n = 10_000
	m, err := NewCM(CMConfig{Send: func([]byte) error { return nil }, Event: func(Event) {}, Rand: rand.NewPCG(1, 2)})
	must(t, err)
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for i := range uint32(n) {
		r := rcRequest()
		r.Local.QPN = 2 + i
		_, err := m.Connect(0, r)
		must(t, err)
	}
	if each := (heap() - before) / n; each > 1100 {
		t.Errorf("%d bytes a connection", each)
	} else {
		t.Logf("%d bytes a connection", each)
	}
	runtime.KeepAlive(m)
}
