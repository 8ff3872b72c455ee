package flows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// cnpPace follows how often CNPs come.
type cnpPace struct {
	count uint64
	first uint64 // frame
	at    int64  // time of the first
	last  int64
	least int64 // shortest time between two
}

func (c *cnpPace) add(p *dissect.Packet) {
	if c.count == 0 {
		c.first, c.at = p.Number, p.Time
	} else if gap := p.Time - c.last; gap > 0 && (c.least == 0 || gap < c.least) {
		c.least = gap
	}
	c.count++
	c.last = p.Time
}

// marked takes a packet that a switch marked.
func (t *Tracker) marked(c *conn, d Direction, p *dissect.Packet) {
	if c.flags&connProvisional != 0 {
		return // it comes again, once its connection is known
	}
	if r, way := t.hosts(p.Src, p.Dst); r != nil {
		h := &r.path[way]
		if h.ce == 0 {
			h.ceFrame, h.ceTime = p.Number, p.Time
			h.ceConn, h.ceID, h.ceDir = c, c.id, d
		}
		h.ce++
	}
}

// tapOf estimates where marked packets were captured: TapNearA is near their
// sender, TapNearB near their receiver.
func (t *Tracker) tapOf(h *hostPath) Tap {
	if h.ceConn == nil || h.ceConn.id != h.ceID || h.ceConn.flags&connLive == 0 {
		return TapUnknown
	}
	tap := t.tap(h.ceConn)
	if h.ceDir == BToA {
		switch tap {
		case TapNearA:
			return TapNearB
		case TapNearB:
			return TapNearA
		}
	}
	return tap
}

// notified takes a CNP. d is its own direction: it slows down the requester,
// or the responder, that sends the other way.
func (t *Tracker) notified(c *conn, d Direction, p *dissect.Packet) {
	if c.flags&connProvisional != 0 {
		return
	}
	x := t.rare(c)
	x.cnp[d].add(p)
	x.cnpDSCPs[d] |= 1 << p.DSCP()
	t.notifiedHosts(p)
	if x.detail != nil {
		x.detail.notified(d.Reverse(), p.Time)
	}
}

// strayCNP takes a CNP for a queue pair that no packet was seen of.
func (t *Tracker) strayCNP(p *dissect.Packet) {
	t.share.name(p.Dst, destination(p))
	if h := t.notifiedHosts(p); h != nil {
		h.stray++
	}
}

func (t *Tracker) notifiedHosts(p *dissect.Packet) *hostPath {
	r, d := t.hosts(p.Src, p.Dst)
	if r == nil {
		return nil
	}
	h := &r.path[d]
	h.cnp.add(p)
	h.cnpDSCPs |= 1 << p.DSCP()
	if want := t.opt.ExpectCNPDSCP; want != 0 && p.DSCP() != want && p.Has(dissect.LayerUDP) {
		h.flags |= pathBadCNP
		t.reportHosts(findCNPDSCP, p, uint64(p.DSCP()), uint64(want))
	}
	return h
}

// verdicts judges what only the capture so far as a whole shows: host pairs,
// pause frames, where time went. emit gets each finding.
func (t *Tracker) verdicts(emit func(*Finding)) {
	for _, r := range t.hostTable.list {
		t.judgeHosts(r, emit)
	}
	for _, l := range t.hostTable.links {
		if l.mixed() && l.frame != 0 {
			emit(&Finding{ID: findRoCEVersions, Frame: l.frame, Time: l.time, Count: 1, Where: l.where, Args: [4]uint64{uint64(b2i(l.v1))}})
		}
	}
	t.judgePauses(emit)
	t.judgeTime(emit)
}

// judgeHosts says what is odd between two hosts.
func (t *Tracker) judgeHosts(r *hostRecord, emit func(*Finding)) {
	say := func(id FindingID, d Direction, frame uint64, at int64, args ...uint64) {
		f := Finding{ID: id, Frame: frame, Time: at, Count: 1, Where: r.where(d)}
		copy(f.Args[:], args)
		emit(&f)
	}
	for d := AToB; d <= BToA; d++ {
		h, back := &r.path[d], &r.path[d.Reverse()]
		if back.flags&pathSeen != 0 || back.cnp.count > 0 { // both directions are here
			switch {
			case h.ce > 0 && back.cnp.count == 0:
				say(findCENoCNP, d, h.ceFrame, h.ceTime, h.ce, uint64(t.tapOf(h)))
			case back.cnp.count > 0 && h.ce == 0 && h.flags&pathSeen != 0:
				say(findCNPNoCE, d.Reverse(), back.cnp.first, back.cnp.at, back.cnp.count)
			}
		}
		if n := len(h.qps); n > 1 && len(h.ports) == 1 {
			say(findOneSrcPort, d, h.frame, h.time, uint64(n), uint64(h.ports[0]))
		}
		if h.portFrame != 0 {
			say(findSrcPortRange, d, h.portFrame, h.portTime, uint64(h.oddPort))
		}
		if h.flags&(pathSeen|pathManaged) != 0 && linkLocal(r.end(d)) {
			silent := back.flags&(pathSeen|pathManaged) == 0
			if far := r.end(d.Reverse()); silent || !linkLocal(far) && far.Hi>>56 != 0xFF {
				say(findLinkLocal, d, h.frame, h.time, uint64(b2i(silent)))
			}
		}
		if others := t.pauses.priorities &^ 1; others != 0 && t.pauses.priorities&1 == 0 && h.dscps&1 != 0 && (h.pcps == 0 || h.pcps&1 != 0) {
			say(findUnprotected, d, h.zeroFrame, h.zeroTime, uint64(others))
		}
	}
	if t.dcbx.stations != nil {
		t.judgeDCBX(r, say)
	}
	a, b := &r.path[0], &r.path[1]
	first := a
	if b.frame != 0 && (a.frame == 0 || b.frame < a.frame) {
		first = b
	}
	if all := a.dscps | b.dscps; all&(all-1) != 0 {
		say(findDSCPMixed, AToB, first.frame, first.time, a.dscps, b.dscps)
	}
	on, off := pathMigOn, pathMigOff
	if (a.flags|b.flags)&(on|off) == on|off && a.flags&b.flags&(on|off) == 0 && a.flags&(on|off) != 0 && b.flags&(on|off) != 0 {
		say(findMigReq, AToB, first.frame, first.time, uint64(a.flags&on))
	}
	if len(a.vlans) > 0 && len(b.vlans) > 0 && !slices.ContainsFunc(a.vlans, func(v int16) bool { return slices.Contains(b.vlans, v) }) {
		say(findVLANMixed, AToB, first.frame, first.time, uint64(a.vlans[0]+1), uint64(b.vlans[0]+1))
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// end is the host that sends in direction d.
func (r *hostRecord) end(d Direction) dissect.Addr {
	if d == AToB {
		return r.key.a
	}
	return r.key.b
}

func (r *hostRecord) where(d Direction) string {
	return r.end(d).String() + " → " + r.end(d.Reverse()).String()
}

// numbers writes a list of small numbers: "0, 26 and 46".
func numbers(list []uint8) string {
	var b strings.Builder
	for i, v := range list {
		switch {
		case i == 0:
		case i == len(list)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, v)
	}
	return b.String()
}

func tapText(t Tap) string {
	switch t {
	case TapNearA:
		return "near the sender"
	case TapNearB:
		return "near the receiver"
	case TapBetween:
		return "between the two"
	}
	return "at a place not known"
}

func macText(v uint64) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}
