package flows

import (
	"math/bits"

	"github.com/rocescope/rocescope/dissect"
)

// dcbxStation is what a station says of its port by DCBX: for which priorities
// pause frames are on, and in which priority packets travel.
type dcbxStation struct {
	mac     uint64
	enabled uint8
	willing bool // takes over what its peer says
	known   bool // it said something of PFC
	uses    dissect.PriorityMap
}

// dcbxTable is the stations that speak LLDP, in order of first sight.
type dcbxTable struct{ stations []dcbxStation }

const maxDCBXStations = 1024

// lldp takes an LLDP data unit; the newest of a station counts.
func (t *Tracker) lldp(p *dissect.Packet, frame []byte) {
	h, e := p.LLDP(frame), p.Ethernet(frame)
	if h == nil || e == nil {
		return
	}
	s := dcbxStation{mac: macOf(e.Src()), uses: h.Priorities()}
	s.enabled, s.willing, s.known = h.PFC()
	for i := range t.dcbx.stations {
		if t.dcbx.stations[i].mac == s.mac {
			t.dcbx.stations[i] = s
			return
		}
	}
	if len(t.dcbx.stations) < maxDCBXStations {
		t.dcbx.stations = append(t.dcbx.stations, s)
	}
}

// of is what holds at a station's port, and who says so: its own word, or where
// it is willing that of its peer, if the capture has but these two. It is nil
// where nothing tells.
func (t *dcbxTable) of(mac uint64) *dcbxStation {
	for i := range t.stations {
		s := &t.stations[i]
		if s.mac != mac || !s.known {
			continue
		}
		if !s.willing {
			return s
		}
		if len(t.stations) == 2 {
			if peer := &t.stations[1-i]; peer.known && !peer.willing {
				return peer
			}
		}
	}
	return nil
}

// priorities is the priorities that a host's packets to another travel in, as
// a bit set, as far as that is certain: by their tags, and without one by what
// DCBX says of DSCPs and of RoCE.
func (h *hostPath) priorities(s *dcbxStation) (set uint8) {
	set = h.pcps
	if h.flags&pathUntagged == 0 {
		return set
	}
	for m := h.dscps; m != 0; m &= m - 1 {
		if p, ok := s.uses.Of(uint8(bits.TrailingZeros64(m)), h.flags&pathV2 != 0); ok {
			set |= 1 << p
		}
	}
	return set
}

// judgeDCBX says which hosts send in priorities for which PFC is off at their
// own port.
func (t *Tracker) judgeDCBX(r *hostRecord, say func(id FindingID, d Direction, frame uint64, at int64, args ...uint64)) {
	for d := range Direction(2) {
		h := &r.path[d]
		for _, mac := range h.macs {
			s := t.dcbx.of(mac)
			if s == nil || mac == 0 {
				continue
			}
			if off := h.priorities(s) &^ s.enabled; off != 0 {
				say(findPFCOff, d, h.frame, h.time, uint64(off), uint64(s.enabled), s.mac)
				break
			}
		}
	}
}
