package flows

import (
	"math/bits"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// What two hosts have in common over all their queue pairs: markings, UDP
// source ports, VLANs, congestion. Some verdicts can only be had here: switches
// mark, and cards pace their CNPs, without regard to queue pairs.

// HostPair is what all queue pairs of two hosts have in common.
type HostPair struct {
	A, B  dissect.Addr
	Paths [2]HostPath // A → B, B → A
}

// HostPath is one direction between two hosts. CNPs are counted in the
// direction in which they travel: against the data that they slow down.
type HostPath struct {
	Seen           bool    // at least one packet of a queue pair
	QPs            int     // distinct destination QPNs, as far as counted
	SrcPorts       int     // distinct UDP source ports, as far as counted
	DSCP           []uint8 // of all packets but CNPs, ascending
	Priorities     []uint8 // 802.1p, of tagged packets, ascending
	VLANs          []int   // in order of first sight; -1 is no tag
	MigReqOn       bool    // streams began with the bit set
	MigReqOff      bool    // streams began without
	RoCEv1, RoCEv2 bool
	CE             uint64        // packets marked "congestion experienced"
	CNPs           uint64        // congestion notifications sent in this direction
	StrayCNPs      uint64        // of them: for queue pairs that are not in the capture
	CNPDSCP        []uint8       // ascending
	CNPInterval    time.Duration // shortest time between two CNPs; 0 = fewer than two
	Checksums      Checksums     // UDP checksums of the first packet of each stream
}

// Bounds of what is remembered of host pairs.
const (
	maxHostPairs = 4096
	maxPathQPs   = 1024
	maxPathPorts = 1024
	maxPathVLANs = 8
)

// hostTable is the host pairs so far, in order of first sight.
type hostTable struct {
	list    []*hostRecord
	index   map[hostPair]*hostRecord
	links   []*linkRecord
	byLink  map[hostPair]*linkRecord
	leftOut uint64
	last    *hostRecord // asked for last
}

type hostRecord struct {
	key  hostPair
	met  uint64 // the packet that showed it, where trackers share a capture
	path [2]hostPath
}

type hostPath struct {
	flags     pathFlags
	pcps      uint8  // bit set
	dscps     uint64 // bit set
	cnpDSCPs  uint64 // bit set
	qps       []uint32
	ports     []uint16
	vlans     []int16
	checksums Checksums
	ce        uint64
	ceFrame   uint64
	ceTime    int64
	ceConn    *conn // of the first mark; with number ceID, else gone
	ceID      uint32
	ceDir     Direction
	cnp       cnpPace
	stray     uint64
	frame     uint64 // first packet
	time      int64
	portFrame uint64 // first packet from an unusual source port
	portTime  int64
	oddPort   uint16
	zeroFrame uint64 // first packet of a stream with DSCP 0
	zeroTime  int64
	macs      [2]uint64 // of the first packet: source, destination
}

type pathFlags uint16

const (
	pathSeen pathFlags = 1 << iota
	pathMigOn
	pathMigOff
	pathV1
	pathV2
	pathNative
	pathBadCNP
	pathManaged // a management datagram was seen
	pathUntagged
)

// linkRecord is two stations and the RoCE versions that each sends.
type linkRecord struct {
	key   hostPair // MAC addresses in Lo
	flags [2]pathFlags
	frame uint64 // that showed them to differ
	time  int64
	where string
	v1    bool // what it was
}

// hosts returns the record of two hosts and the direction from src to dst; nil
// where the table is full.
func (t *Tracker) hosts(src, dst dissect.Addr) (r *hostRecord, d Direction) {
	k := pairOf(src, dst)
	if k.a != src {
		d = BToA
	}
	h := &t.hostTable
	if h.last != nil && h.last.key == k {
		return h.last, d
	}
	r = h.index[k]
	if r == nil {
		if len(h.list) >= maxHostPairs {
			h.leftOut++
			return nil, d
		}
		if h.index == nil {
			h.index = map[hostPair]*hostRecord{}
		}
		r = &hostRecord{key: k}
		if t.share != nil {
			r.met = t.share.at
		}
		h.index[k] = r
		h.list = append(h.list, r)
	}
	h.last = r
	return r, d
}

// Stream classes: what of a packet's link header and BTH is an attribute of its
// stream, in one byte. 0 is that of no packet.
const (
	classPriority = 7 // 802.1p
	classTagged   = 1 << 3
	classMigReq   = 1 << 4
	classValid    = 1 << 7
)

func classOf(p *dissect.Packet) uint8 {
	class := uint8(classValid)
	if p.Has(dissect.LayerVLAN) {
		class |= classTagged | uint8(p.VLANTag>>13)
	}
	if p.MigReq() {
		class |= classMigReq
	}
	return class
}

// maxAttributes bounds the distinct DSCPs and source ports remembered per
// stream.
const maxAttributes = 16

// attributes follows what may change within a stream: DSCP, 802.1p priority,
// source port, and what may not: P_Key and source address. It is called for the first packet, and whenever one differs
// from it. CNPs have values of their own. frame may be nil.
func (t *Tracker) attributes(c *conn, d Direction, p *dissect.Packet, frame []byte, m *Mark) {
	if p.Op().Family == dissect.Congestion {
		return
	}
	s := &c.stream[d]
	class := classOf(p)
	if s.class == 0 {
		s.dscp, s.srcPort, s.class, s.pkey = p.DSCP(), p.SrcPort, class, p.PKey
		t.partition(c, d, p, m)
		t.streamOfHosts(p, class, frame)
		return
	}
	if s.pkey != p.PKey {
		t.partition(c, d, p, m)
	}
	x := t.rare(c)
	x.migrates = x.migrates || (s.class^class)&classMigReq != 0
	t.source(c, d, p)
	isNew := false
	if s.dscp != p.DSCP() && len(x.dscps[d]) < maxAttributes && !slices.Contains(x.dscps[d], p.DSCP()) {
		x.dscps[d] = append(x.dscps[d], p.DSCP())
		isNew = true
	}
	if s.srcPort != p.SrcPort && len(x.ports[d]) < maxAttributes && !slices.Contains(x.ports[d], p.SrcPort) {
		x.ports[d] = append(x.ports[d], p.SrcPort)
		isNew = true
	}
	if s.class != class && x.classes[d]>>(class&classPriority)&1 == 0 {
		x.classes[d] |= 1 << (class & classPriority)
		isNew = true
	}
	if isNew {
		t.streamOfHosts(p, class, nil)
	}
}

// streamOfHosts adds a stream's attributes to those of its two hosts.
func (t *Tracker) streamOfHosts(p *dissect.Packet, class uint8, frame []byte) {
	r, d := t.hosts(p.Src, p.Dst)
	if r == nil {
		return
	}
	h := &r.path[d]
	h.begin(p)
	h.flags |= pathSeen
	if class&classMigReq != 0 {
		h.flags |= pathMigOn
	} else {
		h.flags |= pathMigOff
	}
	h.dscps |= 1 << p.DSCP()
	if p.DSCP() == 0 && h.zeroFrame == 0 {
		h.zeroFrame, h.zeroTime = p.Number, p.Time
	}
	vlan := int16(p.VLAN())
	if class&classTagged != 0 {
		h.pcps |= 1 << (class & classPriority)
	} else {
		h.flags |= pathUntagged
	}
	if e := p.Ethernet(frame); frame != nil && e != nil && h.macs[0] == 0 {
		h.macs = [2]uint64{macOf(e.Src()), macOf(e.Dst())}
	}
	if len(h.vlans) < maxPathVLANs && !slices.Contains(h.vlans, vlan) {
		h.vlans = append(h.vlans, vlan)
	}
	insertBounded(&h.qps, p.DestQP, maxPathQPs)
	if p.Proto == dissect.ProtoRoCEv2 {
		insertBounded(&h.ports, p.SrcPort, maxPathPorts)
		if p.SrcPort < 0xC000 && h.portFrame == 0 {
			h.portFrame, h.portTime, h.oddPort = p.Number, p.Time, p.SrcPort
		}
	}
	t.station(p, h, frame)
}

// begin notes a direction's first packet, and its RoCE version.
func (h *hostPath) begin(p *dissect.Packet) {
	if h.frame == 0 {
		h.frame, h.time = p.Number, p.Time
	}
	h.flags |= versionOf(p)
}

func versionOf(p *dissect.Packet) pathFlags {
	switch p.Proto {
	case dissect.ProtoRoCEv1:
		return pathV1
	case dissect.ProtoRoCEv2:
		return pathV2
	}
	return pathNative
}

// managed takes a management datagram as a sign of life of its two hosts.
func (t *Tracker) managed(p *dissect.Packet, frame []byte) {
	if !t.owns(p.Src, p.Dst) {
		return
	}
	if r, d := t.hosts(p.Src, p.Dst); r != nil {
		r.path[d].begin(p)
		r.path[d].flags |= pathManaged
		t.station(p, &r.path[d], frame)
	}
}

// station looks at what the frame of a stream's first packet says of link and
// UDP.
func (t *Tracker) station(p *dissect.Packet, h *hostPath, frame []byte) {
	if frame == nil {
		return
	}
	if v := t.checksum(p, frame); v != checksumUnknown {
		*h.checksums.of(v)++
		if v == checksumWrong {
			t.reportHosts(findUDPChecksum, p, uint64(p.UDP(frame).Checksum()))
		}
	}
	e := p.Ethernet(frame)
	if e == nil {
		return
	}
	src, dst := macOf(e.Src()), macOf(e.Dst())
	if dst == 0 && src != 0 || src == 0 && dst != 0 { // both: a loopback interface
		t.reportHosts(findZeroMAC, p, src, dst)
	}
	k := pairOf(dissect.Addr{Lo: src}, dissect.Addr{Lo: dst})
	l := t.hostTable.byLink[k]
	if l == nil {
		if len(t.hostTable.links) >= maxHostPairs {
			return
		}
		if t.hostTable.byLink == nil {
			t.hostTable.byLink = map[hostPair]*linkRecord{}
		}
		l = &linkRecord{key: k}
		t.hostTable.byLink[k] = l
		t.hostTable.links = append(t.hostTable.links, l)
	}
	d := AToB
	if k.a.Lo != src {
		d = BToA
	}
	l.flags[d] |= versionOf(p)
	if l.mixed() && l.frame == 0 {
		l.frame, l.time, l.where, l.v1 = p.Number, p.Time, whereOf(p), p.Proto == dissect.ProtoRoCEv1
	}
}

// mixed reports whether one station speaks RoCE v1 only, the other v2 only.
func (l *linkRecord) mixed() bool { return versionsDiffer(l.flags[0], l.flags[1]) }

func versionsDiffer(a, b pathFlags) bool {
	const versions = pathV1 | pathV2
	return a&versions != 0 && b&versions != 0 && a&b&versions == 0 && (a|b)&versions == versions
}

// macOf returns an Ethernet address as a number.
func macOf(b []byte) uint64 {
	_ = b[5]
	return uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(b[2])<<24 | uint64(b[3])<<16 | uint64(b[4])<<8 | uint64(b[5])
}

// insertBounded adds a value to an ascending set of at most n.
func insertBounded[T uint16 | uint32](set *[]T, v T, n int) {
	if at, found := slices.BinarySearch(*set, v); !found && len(*set) < n {
		*set = slices.Insert(*set, at, v)
	}
}

func whereOf(p *dissect.Packet) string { return p.Src.String() + " → " + p.Dst.String() }

// reportHosts notes a finding about two hosts that a packet proves.
func (t *Tracker) reportHosts(id FindingID, p *dissect.Packet, args ...uint64) {
	f := Finding{ID: id, Frame: p.Number, Time: p.Time, Count: 1, Where: whereOf(p)}
	copy(f.Args[:], args)
	t.addFinding(&f)
}

// linkLocal reports whether an address is in fe80::/10.
func linkLocal(a dissect.Addr) bool { return a.Hi>>54 == 0xFE80>>6 }

// bitsOf lists the set bits of v, ascending.
func bitsOf(v uint64) (list []uint8) {
	for ; v != 0; v &= v - 1 {
		list = append(list, uint8(bits.TrailingZeros64(v)))
	}
	return list
}

// hostPairs copies the host pairs in order of first sight.
func (t *Tracker) hostPairs() []HostPair {
	out := make([]HostPair, len(t.hostTable.list))
	for i, r := range t.hostTable.list {
		out[i] = HostPair{A: r.key.a, B: r.key.b}
		for d := range r.path {
			h := &r.path[d]
			p := &out[i].Paths[d]
			*p = HostPath{
				Seen: h.flags&pathSeen != 0, QPs: len(h.qps), SrcPorts: len(h.ports),
				DSCP: bitsOf(h.dscps), Priorities: bitsOf(uint64(h.pcps)),
				MigReqOn: h.flags&pathMigOn != 0, MigReqOff: h.flags&pathMigOff != 0,
				RoCEv1: h.flags&pathV1 != 0, RoCEv2: h.flags&pathV2 != 0,
				CE: h.ce, CNPs: h.cnp.count, StrayCNPs: h.stray,
				CNPDSCP: bitsOf(h.cnpDSCPs), CNPInterval: duration(h.cnp.least), Checksums: h.checksums,
			}
			for _, v := range h.vlans {
				p.VLANs = append(p.VLANs, int(v))
			}
		}
	}
	return out
}
