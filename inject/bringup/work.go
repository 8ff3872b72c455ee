package bringup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/rnic"
)

// limit is how long the slowest answer is waited for: longer than all retries take.
const limit = 20 * time.Second

// errSilent: even the own device's time-outs did not end a work request.
var errSilent = fmt.Errorf("nothing came of it within %v", limit)

// Places of the own memory: what is sent, and what answers go to.
const (
	outAt = 0
	inAt  = area
)

// post does one work request, and waits for its end. What the device counted is told with an error.
func (r *run) post(ctx context.Context, w rnic.SendWR) error {
	before := r.h.Device().Counters()
	w.Flags = rnic.Signaled
	w.RKey = r.memory.RKey
	w.RemoteVA += r.memory.VA
	if err := r.c.QP.PostSend(w); err != nil {
		return err
	}
	var done [1]rnic.Completion
	for until := time.Now().Add(limit); r.cq.Poll(done[:]) == 0; time.Sleep(100 * time.Microsecond) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(until):
			return r.heard(errSilent, before)
		case r.h.Err() != nil:
			return r.h.Err()
		}
	}
	if s := done[0].Status; s != rnic.Success {
		return r.heard(fmt.Errorf("%v: %s", s, says[s]), before)
	}
	return nil
}

// says is what the errors of completions say of a core.
var says = [...]string{
	rnic.RetryExcErr:    "no acknowledgement that counts, though it was sent again and again",
	rnic.RNRRetryExcErr: "the target says that no receive is posted, and means it",
	rnic.RemAccessErr:   "NAK 0x62: it does not find the memory, or does not let it be used: rkey, address, length, access rights",
	rnic.RemInvReqErr:   "NAK 0x61: it does not take such a request: opcode, lengths, or what the queue pair allows",
	rnic.RemOpErr:       "NAK 0x63: it could not carry it out",
	rnic.BadRespErr:     "it answered something else than was asked for",
	rnic.LocLenErr:      "its answer is longer or shorter than what was asked for",
	rnic.WRFlushErr:     "the queue pair failed before",
}

// heard adds to an error what arrived since: silence, and answers that are wrong, are different faults.
func (r *run) heard(err error, before rnic.Counters) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	now := r.h.Device().Counters()
	var parts []string
	if now.RxFrames == before.RxFrames {
		parts = append(parts, "nothing came back")
	}
	for _, why := range rnic.Drops() {
		if n := now.Dropped[why] - before.Dropped[why]; n > 0 && why != rnic.DropOther {
			parts = append(parts, fmt.Sprintf("%d answers were dropped: %s", n, dropped[why]))
		}
	}
	for _, c := range []struct {
		n    uint64
		what string
	}{
		{now.PacketSeqErr - before.PacketSeqErr, "sequence NAKs"},
		{now.ImpliedNakSeqErr - before.ImpliedNakSeqErr, "answers that left out one before them"},
		{now.LocalAckTimeoutErr - before.LocalAckTimeoutErr, "time-outs"},
		{now.RnrNakRetryErr - before.RnrNakRetryErr, "RNR NAKs"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if len(parts) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(parts, ", "))
}

// dropped says what a drop of an answer means.
var dropped = [...]string{
	rnic.DropLink:        "to another MAC or VLAN",
	rnic.DropNetwork:     "the IP header: options, fragments, checksum",
	rnic.DropLength:      "lengths of IP, UDP, headers and pad that do not agree",
	rnic.DropTVer:        "a transport version other than 0",
	rnic.DropQPN:         "to a queue pair that there is not",
	rnic.DropService:     "of another transport",
	rnic.DropAddress:     "from or to another IP address",
	rnic.DropPKey:        "of another partition",
	rnic.DropQKey:        "with another Q_Key",
	rnic.DropICRC:        "a wrong ICRC",
	rnic.DropRoCEv1:      "RoCE v1",
	rnic.DropState:       "while nothing was asked for",
	rnic.DropStaleAnswer: "of a PSN that is acknowledged already",
	rnic.DropGhostAnswer: "of a PSN that was never sent",
	rnic.DropSyndrome:    "a reserved syndrome",
	rnic.DropGap:         "requests behind a gap",
	rnic.DropDuplicate:   "duplicates",
	rnic.DropMessage:     "a message that is not whole",
	rnic.DropNoReceive:   "no receive posted",
	rnic.DropClosing:     "behind a refusal",
}

// fill makes the next pattern, of n bytes, in the memory that is sent.
func (r *run) fill(n int) []byte {
	r.next += 37
	b := r.mr.Bytes()[outAt : outAt+n]
	for i := range b {
		b[i] = r.next + byte(i) + byte(i>>8)*29
	}
	return b
}

// write writes the n bytes that fill made.
func (r *run) write(ctx context.Context, at, n int) error {
	return r.post(ctx, rnic.SendWR{Op: rnic.OpWrite, SGL: []rnic.SGE{r.mr.SGE(outAt, n)}, RemoteVA: uint64(at)})
}

// readBack reads n bytes.
func (r *run) readBack(ctx context.Context, at, n int) ([]byte, error) {
	b := r.mr.Bytes()[inAt : inAt+n]
	clear(b)
	return b, r.post(ctx, rnic.SendWR{Op: rnic.OpRead, SGL: []rnic.SGE{r.mr.SGE(inAt, n)}, RemoteVA: uint64(at)})
}
