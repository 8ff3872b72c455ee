package stream

import "github.com/rocescope/rocescope/dissect"

// sequence is where a QP is in what it sends: everything of its next message is a function of it and the plan.
type sequence struct {
	index uint64 // of the next message
	pos   uint64 // PSNs that the messages before it took
	acks  uint32 // acknowledgements sent
	at    uint64 // where linear and ring access go on, from the VA
}

// message is one of them.
type message struct {
	*shape
	index  uint64
	pos    uint64      // PSNs of the QP before it
	psn    dissect.PSN // of its first packet
	values values
}

// end is how many PSNs the QP has taken with it.
func (m *message) end() uint64 { return m.pos + uint64(m.psns) }

// at is the PSN behind so many.
func (q *qpPlan) at(pos uint64) dissect.PSN { return q.psn.Add(int(pos & most24)) }

// next gives a QP's next message, and moves on.
func (p *plan) next(q *qpPlan, s *sequence, m *message) {
	of := q.mix.only
	if of == nil {
		of = q.choose(s.index)
	}
	m.shape, m.index, m.pos, m.psn = of, s.index, s.pos, q.at(s.pos)
	s.index++
	if of.psns == 0 {
		q.nextAnswer(s, m)
		return
	}
	s.pos += uint64(of.psns)
	va := q.va
	if of.addressed {
		at := (s.at + of.align) &^ of.align
		switch {
		case p.random:
			places := (p.config.Region-min(uint64(of.size), p.config.Region))/64 + 1
			at = mix(q.draw(m.index)^2) % places * 64
		case p.ring && at+uint64(of.size) > p.config.Region:
			at = 0
		}
		s.at = at + uint64(of.size)
		va += at
	}
	m.values[valVAHi], m.values[valVALo] = uint32(va>>32), uint32(va)
	m.values[valImm] = uint32(m.index)
	if of.atomic {
		m.operands()
	}
}

// draw is the random number of a QP's message.
func (q *qpPlan) draw(index uint64) uint64 { return q.random + index*0xD1342543DE82EF95 }

// choose chooses the shape of a QP's message.
func (q *qpPlan) choose(index uint64) *shape {
	r := q.draw(index)
	op := &q.mix.ops[0]
	if len(q.mix.ops) > 1 {
		op = &q.mix.ops[q.mix.choose.pick(mix(r))]
	}
	if len(op.shapes) == 1 {
		return &op.shapes[0]
	}
	return &op.shapes[op.choose.pick(mix(r^1))]
}

// nextAnswer is an acknowledgement, of one message after the other, or a CNP.
func (q *qpPlan) nextAnswer(s *sequence, m *message) {
	m.psn = 0
	if m.operation.family == dissect.Acknowledge {
		m.psn = q.psn.Add(int(s.acks & most24))
		s.acks++
		m.values[valAETH] = dissect.NoCreditInfo<<24 | s.acks&most24
	}
}

// operands are those of an atomic.
func (m *message) operands() {
	if m.operation.family == dissect.FetchAdd {
		m.values[valSwapHi], m.values[valSwapLo], m.values[valCompareHi], m.values[valCompareLo] = 0, 1, 0, 0
		return
	}
	m.values[valSwapHi], m.values[valSwapLo] = uint32((m.index+1)>>32), uint32(m.index+1)
	m.values[valCompareHi], m.values[valCompareLo] = uint32(m.index>>32), uint32(m.index)
}
