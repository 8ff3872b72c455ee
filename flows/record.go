package flows

import (
	"cmp"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Snapshot copies the state of everything. It is to be called between batches.
func (t *Tracker) Snapshot() *Snapshot {
	s := &Snapshot{
		Packets: t.packets, Protocols: t.protocols, Opcodes: t.opcodes, ICRC: t.icrc,
		Evicted: t.evicted, Findings: t.allFindings(), FindingsLeft: t.findings.left,
		HostPairs: t.hostPairs(), HostsLeft: t.hostTable.leftOut, Pauses: t.pauseSenders(), Shadow: t.shadow.record(),
	}
	s.Mirrored = t.mirrored
	if t.iwarp != nil {
		s.IWARP = t.iwarp.Connections()
	}
	s.Connections = make([]Connection, 0, t.live)
	t.eachConn(func(c *conn) { s.Connections = append(s.Connections, t.record(c)) })
	slices.SortFunc(s.Connections, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// record copies one connection's state.
func (t *Tracker) record(c *conn) Connection {
	r := Connection{
		ID: t.publicID(c.id), Transport: c.transport, Evidence: c.evidence,
		FirstSeen: t.firstSeen(c), LastSeen: c.lastSeen(), FirstFrame: c.firstNum,
		Tap: t.tap(c), Detail: t.detailRecord(c), Upper: t.upperRecord(c),
	}
	for d := range r.Streams {
		r.Streams[d] = t.streamRecord(c, Direction(d))
		if c.stream[d].flags&streamSeen != 0 {
			r.Directions++
		}
	}
	r.A, r.B = t.qpRecord(c, 0), t.qpRecord(c, 1)
	if x := t.extrasOf(c); x != nil {
		r.ServiceID, r.Established, r.Candidates = x.serviceID, x.established, x.candidates
	}
	r.Why = t.whyOf(c)
	return r
}

func (t *Tracker) qpRecord(c *conn, end int) QP {
	h := &c.half[end]
	q := QP{QPName: c.end[end].name(), Known: c.end[end].qpn != noSource, PathMTU: h.mtuBytes()}
	if !q.Known {
		q.QPN = 0
	}
	if q.PathMTU == 0 {
		q.PathMTU = c.half[1-end].mtuBytes()
	}
	if h.flags&(halfRequests|halfAnnounced) != 0 {
		q.FirstPSN, q.HasPSN = h.first, true
	}
	q.History = t.history(c, end)
	if n := len(q.History); n > 0 {
		q.State = q.History[n-1].State
	}
	if x := t.extrasOf(c); x != nil {
		q.Negotiated = x.neg[end]
	}
	q.InUse = t.inUse(c, end)
	return q
}

func (t *Tracker) streamRecord(c *conn, d Direction) Stream {
	s := &c.stream[d]
	var r Stream
	if x := t.extrasOf(c); x != nil {
		if x.counters[d] != nil {
			r = *x.counters[d]
		}
		r.DSCP = slices.Clone(x.dscps[d])
		r.SrcPorts = len(x.ports[d])
		r.Latency, r.RTT, r.Latencies = x.lat[d].summary(), x.lat[d].roundTrips(), x.lat[d].histogram()
		r.CNPDSCP, r.CNPInterval = bitsOf(x.cnpDSCPs[d]), duration(x.cnp[d].least)
		r.Priorities = bitsOf(uint64(x.classes[d]))
	}
	r.Packets, r.Bytes, r.PayloadBytes = s.packets, s.bytes, s.payload
	r.Acks += uint64(s.acks)
	t.messageCounts(c, d, &r.Messages)
	if s.class != 0 { // else there were CNPs at most
		r.DSCP = append([]uint8{s.dscp}, r.DSCP...)
		r.SrcPorts++
		r.MigReq = s.class&classMigReq != 0
		if s.class&classTagged != 0 {
			r.Priorities = append([]uint8{s.class & classPriority}, r.Priorities...)
		}
		r.Paused, r.PausedKnown = t.pauses.ofStream(s, t.now)
	}
	r.SrcPort = s.srcPort
	r.FirstSeen, r.LastSeen = s.firstSeen, s.lastSeen
	if span := s.lastSeen - s.firstSeen; span > 0 {
		r.Goodput = float64(s.payload) * 8e9 / float64(span)
	}
	return r
}

// inUse is what the traffic shows of a queue pair's queues and settings.
func (t *Tracker) inUse(c *conn, end int) InUse {
	asks := &c.half[end]
	sent, received := t.streamRecord(c, Direction(end)), t.streamRecord(c, Direction(1-end))
	u := InUse{
		SQSent: requestsBegun(&sent, asks.index), Outstanding: uint32(asks.maxOpen), OutstandingPackets: uint32(asks.maxSent),
		ReadDepth: uint32(asks.maxDepth), CreditLimit: -1, PathMTU: asks.mtuSeen(),
	}
	for op := range sent.Messages {
		u.SQAcked += sent.Messages[op].Completed
	}
	if c.transport != dissect.RC && c.transport != dissect.XRC {
		u.SQAcked = 0 // nobody acknowledges
	}
	u.RQConsumed = received.Messages[OpSend].Completed + received.Messages[OpWrite].Imm
	if x := t.extrasOf(c); x != nil {
		if k := x.credits[end]; k.known {
			u.CreditLimit, u.Credits = int(k.limit), k.credits
		}
		u.Retries = int(x.recovery[end].rounds)
		if s := &x.recovery[end].timeouts; s.count > 0 {
			u.TimeoutMin, u.TimeoutMax = s.min, s.max
			u.TimeoutCodes = timeoutCodes(s.min)
		}
	}
	return u
}

// requestsBegun is how many messages a requester began: their index, which counts to
// 2³², and above that what its counters say.
func requestsBegun(s *Stream, index uint32) uint64 {
	n := uint64(0)
	for op := range s.Messages {
		n += s.Messages[op].Count
	}
	return n + uint64(int64(int32(index-uint32(n))))
}

// timeoutCodes lists the codes n of the local ACK time-out that fit a wait: a
// time-out of T = 4.096 µs × 2^n may be noticed between T and 4T.
func timeoutCodes(wait int64) (codes []uint8) {
	for n := uint8(1); n < 32; n++ {
		if at := int64(dissect.AckTimeout(n)); at <= wait && wait <= 4*at {
			codes = append(codes, n)
		}
	}
	return codes
}
