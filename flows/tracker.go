package flows

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// Batch is a run of packets in the order of the capture. Data[i] is the frame
// of Packets[i], borrowed for the call; Marks[i] is filled in.
type Batch struct {
	Packets []dissect.Packet
	Data    [][]byte
	Marks   []Mark
	// For a tracker with a share of the capture (Options.Share), which gets the packets between its pairs of addresses, and
	// those that all trackers get:
	Newest []int64 // newest time in the capture up to packet i
	Common []bool  // all get packet i
}

// Sink takes what a tracker has finished. What the pointers point at is
// borrowed for the call. A nil func is not called.
type Sink struct {
	Message    func(*Message)
	IWARP      func(*Message)    // those of iWARP; their connections are numbered among the others
	Finding    func(*Finding)    // each occurrence, as it is found
	Connection func(*Connection) // final records of connections that were evicted
	// Joined tells that two streams turned out to be one connection, which has
	// number into: Marks that said gone mean it too.
	Joined func(gone, into uint32)
	// Turned tells, in front of Joined, that Marks which say conn, of packets up to that frame, mean the other direction: the
	// stream was taken for the first side's by itself, and is the second's.
	Turned func(conn uint32, upTo uint64)
	// Step tells each step of a queue pair's state when a packet proves it, of the connection as it is known by then: its
	// identity, its two queue pairs without their history, and which of them it is (by the direction in which it sends).
	// A weaker state behind a stronger one, and one that later packets show to be another's, are told too.
	Step func(c *Connection, end Direction, s StateStep)
}

// Options set a tracker's bounds. The zero value is good.
type Options struct {
	Sink           Sink
	MaxConnections int // beyond it the longest idle are evicted; 0 = 4 Mi, at most 7 Mi
	MaxFindings    int // distinct findings kept; 0 = 64 Ki
	MaxDetails     int // connections with details; 0 = 256, -1 = none

	Series bool // details say how a connection went over time

	Shadow        bool       // rebuild the responders' memory and compare READs and atomics with it
	ShadowBytes   int64      // of memory to hold; 0 = 64 MiB
	LinkSpeed     uint64     // of paused links, bits per second; 0 = not known, 100 Gb/s taken
	DecodeAs      []DecodeAs // what connections carry that do not tell it themselves
	Exchanges     []Exchange // by which programs tell each other their queue pairs over TCP, beyond those that are known
	ExpectCNPDSCP uint8      // CNPs with another DSCP are a finding; 0 = do not judge

	Share *Share // the capture is shared with other trackers: see Together. nil = it is not
}

// Tracker follows all connections of a capture. It serves one goroutine.
type Tracker struct {
	opt Options

	idx    index
	slab   [][]conn // chunks that never move
	free   []uint32
	live   int
	lastID uint32
	open   []inflight // open[0] is not used
	openFree,
	openLive uint32
	others     []plainCount // others[0] is not used
	othersFree uint32
	extras     []*extras // extras[0] is not used
	extrasFree []uint32
	reasons    reasonSet

	partners
	groups      map[hostPair]*group
	ways        map[way]bool // directions between hosts in the capture
	lastWay     way
	handshakes  *handshakes
	events      []handshakeEvent
	announced   map[QPName]*announcement
	findings    findingSet
	icrcSenders map[dissect.Addr]*icrcSender
	replaying   bool
	histograms  int
	fine        int // histograms with fine buckets
	details     int
	hostTable   hostTable
	pauses      pauseTable
	dcbx        dcbxTable
	shadow      *shadow // nil = not asked for
	iwarp       *iwarp.Tracker
	fragments   fragments
	saying      saying
	payloads    map[uint64]heldPayload // of SENDs that are held, by frame
	copies      *copies                // nil until there is a packet in a tunnel
	share       *share                 // nil = it has the whole capture
	mirrored    uint64
	finished    bool

	packets   uint64
	protocols ProtocolCounts
	opcodes   [256]uint64
	icrc      [4]uint64
	evicted   uint64
	now       int64 // newest time stamp
	batch     [lookahead]lookup
	touched   uint64
}

// lookahead is how many packets are looked up before the first of them is
// tracked, so that their cache misses overlap.
const lookahead = 32

// touchFrom is how many connections are more than a processor's cache holds.
const touchFrom = 2048

type lookup struct {
	key   streamKey
	hash  uint64
	guess streamRef // most probably its stream
	ok    bool
}

// New returns a tracker.
func New(opt Options) *Tracker {
	if opt.MaxConnections == 0 {
		opt.MaxConnections = 4 << 20
	}
	opt.MaxConnections = min(opt.MaxConnections, mostConnections)
	if opt.MaxFindings == 0 {
		opt.MaxFindings = 64 << 10
	}
	if opt.MaxDetails == 0 {
		opt.MaxDetails = defaultDetails
	}
	t := &Tracker{
		opt: opt, idx: newIndex(),
		open: make([]inflight, 1), others: make([]plainCount, 1), extras: make([]*extras, 1),
		groups:      map[hostPair]*group{},
		ways:        map[way]bool{},
		handshakes:  newHandshakes(handshakeLimits{Exchanges: opt.Exchanges}),
		announced:   map[QPName]*announcement{},
		findings:    newFindingSet(),
		icrcSenders: map[dissect.Addr]*icrcSender{},
	}
	if opt.Shadow {
		t.shadow = newShadow(opt.ShadowBytes)
	}
	if opt.Share != nil {
		t.share = &share{Share: *opt.Share, names: map[endpointKey]bool{}}
	}
	return t
}

// Track follows a batch of packets.
func (t *Tracker) Track(b *Batch) {
	for lo := 0; lo < len(b.Packets); lo += lookahead {
		hi := min(lo+lookahead, len(b.Packets))
		for i := lo; i < hi; i++ {
			t.prepare(&b.Packets[i], &t.batch[i-lo])
		}
		if t.live > touchFrom {
			t.touch(t.batch[:hi-lo])
		}
		for i := lo; i < hi; i++ {
			b.Marks[i] = Mark{}
			if t.share != nil {
				t.partake(b, i, &t.batch[i-lo])
				continue
			}
			if (t.copies != nil || b.Packets[i].Uncommon()) && t.uncommon(b, i) {
				continue
			}
			t.packet(&b.Packets[i], b.Data[i], &b.Marks[i], &t.batch[i-lo])
		}
	}
	if t.share != nil {
		t.nearBounds(len(b.Packets))
	}
}

// prepare computes the key of a packet that can belong to a connection.
func (t *Tracker) prepare(p *dissect.Packet, l *lookup) {
	l.ok = p.IsTransport() && p.DestQP > 1
	if !l.ok {
		return
	}
	l.key = streamKey{dst: p.Dst, dstQPN: p.DestQP, vlan: int16(p.VLAN()), srcQPN: noSource}
	switch p.Op().Transport {
	case dissect.UD:
		l.key.src, l.key.srcQPN = p.Src, p.SrcQP
	case dissect.RD:
		l.key.dstQPN = p.EEContext() | eeContext
	}
	l.hash = t.idx.hash(&l.key)
}

// touch brings what the packets of a batch need into the cache: index slots,
// connections, open messages and counters, one kind after the other, so that the
// waits of all packets overlap. It may look at the wrong connection where hashes
// are much alike. What it reads goes into a field, lest the compiler leave it out.
func (t *Tracker) touch(batch []lookup) {
	mask, sum := uint64(len(t.idx.slots)-1), uint64(0)
	for i := range batch {
		if l := &batch[i]; l.ok {
			sum += uint64(t.idx.slots[l.hash&mask])
		}
	}
	for i := range batch {
		l := &batch[i]
		if l.guess = 0; l.ok {
			l.guess = t.idx.guess(l.hash)
		}
		if l.guess != 0 {
			c := t.conn(l.guess.slot())
			sum += uint64(c.flags) + uint64(c.half[0].next) + uint64(c.half[1].next) + c.stream[0].packets + c.stream[1].packets + c.firstNum
		}
	}
	for i := range batch {
		r := batch[i].guess
		if r == 0 {
			continue
		}
		c := t.conn(r.slot())
		for d := range c.half {
			h := &c.half[d]
			if h.head != 0 {
				f, g := &t.open[h.head], &t.open[h.tail]
				sum += f.Seen + uint64(f.end) + g.Seen + uint64(g.end)
			}
			if h.others != 0 {
				sum += t.others[h.others].bytes
			}
		}
	}
	t.touched = sum
}

func (t *Tracker) packet(p *dissect.Packet, frame []byte, m *Mark, l *lookup) {
	t.packets++
	if p.Time > t.now {
		t.now = p.Time
	}
	switch p.Proto {
	case dissect.ProtoRoCEv2:
		t.protocols.RoCEv2++
	case dissect.ProtoRoCEv1:
		t.protocols.RoCEv1++
	case dissect.ProtoInfiniBand:
		t.protocols.InfiniBand++
		if p.VCRC() == dissect.ICRCInvalid {
			t.badVCRC(p)
		}
	case dissect.ProtoTCP:
		t.hear(p)
		if !t.followIWARP(p, frame) {
			t.handshake(p, frame)
		}
		return
	case dissect.ProtoPause:
		t.protocols.PFC++
		t.pauseFrame(p, frame)
		return
	default:
		t.protocols.Other++
		return
	}
	if !p.Has(dissect.LayerBTH) {
		return
	}
	if t.pauses.seen {
		t.pauses.data(p, frame)
	}
	t.opcodes[p.Opcode]++
	if p.Has(dissect.LayerICRC) {
		t.icrc[p.ICRC]++
	}
	if p.ECN() == 3 {
		m.Bits |= MarkCE
	}
	if p.ICRC == dissect.ICRCInvalid {
		m.Bits |= MarkBadICRC
		t.keepICRC(p, frame)
		if l.ok {
			t.dropPacket(t.idx.find(t, &l.key, l.hash), p, m)
		} else {
			t.dropPacket(0, p, m)
		}
		return
	}
	op := p.Op()
	if p.Has(dissect.LayerMAD) {
		t.hear(p)
		t.managed(p, frame)
		if op.Transport == dissect.UD && p.MAD(frame).Class() == dissect.ClassCM {
			t.protocols.CM++
		}
		t.handshake(p, frame)
		t.upperManaged(p, frame, m)
		return
	}
	if op.Family == dissect.Congestion {
		t.protocols.CNP++
		m.Bits |= MarkCNP
	}
	if op.Transport >= dissect.Manufacturer || op.Transport == dissect.RD && foreign(p, frame) {
		t.vendor(p)
		return
	}
	if !l.ok {
		return
	}
	ref := t.idx.find(t, &l.key, l.hash)
	if p.TVer() != 0 || op.Family == dissect.Reserved {
		t.dropPacket(ref, p, m)
		return
	}
	if ref == 0 {
		if op.Family == dissect.Congestion {
			t.strayCNP(p)
			return // nothing is known of the QP that it slows down
		}
		ref = t.newStream(p, l)
	}
	c := t.conn(ref.slot())
	if c.flags&(connSeeking|connDoubted) != 0 {
		t.seeking(ref, p, frame, m, l)
		return
	}
	t.track(c, ref.direction(), p, frame, m)
}

// track is a packet's way once its connection is known.
func (t *Tracker) track(c *conn, d Direction, p *dissect.Packet, frame []byte, m *Mark) {
	s := &c.stream[d]
	m.Conn, m.Direction = c.id, d
	first := s.flags&streamSeen == 0
	if first {
		t.hear(p)
		t.firstOfStream(c, d, p)
		t.follow(c, p.Time)
	}
	s.packets++
	s.bytes += uint64(p.WireLen)
	s.payload += uint64(p.PayloadLen())
	c.flags |= connUsed
	if m.Bits&MarkCE != 0 {
		t.rare(c).count(d).ECNCE++
		t.marked(c, d, p)
	}
	if s.dscp != p.DSCP() || s.srcPort != p.SrcPort || s.class != classOf(p) || s.pkey != p.PKey || c.end[d].addr != p.Src || s.flags&streamForeign != 0 {
		t.attributes(c, d, p, frame, m)
	}
	if t.shadow != nil {
		t.shadow.before(t, c, d, p, frame)
	}
	op := p.Op()
	if c.upperListens(s, op) {
		t.upper(c, d, p, frame, m)
	}
	id := judgeIPID(s, p, first)
	switch {
	case op.Family == dissect.Congestion:
		t.rare(c).count(d).CNPs++
		t.notified(c, d, p)
	case op.Role == dissect.Request:
		m.Bits |= MarkRequest
		t.request(c, d, p, frame, m, id)
	case op.Role == dissect.Response:
		m.Bits |= MarkResponse
		t.response(c, d, p, frame, m, id)
	}
	if t.saying.Upper != nil {
		if m.Bits&markAgain == 0 {
			t.upperSaid(d, p)
		}
		t.saying.Upper = nil
	}
	s.lastSeen = p.Time
	if c.flags&connProvisional == 0 && m.Bits&(MarkNAK|MarkRNR|MarkCNP) == 0 {
		t.lengths(c, d, p, m)
	}
	if c.flags&connDetail != 0 {
		t.detailed(c, d, p, m)
	}
	if t.shadow != nil && m.Bits&MarkRequest != 0 {
		t.shadow.after(t, c, d, p, frame, m)
	}
}

// Finish settles everything that waited for more packets. Call it once, when
// there are none.
func (t *Tracker) Finish() {
	t.settlePairs()
	t.eachConn(func(c *conn) {
		t.lateOf(stageSettle, c)
		t.settle(c)
	})
	t.announcedWithoutData()
	t.solveICRCs()
	if t.iwarp != nil {
		t.iwarp.Finish()
	}
	if t.share == nil {
		t.conclude()
	}
}

// conclude adds what only the whole capture shows to the findings.
func (t *Tracker) conclude() {
	t.verdicts(t.addFinding)
	t.finished = true
}

// newStream makes a connection for a packet that belongs to none.
func (t *Tracker) newStream(p *dissect.Packet, l *lookup) streamRef {
	op := p.Op()
	dst := endpoint{addr: p.Dst, qpn: l.key.dstQPN, vlan: l.key.vlan}
	src := endpoint{addr: p.Src, qpn: noSource, vlan: l.key.vlan}
	if op.Transport == dissect.UD {
		src.qpn = p.SrcQP
		return t.newDatagramStream(p, src, dst)
	}
	if ref := t.announcedStream(p, dst); ref != 0 {
		return ref
	}
	slot, c := t.newConn()
	c.transport = op.Transport
	c.end = [2]endpoint{src, dst}
	c.firstNum = p.Number
	t.enter(slot, AToB)
	if op.Transport == dissect.UC {
		c.flags |= connNoHold // nobody answers: there is nothing to find the other side by
		return refOf(slot, AToB)
	}
	t.seekPartner(slot, c)
	return refOf(slot, AToB)
}

func (t *Tracker) newDatagramStream(p *dissect.Packet, src, dst endpoint) streamRef {
	slot, c := t.newConn()
	c.transport = dissect.UD
	c.end = [2]endpoint{src, dst}
	c.evidence = ByDETH
	c.firstNum = p.Number
	t.announcedDatagram(c)
	t.enter(slot, AToB)
	return refOf(slot, AToB)
}

// firstOfStream notes what the first packet of a direction tells.
func (t *Tracker) firstOfStream(c *conn, d Direction, p *dissect.Packet) {
	s := &c.stream[d]
	s.flags |= streamSeen
	s.firstSeen = p.Time
}
