package connect

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// node is a software RNIC with all that it needs to get to know another one.
type node struct {
	t    *testing.T
	dev  *rnic.Device
	cm   *CM
	host Host
	ask  Resolver
	mr   *rnic.MR
	cq   *rnic.CQ
	pd   *rnic.PD
	qp   *rnic.QP
	path *dissect.Outer // to the neighbour that was asked for
	seen []EventKind
	done []rnic.Completion
	on   func(Event)
}

func newNode(t *testing.T, p port.Port, clock func() int64, mac [6]byte, addrs ...netip.Addr) *node {
	n := &node{t: t, host: Host{MAC: mac, Addrs: addrs}}
	var err error
	n.dev, err = rnic.Open(p, rnic.Options{MAC: mac, Addrs: addrs, Clock: clock})
	must(t, err)
	n.pd = n.dev.AllocPD()
	n.cq, err = n.dev.CreateCQ(16)
	must(t, err)
	n.mr, err = n.pd.RegMR(make([]byte, 4096), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead)
	must(t, err)
	n.qp, err = n.pd.CreateQP(rnic.QPInit{Type: dissect.RC, SendCQ: n.cq, RecvCQ: n.cq, Cap: rnic.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSGE: 1}})
	must(t, err)
	n.cm, err = NewCM(CMConfig{Send: n.dev.SendFrame, Event: func(e Event) {
		n.seen = append(n.seen, e.Kind)
		n.on(e)
	}})
	must(t, err)
	n.ask = Resolver{Host: &n.host, Send: n.dev.SendFrame, Found: func(addr netip.Addr, mac [6]byte, ok bool) {
		if ok {
			o := n.ask.Via(mac, addr)
			n.path = &o
		}
	}}
	n.dev.OnManagement(n.cm.Handle)
	var buf []byte
	n.dev.OnOther(func(frame []byte, _ int64) {
		if buf = n.host.Answer(buf[:0], frame); len(buf) > 0 {
			must(t, n.dev.SendFrame(buf))
		}
		n.ask.Handle(frame)
	})
	return n
}

// ready takes the queue pair to RTS by what an event tells.
func (n *node) ready(e Event) {
	n.t.Helper()
	a := rnic.Attr{
		Port: 1, Access: rnic.RemoteWrite | rnic.RemoteRead, PathMTU: e.Remote.MTU, DestQPN: e.Remote.QPN, RQPSN: e.Remote.PSN, SQPSN: e.Local.PSN,
		Timeout: e.Remote.AckTimeout, RetryCnt: e.Remote.RetryCount, RNRRetry: e.Remote.RNRRetryCount, MinRNRTimer: 12,
		MaxRdAtomic: int(e.Remote.ResponderResources), MaxDestRdAtomic: int(e.Remote.InitiatorDepth),
		AH: rnic.AHAttr{Dst: e.Remote.Address, DstMAC: e.Path.DstMAC, FlowLabel: e.Remote.FlowLabel, SGIDIndex: slices.Index(n.host.Addrs, e.Local.Address)},
	}
	a.State = rnic.INIT
	must(n.t, n.qp.Modify(a, rnic.AttrState|rnic.AttrPKeyIndex|rnic.AttrPort|rnic.AttrAccess))
	must(n.t, n.qp.PostRecv(rnic.RecvWR{ID: 100, SGL: []rnic.SGE{n.mr.SGE(2048, 1024)}}))
	a.State = rnic.RTR
	must(n.t, n.qp.Modify(a, rnic.AttrState|rnic.AttrAV|rnic.AttrPathMTU|rnic.AttrDestQPN|rnic.AttrRQPSN|rnic.AttrMaxDestRdAtomic|rnic.AttrMinRNRTimer))
	a.State = rnic.RTS
	must(n.t, n.qp.Modify(a, rnic.AttrState|rnic.AttrTimeout|rnic.AttrRetryCnt|rnic.AttrRNRRetry|rnic.AttrSQPSN|rnic.AttrMaxRdAtomic))
}

// TestTwoRNICs goes all the way over a pair in memory: who has the address, may I connect, data both ways, goodbye.
func TestTwoRNICs(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		now := int64(1)
		clock := func() int64 { return now }
		near, far := port.Pair(port.MemoryOptions{Slots: 64, Clock: clock})
		a := newNode(t, near, clock, hostA.MAC, hostA.Addrs...)
		b := newNode(t, far, clock, hostB.MAC, hostB.Addrs...)
		run := func() {
			t.Helper()
			for busy := true; busy; now += 1000 {
				busy = false
				for _, n := range []*node{a, b} {
					more, err := n.dev.Step()
					must(t, err)
					n.cm.Tick(now)
					n.ask.Tick(now)
					var c [8]rnic.Completion
					n.done = append(n.done, c[:n.cq.Poll(c[:])]...)
					busy = busy || more
				}
			}
		}
		addr := addrB
		if v6 {
			addr = ip6B
		}
		must(t, a.ask.Ask(now, addr))
		run()
		if a.path == nil || a.path.DstMAC != hostB.MAC {
			t.Fatalf("%v is not found: %+v", addr, a.path)
		}

		must(t, b.cm.Listen(rpingService))
		copy(b.mr.Bytes(), "what b has to tell")
		b.on = func(e Event) {
			if e.Kind != EventRequest {
				return
			}
			local := Parameters{QPN: b.qp.QPN(), ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: 7}
			psn := dissect.PSN(0xFFFFFE) // wraps
			e.Local.QPN, e.Remote.PSN = local.QPN, psn
			b.ready(e)
			told := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, b.mr.VA()), b.mr.RKey())
			must(t, b.cm.Accept(now, e.ID, Answer{Local: local, Expect: &psn, Private: told}))
		}
		var id ConnID
		a.on = func(e Event) {
			if e.Kind != EventResponse {
				return
			}
			a.ready(e)
			must(t, a.cm.Confirm(now, e.ID, nil))
			va, rkey := binary.BigEndian.Uint64(e.Private), binary.BigEndian.Uint32(e.Private[8:])
			copy(a.mr.Bytes(), "from a to b")
			must(t, a.qp.PostSend(
				rnic.SendWR{ID: 1, Op: rnic.OpSend, Flags: rnic.Signaled, SGL: []rnic.SGE{a.mr.SGE(0, 11)}},
				rnic.SendWR{ID: 2, Op: rnic.OpRead, Flags: rnic.Signaled, SGL: []rnic.SGE{a.mr.SGE(64, 18)}, RemoteVA: va, RKey: rkey},
				rnic.SendWR{ID: 3, Op: rnic.OpWrite, Flags: rnic.Signaled, SGL: []rnic.SGE{a.mr.SGE(0, 11)}, RemoteVA: va + 1000, RKey: rkey},
			))
		}
		id, err := a.cm.Connect(now, Request{Path: *a.path, Service: rpingService, SrcPort: 5000, Local: Parameters{
			Transport: dissect.RC, QPN: a.qp.QPN(), MTU: 1024, ResponderResources: 4, InitiatorDepth: 4, AckTimeout: 14, RetryCount: 7, RNRRetryCount: 7,
		}})
		must(t, err)
		run()
		if !slices.Contains(a.seen, EventEstablished) || !slices.Contains(b.seen, EventEstablished) {
			t.Fatalf("events %v, %v", a.seen, b.seen)
		}
		if len(a.done) != 3 || len(b.done) != 1 || b.done[0].ByteLen != 11 {
			t.Fatalf("completions %+v, %+v", a.done, b.done)
		}
		for _, c := range a.done {
			if c.Status != rnic.Success {
				t.Errorf("%+v", c)
			}
		}
		if got := b.mr.Bytes(); !bytes.HasPrefix(got[2048:], []byte("from a to b")) || !bytes.HasPrefix(got[1000:], []byte("from a to b")) {
			t.Errorf("b has %q and %q", got[2048:2060], got[1000:1012])
		}
		if got := a.mr.Bytes()[64:82]; string(got) != "what b has to tell" {
			t.Errorf("a has read %q", got)
		}
		must(t, a.cm.Disconnect(now, id, nil))
		run()
		if a.cm.State(id) != StateTimeWait || !slices.Contains(b.seen, EventDisconnected) {
			t.Errorf("at the end: %v, %v", a.cm.State(id), b.seen)
		}
	}
}
