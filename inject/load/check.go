package load

import (
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

// checkImmediate checks the completion of a WRITE by its immediate, which is the message's number: they come in turn, and of UC only for
// messages that are there whole. (What RC wrote is looked at when the client reports.)
func (v *conversation) checkImmediate(s *server, k uint64) {
	t := v.traffic
	p := Plan{Size: t.Size}
	inTurn := k >= s.imms && (k == s.imms || s.c.Local.Transport != dissect.RC)
	s.imms = k + 1
	at := differs(s.mr.Bytes()[int(k%uint64(t.Slots))*p.stride():][:t.Size], t.Seed, s.c.Index, k)
	if !inTurn || at >= 0 && s.c.Local.Transport == dissect.UC {
		v.wrong(s, k, max(at, 0))
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
