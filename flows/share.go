package flows

import (
	"cmp"
	"math"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Several trackers can share a capture: each follows the queue pairs between some pairs of addresses. What they know together is
// what one tracker would know that had followed all, or they find out that it may not be: that something reached across from one's
// pairs to another's. Then the capture has to be read again, by one.
//
// Most of what a tracker knows is of one pair of addresses. What is not:
//
//   - Set-up may name queue pairs at other addresses than its own packets'. All trackers get it, and each heeds what names its pairs.
//   - A packet belongs to the queue pair it goes to, wherever it comes from. Trackers note which they knew of and which they looked
//     for, and no two may have the same.
//   - Bounds are the capture's. What the first packets of a capture get is dealt out again at the end; no other bound may be near.
//   - Tunnels, fragments, pause frames, LLDP and other protocols than RoCE v2 are for one tracker.

// Share is a tracker's part in a capture.
type Share struct {
	Index, Of int
	// Owner says whose the queue pairs between two addresses are, in whichever order.
	Owner func(a, b dissect.Addr) int
}

// share is a tracker's side of sharing.
type share struct {
	Share
	at      uint64               // number of the packet at hand
	crossed string               // why the capture cannot be shared, once that is known
	names   map[endpointKey]bool // queue pairs that packets or set-up named, beside those of connections
	born    []uint64             // by connection number less one: the packet that showed it
	details []granted[*conn]     // in order
	fine    []granted[*latency]  // in order
	numbers []uint32             // by connection number less one: its number in the whole capture; nil before that is known
}

// granted is who got something of which there is little, and with which packet.
type granted[T any] struct {
	at uint64
	to T
}

// endpointKey is a queue pair, in whichever VLAN.
type endpointKey struct {
	addr dissect.Addr
	qpn  uint32
}

// What happens at the end of the capture, behind all packets, happens to one connection after the other, in stages.
const (
	stagePairs    = 0 // and one more for each round of them
	stageRest     = maxRounds
	stageSettle   = maxRounds + 1
	stageWithout  = maxRounds + 2
	stageShift    = 48
	behindPackets = 1 << 63
)

// maxNames bounds what a share remembers of queue pairs that have no connection.
const maxNames = 64 << 10

// cross notes that the capture cannot be shared.
func (s *share) cross(why string) {
	if s.crossed == "" {
		s.crossed = why
	}
}

// name notes that a queue pair was looked for, or named by set-up. s may be nil.
func (s *share) name(addr dissect.Addr, qpn uint32) {
	if s == nil {
		return
	}
	if len(s.names) >= maxNames {
		s.cross("more queue pairs are named than are used")
		return
	}
	s.names[endpointKey{addr, qpn}] = true
}

// late notes that the packet at hand is none, but a stage of the capture's end, at what a packet showed. s may be nil.
func (s *share) late(stage int, shown uint64) {
	if s != nil {
		s.at = behindPackets | uint64(stage)<<stageShift | shown
	}
}

// lateOf is late for a connection.
func (t *Tracker) lateOf(stage int, c *conn) {
	if t.share != nil {
		t.share.late(stage, t.share.born[c.id-1])
	}
}

// owns reports whether a tracker follows what is between two addresses.
func (t *Tracker) owns(a, b dissect.Addr) bool {
	return t.share == nil || t.share.Owner(a, b) == t.share.Index
}

// Crossed says why the capture cannot be shared, as far as this tracker knows by now; it is empty where it can be.
func (t *Tracker) Crossed() string { return t.share.crossed }

// Reach tells a tracker of a shared capture how far time has come in it, in front of Finish: its own packets may end before.
func (t *Tracker) Reach(newest int64) { t.now = max(t.now, newest) }

// partake tracks packet i of a batch of a shared capture.
func (t *Tracker) partake(b *Batch, i int, l *lookup) {
	p, m, s := &b.Packets[i], &b.Marks[i], t.share
	s.at, t.now = p.Number, max(t.now, b.Newest[i])
	if !b.Common[i] {
		t.packet(p, b.Data[i], m, l)
		return
	}
	switch {
	case p.Fragmented():
		s.cross("fragments")
	case p.Has(dissect.LayerBTH) && p.Depth() > 0:
		s.cross("a tunnel")
	case p.Has(dissect.LayerLLDP):
		s.cross("LLDP")
	case l.ok || p.Proto == dissect.ProtoRoCEv1 || p.Proto == dissect.ProtoInfiniBand || p.Proto == dissect.ProtoPause:
		s.cross(p.Proto.String())
	default:
		t.overhear(p, b.Data[i], m, l)
	}
}

// overhear tracks a packet that all trackers get. The first of them counts it.
func (t *Tracker) overhear(p *dissect.Packet, frame []byte, m *Mark, l *lookup) {
	packets, protocols, opcodes, icrc := t.packets, t.protocols, t.opcodes, t.icrc
	t.packet(p, frame, m, l)
	if t.share.Index != 0 {
		t.packets, t.protocols, t.opcodes, t.icrc = packets, protocols, opcodes, icrc
	}
	if t.iwarp != nil {
		t.share.cross("iWARP")
	}
}

// nearBounds notes where a bound of the whole capture may have been met: no tracker may come near to its part of it. n is how many
// packets were tracked since it was called last.
func (t *Tracker) nearBounds(n int) {
	for _, b := range [...]struct {
		used, bound int
		what        string
	}{
		{t.live, t.opt.MaxConnections, "connections"},
		{t.held, maxHeld, "packets held"},
		{t.testimony, maxTestimony, "testimony"},
		{t.histograms, maxHistograms, "histograms"},
		{len(t.announced), maxAnnounced, "announcements"},
	} {
		if (b.used+2*n)*t.share.Of > b.bound {
			t.share.cross("too many " + b.what)
		}
	}
}

// Together returns what trackers that shared a capture know of it, all packets of which they have. It is what one tracker would
// know; where that is not certain there is no snapshot, and crossed says why. They are not to be used any more.
func Together(parts []*Tracker) (s *Snapshot, crossed string) {
	for _, t := range parts {
		if t.share.crossed != "" {
			return nil, t.share.crossed
		}
	}
	for _, why := range [...]string{meetings(parts), fullTables(parts)} {
		if why != "" {
			return nil, why
		}
	}
	deal(parts, func(t *Tracker) []granted[*conn] { return t.share.details }, parts[0].opt.MaxDetails, (*Tracker).dropDetail)
	deal(parts, func(t *Tracker) []granted[*latency] { return t.share.fine }, maxFine, func(_ *Tracker, l *latency) { l.flush(); l.fine = nil })
	number(parts)
	s = &Snapshot{Connections: []Connection{}}
	var findings findingSet
	var pairs []granted[HostPair]
	for _, t := range parts {
		t.conclude()
		x := t.Snapshot()
		s.add(x)
		for i := range t.findings.list {
			f := &t.findings.list[i]
			f.Conn = t.publicID(f.Conn)
		}
		findings.list = append(findings.list, t.findings.list...)
		for i, r := range t.hostTable.list {
			pairs = append(pairs, granted[HostPair]{r.met, x.HostPairs[i]})
		}
	}
	s.Findings = findings.sorted()
	slices.SortFunc(s.Connections, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(pairs, func(a, b granted[HostPair]) int { return cmp.Compare(a.at, b.at) })
	s.HostPairs = make([]HostPair, len(pairs))
	for i := range pairs {
		s.HostPairs[i] = pairs[i].to
	}
	return s, ""
}

// add adds what can be added.
func (s *Snapshot) add(x *Snapshot) {
	s.Packets += x.Packets
	p, q := &s.Protocols, &x.Protocols
	p.RoCEv2 += q.RoCEv2
	p.CM += q.CM
	p.SocketExchange += q.SocketExchange
	p.CNP += q.CNP
	p.Other += q.Other
	for i, n := range x.Opcodes {
		s.Opcodes[i] += n
	}
	for i, n := range x.ICRC {
		s.ICRC[i] += n
	}
	s.Connections = append(s.Connections, x.Connections...)
}

// meetings looks for queue pairs that two trackers have to do with.
func meetings(parts []*Tracker) string {
	whose := map[endpointKey]int{}
	met := false
	claim := func(k endpointKey, i int) {
		if o, ok := whose[k]; ok && o != i {
			met = true
		}
		whose[k] = i
	}
	for i, t := range parts {
		t.eachConn(func(c *conn) {
			for _, e := range c.end {
				if c.transport != dissect.UD && e.qpn != noSource {
					claim(endpointKey{e.addr, e.qpn}, i)
				}
			}
		})
		for k := range t.announced {
			claim(endpointKey{k.Addr, k.QPN}, i)
		}
		for k := range t.share.names {
			claim(k, i)
		}
	}
	for i, t := range parts { // a datagram queue pair talks to many, and each packet says whose it is
		t.eachConn(func(c *conn) {
			for _, e := range c.end {
				if o, ok := whose[endpointKey{e.addr, e.qpn}]; ok && o != i && c.transport == dissect.UD {
					met = true
				}
			}
		})
	}
	if met {
		return "a queue pair that several pairs of addresses name"
	}
	return ""
}

// fullTables looks for tables that would have been full, of those that only grow.
func fullTables(parts []*Tracker) string {
	var ways, hosts, links, senders, findings, births int
	evicted := uint64(0)
	senderOf := map[dissect.Addr]bool{}
	for _, t := range parts {
		ways += len(t.ways)
		hosts += len(t.hostTable.list)
		links += len(t.hostTable.links)
		findings += len(t.findings.list)
		births += len(t.share.born)
		evicted += t.evicted
		senders += len(t.icrcSenders)
		for a := range t.icrcSenders {
			senderOf[a] = true
		}
	}
	switch {
	case ways > maxWays, hosts > maxHostPairs, links > maxHostPairs, senders > maxICRCSenders, findings > parts[0].opt.MaxFindings, uint64(births) >= math.MaxUint32, evicted > 0:
		return "a table that is full"
	case len(senderOf) < senders:
		return "wrong ICRCs of one sender to several others"
	}
	return ""
}

// deal leaves something to the first of all who got it from their trackers, at most so many, and takes it from the others.
func deal[T any](parts []*Tracker, of func(*Tracker) []granted[T], most int, take func(*Tracker, T)) {
	type claim struct {
		granted[T]
		t *Tracker
	}
	var all []claim
	for _, t := range parts {
		for _, g := range of(t) {
			all = append(all, claim{g, t})
		}
	}
	slices.SortStableFunc(all, func(a, b claim) int { return cmp.Compare(a.at, b.at) })
	for _, c := range all[min(len(all), max(most, 0)):] {
		take(c.t, c.to)
	}
}

// dropDetail is as if the connection had never had details, nor what is found by them while packets pass.
func (t *Tracker) dropDetail(c *conn) {
	t.extras[c.extras].detail = nil
	t.details--
	c.flags &^= connDetail
	for d := range Direction(2) {
		if i, ok := t.findings.index[findingKey{id: findWriteOverlap, conn: c.id, dir: d}]; ok {
			t.findings.list[i].Count = 0
		}
	}
}

// number gives connections the numbers that one tracker had given them: by the packets that showed them.
func number(parts []*Tracker) {
	next := make([]int, len(parts)) // of share.born
	for _, t := range parts {
		t.share.numbers = make([]uint32, 0, len(t.share.born))
	}
	for id := uint32(1); ; id++ {
		first := -1
		for i, t := range parts {
			if next[i] < len(t.share.born) && (first < 0 || t.share.born[next[i]] < parts[first].share.born[next[first]]) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		next[first]++
		parts[first].share.numbers = append(parts[first].share.numbers, id)
	}
}

// publicID is a connection's number in the whole capture.
func (t *Tracker) publicID(id uint32) uint32 {
	if t.share == nil || t.share.numbers == nil || id == 0 {
		return id
	}
	return t.share.numbers[id-1]
}
