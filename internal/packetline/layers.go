package packetline

import "github.com/rocescope/rocescope/dissect"

// AppendLayers appends the packet's layers in the order of its bytes. A management
// datagram and what is in it stand for the payload that they are.
func AppendLayers(dst []dissect.Layer, p *dissect.Packet) []dissect.Layer {
	for set, l := p.Layers(), dissect.LayerFrame; set>>l != 0; l++ {
		if set.Has(l) && (l != dissect.LayerPayload || !p.Has(dissect.LayerMAD)) {
			dst = insertLayer(dst, p, l)
		}
	}
	for l := range p.Listed {
		dst = insertLayer(dst, p, l)
	}
	return dst
}

// EachLayer calls do for each layer, in the order of the packet's bytes, with all
// FPDUs of its segment: while it is called, the packet's layers are those of the
// FPDU at hand.
func EachLayer(p *dissect.Packet, frame []byte, do func(l dissect.Layer)) {
	var room [32]dissect.Layer
	told := false
	for _, l := range AppendLayers(room[:0], p) {
		switch {
		case !l.InFPDU():
			do(l)
		case !told:
			told = true
			p.EachFPDU(frame, func() bool {
				for l := range p.Listed {
					if l.InFPDU() {
						do(l)
					}
				}
				return true
			})
		}
	}
}

// insertLayer puts a layer where it belongs among those behind the frame. What
// begins where the payload does goes in front of that.
func insertLayer(dst []dissect.Layer, p *dissect.Packet, l dissect.Layer) []dissect.Layer {
	at := len(dst)
	if l != dissect.LayerFrame {
		off := p.Offset(l)
		for at > 1 && (p.Offset(dst[at-1]) > off || dst[at-1] == dissect.LayerPayload && p.Offset(dst[at-1]) == off && p.PayloadLen() > 0) {
			at--
		}
	}
	dst = append(dst, 0)
	copy(dst[at+1:], dst[at:])
	dst[at] = l
	return dst
}

// AppendBits appends where in its bytes a field lies: ".... ..10 = ".
func AppendBits(dst []byte, p *dissect.Packet, frame []byte, f *dissect.Field) []byte {
	first, ok := f.Place(p, frame)
	if !ok {
		return dst
	}
	last := first + int(f.Width)
	for bit := first &^ 7; bit < (last+7)&^7; bit++ {
		if bit > first&^7 && bit&3 == 0 {
			dst = append(dst, ' ')
		}
		switch {
		case bit < first || bit >= last:
			dst = append(dst, '.')
		case bit>>3 < len(frame) && frame[bit>>3]>>(7-bit&7)&1 != 0:
			dst = append(dst, '1')
		default:
			dst = append(dst, '0')
		}
	}
	return append(dst, " = "...)
}
