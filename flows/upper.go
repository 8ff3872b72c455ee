package flows

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// What runs over a connection: NVMe, RPC-over-RDMA, iSER, SMB Direct. A
// connection's protocol is known for certain or not at all: by the service that
// CM was asked for, by an opening message that nothing else looks like, or
// because the user says so. Then its SENDs are decoded, responses find their
// requests by what both repeat, and WRITEs and READs the request that offered the
// key of the memory.

// Upper is what an upper protocol says of a message.
type Upper struct {
	Protocol dissect.UpperProtocol
	Kind     dissect.Upper // of the payload; UpperNone where the message moves a request's data
	Summary  string        // one line
	Request  uint64        // frame of the request that it answers, or whose data it moves; 0 without
	Latency  int64         // of an answer: ns since the first packet of its request
	Failed   bool          // an answer that tells an error
}

// Says is what the message is, in a word.
func (u *Upper) Says() string {
	if u.Kind == dissect.UpperNone {
		return "data"
	}
	return u.Kind.String()
}

// Answers reports whether it answers a request that was seen.
func (u *Upper) Answers() bool { return u.Kind != dissect.UpperNone && u.Request != 0 }

// UpperUse is how a connection used an upper protocol.
type UpperUse struct {
	Protocol dissect.UpperProtocol
	Why      string // how it is known
	Queue    int    // NVMe: 0 is the admin queue, above those for I/O; -1 not known, or another protocol
	Requests [2]UpperCounts
}

// UpperCounts are the requests that one side sent, and the answers to them.
type UpperCounts struct {
	Requests, Answers, Failed uint64
	Data                      uint64 // WRITEs and READs that moved their data
	LatencyMin, LatencyMax    int64  // ns from request to answer
	LatencySum                uint64
	Matched                   uint64 // answers whose request was seen
}

// DecodeAs says what connections carry, because the user knows.
type DecodeAs struct {
	Protocol dissect.UpperProtocol
	// One of these is set. Match takes SENDs.
	QPN   uint32
	Port  uint16 // that CM was asked for
	Match func(p *dissect.Packet, frame []byte) bool
}

// upperConn is what is known of a connection's upper protocol.
type upperConn struct {
	protocol dissect.UpperProtocol
	why      string
	byHand   bool
	queue    int
	side     [2]upperSide // by the direction of the requests
}

type upperSide struct {
	UpperCounts
	open map[uint64]upperRequest
	keys map[uint32]uint64 // of the requester's memory: which request offered it
	// SMB Direct: bytes to come of a message in parts.
	remaining uint32
	// NVMe: the controller reads the data of a Connect command from here.
	connect  dissect.PSN
	connects bool
}

// upperRequest is a request that waits for its answer.
type upperRequest struct {
	frame uint64
	time  int64
	code  uint32
	keys  []uint32
	line  string
}

// maxUpperOpen bounds the requests of a side that wait for an answer: beyond it
// any of them is given up.
const maxUpperOpen = 4096

// heldPayload is the beginning of a SEND whose packet is held until its
// connection's other side is known.
type heldPayload struct {
	protocol dissect.UpperProtocol
	why      string
	byHand   bool
	payload  []byte
}

// maxUpperPayload is as much of a message as anybody reads.
const maxUpperPayload = 1152

// saying is the message at hand, from when it is read until it is known to be
// new.
type saying struct {
	*Upper
	on      *upperConn
	facts   dissect.UpperFacts
	payload []byte
	room    Upper
}

// carries notes what a connection carries.
func (t *Tracker) carries(c *conn, protocol dissect.UpperProtocol, why string) *upperConn {
	u := &upperConn{protocol: protocol, why: why, queue: -1}
	t.rare(c).upper = u
	c.flags |= connUpper
	return u
}

// carryByHandshake takes what CM was asked for.
func (t *Tracker) carryByHandshake(c *conn, e *handshakeEvent) {
	if e.By != ByCM || c.transport != dissect.RC {
		return
	}
	protocol, why := e.Upper, "private data of CM"
	if p := dissect.UpperByService(dissect.ServiceID(e.ServiceID)); p != dissect.NoUpper {
		protocol, why = p, "CM was asked for "+dissect.ServiceID(e.ServiceID).String()
	}
	byHand := false
	for i := range t.opt.DecodeAs {
		if a := &t.opt.DecodeAs[i]; a.Port != 0 && dissect.ServiceID(e.ServiceID).IsIPCM() && dissect.ServiceID(e.ServiceID).Port() == a.Port {
			protocol, why, byHand = a.Protocol, whyByHand, true
		}
	}
	if protocol == dissect.NoUpper {
		return
	}
	u := t.carries(c, protocol, why)
	u.byHand = byHand
	if protocol == dissect.NVMe {
		u.queue = e.Queue
	}
}

const whyByHand = "the user says so"

// upperManaged marks a message of CM whose private data is an upper protocol's.
func (t *Tracker) upperManaged(p *dissect.Packet, frame []byte, m *Mark) {
	if len(t.events) == 0 {
		return
	}
	e := &t.events[0]
	protocol := dissect.UpperByService(dissect.ServiceID(e.ServiceID))
	if protocol == dissect.NoUpper {
		protocol = e.Upper
	}
	if e.Kind == evRejected && e.Reason != uint16(dissect.RejConsumer) {
		return
	}
	switch protocol {
	case dissect.NVMe:
		t.say(p, frame, m, dissect.UpperNVMePrivate)
	case dissect.RPCRDMA:
		t.say(p, frame, m, dissect.UpperRPCPrivate)
	case dissect.ISER:
		t.say(p, frame, m, dissect.UpperISERPrivate)
	}
}

// say tells packet and mark what the payload is.
func (t *Tracker) say(p *dissect.Packet, frame []byte, m *Mark, u dissect.Upper) {
	if frame == nil { // a held packet was told when it came
		return
	}
	p.SetUpper(frame, u)
	if p.Upper() != dissect.UpperNone {
		m.setUpper(u)
	}
}

// upperListens reports whether a packet may be for upper.
func (c *conn) upperListens(s *stream, op *dissect.OpInfo) bool {
	return c.flags&connUpper != 0 || op.Family == dissect.Send && s.flags&streamAsked == 0
}

// upper reads what a packet says in the words of the upper protocol, into
// t.saying. What it says counts once it is known that the packet is new: see
// upperSaid.
func (t *Tracker) upper(c *conn, d Direction, p *dissect.Packet, frame []byte, m *Mark) {
	op := p.Op()
	if c.transport != dissect.RC || !op.Starts() {
		return
	}
	payload := p.Payload(frame)
	var u *upperConn
	if c.flags&connUpper != 0 {
		u = t.extras[c.extras].upper
	}
	if op.Family == dissect.Send {
		if frame == nil {
			payload, u = t.heldUpper(c, u, p)
		} else {
			u = t.recognise(c, d, u, p, frame)
		}
	}
	if u == nil {
		return
	}
	switch {
	case op.Role == dissect.Response:
		if s := &u.side[d]; op.Family == dissect.Read && s.connects && p.PSN == s.connect {
			t.say(p, frame, m, dissect.UpperNVMeConnect)
		}
	case op.Family == dissect.Send:
		t.upperSend(c, d, u, p, frame, payload, m)
	case op.Has(dissect.LayerRETH):
		t.upperData(d, u, p)
	}
}

// recognise finds out what a connection carries, where that is not known, or the
// user knows better.
func (t *Tracker) recognise(c *conn, d Direction, u *upperConn, p *dissect.Packet, frame []byte) *upperConn {
	if len(t.opt.DecodeAs) > 0 && (u == nil || !u.byHand) {
		for i := range t.opt.DecodeAs {
			a := &t.opt.DecodeAs[i]
			if a.Match != nil && a.Match(p, frame) || a.QPN != 0 && (a.QPN == p.DestQP || a.QPN == c.end[d].qpn) {
				u = t.carries(c, a.Protocol, whyByHand)
				u.byHand = true
				return u
			}
		}
	}
	s := &c.stream[d]
	if u != nil || s.flags&streamAsked != 0 {
		return u
	}
	if len(t.opt.DecodeAs) == 0 {
		s.flags |= streamAsked
	}
	if protocol := dissect.UpperBySignature(p.Payload(frame), p.Op().Ends()); protocol != dissect.NoUpper {
		return t.carries(c, protocol, fmt.Sprintf("its opening message in frame %d", p.Number))
	}
	return nil
}

// heldUpper returns what was kept of a held packet's payload.
func (t *Tracker) heldUpper(c *conn, u *upperConn, p *dissect.Packet) ([]byte, *upperConn) {
	h, ok := t.payloads[p.Number]
	if !ok {
		return nil, nil
	}
	delete(t.payloads, p.Number)
	if u == nil {
		u = t.carries(c, h.protocol, h.why)
		u.byHand = h.byHand
	}
	return h.payload, u
}

// upperSend reads a SEND.
func (t *Tracker) upperSend(c *conn, d Direction, u *upperConn, p *dissect.Packet, frame, payload []byte, m *Mark) {
	kind := u.kind(d, p, payload)
	if kind == dissect.UpperNone {
		return
	}
	t.say(p, frame, m, kind)
	s := t.speak(u)
	s.Kind, s.payload = kind, payload
	s.facts = dissect.UpperFactsOf(payload, kind)
	if t.opt.Sink.Message != nil {
		s.Summary = string(dissect.AppendUpper(nil, payload, kind))
	}
	if c.flags&connProvisional != 0 && frame != nil {
		if t.payloads == nil {
			t.payloads = map[uint64]heldPayload{}
		}
		t.payloads[p.Number] = heldPayload{u.protocol, u.why, u.byHand, bytes.Clone(payload[:min(len(payload), maxUpperPayload)])}
	}
}

// speak begins what is said of a message. It lasts where somebody keeps it.
func (t *Tracker) speak(u *upperConn) *saying {
	s := &t.saying
	s.room = Upper{}
	if s.Upper = &s.room; t.opt.Sink.Message != nil {
		s.Upper = &Upper{}
	}
	s.on, s.facts, s.payload = u, dissect.UpperFacts{}, nil
	s.Protocol = u.protocol
	return s
}

// kind is what a SEND's payload is.
func (u *upperConn) kind(d Direction, p *dissect.Packet, payload []byte) dissect.Upper {
	if len(payload) == 0 {
		return dissect.UpperNone
	}
	switch u.protocol {
	case dissect.NVMe:
		if p.Op().Ends() && dissect.IsNVMeResponse(p.PayloadLen()) {
			return u.nvmeResponse(d, payload)
		}
		if cmd := dissect.NVMeCommandOf(payload); cmd != nil {
			if id, ok := cmd.ConnectQueue(); ok {
				u.queue = int(id)
			}
			switch {
			case u.queue == 0:
				return dissect.UpperNVMeAdmin
			case u.queue > 0:
				return dissect.UpperNVMeIO
			}
			return dissect.UpperNVMeCommand
		}
	case dissect.RPCRDMA:
		return dissect.UpperRPCRDMA
	case dissect.ISER:
		return dissect.UpperISER
	case dissect.SMBDirect:
		if u.side[d].remaining > 0 {
			return dissect.UpperSMBDirectPart
		}
		return dissect.UpperSMBDirect
	}
	return dissect.UpperNone
}

// nvmeResponse is what a response capsule is, by its command.
func (u *upperConn) nvmeResponse(d Direction, payload []byte) dissect.Upper {
	id := dissect.UpperFactsOf(payload, dissect.UpperNVMeResponse).ID
	switch u.side[d.Reverse()].open[id].code {
	case dissect.NVMeConnectCode:
		return dissect.UpperNVMeConnectResponse
	case dissect.NVMePropertyGetCode:
		return dissect.UpperNVMePropertyResponse
	}
	return dissect.UpperNVMeResponse
}

// upperData reads a WRITE, or a READ request, into memory that a request of the
// other side offered.
func (t *Tracker) upperData(d Direction, u *upperConn, p *dissect.Packet) {
	side := &u.side[d.Reverse()]
	id, ok := side.keys[p.RKey]
	if !ok {
		return
	}
	s := t.speak(u)
	q := side.open[id]
	s.Request = q.frame
	if q.line != "" {
		s.Summary = "data of " + q.line
	}
	if q.code == dissect.NVMeConnectCode && u.protocol == dissect.NVMe && p.Op().Family == dissect.Read {
		side.connect, side.connects = p.PSN, true
	}
}

// upperSaid takes over what upper read, of a packet that is new.
func (t *Tracker) upperSaid(d Direction, p *dissect.Packet) {
	s := &t.saying
	u, f := s.on, &s.facts
	asks, answers := &u.side[d], &u.side[d.Reverse()]
	if s.Kind == dissect.UpperSMBDirect || s.Kind == dissect.UpperSMBDirectPart {
		asks.remaining = dissect.SMBDRemaining(s.payload)
	}
	switch {
	case s.Kind == dissect.UpperNone:
		answers.Data++
	case f.Request:
		asks.UpperCounts.Requests++
		asks.ask(f, upperRequest{frame: p.Number, time: p.Time, code: f.Code, keys: slices.Clone(f.Keys[:f.NumKeys]), line: s.Summary})
	case f.Response:
		answers.Answers++
		if s.Failed = f.Failed; f.Failed {
			answers.UpperCounts.Failed++
		}
		if q, ok := answers.open[f.ID]; ok {
			answers.forget(f.ID, &q)
			s.Request, s.Latency = q.frame, p.Time-q.time
			answers.matched(s.Latency)
		}
	}
}

func (s *upperSide) ask(f *dissect.UpperFacts, q upperRequest) {
	if s.open == nil {
		s.open, s.keys = map[uint64]upperRequest{}, map[uint32]uint64{}
	}
	if old, ok := s.open[f.ID]; ok {
		s.forget(f.ID, &old)
	}
	if len(s.open) >= maxUpperOpen {
		for id, old := range s.open {
			s.forget(id, &old)
			break
		}
	}
	s.open[f.ID] = q
	for _, k := range q.keys {
		s.keys[k] = f.ID
	}
}

func (s *upperSide) forget(id uint64, q *upperRequest) {
	for _, k := range q.keys {
		if s.keys[k] == id {
			delete(s.keys, k)
		}
	}
	delete(s.open, id)
}

func (s *upperSide) matched(ns int64) {
	if s.Matched == 0 || ns < s.LatencyMin {
		s.LatencyMin = ns
	}
	s.LatencyMax = max(s.LatencyMax, ns)
	s.LatencySum += uint64(max(ns, 0))
	s.Matched++
}

// upperRecord copies how a connection used its upper protocol, nil where none is
// known.
func (t *Tracker) upperRecord(c *conn) *UpperUse {
	if c.flags&connUpper == 0 {
		return nil
	}
	u := t.extras[c.extras].upper
	r := &UpperUse{Protocol: u.protocol, Why: u.why, Queue: u.queue}
	for d := range u.side {
		r.Requests[d] = u.side[d].UpperCounts
	}
	return r
}

// lendUpper gives a connection what a stream that joins it in the other direction
// is known to carry.
func (t *Tracker) lendUpper(c, from *conn) {
	if c.flags&connUpper != 0 || from.flags&connUpper == 0 {
		return
	}
	u := t.extras[from.extras].upper
	c.flags |= connUpper
	t.rare(c).upper = &upperConn{
		protocol: u.protocol, why: u.why, byHand: u.byHand, queue: u.queue, side: [2]upperSide{u.side[1], u.side[0]},
	}
}
