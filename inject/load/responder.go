package load

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Serving says what a Responder gives to who connects.
type Serving struct {
	Region      int             // bytes of memory of a conversation that does not tell what it needs; 0 = 8 MiB, the most that perftest -a wants
	Memory      uint64          // bytes of all conversations; 0 = 1 GiB
	Connections int             // queue pairs of all conversations; 0 = 16000
	Rally       Rally           // how clients of perftest are answered, who do not tell
	RallySize   int             // WriteRally: the bytes of a message, as the client has them
	RallyCount  uint64          // WriteRally: how many messages; 0 = 1000, perftest's default
	Tell        func(Happening) // on the host's thread
}

// Responder serves: memory to write and to read, receives for what is sent, and answers where they are asked for.
type Responder struct {
	h      *peer.Host
	o      Serving
	all    []*conversation
	memory uint64
	qps    int
	ids    int
	worker peer.Worker
	polled [64]rnic.Completion
	Totals Totals
}

// Totals count since the Responder was made.
type Totals struct {
	Conversations, Refused, Failed uint64
	QPs                            uint64
	Received, ReceivedBytes        uint64 // by SEND or WRITE with immediate
	Checked, Wrong, Lost           uint64
}

// Happening is something that a Responder tells.
type Happening struct {
	Kind    HappeningKind
	Serving int // number of the conversation
	Way     peer.Way
	Peer    netip.AddrPort
	Conn    *peer.Conn      // of Connected
	Traffic connect.Traffic // of Planned
	Report  connect.Report  // of Checked
	QPs     int             // of Closed
	Err     error
}

// HappeningKind is the kind of a Happening.
type HappeningKind uint8

// The kinds.
const (
	Called    HappeningKind = iota // somebody wants to connect
	Refused                        // and may not, by Err
	Planned                        // the traffic that it announces
	Connected                      // a queue pair is in RTS
	Ready                          // both sides are ready
	Checked                        // data was checked
	Broken                         // a queue pair failed, by Err
	Closed                         // the end; Err is nil if it was an orderly one
	numHappenings
)

var happeningNames = [numHappenings]string{"called", "refused", "planned", "connected", "ready", "checked", "broken", "closed"}

func (k HappeningKind) String() string {
	if k < numHappenings {
		return happeningNames[k]
	}
	return "unknown"
}

const (
	defaultRegion = 8 << 20
	defaultMemory = 1 << 30
	defaultQPs    = 16000
	recvDepth     = 512 // receives of a queue pair, as perftest has them
	recvBytes     = 16 << 20
	groupQPs      = 16 // queue pairs that share a completion queue
)

// NewResponder makes one and begins its work. Accept is what peer.Listening wants.
func NewResponder(h *peer.Host, o Serving) (*Responder, error) {
	if o.Region == 0 {
		o.Region = defaultRegion
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Connections == 0 {
		o.Connections = defaultQPs
	}
	if o.RallyCount == 0 {
		o.RallyCount = 1000
	}
	if o.Rally == WriteRally && (o.RallySize < 1 || o.RallySize > o.Region) {
		return nil, fmt.Errorf("WRITEs that are to be answered need a size of 1 to %d bytes, as the client has it", o.Region)
	}
	r := &Responder{h: h, o: o}
	r.worker.Work = r.work
	return r, h.Do(func() error { h.Attach(&r.worker); return nil })
}

func (r *Responder) tell(v *conversation, what Happening) {
	if r.o.Tell == nil {
		return
	}
	what.Serving, what.Way, what.Peer = v.id, v.call.Way, v.call.Peer
	r.o.Tell(what)
}

// Accept takes a call, on the host's thread.
func (r *Responder) Accept(c peer.Call) (peer.Party, error) {
	r.ids++
	v := &conversation{r: r, id: r.ids, call: c, rally: OneWay, pd: r.h.Device().AllocPD()}
	r.tell(v, Happening{Kind: Called})
	if r.qps >= r.o.Connections {
		return nil, r.refuse(v, fmt.Errorf("there are %d queue pairs already, as many as are allowed", r.qps))
	}
	switch c.Way {
	case peer.ByPingpong:
		v.rally = SendRally
	case peer.ByPerftest:
		v.rally = r.o.Rally
	}
	r.Totals.Conversations++
	r.all = append(r.all, v)
	return v, nil
}

func (r *Responder) refuse(v *conversation, err error) error {
	r.Totals.Refused++
	r.tell(v, Happening{Kind: Refused, Err: err})
	return err
}

// work is done once per batch.
func (r *Responder) work(now int64) (busy bool) {
	for _, v := range r.all {
		busy = v.work() || busy
	}
	return busy
}

// conversation is a peer.Party: the queue pairs of one client, and their memory.
type conversation struct {
	r       *Responder
	id      int
	call    peer.Call
	traffic *connect.Traffic
	op      rnic.Op
	rally   Rally
	pd      *rnic.PD
	mrs     []*rnic.MR
	memory  uint64
	cqs     []*rnic.CQ
	qps     []server
	ready   int
	report  connect.Report
	failed  error
}

// server is a queue pair of a conversation.
type server struct {
	c        *peer.Conn
	mr       *rnic.MR // what the client is told of
	recv     *rnic.MR // where receives point to
	out      *rnic.MR // WriteRally: what is written
	cq       *rnic.CQ
	slot     int // bytes of a receive
	receives int
	number   uint64 // of the next message
	got      uint64
	posted   uint64 // of a WriteRally
	pending  int    // answers that were not completed
}

// PD implements peer.Maker.
func (v *conversation) PD() *rnic.PD { return v.pd }

// Traffic implements peer.Party.
func (v *conversation) Traffic(t connect.Traffic) error {
	op, ok := operationOf(t.Operation)
	switch {
	case !ok:
		return fmt.Errorf("the operation %q is not known", t.Operation)
	case t.Size < 0 || t.Size > maxSize || t.Slots < 1 || t.Slots > mostPosted || uint64(t.Slots)*uint64(t.Size) > v.r.o.Memory:
		return fmt.Errorf("%d messages of %d bytes: there is no room for them in %d bytes of memory", t.Slots, t.Size, v.r.o.Memory)
	case t.Answer && !isSend(op):
		return fmt.Errorf("%s is not answered", t.Operation)
	}
	v.traffic, v.op = &t, op
	if t.Answer {
		v.rally = SendRally
	}
	v.r.tell(v, Happening{Kind: Planned, Traffic: t})
	return nil
}

// region registers memory, as far as there is any left.
func (v *conversation) region(bytes int, access rnic.Access) (*rnic.MR, error) {
	r := v.r
	if left := r.o.Memory - r.memory; uint64(bytes) > left {
		return nil, fmt.Errorf("%d bytes of memory are wanted, and %d of %d are left", bytes, left, r.o.Memory)
	}
	mr, err := v.pd.RegMR(make([]byte, bytes), access)
	if err != nil {
		return nil, err
	}
	r.memory += uint64(bytes)
	v.memory += uint64(bytes)
	v.mrs = append(v.mrs, mr)
	return mr, nil
}

const remoteAccess = rnic.LocalWrite | rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic

// plan says what memory and receives a queue pair needs.
func (v *conversation) plan() (region, recvSize, receives int) {
	t := v.traffic
	switch {
	case v.rally == WriteRally:
		return v.r.o.RallySize, 0, 0
	case t == nil:
		return v.r.o.Region, v.r.o.Region, recvDepth
	}
	p := Plan{Size: t.Size}
	region = t.Slots * p.stride()
	if takesRecv(v.op) {
		recvSize = (t.Size + grh + 63) &^ 63
		receives = max(2, min(recvDepth, recvBytes/recvSize))
	}
	return region, recvSize, receives
}

// own reports whether each queue pair has memory of its own. Else they share what is there: nobody looks at it.
func (v *conversation) own() bool {
	return v.traffic != nil && (v.traffic.Verify || v.traffic.Answer) || v.rally != OneWay
}

// Make implements peer.Maker.
func (v *conversation) Make(i int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	r := v.r
	var none connect.Memory
	if r.qps >= r.o.Connections {
		return nil, none, fmt.Errorf("there are %d queue pairs already, as many as are allowed", r.qps)
	}
	region, recvSize, receives := v.plan()
	s := server{slot: recvSize, receives: receives}
	var err error
	if v.own() || i == 0 {
		if s.mr, err = v.region(max(region, 64), remoteAccess); err != nil {
			return nil, none, err
		}
		v.prepareMemory(i, s.mr.Bytes())
		if s.recv = s.mr; receives > 0 && v.traffic != nil {
			n := recvSize
			if v.own() {
				n *= receives
			}
			if s.recv, err = v.region(n, rnic.LocalWrite); err != nil {
				return nil, none, err
			}
		}
		if v.rally == WriteRally {
			if s.out, err = v.region(r.o.RallySize, 0); err != nil {
				return nil, none, err
			}
		}
	} else {
		s.mr, s.recv = v.qps[0].mr, v.qps[0].recv
	}
	if i%groupQPs == 0 {
		cq, err := r.h.Device().CreateCQ(max(1, groupQPs*2*receives))
		if err != nil {
			return nil, none, err
		}
		v.cqs = append(v.cqs, cq)
	}
	s.cq = v.cqs[len(v.cqs)-1]
	qp, err := v.pd.CreateQP(rnic.QPInit{
		Type: t, SendCQ: s.cq, RecvCQ: s.cq, Cap: rnic.QPCap{MaxSendWR: max(1, receives), MaxRecvWR: max(1, receives), MaxSGE: 1},
	})
	if err != nil {
		return nil, none, err
	}
	v.qps = append(v.qps, s)
	r.qps++
	r.Totals.QPs++
	return qp, connect.Memory{RKey: s.mr.RKey(), VA: s.mr.VA(), Length: uint64(s.mr.Len())}, nil
}

// prepareMemory writes what is going to be read.
func (v *conversation) prepareMemory(i int, b []byte) {
	t := v.traffic
	if t == nil || !t.Verify {
		return
	}
	switch {
	case isAtomic(v.op):
		putWord(b, atomicValue(v.op == rnic.OpCompareSwap, t.Seed, i, 0))
	case v.op == rnic.OpRead:
		p := Plan{Size: t.Size}
		for slot := range t.Slots {
			fill(b[slot*p.stride():][:t.Size], t.Seed, i, uint64(slot))
		}
	}
}

// Prepare implements peer.Maker.
func (v *conversation) Prepare(c *peer.Conn) error {
	s := &v.qps[c.Index]
	s.c = c
	for n := range s.receives {
		if err := v.receive(s, n); err != nil {
			return err
		}
	}
	return nil
}

// receive posts the receive of a number.
func (v *conversation) receive(s *server, n int) error {
	sge := [1]rnic.SGE{s.recv.SGE(v.recvAt(s, n), s.recvLen())}
	return s.c.QP.PostRecv(rnic.RecvWR{ID: uint64(s.c.Index)<<32 | uint64(n), SGL: sge[:]})
}

func (v *conversation) recvAt(s *server, n int) int {
	if v.traffic == nil || !v.own() {
		return 0
	}
	return n * s.slot
}

func (s *server) recvLen() int { return min(s.slot, s.recv.Len()) }

// Connected implements peer.Party.
func (v *conversation) Connected(c *peer.Conn) { v.r.tell(v, Happening{Kind: Connected, Conn: c}) }

// perftestReady is how often a latency program of perftest says that it is ready, before there is traffic.
const perftestReady = 3

// Ready implements peer.Party.
func (v *conversation) Ready(n int, theirs *connect.Report) (own *connect.Report) {
	if theirs != nil && theirs.Messages > 0 && v.traffic != nil && v.traffic.Verify {
		v.quiet(theirs.Messages)
	}
	f := func() error {
		v.ready = n
		if n == 1 {
			v.r.tell(v, Happening{Kind: Ready})
		}
		own = v.check(theirs)
		return nil
	}
	if v.call.Way == peer.ByCM { // this is the host's thread
		_ = f()
	} else {
		_ = v.r.h.Do(f)
	}
	if v.call.Way == peer.ByPingpong {
		v.linger()
	}
	return own
}

// Datagrams, and what UC sent, may be behind the words by which the client says that it sent them. They are waited for until nothing
// has arrived for a while, which is many times longer than the thread needs for what waits in the port.
const (
	quietLook  = 10 * time.Millisecond
	quietLooks = 10
	quietMost  = 500
)

// The pingpong programs hang up before their traffic, and never say that it is over: it is when nothing has come for a while.
const (
	lingerLook = 100 * time.Millisecond
	lingerTime = 5 * time.Second
)

func (v *conversation) linger() {
	seen, since := uint64(0), time.Now()
	for time.Since(since) < lingerTime {
		var got uint64
		var failed error
		if err := v.r.h.Do(func() error { got, failed = v.qps[0].got, v.failed; return nil }); err != nil || failed != nil {
			return
		}
		if got != seen {
			seen, since = got, time.Now()
		}
		time.Sleep(lingerLook)
	}
}

// quiet waits until what is unreliable has arrived.
func (v *conversation) quiet(messages uint64) {
	var seen uint64
	still := 0
	for n := 0; n < quietMost && still < quietLooks; n++ {
		complete := false
		err := v.r.h.Do(func() error { complete = v.complete(messages); return nil })
		if err != nil || complete {
			return
		}
		frames := v.r.h.Device().Counters().RxFrames
		if still++; frames != seen {
			seen, still = frames, 0
		}
		time.Sleep(quietLook)
	}
}

// complete reports whether there is nothing to wait for: so many messages of each queue pair are there.
func (v *conversation) complete(messages uint64) bool {
	t := v.traffic
	p := Plan{Size: t.Size}
	for i := range v.qps {
		s := &v.qps[i]
		switch {
		case s.c.Local.Transport == dissect.RC:
		case isSend(v.op):
			if s.got < messages {
				return false
			}
		default:
			k := messages - 1
			if differs(s.mr.Bytes()[int(k%uint64(t.Slots))*p.stride():][:t.Size], t.Seed, i, k) >= 0 {
				return false
			}
		}
	}
	return true
}

// check checks data where that was asked for, and says what was found until now.
func (v *conversation) check(theirs *connect.Report) *connect.Report {
	t := v.traffic
	if t == nil || !t.Verify || theirs == nil || theirs.Messages == 0 {
		return nil
	}
	switch {
	case isWrite(v.op):
		v.checkMemory(theirs.Messages)
	case isSend(v.op):
		var got uint64
		for i := range v.qps {
			got += v.qps[i].got
		}
		v.report.Lost = theirs.Messages*uint64(len(v.qps)) - min(got, theirs.Messages*uint64(len(v.qps)))
		v.report.Messages = got
	default:
		return nil
	}
	report := v.report
	return &report
}

// checkMemory looks at what was written since it was looked at before: messages numbers of each queue pair were sent by now.
func (v *conversation) checkMemory(numbers uint64) {
	t := v.traffic
	p := Plan{Size: t.Size}
	for i := range v.qps {
		s := &v.qps[i]
		for k := max(s.number, numbers-min(numbers, uint64(t.Slots))); k < numbers; k++ {
			b := s.mr.Bytes()[int(k%uint64(t.Slots))*p.stride():][:t.Size]
			at := differs(b, t.Seed, i, k)
			switch {
			case at < 0:
				v.report.Messages++
			case s.c.Local.Transport == dissect.UC && v.isLost(s, b, i, k):
				v.report.Lost++
			default:
				v.report.Messages++
				v.wrong(s, k, at)
			}
		}
		s.number = numbers
	}
}

// isLost reports whether a message that is not there whole lost packets on its way: each packet's part is either its own or what was
// there before.
func (v *conversation) isLost(s *server, b []byte, qp int, k uint64) bool {
	t, mtu := v.traffic, s.c.Remote.MTU
	want, old := make([]byte, len(b)), make([]byte, len(b))
	fill(want, t.Seed, qp, k)
	for at := 0; at < len(b); at += mtu {
		end := min(at+mtu, len(b))
		known := string(b[at:end]) == string(want[at:end]) || allZero(b[at:end])
		for back := uint64(t.Slots); !known && back <= k && back <= lookBack*uint64(t.Slots); back += uint64(t.Slots) {
			fill(old, t.Seed, qp, k-back)
			known = string(b[at:end]) == string(old[at:end])
		}
		if !known {
			return false
		}
	}
	return true
}

// lookBack is how many rounds a lost message may have left its place unwritten.
const lookBack = 8

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

func (v *conversation) wrong(s *server, k uint64, at int) {
	v.report.Wrong++
	v.r.Totals.Wrong++
	if v.report.First == "" {
		v.report.First = fmt.Sprintf("message %d of QP %#06x is wrong from byte %d on", k, s.c.Remote.QPN, at)
	}
}

// Results implements peer.Party: perftest's client reports the results of both sides only with -b.
func (v *conversation) Results(theirs connect.PerftestResults) connect.PerftestResults { return theirs }

// Closed implements peer.Party.
func (v *conversation) Closed(err error) {
	r := v.r
	if err == nil {
		err = v.failed
	}
	if err != nil {
		r.Totals.Failed++
	}
	r.Totals.Checked += v.report.Messages
	r.Totals.Lost += v.report.Lost
	for _, mr := range v.mrs {
		_ = mr.Deregister() // it is registered
	}
	r.memory -= v.memory
	r.qps -= len(v.qps)
	if v.report != (connect.Report{}) {
		r.tell(v, Happening{Kind: Checked, Report: v.report})
	}
	r.tell(v, Happening{Kind: Closed, QPs: len(v.qps), Err: err})
	all := make([]*conversation, 0, len(r.all)) // the old slice may be under way
	for _, x := range r.all {
		if x != v {
			all = append(all, x)
		}
	}
	r.all = all
}

// work takes completions, and answers.
func (v *conversation) work() (busy bool) {
	polled := v.r.polled[:]
	for _, cq := range v.cqs {
		n := cq.Poll(polled)
		for i := range polled[:n] {
			v.completed(&polled[i])
		}
		busy = busy || n > 0
	}
	if v.rally == WriteRally && v.ready >= perftestReady {
		busy = v.rallyWrites() || busy
	}
	return busy
}

func (v *conversation) completed(c *rnic.Completion) {
	s := &v.qps[c.ID>>32]
	switch {
	case c.Status == rnic.WRFlushErr:
		return
	case c.Status != rnic.Success:
		v.broken(s, &CompletionError{QPN: s.c.Local.QPN, Peer: s.c.Remote.QPN, Message: s.got, Status: c.Status, Receive: c.Op >= rnic.CompRecv})
		return
	case c.Op < rnic.CompRecv:
		s.pending--
		return
	}
	v.r.Totals.Received++
	v.r.Totals.ReceivedBytes += uint64(c.ByteLen)
	n := int(c.ID & 0xFFFFFFFF)
	at, length := v.recvAt(s, n), int(c.ByteLen)
	if c.Flags&rnic.HasGRH != 0 {
		at, length = at+grh, length-grh
	}
	if v.traffic != nil && v.traffic.Verify && c.Op == rnic.CompRecv {
		v.checkMessage(s, s.recv.Bytes()[at:at+length])
	}
	s.got++
	var err error
	if v.rally == SendRally && c.Op == rnic.CompRecv {
		err = v.answer(s, n, at, length, c)
	}
	if err = errors.Join(err, v.receive(s, n)); err != nil {
		v.broken(s, err)
	}
}

// checkMessage checks what was sent. On UC and UD messages may be missing, and its number says which it is.
func (v *conversation) checkMessage(s *server, b []byte) {
	t := v.traffic
	k := s.number
	if s.c.Local.Transport != dissect.RC && len(b) >= numbered && number(b) > k {
		k = number(b)
	}
	s.number = k + 1
	at := differs(b, t.Seed, s.c.Index, k)
	if at < 0 && len(b) != t.Size {
		at = min(len(b), t.Size)
	}
	if at >= 0 {
		v.wrong(s, k, at)
	}
}

// answer sends back what came, from where it came: the other side sends no more until it has it.
func (v *conversation) answer(s *server, n, at, length int, c *rnic.Completion) error {
	wr := rnic.SendWR{ID: uint64(s.c.Index)<<32 | uint64(n), Op: rnic.OpSend, Flags: rnic.Signaled}
	sge := [1]rnic.SGE{s.recv.SGE(at, length)}
	wr.SGL = sge[:]
	if s.c.AH != nil {
		wr.AH, wr.DstQP, wr.QKey = s.c.AH, c.SrcQP, s.c.Remote.QKey
	}
	s.pending++
	return s.c.QP.PostSend(wr)
}

// rallyWrites answers WRITEs as ib_write_lat does: it begins, and each message's last byte is its number.
func (v *conversation) rallyWrites() (busy bool) {
	size := v.r.o.RallySize
	for i := range v.qps {
		s := &v.qps[i]
		if s.c == nil || s.pending > 0 || v.failed != nil {
			continue
		}
		b := s.mr.Bytes()
		if s.posted > s.got {
			if b[size-1] != byte(s.got+1) {
				continue
			}
			s.got++
		}
		if s.posted >= v.r.o.RallyCount {
			continue
		}
		s.posted++
		s.out.Bytes()[size-1] = byte(s.posted)
		sge := [1]rnic.SGE{s.out.SGE(0, size)}
		err := s.c.QP.PostSend(rnic.SendWR{
			ID: uint64(s.c.Index) << 32, Op: rnic.OpWrite, Flags: rnic.Signaled, SGL: sge[:], RemoteVA: s.c.Remote.Memory.VA, RKey: s.c.Remote.Memory.RKey,
		})
		if s.pending++; err != nil {
			v.broken(s, err)
		}
		busy = true
	}
	return busy
}

// broken notes that a queue pair failed.
func (v *conversation) broken(s *server, err error) {
	if v.failed == nil {
		v.failed = err
	}
	v.r.tell(v, Happening{Kind: Broken, Conn: s.c, Err: err})
}
