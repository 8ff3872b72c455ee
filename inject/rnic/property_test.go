package rnic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// job is a work request of the property tests, with memory of its own on both sides, so that what it did can be looked at when all is
// over.
type job struct {
	op     Op
	size   int
	fence  bool
	inline bool
	local  *MR // what is sent, or where the answer goes
	remote *MR
	before []byte // of remote
}

// storm is what the wire does, in frames of a thousand.
type storm struct {
	lose, unseen, double, late int
	veryLate                   int // beyond the time-out
	rng                        *rand.Rand
	count                      struct{ lost, unseen, copies, late int }
}

func (s *storm) fate(int, int, *dissect.Packet, []byte) (f fate) {
	if s.rng.IntN(1000) < s.lose {
		f.lost = true
		s.count.lost++
		return f
	}
	if s.rng.IntN(1000) < s.unseen {
		f.unseen = true
		s.count.unseen++
		return f
	}
	if s.rng.IntN(1000) < s.double {
		f.copies = 1 + s.rng.IntN(2)
		s.count.copies++
	}
	if s.rng.IntN(1000) < s.late {
		f.late = int64(s.rng.IntN(20_000))
		s.count.late++
	}
	if s.rng.IntN(1000) < s.veryLate {
		f.late = int64(s.rng.IntN(20_000_000))
		s.count.late++
	}
	return f
}

func drawStorm(t *rapid.T) *storm {
	per := func(name string, most int) int {
		if rapid.Bool().Draw(t, "no "+name) {
			return 0
		}
		return rapid.IntRange(0, most).Draw(t, name)
	}
	return &storm{
		lose: per("lose", 80), unseen: per("unseen", 40), double: per("double", 60), late: per("late", 60), veryLate: per("very late", 5),
		rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
	}
}

func (s *storm) calm() bool { return s.lose+s.unseen+s.double+s.late+s.veryLate == 0 }

// drawJobs makes work for one side.
func drawJobs(t *rapid.T, l *lab, side, mtu int, ops []Op, most int) []*job {
	n := rapid.IntRange(0, most).Draw(t, fmt.Sprintf("jobs of %d", side))
	jobs := make([]*job, n)
	for i := range jobs {
		j := &job{op: rapid.SampledFrom(ops).Draw(t, "op"), fence: rapid.IntRange(0, 9).Draw(t, "fence") == 0}
		switch rapid.IntRange(0, 3).Draw(t, "length") {
		case 0:
			j.size = rapid.IntRange(0, 9).Draw(t, "size")
		case 1:
			j.size = rapid.IntRange(1, 5).Draw(t, "packets")*mtu + rapid.IntRange(-3, 3).Draw(t, "and")
		case 2:
			j.size = rapid.IntRange(0, 20*mtu).Draw(t, "size")
		default:
			j.size = rapid.IntRange(0, mtu).Draw(t, "size")
		}
		if j.op >= OpCompareSwap {
			j.size = 8
		}
		j.inline = !j.op.answered() && j.size <= 64 && rapid.Bool().Draw(t, "inline")
		j.local, j.remote = l.region(side, j.size), l.region(1-side, j.size)
		j.before = bytes.Clone(j.remote.Bytes())
		jobs[i] = j
	}
	return jobs
}

func (j *job) post(t *rapid.T, q *QP, i int) {
	wr := SendWR{ID: uint64(i), Op: j.op, Flags: Signaled, Imm: uint32(i) + 100, RemoteVA: j.remote.VA(), RKey: j.remote.RKey()}
	if j.op == OpSendInv {
		wr.Imm = j.remote.RKey()
	}
	if j.fence {
		wr.Flags |= Fence
	}
	switch {
	case j.inline:
		wr.Flags |= Inline
		wr.Inline = j.local.Bytes()
	case j.size > 3:
		wr.SGL = []SGE{j.local.SGE(0, j.size/3), j.local.SGE(j.size/3, j.size-j.size/3)}
	default:
		wr.SGL = []SGE{j.local.SGE(0, j.size)}
	}
	if j.op == OpFetchAdd {
		wr.CompareAdd = 3
	} else if j.op == OpCompareSwap {
		wr.CompareAdd, wr.Swap = binary.NativeEndian.Uint64(j.before), 77
	}
	if err := q.PostSend(wr); err != nil {
		t.Fatal(err)
	}
}

// consumes reports whether the job takes a receive work request.
func (j *job) consumes() bool { return j.op <= OpSendInv || j.op == OpWriteImm }

// receives posts what the jobs of the other side will take, each with the memory of its job.
func receives(t *rapid.T, q *QP, jobs []*job) {
	for i, j := range jobs {
		if !j.consumes() {
			continue
		}
		wr := RecvWR{ID: uint64(i) + 1000}
		if j.op != OpWriteImm {
			wr.SGL = []SGE{j.remote.SGE(0, j.size)}
		}
		if err := q.PostRecv(wr); err != nil {
			t.Fatal(err)
		}
	}
}

// check looks at what a job did that was completed with success.
func (j *job) check(t *rapid.T, i int) {
	switch j.op {
	case OpRead:
		if !bytes.Equal(j.local.Bytes(), j.before) {
			t.Errorf("job %d: READ of %d bytes got other data", i, j.size)
		}
	case OpFetchAdd:
		got, was := binary.NativeEndian.Uint64(j.remote.Bytes()), binary.NativeEndian.Uint64(j.before)
		if got != was+3 || binary.NativeEndian.Uint64(j.local.Bytes()) != was {
			t.Errorf("job %d: fetch and add of 3 made %d of %d", i, got, was)
		}
	case OpCompareSwap:
		if !bytes.Equal(j.local.Bytes(), j.before) || binary.NativeEndian.Uint64(j.remote.Bytes()) != 77 {
			t.Errorf("job %d: compare and swap", i)
		}
	default:
		if !bytes.Equal(j.local.Bytes(), j.remote.Bytes()) {
			t.Errorf("job %d: %v of %d bytes: other data arrived", i, j.op, j.size)
		}
	}
}

// outcome sorts a side's completions into those of its jobs and those of its receives.
func outcome(done []Completion) (sent, received []Completion) {
	for _, c := range done {
		if c.Op >= CompRecv {
			received = append(received, c)
		} else {
			sent = append(sent, c)
		}
	}
	return sent, received
}

var rcOps = []Op{OpSend, OpSendImm, OpSendInv, OpWrite, OpWriteImm, OpRead, OpCompareSwap, OpFetchAdd}

func TestRCWorkIsDoneOnceWhateverTheWireDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mtu := rapid.SampledFrom([]int{256, 1024, 4096}).Draw(rt, "mtu")
		l := newLab(t, labOptions{ipv6: rapid.Bool().Draw(rt, "ipv6"), queues: rapid.Bool().Draw(rt, "queues")})
		s := drawStorm(rt)
		l.fault = s.fate
		start := func(name string) dissect.PSN {
			return dissect.PSN(rapid.SampledFrom([]int{0, 0xFFFFFF, 0xFFFFF0, 0x7FFFFE, 0x123456}).Draw(rt, name))
		}
		q := l.connect(pair{
			mtu: mtu, psn: [2]dissect.PSN{start("psn a"), start("psn b")}, retry: 7, rnr: 7, timeout: 9,
			depth: rapid.IntRange(1, 8).Draw(rt, "depth"), dest: 8, timer: rapid.SampledFrom([]uint8{1, 12}).Draw(rt, "rnr timer"),
			policy: Policy{Window: rapid.SampledFrom([]int{1, 7, 64, 256}).Draw(rt, "window"), AckEvery: rapid.SampledFrom([]int{1, 5, 32}).Draw(rt, "ack every"), Credits: rapid.Bool().Draw(rt, "credits")},
			cap:    QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSGE: 2, MaxInline: 64},
		})
		jobs := [2][]*job{drawJobs(rt, l, 0, mtu, rcOps, 12), drawJobs(rt, l, 1, mtu, rcOps, 12)}
		later := rapid.Bool().Draw(rt, "receives come later")
		for i := range q {
			if !later {
				receives(rt, q[i], jobs[1-i])
			}
			for n, j := range jobs[i] {
				j.post(rt, q[i], n)
			}
		}
		if later {
			l.run(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "µs")) * time.Microsecond)
			for i := range q {
				receives(rt, q[i], jobs[1-i])
			}
		}
		if !l.run(time.Hour) {
			rt.Fatal("the devices did not come to rest")
		}
		failed := false
		for i := range q {
			sent, received := outcome(l.taken(i))
			if len(sent) != len(jobs[i]) {
				rt.Fatalf("side %d: %d completions for %d work requests", i, len(sent), len(jobs[i]))
			}
			status := Success
			for n, c := range sent {
				if c.ID != uint64(n) {
					rt.Fatalf("side %d: completion %d is of work request %d", i, n, c.ID)
				}
				switch {
				case c.Status == Success && status == Success:
					jobs[i][n].check(rt, n)
				case c.Status == RetryExcErr && status == Success, c.Status == WRFlushErr && (status != Success || q[i].State() == ERROR):
					status, failed = c.Status, true
				default:
					rt.Fatalf("side %d: work request %d ended with %v behind %v", i, n, c.Status, status)
				}
			}
			checkReceived(rt, jobs[1-i], received)
		}
		if failed {
			if s.calm() {
				rt.Fatal("work failed although the wire did nothing")
			}
			return
		}
		for i := range q {
			if q[i].State() != RTS {
				rt.Errorf("side %d is %v", i, q[i].State())
			}
		}
		verdict(rt, l, s)
	})
}

// checkReceived looks whether the receives were completed in order, each with what its job sent.
func checkReceived(t *rapid.T, jobs []*job, received []Completion) {
	at := 0
	for n, j := range jobs {
		if !j.consumes() || at == len(received) {
			continue
		}
		c := received[at]
		at++
		if c.Status == WRFlushErr {
			continue
		}
		want := Completion{ID: uint64(n) + 1000, Op: CompRecv, ByteLen: uint32(j.size), QPN: c.QPN}
		switch j.op {
		case OpSendImm:
			want.Imm, want.Flags = uint32(n)+100, HasImm
		case OpWriteImm:
			want.Op, want.Imm, want.Flags = CompRecvWriteImm, uint32(n)+100, HasImm
		case OpSendInv:
			want.Imm, want.Flags = j.remote.RKey(), HasInv
		}
		// The newest receives have the number of their place among those that were posted.
		if c != want {
			t.Fatalf("receive %d completed as %+v, want %+v", at-1, c, want)
		}
	}
	if at != len(received) {
		t.Fatalf("%d receives completed, of %d messages", len(received), at)
	}
}

// causes are the findings that a wire can be the reason of, and which of its doings; all others accuse a device. Two of them are
// mistakes of a tap in the middle, which a wire must have provoked.
var causes = map[string]func(s *storm) bool{
	"lost_before_tap":          func(s *storm) bool { return s.count.unseen > 0 },
	"lost_behind_tap":          (*storm).hurt,
	"response_lost_before_tap": func(s *storm) bool { return s.count.unseen > 0 },
	"response_lost_behind_tap": (*storm).hurt,
	"timeout":                  (*storm).hurt,
	"resent_after_ack":         (*storm).hurt,
	"rnr_nak":                  func(*storm) bool { return true }, // receives were posted late
	"rnr_storm":                func(*storm) bool { return true },
	"rnr_early":                (*storm).hurt, // a resend for another reason crossed the RNR NAK
	"msn_count":                func(s *storm) bool { return s.count.unseen > 0 },
	"reordered":                func(s *storm) bool { return s.count.unseen > 0 }, // sent again behind an RNR NAK, with holes before the tap
}

// hurt reports whether the wire did anything that makes a requester send again.
func (s *storm) hurt() bool { return s.count.lost+s.count.unseen+s.count.late+s.count.copies > 0 }

// verdict compares what flows saw with what was done to the wire.
func verdict(t *rapid.T, l *lab, s *storm) {
	snap := l.watched()
	defer func() {
		if t.Failed() {
			t.Log(l.story())
		}
	}()
	for i := range snap.Findings {
		f := &snap.Findings[i]
		if f.Severity() <= flows.Note {
			continue
		}
		id := f.ID.String()
		if may := causes[id]; may == nil || !may(s) {
			t.Errorf("flows finds what was not done: %s (frame %d): %s; the wire did %+v", id, f.Frame, f.Summary, s.count)
		}
	}
	if snap.ICRC[dissect.ICRCValid] != snap.Packets {
		t.Errorf("of %d packets, %d have a right ICRC", snap.Packets, snap.ICRC[dissect.ICRCValid])
	}
}

func TestUCMessagesArriveWholeOrNotAtAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mtu := rapid.SampledFrom([]int{256, 1024}).Draw(rt, "mtu")
		l := newLab(t, labOptions{ipv6: rapid.Bool().Draw(rt, "ipv6"), queues: rapid.Bool().Draw(rt, "queues")})
		s := drawStorm(rt)
		s.veryLate = 0
		l.fault = s.fate
		q := l.connect(pair{typ: dissect.UC, mtu: mtu, psn: [2]dissect.PSN{0xFFFFF0, 5}, cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSGE: 2, MaxInline: 64}})
		jobs := drawJobs(rt, l, 0, mtu, []Op{OpSend, OpSendImm, OpWrite, OpWriteImm}, 12)
		const room = 30 * 1024
		into := l.region(1, room*len(jobs))
		for i := range jobs {
			if err := q[1].PostRecv(RecvWR{ID: uint64(i), SGL: []SGE{into.SGE(i*room, room)}}); err != nil {
				rt.Fatal(err)
			}
		}
		for n, j := range jobs {
			j.post(rt, q[0], n)
		}
		if !l.run(time.Hour) {
			rt.Fatal("the devices did not come to rest")
		}
		for n, c := range l.taken(0) {
			if c.ID != uint64(n) || c.Status != Success {
				rt.Fatalf("work request %d ended as %+v", n, c)
			}
		}
		received := l.taken(1)
		at := -1 // newest job that arrived
		for n, c := range received {
			if c.ID != uint64(n) || c.Status != Success {
				rt.Fatalf("receive %d ended as %+v", n, c)
			}
			at++
			if s.count.copies+s.count.late > 0 {
				at = 0 // UC knows neither copies nor late packets: a message of one packet comes as the wire brings it
			}
			for ; at < len(jobs); at++ { // those between were lost
				j := jobs[at]
				is := j.consumes() && uint32(j.size) == c.ByteLen && (c.Op == CompRecvWriteImm) == (j.op == OpWriteImm)
				is = is && (c.Flags&HasImm != 0) == (operations[j.op].flags != 0) && (c.Flags&HasImm == 0 || c.Imm == uint32(at)+100)
				got := into.Bytes()[n*room : n*room+j.size]
				if j.op == OpWriteImm {
					got = j.remote.Bytes()
				}
				if is && bytes.Equal(got, j.local.Bytes()) {
					break
				}
			}
			if at == len(jobs) {
				rt.Fatalf("receive %d, %d bytes, is no message that was sent", n, c.ByteLen)
			}
		}
		checkWritten(rt, jobs, mtu, s, &l.sides[1].dev.counters)
		if s.calm() {
			want := 0
			for i, j := range jobs {
				j.remotely(rt, i)
				if j.consumes() {
					want++
				}
			}
			if len(received) != want {
				rt.Errorf("%d messages arrived of %d", len(received), want)
			}
		}
		verdict(rt, l, s)
	})
}

// checkWritten looks at the memory of UC's WRITEs, which are placed as they come: each packet's part is new or as before, and as many
// are whole as the responder counts.
func checkWritten(t *rapid.T, jobs []*job, mtu int, s *storm, c *Counters) {
	whole, broken, small := 0, 0, 0
	for i, j := range jobs {
		if j.op != OpWrite && j.op != OpWriteImm {
			continue
		}
		got, sent := j.remote.Bytes(), j.local.Bytes()
		switch {
		case !bytes.Equal(got, sent):
			broken++
		case j.size > 8:
			whole++
		default:
			small++ // what was there before may have been the same
		}
		for at := 0; at < j.size; at += mtu {
			end := min(at+mtu, j.size)
			if !bytes.Equal(got[at:end], sent[at:end]) && !bytes.Equal(got[at:end], j.before[at:end]) {
				t.Fatalf("job %d: %v of %d bytes left a packet's part at %d that is neither new nor old", i, j.op, j.size, at)
			}
		}
	}
	if s.count.copies+s.count.late > 0 {
		return // a copy counts as a message of its own
	}
	if n := int(c.RxWriteRequests); n < whole || n > whole+small {
		t.Fatalf("%d WRITEs are whole, %d too short to tell, %d broken; the responder counts %d", whole, small, broken, n)
	}
}

// remotely checks a WRITE.
func (j *job) remotely(t *rapid.T, i int) {
	if j.op == OpWrite || j.op == OpWriteImm {
		j.check(t, i)
	}
}

func TestUDDatagramsArriveOnTheirOwn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t, labOptions{ipv6: rapid.Bool().Draw(rt, "ipv6"), queues: rapid.Bool().Draw(rt, "queues"), device: Options{MTU: 1024}})
		s := drawStorm(rt)
		s.veryLate = 0
		l.fault = s.fate
		q := l.connect(pair{typ: dissect.UD})
		ah, err := l.sides[0].pd.CreateAH(AHAttr{Dst: l.sides[1].addr, DstMAC: l.sides[1].mac})
		if err != nil {
			rt.Fatal(err)
		}
		n := rapid.IntRange(0, 40).Draw(rt, "datagrams")
		const room = 1024 + grhSize
		into, from := l.region(1, room*3*n), l.region(0, 1024*n)
		for i := range 3 * n { // copies take receives too
			if err := q[1].PostRecv(RecvWR{ID: uint64(i), SGL: []SGE{into.SGE(i*room, 100), into.SGE(i*room+100, room-100)}}); err != nil && i < 64 {
				rt.Fatal(err)
			}
		}
		sizes := make([]int, n)
		for i := range n {
			sizes[i] = rapid.IntRange(0, 1024).Draw(rt, "size")
			if err := q[0].PostSend(SendWR{ID: uint64(i), Op: OpSendImm, Flags: Signaled, Imm: uint32(i), SGL: []SGE{from.SGE(i*1024, sizes[i])}, AH: ah, DstQP: q[1].QPN(), QKey: 0x11111111}); err != nil {
				rt.Fatal(err)
			}
		}
		if !l.run(time.Hour) {
			rt.Fatal("the devices did not come to rest")
		}
		if got := len(l.taken(0)); got != n {
			rt.Fatalf("%d completions of %d", got, n)
		}
		received := l.taken(1)
		for k, c := range received {
			i := int(c.Imm)
			if c.ID != uint64(k) || c.Status != Success || c.Flags&HasGRH == 0 || c.SrcQP != q[0].QPN() || c.Src != dissect.AddrFrom(l.sides[0].addr) || i >= n || int(c.ByteLen) != sizes[i]+grhSize {
				rt.Fatalf("receive %d ended as %+v", k, c)
			}
			if !bytes.Equal(into.Bytes()[k*room+grhSize:k*room+grhSize+sizes[i]], from.Bytes()[i*1024:i*1024+sizes[i]]) {
				rt.Fatalf("datagram %d has other data", i)
			}
		}
		if s.calm() && len(received) != n {
			rt.Errorf("%d datagrams arrived of %d", len(received), n)
		}
		verdict(rt, l, s)
	})
}
