package flows

import "github.com/rocescope/rocescope/dissect"

// inflight is a message that is not settled yet, in its requester's list in
// PSN order.
type inflight struct {
	Message
	next  uint32
	flags inflightFlags
	round uint16      // times that it was begun again
	psn   dissect.PSN // newest request PSN sent of it
	end   dissect.PSN // one behind its last PSN, as far as known

	// READs: which answers have come.
	respNext dissect.PSN // the first that is missing
	respMax  dissect.PSN // one behind the highest seen
	missing  uint32      // between the two
	toldLost uint32      // how many of them were counted as lost
	resumes  uint16
}

type inflightFlags uint8

const (
	haveStart    inflightFlags = 1 << iota // its first packet was seen
	haveEnd                                // its last packet was seen
	haveHole                               // packets between were not seen
	haveAcked                              // an ACK beyond it came, but it needs an answer of its own
	haveFault                              // something about it was found wrong already
	haveTimedOut                           // sent again behind silence
	haveRNR                                // sent again behind an RNR NAK
)

// needsAnswer reports whether an ACK is not enough to settle the message.
func (f *inflight) needsAnswer() bool {
	switch f.Op {
	case OpSend, OpWrite:
		return false
	}
	return true
}

// holds reports whether the PSN is one of the message's, answers included.
func (f *inflight) holds(p dissect.PSN) bool {
	return !p.Before(f.FirstPSN) && p.Before(f.end)
}

// begin puts a new message behind prev (0 = in front) in a requester's list.
func (t *Tracker) begin(c *conn, d Direction, prev uint32) (uint32, *inflight) {
	h := &c.half[d]
	i := t.openFree
	if i != 0 {
		t.openFree = t.open[i].next
	} else {
		t.open = append(t.open, inflight{})
		i = uint32(len(t.open) - 1)
	}
	t.openLive++
	f := &t.open[i]
	*f = inflight{Message: Message{Conn: c.id, Direction: d, Index: h.index}}
	h.index++
	if prev == 0 {
		f.next = h.head
		h.head = i
	} else {
		f.next = t.open[prev].next
		t.open[prev].next = i
	}
	if f.next == 0 {
		h.tail = i
	}
	h.openCount++
	h.maxOpen = max(h.maxOpen, h.openCount)
	return i, f
}

// drop takes a message out of the list; prev is the one before it.
func (t *Tracker) drop(h *half, prev, i uint32) {
	f := &t.open[i]
	if prev == 0 {
		h.head = f.next
	} else {
		t.open[prev].next = f.next
	}
	if h.tail == i {
		h.tail = prev
	}
	if f.needsAnswer() && h.depth > 0 {
		h.depth--
	}
	h.openCount--
	f.next = t.openFree
	t.openFree = i
	t.openLive--
}

// find returns the open message that holds a PSN, and the one before it.
func (t *Tracker) find(h *half, p dissect.PSN) (prev, i uint32) {
	if h.tail != 0 && t.open[h.tail].holds(p) && h.head == h.tail {
		return 0, h.tail
	}
	for i = h.head; i != 0; prev, i = i, t.open[i].next {
		if t.open[i].holds(p) {
			return prev, i
		}
	}
	return 0, 0
}

// settleMessage ends a message: counts it, hands it to the sink, takes it out.
func (t *Tracker) settleMessage(c *conn, d Direction, prev, i uint32, status Status, presumed bool) {
	f := &t.open[i]
	f.Status, f.Presumed = status, presumed
	f.LastPSN = f.end.Add(-1)
	t.account(c, d, f)
	if c.flags&connDetail != 0 || t.shadow != nil {
		t.settled(c, d, f)
	}
	if t.opt.Sink.Message != nil && c.flags&connProvisional == 0 {
		t.opt.Sink.Message(&f.Message)
	}
	t.drop(&c.half[d], prev, i)
}

// account adds a settled message to its stream's counters.
func (t *Tracker) account(c *conn, d Direction, f *inflight) {
	t.count(c, d, f)
	if d, ok := f.Latency(); ok && f.Status == StatusSuccess {
		t.recordLatency(c, f.Direction, int64(d), f.Coalesced)
	}
}
