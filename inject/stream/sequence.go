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
	r := q.random + s.index*0xD1342543DE82EF95
	op := &q.mix.ops[0]
	if len(q.mix.ops) > 1 {
		op = &q.mix.ops[q.mix.choose.pick(mix(r))]
	}
	m.shape = &op.shapes[0]
	if len(op.shapes) > 1 {
		m.shape = &op.shapes[op.choose.pick(mix(r^1))]
	}
	m.index, m.pos, m.psn = s.index, s.pos, q.at(s.pos)
	s.index++
	if m.psns == 0 {
		p.nextAnswer(q, s, m)
		return
	}
	s.pos = m.end()
	va := q.va + p.place(s, m, r)
	m.values[valVAHi], m.values[valVALo] = uint32(va>>32), uint32(va)
	m.values[valImm] = uint32(m.index)
	switch m.operation.family {
	case dissect.FetchAdd:
		m.values[valSwapHi], m.values[valSwapLo], m.values[valCompareHi], m.values[valCompareLo] = 0, 1, 0, 0
	case dissect.CompareSwap:
		m.values[valSwapHi], m.values[valSwapLo] = uint32((m.index+1)>>32), uint32(m.index+1)
		m.values[valCompareHi], m.values[valCompareLo] = uint32(m.index>>32), uint32(m.index)
	}
}

// nextAnswer is an acknowledgement, of one message after the other, or a CNP.
func (p *plan) nextAnswer(q *qpPlan, s *sequence, m *message) {
	m.psn = 0
	if m.operation.family == dissect.Acknowledge {
		m.psn = q.psn.Add(int(s.acks & most24))
		s.acks++
		m.values[valAETH] = dissect.NoCreditInfo<<24 | s.acks&most24
	}
}

// place is where in its region a message goes.
func (p *plan) place(s *sequence, m *message, r uint64) uint64 {
	size, region := uint64(m.size), p.config.Region
	align := uint64(1)
	if m.operation.size == 8 {
		align = 8 // IBA 9.4.5: an atomic's address is a multiple of eight
	}
	if p.config.Access == Random {
		places := (region-min(size, region))/64 + 1
		return mix(r^2) % places * 64
	}
	if m.operation.family == dissect.Send {
		return 0 // it has no address
	}
	at := (s.at + align - 1) &^ (align - 1)
	if p.config.Access == Ring && at+size > region {
		at = 0
	}
	s.at = at + size
	return at
}
