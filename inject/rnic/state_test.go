package rnic

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// attrs are valid values of all attributes.
func (r *rig) attrs(to State) Attr {
	return Attr{
		State: to, CurState: r.q.State(), Port: 1, PathMTU: rigMTU, DestQPN: peerQPN, RQPSN: rigPSN, SQPSN: ownPSN, QKey: 0x1234, Access: RemoteWrite,
		Timeout: 10, RetryCnt: 3, RNRRetry: 2, MinRNRTimer: 14, MaxRdAtomic: 4, MaxDestRdAtomic: 4, AH: AHAttr{Dst: r.outer.Src, DstMAC: r.outer.SrcMAC},
	}
}

// inState returns a rig whose queue pair is in a state.
func inState(t testing.TB, typ dissect.Transport, s State) *rig {
	t.Helper()
	r := newRig(t, typ, nil)
	path := map[State][]State{RESET: {RESET}, INIT: {RESET, INIT}, RTR: {RESET, INIT, RTR}, RTS: nil, SQD: {SQD}, ERROR: {ERROR}}[s]
	if s == SQE {
		wr := SendWR{Op: OpSend, SGL: []SGE{{VA: 1, Length: 1, LKey: 0xBAD00}}}
		if typ == dissect.UD {
			wr.AH = r.handle()
		}
		must(t, r.q.PostSend(wr))
		r.step()
		r.polled()
	}
	for _, to := range path {
		n, ok := step(typ, r.q.State(), to)
		if !ok {
			t.Fatalf("no step from %v to %v", r.q.State(), to)
		}
		must(t, r.q.Modify(r.attrs(to), AttrState|n.must))
	}
	if r.q.State() != s {
		t.Fatalf("the queue pair is %v, want %v", r.q.State(), s)
	}
	return r
}

func (r *rig) handle() *AH {
	r.t.Helper()
	ah, err := r.pd.CreateAH(AHAttr{Dst: r.outer.Src, DstMAC: r.outer.SrcMAC})
	must(r.t, err)
	return ah
}

// steps are the transitions of the specification (IBA 10.3.1, figure 124), written down a second time.
var steps = map[State][]State{
	RESET: {RESET, INIT, ERROR},
	INIT:  {RESET, INIT, RTR, ERROR},
	RTR:   {RESET, RTS, ERROR},
	RTS:   {RESET, RTS, SQD, ERROR},
	SQD:   {RESET, RTS, SQD, ERROR},
	SQE:   {RESET, RTS, ERROR},
	ERROR: {RESET, ERROR},
}

func TestStateMachine(t *testing.T) {
	for _, typ := range []dissect.Transport{dissect.RC, dissect.UC, dissect.UD} {
		for from := RESET; from < numStates; from++ {
			if typ == dissect.RC && from == SQE {
				continue // an RC send error leads to ERROR
			}
			for to := RESET; to < numStates; to++ {
				t.Run(fmt.Sprintf("%v %v to %v", typ, from, to), func(t *testing.T) {
					r := inState(t, typ, from)
					legal := false
					for _, s := range steps[from] {
						legal = legal || s == to
					}
					n, _ := step(typ, from, to)
					err := r.q.Modify(r.attrs(to), AttrState|n.must)
					switch {
					case legal && (err != nil || r.q.State() != to):
						t.Errorf("refused: %v", err)
					case !legal && (!errors.Is(err, ErrState) || r.q.State() != from):
						t.Errorf("taken, or refused for another reason: %v", err)
					}
				})
			}
		}
	}
}

// Each attribute that must be there is missed, each that may not be there is refused, each that may be is taken.
func TestAttributesOfEachStep(t *testing.T) {
	for _, typ := range []dissect.Transport{dissect.RC, dissect.UC, dissect.UD} {
		for i := range transitions {
			tr := &transitions[i]
			n, ok := step(typ, tr.from, tr.to)
			if !ok {
				continue
			}
			for bit := AttrCurState; bit <= AttrMinRNRTimer; bit <<= 1 {
				r := inState(t, typ, tr.from)
				mask := AttrState | n.must ^ bit
				err := r.q.Modify(r.attrs(tr.to), mask)
				name := bit.String()
				switch {
				case n.must&bit != 0:
					if err == nil || !strings.Contains(err.Error(), "needs also the attributes "+name) {
						t.Errorf("%v %v to %v without %s: %v", typ, tr.from, tr.to, name, err)
					}
				case n.may&bit != 0:
					if err != nil {
						t.Errorf("%v %v to %v with %s: %v", typ, tr.from, tr.to, name, err)
					}
				default:
					if err == nil || !strings.Contains(err.Error(), "does not take the attributes "+name) {
						t.Errorf("%v %v to %v with %s: %v", typ, tr.from, tr.to, name, err)
					}
				}
			}
		}
	}
	if n := bits.OnesCount32(uint32(AttrMinRNRTimer<<1 - 1)); n != len(attrNames) {
		t.Errorf("%d attributes, %d names", n, len(attrNames))
	}
}

func TestValuesOfAttributes(t *testing.T) {
	for _, c := range []struct {
		what   string
		attr   AttrMask
		change func(a *Attr)
	}{
		{"port 2", AttrPort, func(a *Attr) { a.Port = 2 }},
		{"P_Key index", AttrPKeyIndex, func(a *Attr) { a.PKeyIndex = 1 }},
		{"GID index", AttrAV, func(a *Attr) { a.AH.SGIDIndex = 1 }},
		{"no destination", AttrAV, func(a *Attr) { a.AH = AHAttr{} }},
		{"MTU 1000", AttrPathMTU, func(a *Attr) { a.PathMTU = 1000 }},
		{"MTU 8192", AttrPathMTU, func(a *Attr) { a.PathMTU = 8192 }},
		{"PSN of 25 bits", AttrRQPSN, func(a *Attr) { a.RQPSN = 1 << 24 }},
		{"QPN of 25 bits", AttrDestQPN, func(a *Attr) { a.DestQPN = 1 << 24 }},
		{"RNR timer 32", AttrMinRNRTimer, func(a *Attr) { a.MinRNRTimer = 32 }},
		{"depth 129", AttrMaxDestRdAtomic, func(a *Attr) { a.MaxDestRdAtomic = 129 }},
	} {
		to, from := RTR, INIT
		if c.attr&(AttrPort|AttrPKeyIndex) != 0 {
			to, from = INIT, RESET
		}
		r := inState(t, dissect.RC, from)
		n, _ := step(dissect.RC, from, to)
		a := r.attrs(to)
		c.change(&a)
		if err := r.q.Modify(a, AttrState|n.must); err == nil || r.q.State() != from {
			t.Errorf("%s was taken", c.what)
		}
	}
	r := inState(t, dissect.RC, RTS)
	if err := r.q.Modify(Attr{CurState: RTR}, AttrCurState); !errors.Is(err, ErrState) {
		t.Errorf("another current state: %v", err)
	}
}

// What a state takes from its user, and from the wire.
func TestWhatEachStateDoes(t *testing.T) {
	for _, c := range []struct {
		state      State
		send, recv bool // may be posted
		answers    bool // inbound requests are
		requests   bool // what is posted goes out
		flushes    bool
	}{
		{RESET, false, false, false, false, false},
		{INIT, false, true, false, false, false},
		{RTR, false, true, true, false, false},
		{RTS, true, true, true, true, false},
		{SQD, true, true, true, false, false},
		{ERROR, true, true, false, false, true},
	} {
		t.Run(c.state.String(), func(t *testing.T) {
			r := inState(t, dissect.RC, c.state)
			if err := r.q.PostSend(SendWR{ID: 1, Op: OpWrite}); (err == nil) != c.send || err != nil && !errors.Is(err, ErrState) {
				t.Errorf("post send: %v", err)
			}
			if err := r.q.PostRecv(RecvWR{ID: 2}); (err == nil) != c.recv || err != nil && !errors.Is(err, ErrState) {
				t.Errorf("post receive: %v", err)
			}
			r.step()
			if sent := len(r.answers()) > 0; sent != c.requests {
				t.Errorf("requests are sent: %v", sent)
			}
			if c.flushes {
				r.ended(WRFlushErr, WRFlushErr)
			} else {
				r.ended()
			}
			h := hdr{ack: true, qpn: r.q.QPN()}
			r.send(r.packet(opSendOnly, rigPSN, h))
			if answered := len(r.answers()) > 0; answered != c.answers {
				t.Errorf("requests are answered: %v", answered)
			}
			if c.answers {
				r.ended(Success)
			} else if r.ended(); r.dev.Counters().Dropped[DropService] != 1 {
				t.Error("a request was not dropped")
			}
		})
	}
}

// SQD: what has begun is finished, the rest waits, and an event tells when that is.
func TestSendQueueDrains(t *testing.T) {
	r := newRig(t, dissect.RC, func(i *QPInit, _ *Attr) { i.Policy.Window = 2 })
	r.post(1, OpWrite, 0, 3*rigMTU, 0)
	r.post(2, OpWrite, 0, 4, 0)
	r.sentPSNs(0, 1)
	must(t, r.q.Modify(Attr{State: SQD, EnSQDNotify: true}, AttrState|AttrEnSQDNotify))
	if err := r.q.Modify(r.attrs(SQD), AttrState|AttrTimeout); !errors.Is(err, ErrState) {
		t.Errorf("attributes while the queue drains: %v", err)
	}
	r.send(r.ack(ownPSN+1, good))
	r.sentPSNs(2)
	r.pass(5 * time.Millisecond)
	r.sentPSNs(2)
	if len(r.events) != 0 {
		t.Errorf("events %v", r.events)
	}
	r.send(r.ack(ownPSN+2, good))
	r.sentPSNs()
	r.ended(Success)
	if len(r.events) != 1 || r.events[0] != EventSQDrained {
		t.Errorf("events %v", r.events)
	}
	must(t, r.q.Modify(r.attrs(SQD), AttrState|AttrTimeout))
	must(t, r.q.Modify(Attr{State: RTS}, AttrState))
	r.step()
	r.sentPSNs(3)
}

// SQE: of UC and UD only, from a send error; the receive queue goes on, and RTS sends again.
func TestSendQueueError(t *testing.T) {
	r := newRig(t, dissect.UC, nil)
	r.recv(1, 64)
	bad := SendWR{ID: 2, Op: OpSend, SGL: []SGE{{VA: 1, Length: 1, LKey: 0xBAD00}}}
	must(t, r.q.PostSend(SendWR{ID: 1, Op: OpSend}, bad, SendWR{ID: 3, Op: OpSend}))
	r.step()
	r.sentPSNs(0)
	r.ended(LocProtErr, WRFlushErr)
	if r.q.State() != SQE {
		t.Fatalf("the queue pair is %v", r.q.State())
	}
	must(t, r.q.PostSend(SendWR{ID: 4, Op: OpSend}))
	r.step()
	r.ended(WRFlushErr)
	r.send(r.packet(0x24, rigPSN, hdr{data: []byte("still received")}))
	r.ended(Success)
	must(t, r.q.Modify(Attr{State: RTS}, AttrState))
	r.post(5, OpSend, 0, 4, 0)
	r.sentPSNs(1)
	r.ended(Success)
}

// D43, D51, LIFE-01: ERROR, RESET, and a new life that knows nothing of the old one.
func TestSecondLife(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.recv(3, 64)
	r.post(1, OpRead, 0, 600, 0)
	r.send(r.packet(dissect.OpRCSendFirst, rigPSN, hdr{data: make([]byte, rigMTU)})) // longer than its receive
	r.ended(LocLenErr, WRFlushErr, WRFlushErr, WRFlushErr)
	r.answers()
	must(t, r.q.Modify(Attr{State: RESET}, AttrState))
	r.send(r.write(rigPSN, 4))
	r.said()
	for to := INIT; to <= RTS; to++ {
		n, _ := step(dissect.RC, to-1, to)
		a := r.attrs(to)
		a.SQPSN, a.RQPSN = 0x500, 0x700
		must(t, r.q.Modify(a, AttrState|n.must))
	}
	r.send(r.write(0x700, 4))
	r.said(ackd(0x700, 1))
	r.post(1, OpWrite, 0, 4, 0)
	if got := psns(r.answers()); len(got) != 1 || got[0] != 0x500 {
		t.Errorf("first PSN %#x", got)
	}
	qpn := r.q.QPN()
	must(t, r.q.Destroy())
	r.send(r.write(0x701, 4))
	r.said()
	q, err := r.pd.CreateQP(QPInit{Type: dissect.RC, SendCQ: r.cq, RecvCQ: r.cq})
	must(t, err)
	if q.QPN() == qpn {
		t.Error("the number was given again at once")
	}
}

func TestPostSendRefuses(t *testing.T) {
	r := newRig(t, dissect.UC, nil)
	ud := newRig(t, dissect.UD, nil)
	sge := r.mr.SGE(0, 8)
	for _, c := range []struct {
		what string
		r    *rig
		wr   SendWR
	}{
		{"READ on UC", r, SendWR{Op: OpRead}},
		{"atomic on UC", r, SendWR{Op: OpFetchAdd, SGL: []SGE{sge}}},
		{"invalidate on UC", r, SendWR{Op: OpSendInv}},
		{"WRITE on UD", ud, SendWR{Op: OpWrite, AH: ud.handle()}},
		{"UD without address handle", ud, SendWR{Op: OpSend}},
		{"UD beyond the MTU", ud, SendWR{Op: OpSend, AH: ud.handle(), SGL: []SGE{ud.mr.SGE(0, 4097)}}},
		{"too many elements", r, SendWR{Op: OpSend, SGL: []SGE{sge, sge, sge, sge, sge}}},
		{"too much inline", r, SendWR{Op: OpSend, Flags: Inline, Inline: make([]byte, 65)}},
		{"inline without the flag", r, SendWR{Op: OpSend, Inline: make([]byte, 5)}},
		{"list and inline", r, SendWR{Op: OpSend, Flags: Inline, Inline: make([]byte, 5), SGL: []SGE{sge}}},
		{"more than 2^31 bytes", r, SendWR{Op: OpSend, SGL: []SGE{{Length: 1 << 31}, {Length: 1}}}},
		{"no such operation", r, SendWR{Op: numOps}},
	} {
		if err := c.r.q.PostSend(c.wr); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	full := newRig(t, dissect.RC, nil)
	for range 32 {
		must(t, full.q.PostSend(SendWR{Op: OpWrite}))
		must(t, full.q.PostRecv(RecvWR{}))
	}
	if err := full.q.PostSend(SendWR{Op: OpWrite}); !errors.Is(err, ErrQueueFull) {
		t.Errorf("a full send queue: %v", err)
	}
	if err := full.q.PostRecv(RecvWR{}); !errors.Is(err, ErrQueueFull) {
		t.Errorf("a full receive queue: %v", err)
	}
}

// RES-05.
func TestCompletionQueueOverruns(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	cq, err := r.dev.CreateCQ(2)
	must(t, err)
	r.q.recvCQ = cq
	r.recv(4, 64)
	for i := range 3 {
		r.send(r.packet(opSendOnly, dissect.PSN(rigPSN).Add(i), hdr{}))
	}
	if r.q.State() != ERROR || len(r.events) != 2 || r.events[0] != EventCQErr || r.events[1] != EventQPFatal {
		t.Errorf("%v, events %v", r.q.State(), r.events)
	}
	out := make([]Completion, 8)
	if n := cq.Poll(out); n != 2 || out[0].Status != Success || out[1].Status != Success {
		t.Errorf("%d completions: %+v", n, out[:n])
	}
}

// RES-06, and what is shared.
func TestSharedReceiveQueue(t *testing.T) {
	l := newLab(t, labOptions{})
	a := l.connect(pair{srq: true, retry: 7, rnr: 7})
	srq := a[1].srq
	if err := a[1].PostRecv(RecvWR{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a receive of its own: %v", err)
	}
	into, from := l.region(1, 4096), l.region(0, 64)
	must(t, a[0].PostSend(SendWR{ID: 1, Op: OpSend, Flags: Signaled, SGL: []SGE{from.SGE(0, 8)}}))
	l.run(100 * time.Microsecond) // RNR
	srq.Arm(2)
	for i := range 3 {
		must(t, srq.PostRecv(RecvWR{ID: uint64(i), SGL: []SGE{into.SGE(i*64, 64)}}))
	}
	l.settle()
	if got := l.taken(1); len(got) != 1 || got[0].ID != 0 || got[0].ByteLen != 8 {
		t.Errorf("completions %+v", got)
	}
	must(t, a[0].PostSend(SendWR{ID: 2, Op: OpSend, Flags: Signaled, SGL: []SGE{from.SGE(0, 8)}}))
	l.settle()
	if e := l.sides[1].events; len(e) != 1 || e[0].Type != EventSRQLimitReached || e[0].SRQ != srq {
		t.Errorf("events %+v", e)
	}
	must(t, a[1].Modify(Attr{State: ERROR}, AttrState))
	l.settle()
	if e := l.sides[1].events; len(e) != 2 || e[1].Type != EventQPLastWQEReached {
		t.Errorf("events %+v", e)
	}
	if srq.rq.posted() != 1 {
		t.Errorf("%d receives are left, want 1: a shared queue is not flushed", srq.rq.posted())
	}
	if got := l.sides[1].dev.Counters().OutOfBuffer; got != 1 {
		t.Errorf("%d RNR NAKs", got)
	}
}
