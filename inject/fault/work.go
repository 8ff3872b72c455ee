package fault

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// work is a packet that a rule struck, while its actions are done.
type work struct {
	lane  *Lane
	rule  *laneRule
	now   int64
	frame []byte          // as it came; not to be written to
	p     *dissect.Packet // what decoding made of the frame, or of the copy since its layout changed
	copy  *Held           // the frame as it goes on; nil while nothing was changed
	again dissect.Packet  // decoded from the copy
}

// own gives the frame as it goes on, to be written to; nil where there is no memory left for it.
func (w *work) own() []byte {
	if w.copy == nil {
		if w.copy = w.lane.get(w.frame); w.copy == nil {
			return nil
		}
	}
	return w.copy.Bytes()
}

// bytes is the frame as it goes on, to be read.
func (w *work) bytes() []byte {
	if w.copy == nil {
		return w.frame
	}
	return w.copy.Bytes()
}

// resize changes the copy's length, if it may be so long.
func (w *work) resize(n int) bool {
	if n < minFrame || n > w.lane.most {
		return false
	}
	w.copy.n = n
	return true
}

// decode takes note of a changed layout.
func (w *work) decode() {
	b := w.copy.Bytes()
	w.lane.dec.Decode(dissect.LinkEthernet, b, len(b), &w.again)
	w.p = &w.again
}

// network is the outermost IP or GRH header, and where it begins.
func (w *work) network() (l dissect.Layer, at int, ok bool) {
	for _, l := range [...]dissect.Layer{dissect.LayerIPv4, dissect.LayerIPv6, dissect.LayerGRH} {
		if w.p.Has(l) {
			return l, w.p.Offset(l), true
		}
	}
	return 0, 0, false
}

// transport is where the BTH begins and the ICRC lies, by the packet as it was decoded: fields that were changed since do not move
// them.
func (w *work) transport() (bth, icrc int, ok bool) {
	if !w.p.Has(dissect.LayerBTH) || !w.p.Has(dissect.LayerICRC) {
		return 0, 0, false
	}
	bth, icrc = w.p.Offset(dissect.LayerBTH), w.p.PayloadLen()+int(w.p.PadCount)+w.p.Offset(dissect.LayerPayload)
	return bth, icrc, icrc+dissect.ICRCSize <= len(w.bytes())
}

// keep says which checksums are to stay as they are.
type keep uint8

const (
	keepIP keep = 1 << iota
	keepUDP
)

// seal computes checksums and ICRC anew, where they lie by the packet as it was decoded.
func (w *work) seal(k keep) {
	b := w.copy.Bytes()
	l, at, ok := w.network()
	if !ok {
		return
	}
	if k&keepIP == 0 {
		w.sealIP()
	}
	if bth, icrc, ok := w.transport(); ok && at < bth {
		binary.LittleEndian.PutUint32(b[icrc:], w.lane.icrc.Sum(b[at:icrc], l, bth-at))
	}
	if k&keepUDP == 0 {
		w.sealUDP(l, at)
	}
}

// sealIP computes the checksum of an IPv4 header, of as many bytes as it says that it has.
func (w *work) sealIP() {
	if !w.p.Has(dissect.LayerIPv4) {
		return
	}
	b, at := w.copy.Bytes(), w.p.Offset(dissect.LayerIPv4)
	n := int(b[at]&15) * 4
	if n < 20 || at+n > len(b) {
		n = 20
	}
	dissect.IPv4(b[at : at+n]).UpdateChecksum()
}

// sealUDP computes the UDP checksum, if there was one.
func (w *work) sealUDP(l dissect.Layer, network int) {
	if !w.p.Has(dissect.LayerUDP) || l == dissect.LayerGRH {
		return
	}
	b, at := w.copy.Bytes(), w.p.Offset(dissect.LayerUDP)
	h := dissect.UDP(b[at : at+8])
	if h.Checksum() == 0 {
		return
	}
	end := min(len(b), at+max(8, int(h.Len())))
	addresses := b[network+12 : network+20]
	if l == dissect.LayerIPv6 {
		addresses = b[network+8 : network+40]
	}
	h.SetChecksum(0)
	sum := dissect.OnesSum(dissect.OnesSum(17+uint32(h.Len()), addresses), b[at:end])
	if h.SetChecksum(^dissect.FoldSum(sum)); h.Checksum() == 0 {
		h.SetChecksum(0xFFFF) // 0 would say that there is none
	}
}

// lengthen adds to the length fields of IP and, on request, of UDP; their sums are the sender's to keep below 64 KiB.
func (w *work) lengthen(by int, udp bool) {
	b := w.copy.Bytes()
	add := func(at int) { binary.BigEndian.PutUint16(b[at:], binary.BigEndian.Uint16(b[at:])+uint16(by)) }
	switch l, at, ok := w.network(); {
	case !ok:
		return
	case l == dissect.LayerIPv4:
		add(at + 2)
	default:
		add(at + 4)
	}
	if udp && w.p.Has(dissect.LayerUDP) {
		add(w.p.Offset(dissect.LayerUDP) + 4)
	}
}

// insert makes room for n bytes at an offset of the copy, all zero.
func (w *work) insert(at, n int) bool {
	was := w.copy.n
	if !w.resize(was + n) {
		return false
	}
	b := w.copy.Bytes()
	copy(b[at+n:], b[at:was])
	clear(b[at : at+n])
	return true
}

// remove takes n bytes out of the copy.
func (w *work) remove(at, n int) bool {
	b := w.copy.Bytes()
	if n < 0 || at+n > len(b) || len(b)-n < minFrame {
		return false
	}
	copy(b[at:], b[at+n:])
	return w.resize(len(b) - n)
}
