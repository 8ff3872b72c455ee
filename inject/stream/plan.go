package stream

import (
	"github.com/rocescope/rocescope/dissect"
)

// plan is everything that is settled before the first frame leaves. Nothing in it changes later.
type plan struct {
	config    Config
	crafter   dissect.Crafter
	payload   ring
	ring      bool // addresses begin anew at the end of the region
	random    bool // addresses are random
	templates []*template
	known     map[templateKey]*template
	mixes     []serviceMix
	qps       []qpPlan
	longest   int // frame
}

// serviceMix is what QPs of a service send.
type serviceMix struct {
	transport dissect.Transport
	choose    choice
	ops       []plannedOp
	only      *shape // where there is no choice
	answered  bool   // some of it
	requests  bool   // some of it takes PSNs
}

// plannedOp is an operation of a mix with its shapes.
type plannedOp struct {
	op     int // index into Config.Mix
	choose choice
	shapes []shape
}

// shape is how a message of an operation and a size goes.
type shape struct {
	operation *Operation
	op        int    // index into Config.Mix
	size      uint32 // of the message
	payload   uint64 // bytes that its packets carry
	packets   int
	psns      int  // that it takes: of a READ those of its answer
	answered  bool // a responder owes an acknowledgement or an answer
	addressed bool // it has an address, which is a multiple of align + 1
	atomic    bool
	align     uint64
	first     *template
	middles   []*template
	last      *template // or only
}

// packet is the template of packet k.
func (s *shape) packet(k int) *template {
	switch {
	case k == s.packets-1:
		return s.last
	case k == 0:
		return s.first
	}
	return s.middles[k%len(s.middles)]
}

// qpPlan is what a QP is.
type qpPlan struct {
	values qpValues
	va     uint64
	psn    dissect.PSN
	local  uint32 // QPN
	mix    *serviceMix
	random uint64 // its own
}

// newPlan makes the plan of a configuration that is whole and checked.
func newPlan(c Config) (*plan, error) {
	p := &plan{
		config: c, payload: c.Payload.ring(c.MTU), known: map[templateKey]*template{}, ring: c.Access == Ring, random: c.Access == Random,
	}
	services := c.services()
	p.mixes = make([]serviceMix, len(services))
	for i, t := range services {
		m := &p.mixes[i]
		m.transport = t
		var weights []float64
		for k := range c.Mix {
			if c.Mix[k].Transport != t {
				continue
			}
			op, err := p.plan(k)
			if err != nil {
				return nil, err
			}
			m.ops = append(m.ops, op)
			m.answered = m.answered || op.shapes[0].answered
			m.requests = m.requests || op.shapes[0].operation.Request()
			weights = append(weights, c.Mix[k].Weight)
		}
		m.choose = newChoice(weights)
		if len(m.ops) == 1 && len(m.ops[0].shapes) == 1 {
			m.only = &m.ops[0].shapes[0]
		}
	}
	for k := range c.QPs * len(services) {
		p.qps = append(p.qps, p.qp(k, &p.mixes[k/c.QPs]))
	}
	return p, nil
}

func (p *plan) qp(k int, m *serviceMix) qpPlan {
	c := &p.config
	q := qpPlan{
		mix: m, local: uint32(c.LocalQPN.At(k)), psn: dissect.PSN(c.PSN.At(k) & most24), va: c.VA.At(k),
		random: mix(mix(c.Seed) ^ uint64(k)),
	}
	port := uint32(c.SrcPort.At(k))
	if port == 0 {
		port = 0xC000 | uint32(mix(uint64(k))&0x3FFF)
	}
	dst := uint32(c.Outer.DstPort)
	if dst == 0 {
		dst = dissect.PortRoCEv2
	}
	q.values = qpValues{
		qpPorts: port<<16 | dst, qpDestQP: uint32(c.DestQPN.At(k)), qpRKey: uint32(c.RKey.At(k)), qpSrcQP: q.local,
	}
	return q
}

// plan makes the shapes of a part of the mix.
func (p *plan) plan(k int) (plannedOp, error) {
	op := &p.config.Mix[k]
	planned := plannedOp{op: k, choose: op.Sizes.choice()}
	for _, size := range op.Sizes.values {
		s, err := p.shape(k, size)
		if err != nil {
			return planned, err
		}
		planned.shapes = append(planned.shapes, s)
	}
	return planned, nil
}

func (p *plan) shape(k int, size uint32) (shape, error) {
	op, mtu := &p.config.Mix[k], uint32(p.config.MTU)
	s := shape{operation: op.Operation, op: k, size: size, packets: 1}
	segments := int(max(1, (uint64(size)+uint64(mtu)-1)/uint64(mtu)))
	s.answered = op.Transport == dissect.RC && op.Operation.Request()
	if op.Operation.Request() {
		s.psns = 1
		s.addressed = op.Operation.family != dissect.Send
	}
	if op.Operation.size == atomicSize {
		s.atomic, s.align = true, atomicSize-1 // IBA 9.4.5: the address is a multiple of eight
	}
	only, _ := op.Operation.opcode(op.Transport, dissect.Only)
	carries := only.Info().Payload != dissect.NoPayload && op.Operation.Request()
	switch {
	case op.Operation.family == dissect.Read:
		s.psns = segments
	case carries:
		s.packets, s.psns, s.payload = segments, segments, uint64(size)
	}
	tail := 0
	if carries {
		tail = int(size) - (segments-1)*int(mtu)
	}
	var err error
	packet := func(at dissect.Position, segment, payload int) *template {
		if err != nil {
			return nil
		}
		code, _ := op.Operation.opcode(op.Transport, at) // config.check has asked for Only, and the table has whole messages
		var t *template
		t, err = p.template(k, code, s.answered && code.Info().Ends(), payload, segment, size)
		return t
	}
	if s.packets == 1 {
		s.last = packet(dissect.Only, 0, tail)
		return s, err
	}
	s.first = packet(dissect.First, 0, int(mtu))
	s.last = packet(dissect.Last, segments-1, tail)
	if segments > 2 {
		s.middles = make([]*template, p.payload.n) // middles[i] has the payload of packets i, i+n, …
		for k := 1; k < segments-1 && k <= p.payload.n; k++ {
			s.middles[k%p.payload.n] = packet(dissect.Middle, k, int(mtu))
		}
	}
	return s, err
}

// template finds or makes the template of a packet of a part of the mix.
func (p *plan) template(part int, op dissect.Opcode, ackReq bool, payload, segment int, size uint32) (*template, error) {
	k := templateKey{part: part, op: op, ackReq: ackReq, payload: payload, segment: segment % p.payload.n}
	if op.Info().Has(dissect.LayerRETH) {
		k.dmaLen = size
	}
	if t := p.known[k]; t != nil {
		return t, nil
	}
	t, err := p.newTemplate(k, p.payload.at(segment, payload))
	if err != nil {
		return nil, err
	}
	t.id = len(p.templates)
	p.templates = append(p.templates, t)
	p.known[k] = t
	p.longest = max(p.longest, t.length())
	return t, nil
}
