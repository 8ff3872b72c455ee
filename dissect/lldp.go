package dissect

import "math/bits"

// LLDP's element types (IEEE 802.1AB 8.4), and those of organizations: LLDP's
// type 127 with an OUI and a subtype.
const (
	tlvEnd          = 0
	tlvChassisID    = 1
	tlvPortID       = 2
	tlvTTL          = 3
	tlvPortDesc     = 4
	tlvSystemName   = 5
	tlvSystemDesc   = 6
	tlvCapabilities = 7
	tlvManagement   = 8
	tlvOrganization = 127

	oui8021 = 0x0080C2
	oui8023 = 0x00120F
	ouiCEE  = 0x001B21

	// Subtypes of IEEE 802.1's elements (IEEE 802.1Q annex D).
	subETS            = 9
	subETSRecommended = 10
	subPFC            = 11
	subApplication    = 12

	// Subtypes of the elements of DCBX before IEEE took it over: the first draft
	// and the converged one, whose elements hold elements.
	subCIN = 1
	subCEE = 2

	ceeControl     = 1
	ceeGroups      = 2
	ceePFC         = 3
	ceeApplication = 4
)

// maxTLVs bounds the elements that are looked at: LLDP has no longer lists.
const maxTLVs = 64

// tlv is an element: its type, where its value begins in the bytes walked, and
// where it ends.
type tlv struct {
	kind        uint8
	from, value int
	end         int
}

// walkTLVs hands on the elements of b, of those cut short none.
func walkTLVs(b []byte, do func(t tlv) (more bool)) {
	at := 0
	for range maxTLVs {
		if at+2 > len(b) {
			return
		}
		head := be16(b[at:])
		t := tlv{kind: uint8(head >> 9), from: at, value: at + 2, end: at + 2 + int(head&0x1FF)}
		if t.end > len(b) || !do(t) || t.kind == tlvEnd {
			return
		}
		at = t.end
	}
}

// LLDP is an LLDP data unit behind its EtherType: elements one after the other.
type LLDP []byte

// find returns where the value of an element lies, n of which were before it:
// of an organization behind its subtype. from is -1 where there is none.
func (h LLDP) find(kind uint8, oui uint32, subtype uint8, n int) (from, to int) {
	from, to = -1, 0
	walkTLVs(h, func(t tlv) bool {
		switch {
		case t.kind != kind:
		case kind == tlvOrganization && (t.end < t.value+4 || be32(h[t.value:]) != oui<<8|uint32(subtype)):
		case n > 0:
			n--
		default:
			from, to = t.value, t.end
			if kind == tlvOrganization {
				from += 4
			}
			return false
		}
		return true
	})
	return from, to
}

// cee is find for the elements within CEE's.
func (h LLDP) cee(kind uint8) (from, to int) {
	lo, hi := h.find(tlvOrganization, ouiCEE, subCEE, 0)
	from = -1
	if lo >= 0 {
		walkTLVs(h[lo:hi], func(t tlv) bool {
			if t.kind != kind || kind == tlvEnd {
				return true
			}
			from, to = lo+t.value, lo+t.end
			return false
		})
	}
	return from, to
}

// PFC returns what the sender says of priority flow control: a bit for each
// priority for which it is on, and whether it takes over what its peer says. ok
// is false where it says nothing.
func (h LLDP) PFC() (priorities uint8, willing, ok bool) {
	if from, to := h.find(tlvOrganization, oui8021, subPFC, 0); from >= 0 && from+2 <= to {
		return h[from+1], h[from]&0x80 != 0, true
	}
	if from, to := h.cee(ceePFC); from >= 0 && from+5 <= to {
		if h[from+2]&0x80 == 0 { // the feature is off
			return 0, h[from+2]&0x40 != 0, true
		}
		return h[from+4], h[from+2]&0x40 != 0, true
	}
	return 0, false, false
}

// PriorityMap is in which priority DCBX wants which packets to travel.
type PriorityMap struct {
	dscp   [64]uint8 // priority + 1; 0 = not said
	roceV1 uint8
	roceV2 uint8
}

// Of returns the priority of a RoCE packet without a VLAN tag. ok is false
// where the map does not say.
func (m *PriorityMap) Of(dscp uint8, v2 bool) (priority uint8, ok bool) {
	of := m.roceV1
	if v2 {
		if of = m.roceV2; m.dscp[dscp&63] != 0 {
			of = m.dscp[dscp&63]
		}
	}
	return of - 1, of != 0
}

// Priorities returns what the data unit's application priorities say of RoCE
// and of DSCPs. CEE gives an application several priorities: where it does, it
// does not say which.
func (h LLDP) Priorities() (m PriorityMap) {
	if from, to := h.find(tlvOrganization, oui8021, subApplication, 0); from >= 0 {
		for at := from + 1; at+3 <= to; at += 3 {
			of, selector, protocol := h[at]>>5+1, h[at]&7, be16(h[at+1:])
			switch {
			case selector == 1 && protocol == etherRoCEv1:
				m.roceV1 = of
			case (selector == 3 || selector == 4) && protocol == PortRoCEv2:
				m.roceV2 = of
			case selector == 5 && protocol < 64:
				m.dscp[protocol] = of
			}
		}
	}
	if from, to := h.cee(ceeApplication); from >= 0 && from+4 <= to && h[from+2]&0x80 != 0 {
		for at := from + 4; at+6 <= to; at += 6 {
			set, selector, protocol := h[at+5], h[at+2]&3, be16(h[at:])
			if bits.OnesCount8(set) != 1 {
				continue
			}
			switch of := uint8(bits.TrailingZeros8(set)) + 1; {
			case selector == 0 && protocol == etherRoCEv1:
				m.roceV1 = of
			case selector == 1 && protocol == PortRoCEv2:
				m.roceV2 = of
			}
		}
	}
	return m
}

// LLDP returns the view of the frame's LLDP data unit, as far as captured, nil
// without one.
func (p *Packet) LLDP(frame []byte) LLDP {
	if at := p.find(LayerLLDP); at >= 0 && at <= len(frame) {
		return frame[at:min(len(frame), int(p.end))]
	}
	return nil
}

// lldp lists an LLDP data unit and the kinds of DCBX that are in it.
func (p *Packet) lldp(b []byte, off int) {
	if !p.push(b, LayerLLDP, off, 2) {
		return
	}
	h := LLDP(b[off:])
	ended, ieee, cee := false, -1, -1
	walkTLVs(h, func(t tlv) bool {
		ended = t.kind == tlvEnd
		if t.kind == tlvOrganization && t.end >= t.value+4 {
			switch v := be32(h[t.value:]); {
			case ieee < 0 && v >= oui8021<<8|subETS && v <= oui8021<<8|subApplication:
				ieee = t.from
			case cee < 0 && v == ouiCEE<<8|subCEE:
				cee = t.from
			}
		}
		return true
	})
	if !ended && len(b) < int(p.WireLen) {
		p.note(ProblemCut, off)
	}
	if ieee >= 0 {
		p.enlist(LayerDCBX, off+ieee)
	}
	if cee >= 0 {
		p.enlist(LayerCEE, off+cee)
	}
}
