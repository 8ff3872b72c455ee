package flows

import (
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// socketTable follows TCP connections for as long as they may hold an exchange
// of queue pairs: perftest's key messages or the texts of ibv_*_pingpong, on
// any port, SMC-R's CLC, or what the user describes. It takes two texts of one form, one from each side, to prove a
// pair: the i-th text of either side belong together, which needs both streams
// from their beginning. Where that was not captured, a text that a side sends
// twice in a row is taken: only that of the first queue pair is, when perftest
// waits for its peer.
type socketTable struct {
	flows      recent[socketFlow]
	index      map[socketKey]int32
	recognised uint64 // packets of flows in which an exchange was recognised
	waiting    int    // over all flows, bounded: texts without their answer,
	pairs      int    // pairs remembered,
	lateBytes  int    // and bytes behind holes, or of messages that are not whole
	described  []Exchange
}

const (
	quietBytes         = 4 << 10 // without a text: the flow is something else
	quietExchangeBytes = 64 << 10
	maxWaitingFlow     = 4 << 10
	maxWaiting         = 64 << 10
	maxPairsFlow       = 16 << 10
	maxPairs           = 64 << 10
	maxLate            = 1 << 20
)

func (t *socketTable) init(limit int) {
	t.flows.init(limit)
	t.index = make(map[socketKey]int32)
}

// socketKey names a TCP connection; the lower end comes first.
type socketKey struct {
	lo, hi         dissect.Addr
	loPort, hiPort uint16
	vlan           int16
}

// socketFlow is a TCP connection. Stream 0 is that of the key's lower end.
type socketFlow struct {
	key        socketKey
	streams    [2]socketStream
	client     int8 // the stream of the side that connected, -1 unknown
	watched    bool // its bytes may yet tell something
	exchange   bool // an exchange was recognised
	holed      bool // texts may be missing, and their count means nothing
	ahead      int8 // the stream whose texts wait for their answers
	form       textForm
	format     messageFormat // nil: perftest's and the pingpongs' texts are looked for
	packets    uint64
	waiting    []socketText
	waitingAt  int // index of the first one still waiting
	pairs      []socketPair
	pairsIndex map[[4]uint32]int32
}

type socketPair struct {
	sides       [2]socketText // by stream
	established bool
}

func (t *socketTable) packet(p *dissect.Packet, frame []byte, dst []handshakeEvent) []handshakeEvent {
	if !p.Has(dissect.LayerTCP) || p.Fragment {
		return dst
	}
	k := socketKey{p.Src, p.Dst, p.SrcPort, p.DstPort, int16(p.VLAN())}
	from := 0
	if k.hi.Hi < k.lo.Hi || k.hi.Hi == k.lo.Hi && (k.hi.Lo < k.lo.Lo || k.hi.Lo == k.lo.Lo && k.hiPort < k.loPort) {
		k.lo, k.hi, k.loPort, k.hiPort = k.hi, k.lo, k.hiPort, k.loPort
		from = 1
	}
	syn := p.TCPFlags&dissect.TCPSyn != 0
	i := t.flows.newest
	if i < 0 || t.flows.at(i).key != k { // else one more of the connection before
		var ok bool
		if i, ok = t.index[k]; ok {
			t.flows.touch(i)
		} else if syn || p.PayloadLen() > 0 {
			i = t.add(k)
		} else {
			return dst
		}
	}
	fl := t.flows.at(i)
	if syn && fl.renewed(from, p) {
		t.reset(fl)
	}
	fl.packets++
	if fl.exchange {
		t.recognised++
	}
	if syn {
		fl.syn(from, p)
	}
	if !fl.watched {
		return dst
	}
	s := &fl.streams[from]
	if n := p.PayloadLen(); n > 0 {
		data := p.Payload(frame)
		seq := p.TCPSeq
		if syn {
			seq++
		}
		dst = t.segment(fl, from, p, seq, data, dst)
		if missing := n - len(data); missing > 0 && fl.watched {
			if end := seq + uint32(n); s.known && int32(end-s.next) > 0 { // cut off by the snap length
				s.skip(end)
				t.hole(fl)
			}
		}
	}
	if p.TCPFlags&(dissect.TCPFin|dissect.TCPRst) != 0 {
		s.finished = true
		dst = t.finish(fl, from, p, dst)
	}
	return dst
}

func (t *socketTable) add(k socketKey) int32 {
	i, used := t.flows.take()
	fl := t.flows.at(i)
	if used {
		delete(t.index, fl.key)
		t.reset(fl)
	}
	*fl = socketFlow{key: k, client: -1, watched: true, format: t.formatOfPorts(k)}
	t.index[k] = i
	return i
}

// reset begins a flow anew: the ports are used for another connection.
func (t *socketTable) reset(fl *socketFlow) {
	t.forget(fl)
	t.pairs -= len(fl.pairs)
	*fl = socketFlow{key: fl.key, client: -1, watched: true, format: t.formatOfPorts(fl.key)}
}

// forget stops reading the flow: there is nothing more to learn.
func (t *socketTable) forget(fl *socketFlow) {
	fl.watched = false
	t.waiting -= len(fl.waiting)
	fl.waiting, fl.waitingAt = nil, 0
	for s := range fl.streams {
		t.lateBytes -= fl.streams[s].lateSize + len(fl.streams[s].held)
		fl.streams[s].release()
	}
}

// renewed reports whether a SYN is not that of the connection known so far.
func (fl *socketFlow) renewed(from int, p *dissect.Packet) bool {
	s := &fl.streams[from]
	return s.known && s.first != p.TCPSeq+1
}

// syn notes where the streams begin and who connected.
func (fl *socketFlow) syn(from int, p *dissect.Packet) {
	s, o := &fl.streams[from], &fl.streams[1-from]
	s.begin(p.TCPSeq + 1)
	if p.TCPFlags&dissect.TCPAck == 0 {
		fl.client = int8(from)
		return
	}
	fl.client = int8(1 - from)
	o.begin(p.TCPAck)
}

// segment takes data at seq of one stream.
func (t *socketTable) segment(fl *socketFlow, from int, p *dissect.Packet, seq uint32, data []byte, dst []handshakeEvent) []handshakeEvent {
	s := &fl.streams[from]
	if !s.known {
		s.known, s.first, s.next = true, seq, seq
	}
	where, data := s.place(seq, data)
	switch where {
	case seenBefore:
		return dst
	case behindHole:
		size := s.lateSize
		if t.lateBytes < maxLate && s.keep(seq, data) {
			t.lateBytes += s.lateSize - size
			return dst
		}
		s.skip(seq)
		t.hole(fl)
		if dst = t.drain(fl, from, p, dst); !fl.watched {
			return dst
		}
		if where, data = s.place(seq, data); where != inOrder {
			return dst // still behind a hole: too far off
		}
	}
	dst = t.read(fl, from, p, data, dst)
	return t.drain(fl, from, p, dst)
}

// drain reads what was kept and is in order now.
func (t *socketTable) drain(fl *socketFlow, from int, p *dissect.Packet, dst []handshakeEvent) []handshakeEvent {
	s := &fl.streams[from]
	for fl.watched && len(s.late) > 0 {
		size := s.lateSize
		data, ok := s.ready()
		t.lateBytes += s.lateSize - size
		if !ok {
			break
		}
		dst = t.read(fl, from, p, data, dst)
	}
	return dst
}

// finish reads what is left of a stream that ended, holes or not.
func (t *socketTable) finish(fl *socketFlow, from int, p *dissect.Packet, dst []handshakeEvent) []handshakeEvent {
	s := &fl.streams[from]
	for fl.watched && len(s.late) > 0 {
		s.skip(s.late[0].seq)
		t.hole(fl)
		dst = t.drain(fl, from, p, dst)
	}
	return dst
}

// hole notes that bytes are missing, and texts with them.
func (t *socketTable) hole(fl *socketFlow) {
	fl.holed = true
	t.waiting -= len(fl.waiting)
	fl.waiting, fl.waitingAt = nil, 0
	for s := range fl.streams {
		fl.streams[s].cut()
		t.lateBytes -= len(fl.streams[s].held)
		fl.streams[s].held = nil
	}
}

// read takes the next bytes of a stream.
func (t *socketTable) read(fl *socketFlow, from int, p *dissect.Packet, data []byte, dst []handshakeEvent) []handshakeEvent {
	s := &fl.streams[from]
	if fl.format == nil && s.next == s.first {
		fl.format = t.formatOfBytes(data)
	}
	s.next += uint32(len(data))
	if fl.format != nil {
		return t.readFormat(fl, from, p, data, dst)
	}
	for len(data) > 0 && fl.watched {
		var x socketText
		var found bool
		if x, found, data = s.scan(data); found {
			x.frame = p.Number
			dst = t.text(fl, from, p, x, dst)
		}
	}
	if s.quiet > quietExchangeBytes || s.quiet > quietBytes && !fl.exchange {
		t.forget(fl)
	}
	return dst
}

// text takes a text of one side.
func (t *socketTable) text(fl *socketFlow, from int, p *dissect.Packet, x socketText, dst []handshakeEvent) []handshakeEvent {
	if x.form == textDone {
		if fl.form == textPingpong && from == int(fl.client) {
			for i := range fl.pairs {
				dst = t.establish(fl, &fl.pairs[i], from, p, dst)
			}
		}
		return dst
	}
	if fl.form == noText {
		fl.form = x.form
	}
	if fl.form != x.form {
		t.forget(fl) // no exchange that we know
		return dst
	}
	s, o := &fl.streams[from], &fl.streams[1-from]
	s.again = s.texts > 1 && x.same(&s.last)
	s.last = x
	fl.holed = fl.holed || !s.fromSYN || !o.fromSYN
	if fl.holed {
		if s.again && o.again && x.fillings == 0 && o.last.fillings == 0 {
			return t.pair(fl, from, p, x, o.last, true, dst)
		}
		return dst
	}
	if len(fl.waiting) == fl.waitingAt || int(fl.ahead) == from {
		return t.wait(fl, from, x, dst)
	}
	first := &fl.waiting[fl.waitingAt]
	peer := *first
	if first.fillings > 1 {
		first.fillings--
	} else if fl.waitingAt++; fl.waitingAt == len(fl.waiting) {
		t.waiting -= len(fl.waiting)
		fl.waiting, fl.waitingAt = fl.waiting[:0], 0
	}
	if x.fillings != 0 || peer.fillings != 0 {
		return dst
	}
	return t.pair(fl, from, p, x, peer, false, dst)
}

// wait keeps a text until the other side's answers it.
func (t *socketTable) wait(fl *socketFlow, from int, x socketText, dst []handshakeEvent) []handshakeEvent {
	fl.ahead = int8(from)
	if n := len(fl.waiting); x.fillings != 0 && n > fl.waitingAt && fl.waiting[n-1].fillings != 0 {
		fl.waiting[n-1].fillings++
		return dst
	}
	if len(fl.waiting) >= maxWaitingFlow || t.waiting >= maxWaiting {
		t.forget(fl)
		return dst
	}
	fl.waiting = append(fl.waiting, x)
	t.waiting++
	return dst
}

// pair takes two texts that belong together: a new pair, or a pair known
// already whose sides wait for each other once more.
func (t *socketTable) pair(fl *socketFlow, from int, p *dissect.Packet, x, peer socketText, late bool, dst []handshakeEvent) []handshakeEvent {
	var pr socketPair
	pr.sides[from], pr.sides[1-from] = x, peer
	id := [4]uint32{pr.sides[0].qpn, pr.sides[1].qpn, uint32(pr.sides[0].psn), uint32(pr.sides[1].psn)}
	if i, ok := fl.pairsIndex[id]; ok {
		return t.establish(fl, &fl.pairs[i], from, p, dst)
	}
	if len(fl.pairs) >= maxPairsFlow || t.pairs >= maxPairs {
		t.forget(fl)
		return dst
	}
	if !fl.exchange {
		fl.exchange = true
		t.recognised += fl.packets
	}
	if fl.pairsIndex == nil {
		fl.pairsIndex = make(map[[4]uint32]int32)
	}
	fl.pairsIndex[id] = int32(len(fl.pairs))
	fl.pairs = append(fl.pairs, pr)
	t.pairs++
	e := fl.event(evPair, &pr, from, p)
	e.Late = late
	what := "ibv_*_pingpong texts"
	switch {
	case x.form.perftest():
		what = "perftest key messages"
	case fl.format != nil:
		what = fl.format.what()
	}
	lo, hi := min(x.frame, peer.frame), max(x.frame, peer.frame)
	e.Why = what + " on TCP in frames " + strconv.FormatUint(lo, 10) + " and " + strconv.FormatUint(hi, 10)
	return append(dst, e)
}

func (t *socketTable) establish(fl *socketFlow, pr *socketPair, from int, p *dissect.Packet, dst []handshakeEvent) []handshakeEvent {
	if pr.established {
		return dst
	}
	pr.established = true
	return append(dst, fl.event(evEstablished, pr, from, p))
}

func (fl *socketFlow) event(kind eventKind, pr *socketPair, from int, p *dissect.Packet) handshakeEvent {
	a := 0
	if fl.client >= 0 {
		a = int(fl.client)
	} else if pr.sides[1].frame < pr.sides[0].frame { // clients speak first
		a = 1
	}
	ends := [2]dissect.Addr{fl.key.lo, fl.key.hi}
	x, y := &pr.sides[a], &pr.sides[1-a]
	mtu := smallerMTU(fl.streams[0].mtu, fl.streams[1].mtu)
	vlan := int(fl.key.vlan)
	return handshakeEvent{
		Kind: kind, By: BySocket, FromA: from == a,
		RolesKnown: fl.client >= 0, HasA: true, HasB: true, HasPSNA: !x.noPSN, HasPSNB: !y.noPSN,
		VLANKnown: x.addr() == ends[a] && y.addr() == ends[1-a],
		A:         QPName{x.addr(), vlan, x.qpn}, B: QPName{y.addr(), vlan, y.qpn},
		NegA: x.negotiated(mtu), NegB: y.negotiated(mtu),
		Packets: fl.packets, Frame: p.Number, Time: p.Time,
	}
}
