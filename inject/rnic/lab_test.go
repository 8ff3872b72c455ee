package rnic

import (
	"bytes"
	"container/heap"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// lab is two devices, a wire between them that tests can break, a clock that it drives, and a tap in the wire's middle.
type lab struct {
	t      testing.TB
	now    int64
	sides  [2]*side
	flight flight
	seq    int
	tapped []testkit.Frame

	latency int64
	// fault says what happens to the n-th frame of a side, in place of nothing.
	fault func(from, n int, p *dissect.Packet, frame []byte) fate
	sent  [2]int
	dec   dissect.Decoder
}

// fate is what the wire does to a frame. The zero value lets it pass.
type fate struct {
	lost   bool // behind the tap
	unseen bool // lost before the tap
	copies int  // more of it
	late   int64
	change func(frame []byte)
}

// side is a device and what its user has.
type side struct {
	dev    *Device
	wire   *port.Memory
	queue2 *Device      // of a second queue, which has no queue pair; nil = none
	wire2  *port.Memory // where all comes in then
	pd     *PD
	cq     *CQ
	events []Event
	done   []Completion
	addr   netip.Addr
	mac    [6]byte
}

// onWay is a frame between the devices.
type onWay struct {
	at   int64
	seq  int
	to   int
	data []byte
}

type flight []onWay

func (f flight) Len() int { return len(f) }
func (f flight) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flight) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flight) Push(x any)   { *f = append(*f, x.(onWay)) }
func (f *flight) Pop() any {
	old := *f
	x := old[len(old)-1]
	*f = old[:len(old)-1]
	return x
}

// start of the lab's time: 2024-01-02 03:04:05 UTC.
var start = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano()

type labOptions struct {
	ipv6   bool
	queues bool    // two at each side: packets come in where no queue pair is
	device Options // what both devices have besides MAC, address and clock
}

func newLab(t testing.TB, o labOptions) *lab {
	t.Helper()
	l := &lab{t: t, now: start, latency: 2000}
	for i := range l.sides {
		near, far := port.Pair(port.MemoryOptions{Slots: 256, MaxFrame: 4096 + maxOverhead, Clock: func() int64 { return l.now }})
		s := &side{wire: far, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), mac: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}}
		if o.ipv6 {
			s.addr = netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))
		}
		opt := o.device
		opt.MAC, opt.Addrs, opt.Clock = s.mac, []netip.Addr{s.addr}, func() int64 { return l.now }
		opt.FirstQPN = uint32(0x11 + 0x100*i)
		ports := []port.Port{near}
		if o.queues {
			var second *port.Memory
			second, s.wire2 = port.Pair(port.MemoryOptions{Slots: 256, MaxFrame: 4096 + maxOverhead, Clock: func() int64 { return l.now }})
			ports = append(ports, second)
		}
		devs, err := OpenQueues(ports, opt)
		if err != nil {
			t.Fatal(err)
		}
		if s.dev = devs[0]; o.queues {
			s.queue2 = devs[1]
		}
		s.dev.OnEvent(func(e Event) { s.events = append(s.events, e) })
		s.pd = s.dev.AllocPD()
		if s.cq, err = s.dev.CreateCQ(4096); err != nil {
			t.Fatal(err)
		}
		l.sides[i] = s
	}
	return l
}

// pair is what connect was asked for. The zero values are good.
type pair struct {
	typ         dissect.Transport
	mtu         int
	psn         [2]dissect.PSN // where each side's requests begin
	cap         QPCap
	policy      Policy
	timeout     uint8
	retry, rnr  uint8
	timer       uint8
	depth, dest int
	srq         bool
	access      Access
	sigAll      bool
	av          AHAttr
	halfway     bool // stop at RTR
	noDepth     bool
}

// connect makes a queue pair on each side and brings them to RTS.
func (l *lab) connect(p pair) (qps [2]*QP) {
	l.t.Helper()
	if p.mtu == 0 {
		p.mtu = 1024
	}
	if p.cap.MaxSendWR == 0 {
		p.cap = QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSGE: 4, MaxInline: 256}
	}
	if p.timeout == 0 {
		p.timeout = 10
	}
	if p.timer == 0 {
		p.timer = 12
	}
	if p.depth == 0 && !p.noDepth {
		p.depth, p.dest = 8, 8
	}
	if p.access == 0 {
		p.access = RemoteWrite | RemoteRead | RemoteAtomic
	}
	for i, s := range l.sides {
		init := QPInit{Type: p.typ, SendCQ: s.cq, RecvCQ: s.cq, Cap: p.cap, Policy: p.policy, SigAll: p.sigAll}
		if p.srq {
			srq, err := s.pd.CreateSRQ(64, 4)
			if err != nil {
				l.t.Fatal(err)
			}
			init.SRQ = srq
		}
		q, err := s.pd.CreateQP(init)
		if err != nil {
			l.t.Fatal(err)
		}
		qps[i] = q
	}
	for i := range l.sides {
		l.bring(qps[i], i, qps[1-i].QPN(), p)
	}
	return qps
}

// bring takes a queue pair from RESET to RTS.
func (l *lab) bring(q *QP, i int, peer uint32, p pair) {
	l.t.Helper()
	a := Attr{
		State: INIT, Port: 1, QKey: 0x11111111, Access: p.access, PathMTU: p.mtu, DestQPN: peer, RQPSN: p.psn[1-i], SQPSN: p.psn[i],
		Timeout: p.timeout, RetryCnt: p.retry, RNRRetry: p.rnr, MinRNRTimer: p.timer, MaxRdAtomic: p.depth, MaxDestRdAtomic: p.dest, AH: p.av,
	}
	a.AH.Dst, a.AH.DstMAC = l.sides[1-i].addr, l.sides[1-i].mac
	steps := map[dissect.Transport][3]AttrMask{
		dissect.RC: {
			AttrPKeyIndex | AttrPort | AttrAccess, AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
			AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic,
		},
		dissect.UC: {AttrPKeyIndex | AttrPort | AttrAccess, AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN, AttrSQPSN},
		dissect.UD: {AttrPKeyIndex | AttrPort | AttrQKey, 0, AttrSQPSN},
	}[q.Type()]
	for n, mask := range steps {
		if n == 2 && p.halfway {
			return
		}
		a.State = [...]State{INIT, RTR, RTS}[n]
		if err := q.Modify(a, mask|AttrState); err != nil {
			l.t.Fatal(err)
		}
	}
}

// region registers n bytes on a side, filled with a pattern that no other region has.
func (l *lab) region(i, n int) *MR {
	l.t.Helper()
	mem := make([]byte, n)
	for k := range mem {
		mem[k] = byte(k*31 + k>>8*7 + i*101 + n)
	}
	mr, err := l.sides[i].pd.RegMR(mem, LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic|RemoteInvalidate)
	if err != nil {
		l.t.Fatal(err)
	}
	return mr
}

// turn steps both devices once and moves frames; it reports whether anything happened.
func (l *lab) turn() bool {
	l.t.Helper()
	something := false
	for i, s := range l.sides {
		if s.queue2 != nil {
			if _, err := s.queue2.Step(); err != nil {
				l.t.Fatal(err)
			}
		}
		busy, err := s.dev.Step()
		if err != nil {
			l.t.Fatal(err)
		}
		something = something || busy
		var in [64]port.In
		for {
			n, err := s.wire.Receive(in[:])
			if err != nil {
				l.t.Fatal(err)
			}
			if n == 0 {
				break
			}
			for _, f := range in[:n] {
				l.carry(i, f.Data)
			}
			something = true
		}
		var got [32]Completion
		for n := s.cq.Poll(got[:]); n > 0; n = s.cq.Poll(got[:]) {
			s.done = append(s.done, got[:n]...)
			something = true
		}
	}
	for len(l.flight) > 0 && l.flight[0].at <= l.now {
		f := heap.Pop(&l.flight).(onWay)
		w := l.sides[f.to].wire
		if second := l.sides[f.to].wire2; second != nil {
			w = second
		}
		var slot [1]uint32
		if w.Take(slot[:]) == 0 {
			heap.Push(&l.flight, f)
			break
		}
		n := copy(w.Room(slot[0]), f.data)
		if err := w.Send([]port.Out{{Slot: slot[0], Len: int32(n)}}); err != nil {
			l.t.Fatal(err)
		}
		something = true
	}
	return something
}

// carry puts a frame of a side on its way.
func (l *lab) carry(from int, frame []byte) {
	data := bytes.Clone(frame)
	var does fate
	if l.fault != nil {
		var p dissect.Packet
		l.dec.Decode(dissect.LinkEthernet, data, len(data), &p)
		does = l.fault(from, l.sent[from], &p, data)
	}
	l.sent[from]++
	if does.unseen {
		return
	}
	if does.change != nil {
		does.change(data)
	}
	l.tapped = append(l.tapped, testkit.Frame{Time: l.now + int64(len(l.tapped)), Data: data, WireLen: len(data), Link: dissect.LinkEthernet})
	if does.lost {
		return
	}
	for range 1 + does.copies {
		l.seq++
		heap.Push(&l.flight, onWay{l.now + l.latency + does.late, l.seq, 1 - from, data})
	}
}

// run lets time pass until nothing is left to happen, or limit is over; it reports whether all came to rest.
func (l *lab) run(limit time.Duration) bool {
	l.t.Helper()
	end := l.now + int64(limit)
	for {
		for l.turn() {
			l.now += 100 // a step costs time
		}
		next, ok := int64(0), false
		if len(l.flight) > 0 {
			next, ok = l.flight[0].at, true
		}
		for _, s := range l.sides {
			if at, is := s.dev.Next(); is && (!ok || at < next) {
				next, ok = at, true
			}
		}
		if !ok {
			return true
		}
		if next > end {
			l.now = end
			return false
		}
		l.now = max(l.now, next)
	}
}

// settle is run, and a failure if things do not come to rest.
func (l *lab) settle() {
	l.t.Helper()
	if !l.run(10 * time.Minute) {
		l.t.Fatal("the devices did not come to rest")
	}
}

// taken returns the completions of a side so far, and forgets them.
func (l *lab) taken(i int) []Completion {
	got := l.sides[i].done
	l.sides[i].done = nil
	return got
}

// packets decodes what was tapped.
func (l *lab) packets() []dissect.Packet {
	d := dissect.Decoder{CheckICRC: true}
	ps := make([]dissect.Packet, len(l.tapped))
	for i, f := range l.tapped {
		d.Decode(f.Link, f.Data, f.WireLen, &ps[i])
		ps[i].Number, ps[i].Time = uint64(i+1), f.Time
	}
	return ps
}

// watched is what flows says of what was tapped.
func (l *lab) watched() *flows.Snapshot {
	l.t.Helper()
	tr := flows.New(flows.Options{Shadow: true})
	ps := l.packets()
	for i := range ps {
		tr.Track(&flows.Batch{Packets: ps[i : i+1], Data: [][]byte{l.tapped[i].Data}, Marks: make([]flows.Mark, 1)})
	}
	tr.Finish()
	return tr.Snapshot()
}

// healthy fails the test where flows finds more than notes.
func (l *lab) healthy() {
	l.t.Helper()
	s := l.watched()
	for i := range s.Findings {
		if f := &s.Findings[i]; f.Severity() > flows.Note {
			l.t.Errorf("flows: %v (frame %d): %s", f.ID, f.Frame, f.Summary)
		}
	}
}

// must fails the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// story tells what was tapped, a line for each packet.
func (l *lab) story() string {
	var b strings.Builder
	ps := l.packets()
	for i := range ps {
		p := &ps[i]
		fmt.Fprintf(&b, "%3d %9.3fµs %v→%#x %v PSN %d ack %v", p.Number, float64(p.Time-start)/1e3, p.Src, p.DestQP, p.Opcode, p.PSN, p.AckReq)
		if p.Has(dissect.LayerAETH) {
			fmt.Fprintf(&b, " %v %d MSN %d", p.Syndrome, p.Syndrome.Value(), p.MSN)
		}
		fmt.Fprintf(&b, " %d bytes\n", p.PayloadLen())
	}
	return b.String()
}
