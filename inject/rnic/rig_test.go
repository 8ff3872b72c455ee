package rnic

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// rig is one device, with the test in the place of its peer: it sends crafted packets and reads the answers.
type rig struct {
	t      testing.TB
	now    int64
	dev    *Device
	far    *port.Memory
	pd     *PD
	cq     *CQ
	q      *QP
	mr     *MR
	events []EventType
	craft  dissect.Crafter
	outer  dissect.Outer
}

const (
	peerQPN = 0x777
	rigPSN  = 0xFFFFFE // of the peer's first request: it wraps
	ownPSN  = 0x1000   // of the device's first request
	rigMTU  = 256
)

// newRig makes a queue pair in RTS whose peer is the test. change may be nil.
func newRig(t testing.TB, typ dissect.Transport, change func(*QPInit, *Attr), misbehave ...string) *rig {
	t.Helper()
	r := &rig{t: t, now: start}
	near, far := port.Pair(port.MemoryOptions{Slots: 64, MaxFrame: 4096 + maxOverhead, Clock: func() int64 { return r.now }})
	r.far = far
	mac, peerMAC := [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
	own, peer := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	var err error
	r.dev, err = Open(near, Options{MAC: mac, Addrs: []netip.Addr{own}, Clock: func() int64 { return r.now }, Misbehave: misbehave})
	must(t, err)
	r.dev.OnEvent(func(e Event) { r.events = append(r.events, e.Type) })
	r.pd = r.dev.AllocPD()
	r.cq, err = r.dev.CreateCQ(64)
	must(t, err)
	r.mr, err = r.pd.RegMR(pattern(8192), LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic|RemoteInvalidate)
	must(t, err)
	init := QPInit{Type: typ, SendCQ: r.cq, RecvCQ: r.cq, Cap: QPCap{MaxSendWR: 32, MaxRecvWR: 32, MaxSGE: 4, MaxInline: 64}}
	a := Attr{
		Port: 1, Access: RemoteWrite | RemoteRead | RemoteAtomic, PathMTU: rigMTU, DestQPN: peerQPN, RQPSN: rigPSN, SQPSN: ownPSN, QKey: 0x1234,
		Timeout: 10, RetryCnt: 3, RNRRetry: 2, MinRNRTimer: 14, MaxRdAtomic: 4, MaxDestRdAtomic: 4, AH: AHAttr{Dst: peer, DstMAC: peerMAC},
	}
	if change != nil {
		change(&init, &a)
	}
	r.q, err = r.pd.CreateQP(init)
	must(t, err)
	for to := INIT; to <= RTS; to++ {
		n, ok := step(typ, to-1, to)
		if !ok {
			t.Fatal("no step to", to)
		}
		a.State = to
		must(t, r.q.Modify(a, AttrState|n.must))
	}
	r.outer = dissect.Outer{DstMAC: mac, SrcMAC: peerMAC, Src: peer, Dst: own, SrcPort: 0xC123}
	return r
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// hdr is what a crafted packet says besides its opcode and PSN. Zero fields are the usual.
type hdr struct {
	qpn      uint32
	ack, se  bool
	va       uint64
	rkey     uint32
	length   uint32
	swap     uint64
	compare  uint64
	imm      uint32
	syndrome dissect.Syndrome
	msn      dissect.MSN
	orig     uint64
	qkey     uint32
	data     []byte
	bth      func(dissect.BTH) // before the ICRC is made
	frame    func([]byte)      // behind it
}

// packet crafts a packet of the peer.
func (r *rig) packet(op dissect.Opcode, psn dissect.PSN, h hdr) []byte {
	r.t.Helper()
	o := r.outer
	b := o.AppendTo(nil)
	at := len(b)
	b = dissect.AppendTransport(b, op)
	t := b[at:]
	bth := dissect.BTH(t)
	bth.SetDestQP(r.q.QPN())
	if h.qpn != 0 {
		bth.SetDestQP(h.qpn)
	}
	bth.SetPSN(psn)
	bth.SetAckReq(h.ack)
	bth.SetSE(h.se)
	info := op.Info()
	for _, l := range info.Headers {
		v := info.View(t, l)
		switch l {
		case dissect.LayerRETH:
			dissect.RETH(v).SetVA(h.va)
			dissect.RETH(v).SetRKey(h.rkey)
			dissect.RETH(v).SetDMALen(h.length)
		case dissect.LayerAtomicETH:
			dissect.AtomicETH(v).SetVA(h.va)
			dissect.AtomicETH(v).SetRKey(h.rkey)
			dissect.AtomicETH(v).SetSwapAdd(h.swap)
			dissect.AtomicETH(v).SetCompare(h.compare)
		case dissect.LayerImmDt:
			dissect.ImmDt(v).SetData(h.imm)
		case dissect.LayerIETH:
			dissect.IETH(v).SetRKey(h.imm)
		case dissect.LayerAETH:
			dissect.AETH(v).SetSyndrome(h.syndrome)
			dissect.AETH(v).SetMSN(h.msn)
		case dissect.LayerAtomicAckETH:
			dissect.AtomicAckETH(v).SetOrig(h.orig)
		case dissect.LayerDETH:
			dissect.DETH(v).SetQKey(h.qkey)
			dissect.DETH(v).SetSrcQP(peerQPN)
		}
	}
	b = append(b, h.data...)
	b, err := r.craft.Seal(&o, b)
	must(r.t, err)
	if h.bth != nil {
		h.bth(dissect.BTH(b[at:]))
		must(r.t, r.craft.Reseal(dissect.LinkEthernet, b))
	}
	if h.frame != nil {
		h.frame(b)
	}
	return b
}

// send gives frames to the device, one batch each, and lets it work.
func (r *rig) send(frames ...[]byte) {
	r.t.Helper()
	for _, f := range frames {
		r.together(f)
	}
}

// together gives frames to the device in one batch.
func (r *rig) together(frames ...[]byte) {
	r.t.Helper()
	for _, f := range frames {
		var slot [1]uint32
		if r.far.Take(slot[:]) == 0 {
			r.t.Fatal("no free slot")
		}
		n := copy(r.far.Room(slot[0]), f)
		must(r.t, r.far.Send([]port.Out{{Slot: slot[0], Len: int32(n)}}))
	}
	r.step()
}

func (r *rig) step() {
	r.t.Helper()
	for {
		r.now += 100
		busy, err := r.dev.Step()
		must(r.t, err)
		if !busy {
			return
		}
	}
}

// pass lets time pass, and the device see to its timers.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	r.now += int64(d)
	r.step()
}

// heard is a packet that the device sent.
type heard struct {
	dissect.Packet
	data []byte
}

// answers returns what the device sent since the last call.
func (r *rig) answers() (got []heard) {
	r.t.Helper()
	d := dissect.Decoder{CheckICRC: true}
	var in [16]port.In
	for {
		n, err := r.far.Receive(in[:])
		must(r.t, err)
		if n == 0 {
			return got
		}
		for _, f := range in[:n] {
			var h heard
			d.Decode(dissect.LinkEthernet, f.Data, len(f.Data), &h.Packet)
			if h.Malformed() || h.ICRC != dissect.ICRCValid {
				r.t.Errorf("the device sent a bad packet: %v, ICRC %v", h.Problems(), h.ICRC)
			}
			h.data = bytes.Clone(h.Payload(f.Data))
			got = append(got, h)
		}
	}
}

// said fails the test unless the device sent these, and no more.
func (r *rig) said(want ...say) {
	r.t.Helper()
	got := r.answers()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			r.t.Errorf("answer %d is missing: want %v", i, want[i])
		case i >= len(want):
			r.t.Errorf("answer %d is too much: %v PSN %#x %v", i, got[i].Opcode, got[i].PSN, got[i].Syndrome)
		default:
			g := say{op: got[i].Opcode, psn: got[i].PSN}
			if got[i].Has(dissect.LayerAETH) {
				g.syndrome, g.msn = got[i].Syndrome, got[i].MSN
			}
			if g != want[i] {
				r.t.Errorf("answer %d is %v, want %v", i, g, want[i])
			}
		}
	}
}

// say is a packet of the device in short.
type say struct {
	op       dissect.Opcode
	psn      dissect.PSN
	syndrome dissect.Syndrome
	msn      dissect.MSN
}

// ackd is an ACK without credits.
func ackd(psn dissect.PSN, msn dissect.MSN) say {
	return say{dissect.OpRCAcknowledge, psn, dissect.NoCreditInfo, msn}
}

func nakd(code dissect.NAKCode, psn dissect.PSN, msn dissect.MSN) say {
	return say{dissect.OpRCAcknowledge, psn, nakSyndrome(code), msn}
}

func rnrd(timer uint8, psn dissect.PSN, msn dissect.MSN) say {
	return say{dissect.OpRCAcknowledge, psn, dissect.Syndrome(0x20 | timer), msn}
}

// polled returns the completions.
func (r *rig) polled() []Completion {
	out := make([]Completion, 64)
	return out[:r.cq.Poll(out)]
}

// ended fails the test unless the work requests ended so, in this order.
func (r *rig) ended(want ...Status) {
	r.t.Helper()
	got := r.polled()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i].Status == want[i]
	}
	if !ok {
		r.t.Errorf("completions %+v, want %v", got, want)
	}
}

func netips(addrs ...dissect.Addr) (list []netip.Addr) {
	for _, a := range addrs {
		list = append(list, a.Netip())
	}
	return list
}
