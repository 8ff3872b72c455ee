package flows

import "github.com/rocescope/rocescope/dissect"

// plainCount counts messages of an operation without anything special about
// them: neither failed nor with immediate data or a key to invalidate. A
// stream's first operation is counted in its hot record; these are the lists of
// its others, without pointers, for most streams have few and none have many.
type plainCount struct {
	bytes     uint64
	messages  uint32
	completed uint32
	next      uint32 // index in Tracker.others; 0 = none
	op        Operation
}

// count adds a settled message to its stream's counters.
func (t *Tracker) count(c *conn, d Direction, f *inflight) {
	s := &c.stream[d]
	done := f.Status == StatusSuccess || f.Status == StatusSent
	switch {
	case f.Flags&(dissect.WithImm|dissect.WithInv) != 0 || f.Status.Failed():
		m := &t.rare(c).count(d).Messages[f.Op]
		m.Count++
		m.Bytes += f.Bytes
		switch {
		case f.Status.Failed():
			m.Failed++
		case done:
			m.Completed++
		}
		if f.Flags&dissect.WithImm != 0 {
			m.Imm++
		}
		if f.Flags&dissect.WithInv != 0 {
			m.Inv++
		}
	case s.flags&streamOp == 0 || s.op == f.Op:
		s.flags |= streamOp
		s.op = f.Op
		s.messages++
		s.msgBytes += f.Bytes
		if done {
			s.completed++
		}
		if s.messages >= carryAt {
			t.carry(c, d, f.Op, &s.messages, &s.completed)
		}
	default:
		o := t.other(&c.half[d], f.Op)
		o.messages++
		o.bytes += f.Bytes
		if done {
			o.completed++
		}
		if o.messages >= carryAt {
			t.carry(c, d, f.Op, &o.messages, &o.completed)
		}
	}
}

// carryAt is where counters of 32 bits hand over to those of 64, which few
// streams have: a fast card is there within minutes.
const carryAt = 1 << 31

func (t *Tracker) carry(c *conn, d Direction, op Operation, messages, completed *uint32) {
	m := &t.rare(c).count(d).Messages[op]
	m.Count += uint64(*messages)
	m.Completed += uint64(*completed)
	*messages, *completed = 0, 0
}

// other returns the counters of an operation that is not a stream's first.
func (t *Tracker) other(h *half, op Operation) *plainCount {
	for i := h.others; i != 0; i = t.others[i].next {
		if t.others[i].op == op {
			return &t.others[i]
		}
	}
	i := t.othersFree
	if i != 0 {
		t.othersFree = t.others[i].next
	} else {
		t.others = append(t.others, plainCount{})
		i = uint32(len(t.others) - 1)
	}
	t.others[i] = plainCount{op: op, next: h.others}
	h.others = i
	return &t.others[i]
}

// dropOthers gives them back.
func (t *Tracker) dropOthers(h *half) {
	for h.others != 0 {
		i := h.others
		h.others = t.others[i].next
		t.others[i].next = t.othersFree
		t.othersFree = i
	}
}

// messageCounts adds up what was counted of a stream's messages.
func (t *Tracker) messageCounts(c *conn, d Direction, all *[NumOperations]MessageCounts) {
	add := func(op Operation, messages, completed uint32, bytes uint64) {
		m := &all[op]
		m.Count += uint64(messages)
		m.Bytes += bytes
		m.Completed += uint64(completed)
	}
	if s := &c.stream[d]; s.flags&streamOp != 0 {
		add(s.op, s.messages, s.completed, s.msgBytes)
	}
	for i := c.half[d].others; i != 0; i = t.others[i].next {
		o := &t.others[i]
		add(o.op, o.messages, o.completed, o.bytes)
	}
	for i := c.half[d].head; i != 0; i = t.open[i].next { // not yet settled
		add(t.open[i].Op, 1, 0, t.open[i].Bytes)
	}
}
