package rnic

import (
	"github.com/rocescope/rocescope/dissect"
)

// arrival is the packet being received.
type arrival struct {
	dev     *Device
	index   int // in the batch
	frame   []byte
	p       dissect.Packet
	op      *dissect.OpInfo
	payload []byte
	q       *QP
}

// checks are what every RoCE v2 packet must pass, in this order (IBA 9.6.1; the fault catalogue's order of checks). The first that
// fails drops it without an answer.
var checks = [numChecks]check{
	linkCheck:    {(*arrival).linkIsOurs, DropLink},
	networkCheck: {(*arrival).networkIsGood, DropNetwork},
	lengthCheck:  {(*arrival).lengthIsGood, DropLength},
	versionCheck: {(*arrival).versionIsGood, DropTVer},
	qpnCheck:     {(*arrival).qpExists, DropQPN},
	serviceCheck: {(*arrival).serviceFits, DropService},
	addressCheck: {(*arrival).addressesFit, DropAddress},
	pkeyCheck:    {(*arrival).pkeyFits, DropPKey},
	qkeyCheck:    {(*arrival).qkeyFits, DropQKey},
	icrcCheck:    {(*arrival).icrcIsRight, DropICRC},
}

// check is a thing to look at, and why a packet is dropped that does not pass.
type check struct {
	pass func(a *arrival) bool
	why  Drop
}

// The checks.
const (
	linkCheck = iota
	networkCheck
	lengthCheck
	versionCheck
	qpnCheck
	serviceCheck
	addressCheck
	pkeyCheck
	qkeyCheck
	icrcCheck
	numChecks
)

// receive deals with the frame at an index of the batch.
func (d *Device) receive(index int) {
	in := &d.in[index]
	a := &d.rx
	a.index, a.frame, a.q = index, in.Data, nil
	d.dec.Decode(dissect.LinkEthernet, a.frame, len(a.frame), &a.p)
	if len(d.queues) > 1 {
		if to := d.ownerOf(a); to != d {
			d.handOver(to, in)
			return
		}
	}
	if a.p.Proto != dissect.ProtoRoCEv2 {
		d.notOurs(a)
		return
	}
	a.op = a.p.Op()
	do := d.do
	for i := range do.checks {
		if !do.checks[i].pass(a) {
			d.counters.drop(do.checks[i].why)
			return
		}
	}
	a.payload = a.p.Payload(a.frame)
	if a.q == nil {
		d.counters.RxManagement++
		if d.onManagement == nil {
			d.counters.drop(DropQPN)
			return
		}
		d.management = append(d.management, index)
		return
	}
	if a.q.diverted != nil {
		d.diverted = append(d.diverted, diversion{a.q, index})
		return
	}
	if a.p.ECN() == congestionExperienced && a.op.Transport != dissect.CNP {
		a.q.marked(a)
	}
	do.destinations[a.op.Role](a)
}

// congestionExperienced is the ECN code point CE.
const congestionExperienced = 3

// destinations is who gets a packet of each role.
var destinations = [...]func(a *arrival){
	dissect.NoRole:   (*arrival).toCongestion,
	dissect.Request:  (*arrival).toResponder,
	dissect.Response: (*arrival).toRequester,
}

func (a *arrival) toRequester() { a.q.response(a) }

func (a *arrival) toResponder() { a.q.respond(a) }

// toCongestion takes congestion notifications, and what has no role because its opcode is reserved: that is the responder's.
func (a *arrival) toCongestion() {
	if a.op.Transport != dissect.CNP {
		a.q.respond(a)
		return
	}
	a.q.notified()
}

// notOurs gives a frame that is no RoCE v2 to its handler.
func (d *Device) notOurs(a *arrival) {
	switch {
	case a.p.Proto == dissect.ProtoRoCEv1:
		d.counters.drop(DropRoCEv1)
	case d.onOther == nil || !a.linkIsOurs() && !a.toGroup():
		d.counters.drop(DropOther)
	default:
		d.counters.RxOther++
		d.other = append(d.other, a.index)
	}
}

func (a *arrival) toGroup() bool { return len(a.frame) > 0 && a.frame[0]&1 != 0 }

// linkIsOurs looks at the destination MAC and the VLAN. A frame without a tag, or with VLAN 0, is one whose tag a port has taken off.
func (a *arrival) linkIsOurs() bool {
	if len(a.frame) < 14 || [6]byte(a.frame[:6]) != a.dev.opt.MAC || a.p.Has(dissect.LayerVLAN2) {
		return false
	}
	vlan := a.p.VLAN()
	return vlan <= 0 || vlan == int(a.dev.opt.VLAN&0xFFF)
}

// networkIsGood looks for what annex A17 forbids: IP options, fragments, extension headers, a wrong checksum (CA17-3 to 16).
func (a *arrival) networkIsGood() bool {
	p := &a.p
	at := p.Offset(dissect.LayerUDP)
	if p.Has(dissect.LayerIPv4) {
		ip := p.Offset(dissect.LayerIPv4)
		return at == ip+20 && a.frame[ip+6]&^0x40 == 0 && a.frame[ip+7] == 0 && dissect.FoldSum(dissect.OnesSum(0, a.frame[ip:at])) == 0xFFFF
	}
	return p.Has(dissect.LayerIPv6) && at == p.Offset(dissect.LayerIPv6)+40
}

// lengthIsGood looks whether all lengths agree, the headers and the ICRC are there, and pad fills the last word (CA17-6, 15, 21).
func (a *arrival) lengthIsGood() bool {
	p := &a.p
	if !p.IsTransport() || !p.Has(dissect.LayerICRC) {
		return false
	}
	for _, bad := range p.Problems() {
		switch bad.Code {
		case dissect.ProblemOpcode, dissect.ProblemPayload, dissect.ProblemTVer, dissect.ProblemMAD: // judged later, or by others
		default:
			return false
		}
	}
	if (p.PayloadLen()+int(p.PadCount))&3 != 0 {
		return false
	}
	udp := dissect.UDP(a.frame[p.Offset(dissect.LayerUDP):])
	if p.Has(dissect.LayerIPv4) {
		ip := dissect.IPv4(a.frame[p.Offset(dissect.LayerIPv4):])
		return ip.TotalLen() == 20+udp.Len()
	}
	return dissect.IPv6(a.frame[p.Offset(dissect.LayerIPv6):]).PayloadLen() == udp.Len()
}

func (a *arrival) versionIsGood() bool { return a.p.TVer() == 0 }

// qpExists finds the queue pair. QP 1 has none: its datagrams go to a handler.
func (a *arrival) qpExists() bool {
	if a.p.DestQP == 1 {
		return true
	}
	a.q = a.dev.own(a.p.DestQP)
	return a.q != nil
}

// serviceFits looks whether the queue pair has the opcode's transport service, and is in a state that takes packets.
func (a *arrival) serviceFits() bool {
	switch {
	case a.q == nil:
		return a.op.Code == dissect.OpUDSendOnly
	case !answers[a.q.State()]:
		return false
	case a.op.Transport == dissect.CNP:
		return a.op.Code == dissect.OpCNP && a.q.typ != dissect.UD
	}
	return a.op.Transport == a.q.typ
}

// addressesFit: a connected queue pair takes packets of its peer's address to its own only; datagrams may come from anywhere
// (annex A17.4.4.2). An IPv4 address in its mapped form is none in IPv6 (CA17-41).
func (a *arrival) addressesFit() bool {
	if a.p.Dst.Is4() != a.p.Has(dissect.LayerIPv4) {
		return false
	}
	if a.q != nil && a.q.typ != dissect.UD {
		return a.p.Src == a.q.peer.dst && a.p.Dst == a.q.peer.src
	}
	for _, g := range a.dev.gids {
		if a.p.Dst == g {
			return true
		}
	}
	return false
}

// pkeyFits: the same partition, and one side at least a full member of it (IBA 10.9.3). QP 1 takes every key of the table (C9-42).
func (a *arrival) pkeyFits() bool {
	if a.q != nil {
		return pkeysMatch(a.p.PKey, a.q.pkey)
	}
	for _, k := range a.dev.opt.PKeys {
		if pkeysMatch(a.p.PKey, k) {
			return true
		}
	}
	return false
}

func pkeysMatch(a, b uint16) bool {
	return (a^b)&0x7FFF == 0 && a&0x7FFF != 0 && (a|b)&0x8000 != 0
}

func (a *arrival) qkeyFits() bool {
	switch {
	case a.q == nil:
		return a.p.QKey == dissect.QP1QKey
	case a.q.typ == dissect.UD:
		return a.p.QKey == a.q.attr.QKey
	}
	return true
}

func (a *arrival) icrcIsRight() bool {
	return a.dev.icrc.Verify(&a.p, a.frame) == dissect.ICRCValid
}
