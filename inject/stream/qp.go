package stream

// qp is a QP as its sender has it.
//
// What every packet needs is in front, on four cache lines: with many QPs each is a stranger to the cache.
type qp struct {
	msg       message
	packet    int    // of msg, to be sent next; msg.packets = none
	sent      uint64 // position behind the last PSN that was sent
	fresh     uint64 // index behind the last message that was sent whole
	active    bool   // in the sender's list
	touched   bool   // in this burst
	stopped   bool
	waits     bool   // until notBefore
	lost      bool   // asked for what is too long ago
	number    uint32 // among the sender's
	seq       sequence
	qpPlan    // a copy
	sh        *shared
	notBefore int64
	past      []past // ring of the last messages
	pasts     uint64
}

// past is what it takes to send a message again.
type past struct{ seq sequence }

// end is the position behind the QP's next packet.
func (q *qp) end() uint64 {
	switch {
	case q.msg.psns == 0:
		return q.msg.pos
	case q.packet == q.msg.packets-1:
		return q.msg.end()
	}
	return q.msg.pos + uint64(q.packet) + 1
}

// goBack goes back to a position, if it is still known what was there.
func (q *qp) goBack(p *plan, pos uint64) bool {
	for back := uint64(1); back <= min(q.pasts, uint64(len(q.past))); back++ {
		then := q.past[(q.pasts-back)%uint64(len(q.past))]
		if then.seq.pos > pos {
			continue
		}
		q.seq = then.seq
		q.pasts -= back - 1
		p.next(&q.qpPlan, &q.seq, &q.msg)
		q.packet = 0
		switch {
		case q.msg.psns == 0 || pos >= q.msg.end(): // behind it
			q.packet = q.msg.packets
		case q.msg.packets > 1:
			q.packet = int(pos - q.msg.pos)
		}
		return true
	}
	return false
}

// begun reports whether a message was begun and not sent whole. One that is being sent again was.
func (q *qp) begun() bool { return q.packet > 0 && q.packet < q.msg.packets && q.msg.index >= q.fresh }
