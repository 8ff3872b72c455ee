package flows

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// announcement is a pair of queue pairs that a handshake named, from then on
// until another handshake names one of them again.
type announcement struct {
	handshakeEvent
	slot        uint32 // of the connection, once it had a packet
	used        bool
	refs        int             // table entries that point here
	established int64           // time of the RTU; 0 unknown
	asked       *handshakeEvent // the first DREQ, until a DREP answers it
}

// dreqPatience is how long a DREQ may be without a DREP.
const dreqPatience = 1_000_000_000

// maxAnnounced bounds the queue pairs that are remembered from handshakes.
const maxAnnounced = 1 << 20

// handshake follows a management datagram or a TCP segment.
func (t *Tracker) handshake(p *dissect.Packet, frame []byte) {
	before := t.handshakes.socketPackets()
	t.events = t.handshakes.packet(p, frame, t.events[:0])
	if p.Proto == dissect.ProtoTCP {
		if t.handshakes.socketPackets() == before {
			t.protocols.Other++
		} else {
			// Packets before the exchange was recognised were counted as other.
			n := t.handshakes.socketPackets() - before
			t.protocols.SocketExchange += n
			t.protocols.Other -= n - 1
		}
	}
	for i := range t.events {
		t.event(&t.events[i])
	}
}

func (t *Tracker) event(e *handshakeEvent) {
	if !t.owns(e.A.Addr, e.B.Addr) {
		return
	}
	for _, n := range [2]struct {
		known bool
		QPName
	}{{e.HasA, e.A}, {e.HasB, e.B}} {
		if n.known {
			t.share.name(n.Addr, n.QPN)
		}
	}
	switch e.Kind {
	case evPair:
		if e.Late {
			t.confirm(e)
		} else {
			t.announce(e)
		}
	case evSIDR:
		if e.HasB && t.announced[announcedKey(e.B)] == nil {
			t.announced[announcedKey(e.B)] = &announcement{handshakeEvent: *e, refs: 1}
		}
	case evEstablished:
		if a := t.announcementOf(e); a != nil {
			a.established = e.Time
			if a.used {
				t.rare(t.conn(a.slot)).established = e.Time
			}
		}
	case evRejected:
		t.reportEvent(findRejected, e, uint64(e.Reason))
	case evDisconnectRequest, evDisconnected:
		t.disconnect(e)
	case evResent:
		t.reportEvent(findCMResent, e, uint64(e.Message))
	}
}

func announcedKey(n QPName) QPName { n.VLAN = -1; return n }

func (t *Tracker) announcementOf(e *handshakeEvent) *announcement {
	if e.HasA {
		if a := t.announced[announcedKey(e.A)]; a != nil {
			return a
		}
	}
	if e.HasB {
		return t.announced[announcedKey(e.B)]
	}
	return nil
}

// announce takes a pair of queue pairs from a handshake. What was known of
// either ends: its number is in use anew.
func (t *Tracker) announce(e *handshakeEvent) {
	if old := t.announcementOf(e); old != nil && e.By == BySocket && !old.used && old.A == e.A && old.B == e.B {
		old.handshakeEvent = *e // told twice, as perftest does to synchronise
		return
	}
	t.supersede(e.A)
	t.supersede(e.B)
	if len(t.announced) >= maxAnnounced {
		for k, a := range t.announced { // any of them: a table this full is a scan
			t.unannounce(k, a)
			break
		}
	}
	a := &announcement{handshakeEvent: *e, refs: 2}
	t.announced[announcedKey(e.A)] = a
	t.announced[announcedKey(e.B)] = a
}

// confirm takes a pair that was in use before its handshake message came: it
// is evidence for what is tracked already.
func (t *Tracker) confirm(e *handshakeEvent) {
	toA, toB := t.streamTo(e.A), t.streamTo(e.B)
	switch {
	case toA == 0 && toB == 0:
		t.announce(e)
		return
	case toA == 0:
		t.name(toB, e.A, e)
	case toB == 0:
		t.name(toA, e.B, e)
	case toA.slot() == toB.slot():
		t.believe(t.conn(toA.slot()), e)
	case t.conn(toA.slot()).paired() || t.conn(toB.slot()).paired():
		return // one of them is known to belong to another
	default:
		slot := toB.slot()
		if t.conn(slot).flags&t.conn(toA.slot()).flags&connProvisional == 0 {
			t.close(toA.slot()) // too much has passed to track both anew
			t.name(toB, e.A, e)
			break
		}
		t.pair(slot, toA.slot())
		if ref := t.streamTo(e.B); ref != 0 {
			t.believe(t.conn(ref.slot()), e)
		}
	}
}

// streamTo returns the stream to a queue pair of a connected transport.
func (t *Tracker) streamTo(n QPName) streamRef {
	k := streamKey{dst: n.Addr, dstQPN: n.QPN, vlan: int16(n.VLAN), srcQPN: noSource}
	return t.idx.find(t, &k, t.idx.hash(&k))
}

// name gives a stream without partner its sender.
func (t *Tracker) name(ref streamRef, sender QPName, e *handshakeEvent) {
	slot := ref.slot()
	if c := t.conn(slot); c.paired() {
		return
	} else if c.flags&connProvisional != 0 {
		t.giveUp(slot)
	}
	t.forget(slot)
	c := t.conn(slot)
	c.end[0].qpn = sender.QPN
	t.enter(slot, BToA)
	t.believe(c, e)
}

// believe lets a connection rest on better evidence.
func (t *Tracker) believe(c *conn, e *handshakeEvent) {
	if e.By > c.evidence {
		c.evidence = e.By
		t.rare(c).why = e.Why
	}
}

func (t *Tracker) unannounce(k QPName, a *announcement) {
	delete(t.announced, k)
	if a.refs--; a.refs == 0 && !a.used && a.Kind == evPair {
		t.reportEvent(findNoData, &a.handshakeEvent)
	}
}

// supersede ends the connection of a queue pair whose number a new handshake
// names.
func (t *Tracker) supersede(n QPName) {
	if a := t.announced[announcedKey(n)]; a != nil {
		t.unannounce(announcedKey(n), a)
		if a.used {
			t.close(a.slot)
		}
		return
	}
	if ref := t.streamTo(n); ref != 0 {
		t.close(ref.slot())
	}
}

// announcedStream makes the connection of a packet whose destination a
// handshake named; 0 where none did.
func (t *Tracker) announcedStream(p *dissect.Packet, dst endpoint) streamRef {
	a := t.announced[announcedKey(dst.name())]
	if a == nil || a.Kind != evPair || a.used && t.conn(a.slot).flags&connClosed == 0 && t.conn(a.slot).end[0].vlan == dst.vlan {
		return 0
	}
	if a.used { // the same pair in another VLAN
		return 0
	}
	d := AToB
	if announcedKey(a.A) == announcedKey(dst.name()) {
		d = BToA
	}
	a.used = true
	var c *conn
	a.slot, c = t.newConn()
	c.transport = p.Op().Transport
	c.end = [2]endpoint{{a.A.Addr, a.A.QPN, dst.vlan}, {a.B.Addr, a.B.QPN, dst.vlan}}
	c.firstNum = p.Number
	t.fromAnnouncement(c, a)
	t.enter(a.slot, AToB)
	if c.end[0] != c.end[1] {
		t.enter(a.slot, BToA)
	}
	return refOf(a.slot, d)
}

// fromAnnouncement copies what a handshake told of both sides.
func (t *Tracker) fromAnnouncement(c *conn, a *announcement) {
	c.evidence = a.By
	x := t.rare(c)
	x.why = a.Why
	x.neg = [2]Negotiated{a.NegA, a.NegB}
	x.serviceID, x.established = a.ServiceID, a.established
	for d, known := range [2]bool{a.HasPSNA, a.HasPSNB} {
		h := &c.half[d]
		h.setMTU(mtuCode(x.neg[d].PathMTU))
		if known && c.transport != dissect.UD {
			psn := x.neg[d].StartPSN
			h.first, h.next, h.acked = psn, psn, psn
			h.flags |= halfAnnounced
		}
	}
	t.carryByHandshake(c, &a.handshakeEvent)
	if a.By == ByCM {
		t.handshakeSteps(c, a)
	}
}

// announcedDatagram lends a datagram connection the handshake that named its
// source, if one did.
func (t *Tracker) announcedDatagram(c *conn) {
	a := t.announced[announcedKey(c.end[0].name())]
	if a == nil {
		a = t.announced[announcedKey(c.end[1].name())]
	}
	if a == nil {
		return
	}
	a.used = true
	c.evidence = a.By
	x := t.rare(c)
	x.why = a.Why
	if a.Kind == evSIDR {
		x.why = fmt.Sprintf("CM SIDR_REP in frame %d told the queue pair and its Q_Key", a.Frame)
		return
	}
	x.neg = [2]Negotiated{a.NegA, a.NegB}
	if announcedKey(a.A) != announcedKey(c.end[0].name()) {
		x.neg[0], x.neg[1] = x.neg[1], x.neg[0]
	}
}

// disconnect notes DREQ and DREP. The connection takes late packets on until
// its queue pairs are named anew.
func (t *Tracker) disconnect(e *handshakeEvent) {
	a := t.announcementOf(e)
	if a == nil {
		return
	}
	switch {
	case e.Kind == evDisconnected:
		a.asked = nil
	case a.asked == nil:
		first := *e
		a.asked = &first
	}
	if !a.used {
		return
	}
	c := t.conn(a.slot)
	if e.Kind == evDisconnectRequest {
		c.flags |= connDisconnect
	}
	t.disconnectSteps(c, e)
}

// announcedWithoutData makes records for CM connections that never carried a
// packet, and says so.
func (t *Tracker) announcedWithoutData() {
	for _, a := range t.announcements() {
		if a.asked != nil && t.now-a.asked.Time > dreqPatience {
			t.reportEvent(findDREQUnanswered, a.asked)
		}
		if a.used || a.Kind != evPair {
			continue
		}
		t.reportEvent(findNoData, &a.handshakeEvent)
		if !a.HasTransport {
			continue
		}
		a.used = true
		t.share.late(stageWithout, a.Frame)
		var c *conn
		a.slot, c = t.newConn()
		c.transport = a.Transport
		c.end = [2]endpoint{{a.A.Addr, a.A.QPN, int16(a.A.VLAN)}, {a.B.Addr, a.B.QPN, int16(a.B.VLAN)}}
		c.firstNum = a.Frame
		t.rare(c).announced = a.Time
		c.flags |= connClosed // not in the index
		t.fromAnnouncement(c, a)
	}
}

// announcements lists all in the order in which they were told.
func (t *Tracker) announcements() []*announcement {
	var all []*announcement
	for k, a := range t.announced {
		if k == announcedKey(a.A) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *announcement) int { return cmp.Compare(a.Frame, b.Frame) })
	return all
}
