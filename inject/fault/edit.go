package fault

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"github.com/rocescope/rocescope/dissect"
)

// minFrame is an Ethernet header: nothing shorter is a frame.
const minFrame = 14

// assignments are those of an action, and which checksums they set themselves.
type assignments struct {
	list []assignment
	keep keep
}

func (a *args) assignments() (s assignments) {
	for _, w := range a.fields {
		one, err := parseAssignment(w)
		if err != nil {
			a.fail("%w", err)
			continue
		}
		switch name := one.rows[0].Name; {
		case w.value == "right":
		case name == "ip.checksum":
			s.keep |= keepIP
		case name == "udp.checksum":
			s.keep |= keepUDP
		}
		s.list = append(s.list, one)
	}
	return s
}

// put does all of them, or tells that one of the fields is not there.
func (s *assignments) put(w *work) bool {
	for i := range s.list {
		if !s.list[i].put(w.p, w.copy.Bytes(), w.rule.random.Uint64) {
			return false
		}
	}
	return true
}

func makeSet(a *args) (step, error) {
	set, seals := a.assignments(), a.seals()
	if len(a.fields) == 0 {
		a.fail("which field? For instance set bth.psn=+1")
	}
	return step{edit: func(w *work) bool {
		if w.own() == nil || !set.put(w) {
			return false
		}
		switch {
		case seals:
			w.seal(set.keep)
		case set.keep&keepIP == 0:
			w.sealIP()
		}
		return true
	}}, a.err
}

// The parts of a packet that corrupt knows.
const (
	partFrame = iota
	partIP
	partUDP
	partBTH
	partPayload
	partPad
	partICRC
	partTransport
)

var partNames = []string{"frame", "ip", "udp", "bth", "payload", "pad", "icrc", "transport"}

// part is where a part of the packet lies.
func (w *work) part(which int) (from, to int, ok bool) {
	n := len(w.bytes())
	if which == partFrame {
		return 0, n, true
	}
	l, network, ok := w.network()
	if !ok {
		return 0, 0, false
	}
	bth, icrc, whole := w.transport()
	payload := w.p.Offset(dissect.LayerPayload)
	switch which {
	case partIP:
		return network, min(n, network+l.Size()), true
	case partUDP:
		at := w.p.Offset(dissect.LayerUDP)
		return at, min(n, at+8), w.p.Has(dissect.LayerUDP)
	case partBTH:
		return bth, bth + 12, whole
	case partPayload:
		return payload, payload + w.p.PayloadLen(), whole && w.p.PayloadLen() > 0
	case partPad:
		return icrc - int(w.p.PadCount), icrc, whole && w.p.PadCount > 0
	case partICRC:
		return icrc, icrc + dissect.ICRCSize, whole
	}
	return bth, icrc, whole
}

func makeCorrupt(a *args) (step, error) {
	where, n := a.choice("where", partNames...), a.number("n", 1, 1<<16)
	bit, at := a.number("bit", 0, 1<<17-1), a.number("byte", 0, 1<<14-1)
	xor, to, seals := a.number("xor", 1, 255), a.number("to", 0, 255), a.seals()
	switch {
	case bit >= 0 && at >= 0:
		a.fail("bit= and byte= cannot both be")
	case (bit >= 0 || at >= 0) && a.given("n"):
		a.fail("n= is how many random bits, and a place is given")
	case at < 0 && (a.given("xor") || to >= 0):
		a.fail("xor= and to= are about a byte: byte= says which")
	case a.given("xor") && to >= 0:
		a.fail("xor= and to= cannot both be")
	case seals && where == partICRC:
		a.fail("icrc=ok would undo what is done to the ICRC")
	}
	return step{edit: func(w *work) bool {
		if w.own() == nil {
			return false
		}
		from, end, ok := w.part(where)
		if !ok || at >= end-from || bit >= 8*(end-from) {
			return false
		}
		part := w.copy.Bytes()[from:end]
		flip := func(bit int) { part[bit>>3] ^= 0x80 >> (bit & 7) }
		switch {
		case bit >= 0:
			flip(bit)
		case at >= 0 && to >= 0:
			part[at] = byte(to)
		case at >= 0:
			part[at] ^= byte(xor)
		default:
			w.rule.scatter(8*len(part), n, flip)
		}
		if seals {
			w.seal(0)
		}
		return true
	}}, a.err
}

// scatter chooses n different numbers below most, all of them where n is more (Floyd's way: each set is as likely).
func (r *laneRule) scatter(most, n int, each func(int)) {
	n = min(n, most)
	clear(r.chosen)
	for j := most - n; j < most; j++ {
		v := int(r.random.Uint64N(uint64(j + 1)))
		if r.chosen[v] {
			v = j
		}
		r.chosen[v] = true
		each(v)
	}
}

func makeICRC(a *args) (step, error) {
	as := a.choice("as", "flip", "swap", "complement", "zero", "ones", "random", "bare")
	bit := a.number("bit", 0, 31)
	if bit >= 0 && as != 0 {
		a.fail("bit= is about as=flip")
	}
	return step{edit: func(w *work) bool {
		_, at, ok := w.transport()
		if !ok || w.own() == nil {
			return false
		}
		place := w.copy.Bytes()[at : at+dissect.ICRCSize]
		was := binary.BigEndian.Uint32(place)
		is := was
		switch as {
		case 0:
			k := bit
			if k < 0 {
				k = int(w.rule.random.Uint64N(32))
			}
			is ^= 1 << (31 - k)
		case 1:
			is = bits.ReverseBytes32(was)
		case 2:
			is = ^was
		case 3:
			is = 0
		case 4:
			is = 1<<32 - 1
		case 5:
			is = uint32(w.rule.random.Uint64())
		case 6:
			is = bits.ReverseBytes32(w.bareICRC(at))
		}
		if is == was { // it happens to be the right one: it would be no fault
			is = ^was
		}
		binary.BigEndian.PutUint32(place, is)
		return true
	}}, a.err
}

// bareICRC is the CRC of a packet that ends at at, without the ones that stand for a local route header in front.
func (w *work) bareICRC(at int) uint32 {
	l, from, _ := w.network()
	b := w.lane.scratch[:copy(w.lane.scratch, w.copy.Bytes()[from:at])]
	bth := w.p.Offset(dissect.LayerBTH) - from
	if l == dissect.LayerIPv4 {
		b[1], b[8], b[10], b[11] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		b[0] |= 0x0F
		b[1], b[2], b[3], b[7] = 0xFF, 0xFF, 0xFF, 0xFF
	}
	if l != dissect.LayerGRH {
		b[bth-2], b[bth-1] = 0xFF, 0xFF
	}
	b[bth+4] = 0xFF
	return crc32.ChecksumIEEE(b)
}

func makeECN(a *args) (step, error) {
	mark := [...]byte{3, 2, 1, 0}[a.choice("as", "ce", "ect0", "ect1", "none")]
	return step{edit: func(w *work) bool {
		l, at, ok := w.network()
		if !ok || w.own() == nil {
			return false
		}
		b := w.copy.Bytes()[at:]
		if l == dissect.LayerIPv4 {
			b[1] = b[1]&^3 | mark
			w.sealIP()
		} else {
			b[1] = b[1]&^0x30 | mark<<4
		}
		return true
	}}, a.err
}

func makeTag(a *args) (step, error) {
	tci := uint16(a.number("pcp", 0, 7)<<13 | a.number("id", 0, 4095))
	typ := uint16(a.number("type", 0x600, 0xFFFF))
	return step{grows: 4, edit: func(w *work) bool {
		if w.own() == nil || !w.insert(12, 4) {
			return false
		}
		b := w.copy.Bytes()
		binary.BigEndian.PutUint16(b[12:], typ)
		binary.BigEndian.PutUint16(b[14:], tci)
		w.decode()
		return true
	}}, a.err
}

func makeUntag(a *args) (step, error) {
	return step{edit: func(w *work) bool {
		if !w.p.Has(dissect.LayerVLAN) || w.own() == nil || !w.remove(12, 4) {
			return false
		}
		w.decode()
		return true
	}}, a.err
}

// layerOf finds a header that truncate can take out.
var layerOf = map[string]dissect.Layer{
	"reth": dissect.LayerRETH, "aeth": dissect.LayerAETH, "atomiceth": dissect.LayerAtomicETH, "atomicacketh": dissect.LayerAtomicAckETH,
	"immdt": dissect.LayerImmDt, "ieth": dissect.LayerIETH, "deth": dissect.LayerDETH,
}
