package load

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
)

// Datagrams, and what UC sent, may be behind the words by which the client says that it sent them. They are waited for until nothing
// has arrived for a while, which is many times longer than the thread needs for what waits in the port.
const (
	quietLook  = 10 * time.Millisecond
	quietLooks = 10
	quietMost  = 500
)

// quiet waits until what is unreliable has arrived.
func (v *conversation) quiet(messages uint64) {
	var seen uint64
	still := 0
	for n := 0; n < quietMost && still < quietLooks; n++ {
		complete := true
		for _, x := range v.shares {
			err := x.at.thread.Do(func() error { complete = complete && x.complete(messages); return nil })
			if err != nil {
				return
			}
		}
		if complete {
			return
		}
		frames := v.r.h.Counters().RxFrames
		if still++; frames != seen {
			seen, still = frames, 0
		}
		time.Sleep(quietLook)
	}
}

// complete reports whether there is nothing to wait for: so many messages of each queue pair are there.
func (x *share) complete(messages uint64) bool {
	t, op := x.v.traffic, x.v.op
	p := Plan{Size: t.Size}
	for _, s := range x.qps {
		switch {
		case s.c.Local.Transport == dissect.RC:
		case isSend(op):
			if s.got < messages {
				return false
			}
		default:
			k := messages - 1
			if differs(s.mr.Bytes()[int(k%uint64(t.Slots))*p.stride():][:t.Size], t.Seed, s.c.Index, k) >= 0 {
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
	if !isWrite(v.op) && !isSend(v.op) {
		return nil
	}
	for _, x := range v.shares {
		if err := x.at.thread.Do(func() error { x.check(theirs.Messages); return nil }); err != nil {
			return nil
		}
	}
	report := v.report()
	return &report
}

// report is what was found on all threads.
func (v *conversation) report() (sum connect.Report) {
	for _, x := range v.shares {
		x.mu.Lock()
		r := x.report
		x.mu.Unlock()
		sum.Messages += r.Messages
		sum.Wrong += r.Wrong
		sum.Lost += r.Lost
		sum.First = cmp.Or(sum.First, r.First)
	}
	return sum
}

// check looks at what came, when so many messages of each queue pair were sent. It is for the thread, on which nothing is written
// meanwhile.
func (x *share) check(messages uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if isWrite(x.v.op) {
		x.checkMemory(messages)
		return
	}
	var got uint64
	for _, s := range x.qps {
		got += s.got
	}
	sent := messages * uint64(len(x.qps))
	x.report.Messages, x.report.Lost = got, sent-min(got, sent)
}

// checkMemory looks at what was written since it was looked at before: messages numbers of each queue pair were sent by now.
func (x *share) checkMemory(numbers uint64) {
	t := x.v.traffic
	p := Plan{Size: t.Size}
	for _, s := range x.qps {
		i := s.c.Index
		for k := max(s.number, numbers-min(numbers, uint64(t.Slots))); k < numbers; k++ {
			b := s.mr.Bytes()[int(k%uint64(t.Slots))*p.stride():][:t.Size]
			at := differs(b, t.Seed, i, k)
			switch {
			case at < 0:
				x.report.Messages++
			case s.c.Local.Transport == dissect.UC && x.v.isLost(s, b, i, k):
				x.report.Lost++
			default:
				x.report.Messages++
				x.wrong(s, k, at)
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

func (x *share) wrong(s *server, k uint64, at int) {
	x.report.Wrong++
	if x.report.First == "" {
		x.report.First = fmt.Sprintf("message %d of QP %#06x is wrong from byte %d on", k, s.c.Remote.QPN, at)
	}
}

// checkImmediate checks the completion of a WRITE by its immediate, which is the message's number: they come in turn, and of UC only for
// messages that are there whole. (What RC wrote is looked at when the client reports.)
func (x *share) checkImmediate(s *server, k uint64) {
	t := x.v.traffic
	p := Plan{Size: t.Size}
	inTurn := k >= s.imms && (k == s.imms || s.c.Local.Transport != dissect.RC)
	s.imms = k + 1
	at := differs(s.mr.Bytes()[int(k%uint64(t.Slots))*p.stride():][:t.Size], t.Seed, s.c.Index, k)
	if !inTurn || at >= 0 && s.c.Local.Transport == dissect.UC {
		x.wrong(s, k, max(at, 0))
	}
}

// checkMessage checks what was sent. On UC and UD messages may be missing, and its number says which it is.
func (x *share) checkMessage(s *server, b []byte) {
	t := x.v.traffic
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
		x.wrong(s, k, at)
	}
}
