package fault

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

func makeTruncate(a *args) (step, error) {
	where, _ := a.text("where")
	layer, header := layerOf[where]
	to, by := a.number("to", 0, 1<<14), a.number("by", 1, 1<<14)
	fix := a.choice("lengths", "keep", "fix") == 1
	seals := where != "frame"
	if a.given("icrc") {
		seals = a.choice("icrc", "stale", "ok") == 1
	}
	switch {
	case !header && where != "frame" && where != "payload":
		a.choice("where", "frame", "payload", "reth", "aeth", "atomiceth", "atomicacketh", "immdt", "ieth", "deth")
	case header && (to >= 0 || by >= 0):
		a.fail("a header is taken out as a whole: to= and by= are about frame and payload")
	case !header && (to < 0) == (by < 0):
		a.fail("to= says how many bytes stay, or by= how many go")
	case where == "frame" && to >= 0 && to < minFrame:
		a.fail("to=%d cannot be; a frame is %d bytes or more", to, minFrame)
	case where == "frame" && seals && !fix:
		a.fail("icrc=ok needs lengths=fix: else the ICRC lies behind the end")
	case where != "frame" && a.given("lengths"):
		a.fail("lengths= is about a cut frame; else they always fit")
	}
	return step{edit: func(w *work) bool {
		if w.own() == nil {
			return false
		}
		switch {
		case header:
			return w.cutHeader(layer, seals)
		case where == "payload":
			return w.resizePayload(cutTo(w.p.PayloadLen(), to, by), 0, true, seals)
		}
		return w.cutFrame(cutTo(w.copy.n, to, by), fix, seals)
	}}, a.err
}

// cutTo is how much of n is left; -1 where there is not as much to cut.
func cutTo(n, to, by int) int {
	if to < 0 {
		to = n - by
	}
	if to < 0 || to >= n {
		return -1
	}
	return to
}

// cutFrame cuts the frame's end off.
func (w *work) cutFrame(to int, fix, seals bool) bool {
	was := w.copy.n
	if to < 0 || !w.resize(to) {
		return false
	}
	if l, at, ok := w.network(); fix && ok {
		end := at + l.Size()
		if w.p.Has(dissect.LayerUDP) {
			end = w.p.Offset(dissect.LayerUDP) + 8
		}
		if to < end {
			w.copy.n = was
			return false
		}
		w.lengthen(to-was, true)
		w.sealIP()
	}
	w.decode()
	if seals {
		w.seal(0)
	}
	return true
}

// cutHeader takes an extension header out.
func (w *work) cutHeader(l dissect.Layer, seals bool) bool {
	if _, _, ok := w.transport(); !ok || !w.p.Has(l) {
		return false
	}
	at, n := w.p.Offset(l), l.Size()
	w.lengthen(-n, true)
	if !w.remove(at, n) {
		return false
	}
	w.finish(seals)
	return true
}

// finish seals a packet whose layout changed. Its ICRC is the last four bytes of what IP says that there is.
func (w *work) finish(seals bool) {
	w.decode()
	w.sealIP()
	if seals {
		w.seal(0)
	}
}

// resizePayload makes the payload so long: cut, or filled up with a byte. Pad, pad count and lengths follow, and the ICRC moves.
func (w *work) resizePayload(to int, with byte, align, seals bool) bool {
	bth, icrc, ok := w.transport()
	if !ok || to < 0 {
		return false
	}
	b := w.copy.Bytes()
	from, was := w.p.Offset(dissect.LayerPayload), w.p.PayloadLen()
	old := [dissect.ICRCSize]byte(b[icrc:])
	behind := append(w.lane.scratch[:0], b[icrc+dissect.ICRCSize:]...) // what follows the datagram stays there
	pad := 0
	if align {
		pad = -(from - bth + to) & 3
	}
	end := from + to + pad + dissect.ICRCSize
	grown := end - (icrc + dissect.ICRCSize)
	w.lengthen(grown, true)
	if !w.resize(end + len(behind)) {
		w.lengthen(-grown, true)
		return false
	}
	b = w.copy.Bytes()
	for i := was; i < to; i++ {
		b[from+i] = with
	}
	clear(b[from+to : from+to+pad])
	copy(b[end-dissect.ICRCSize:], old[:])
	copy(b[end:], behind)
	dissect.BTH(b[bth : bth+12]).SetPadCnt(uint8(pad))
	w.finish(seals)
	return true
}

func makePad(a *args) (step, error) {
	where, n, with := a.choice("where", "payload", "ip", "frame"), a.need("n", 1, 9000), a.number("with", 0, 255)
	align, seals := a.choice("align", "yes", "no") == 0, a.seals()
	if where != 0 && a.given("align") {
		a.fail("align= is about the payload")
	}
	if where == 2 && a.given("icrc") {
		a.fail("icrc= is about bytes within the datagram")
	}
	return step{grows: n + 3, edit: func(w *work) bool {
		if w.own() == nil {
			return false
		}
		if where == 0 {
			return w.resizePayload(w.p.PayloadLen()+n, byte(with), align, seals)
		}
		_, _, ok := w.network()
		at := w.copy.n
		if where == 1 && (!ok || !w.p.Has(dissect.LayerUDP)) || !w.insert(at, n) {
			return false
		}
		for i := range n {
			w.copy.Bytes()[at+i] = byte(with)
		}
		if where == 2 {
			return true
		}
		w.lengthen(n, false)
		w.sealIP()
		if seals {
			w.seal(0) // IPv4's total length is a part of it
		}
		return true
	}}, a.err
}

func makeOptions(a *args) (step, error) {
	n, seals := a.number("n", 4, 40), a.seals()
	if n%4 != 0 {
		a.fail("n=%d cannot be; it is a multiple of 4", n)
	}
	return step{grows: 40, edit: func(w *work) bool {
		l, at, ok := w.network()
		if !ok || l == dissect.LayerGRH || w.own() == nil {
			return false
		}
		if l == dissect.LayerIPv6 {
			return w.extend(at, seals)
		}
		words := int(w.copy.Bytes()[at]&15) + n/4
		if words > 15 || !w.insert(at+words*4-n, n) {
			return false
		}
		b := w.copy.Bytes()[at:]
		for i := range n {
			b[words*4-n+i] = 1 // no operation
		}
		b[0] = b[0]&0xF0 | byte(words)
		w.lengthen(n, false)
		w.finish(seals)
		return true
	}}, a.err
}

// extend puts a destination options header of 8 bytes behind the IPv6 header at at.
func (w *work) extend(at int, seals bool) bool {
	const length = 8
	if !w.insert(at+40, length) {
		return false
	}
	b := w.copy.Bytes()[at:]
	b[40], b[6] = b[6], dissect.ExtDestination
	b[42], b[43] = 1, 4 // PadN of four more bytes
	binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(b[4:])+length)
	w.finish(seals)
	return true
}
