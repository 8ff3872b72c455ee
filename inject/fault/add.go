package fault

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// answers are packets that inject knows by what they say.
var answers = map[string]struct {
	op       dissect.Opcode
	syndrome dissect.Syndrome
}{
	"ack":             {dissect.OpRCAcknowledge, dissect.NoCreditInfo},
	"nak-sequence":    {dissect.OpRCAcknowledge, 0x60},
	"nak-invalid":     {dissect.OpRCAcknowledge, 0x61},
	"nak-access":      {dissect.OpRCAcknowledge, 0x62},
	"nak-operational": {dissect.OpRCAcknowledge, 0x63},
	"rnr":             {dissect.OpRCAcknowledge, 0x20 | 14},
	"cnp":             {dissect.OpCNP, 0},
}

// The places where what is added goes out.
const (
	placeBehind = iota
	placeBefore
	placeInstead
)

// recipe is a packet to be crafted.
type recipe struct {
	op       dissect.Opcode
	syndrome dissect.Syndrome
	payload  int
	set      assignments
	seals    bool
	back     bool
}

func makeInject(a *args) (step, error) {
	name, named := a.text("packet")
	whole := a.hex("frame")
	r := recipe{payload: a.number("payload", 0, 9000), set: a.assignments(), seals: a.seals(), back: a.choice("back", "no", "yes") == 1}
	n, place := a.number("n", 1, 1024), a.choice("place", "behind", "before", "instead")
	switch known, ok := answers[name]; {
	case named == (whole != nil):
		a.fail("packet= says what is crafted, or frame= what is sent as it is")
	case whole != nil && (len(a.fields) > 0 || a.given("payload") || a.given("icrc")):
		a.fail("frame= is sent as it is: no fields, payload= or icrc=")
	case whole != nil && len(whole) < minFrame:
		a.fail("frame= has %d bytes, which is less than an Ethernet header", len(whole))
	case ok:
		r.op, r.syndrome = known.op, known.syndrome
	case named:
		if r.op, ok = parseOpcode(name); !ok {
			var known []string
			for k := range answers {
				known = append(known, k)
			}
			for _, o := range dissect.Opcodes() {
				known = append(known, o.Token)
			}
			a.fail("packet=%s cannot be; it is ack, nak-sequence, nak-invalid, nak-access, nak-operational, rnr, cnp or an opcode%s", name, near(name, known))
		}
	}
	if r.back && place != placeBehind {
		a.fail("place= is about the way that the packet goes, and back=yes sends the other way")
	}
	if r.back && whole == nil && !r.sets("infiniband.bth.destqp") {
		a.fail("back=yes needs bth.destqp=: a packet does not say which QP sent it")
	}
	s := step{sends: n, back: r.back, before: place == placeBefore, takes: place == placeInstead}
	s.add = func(w *work) bool {
		for range n {
			h := w.lane.get(whole)
			if h == nil {
				return false
			}
			if whole == nil && !w.craft(&r, h) {
				w.lane.free(h)
				return false
			}
			w.send(h, &s)
		}
		return true
	}
	return s, a.err
}

func (r *recipe) sets(name string) bool {
	for i := range r.set.list {
		if r.set.list[i].rows[0].Name == name {
			return true
		}
	}
	return false
}

// craft makes a packet of the recipe in h, in the headers of the one that was struck.
func (w *work) craft(r *recipe, h *Held) bool {
	c, p := &w.lane.crafting, &w.lane.original
	w.lane.dec.Decode(dissect.LinkEthernet, w.frame, len(w.frame), p)
	c.lane, c.rule, c.frame, c.p, c.copy = w.lane, w.rule, w.frame, p, nil
	l, network, ok := c.network()
	bth, _, whole := c.transport()
	if !ok || !whole {
		return false
	}
	c.copy = h
	psn := dissect.BTH(w.frame[bth : bth+12]).PSN()
	key := dissect.BTH(w.frame[bth : bth+12]).PKey()
	qp := dissect.BTH(w.frame[bth : bth+12]).DestQP()
	b := append(h.buf[:0], w.frame[:bth]...)
	if r.op == dissect.OpCNP {
		b, psn = dissect.AppendCNP(b, qp), 0
	} else {
		b = dissect.AppendTransport(b, r.op)
	}
	if len(b)+r.payload+3+dissect.ICRCSize > w.lane.most {
		return false
	}
	t := dissect.BTH(b[bth : bth+12])
	t.SetPSN(psn)
	t.SetPKey(key)
	t.SetDestQP(qp)
	was := dissect.AETH{0, 0, 0, 0}
	if p.Has(dissect.LayerAETH) {
		was = dissect.AETH(w.frame[p.Offset(dissect.LayerAETH):])
	}
	if v := dissect.AETH(r.op.Info().View(b[bth:], dissect.LayerAETH)); v != nil {
		v.SetSyndrome(r.syndrome)
		v.SetMSN(was.MSN())
	}
	pad := -(len(b) - bth + r.payload) & 3
	t.SetPadCnt(uint8(pad))
	n := len(b) + r.payload + pad + dissect.ICRCSize
	clear(h.buf[len(b):n])
	h.n = n
	if r.back {
		turn(h.Bytes(), l, network)
	}
	switch l {
	case dissect.LayerIPv4:
		binary.BigEndian.PutUint16(h.buf[network+2:], uint16(n-network))
	default:
		binary.BigEndian.PutUint16(h.buf[network+4:], uint16(n-network-40))
	}
	if p.Has(dissect.LayerUDP) {
		binary.BigEndian.PutUint16(h.buf[p.Offset(dissect.LayerUDP)+4:], uint16(n-p.Offset(dissect.LayerUDP)))
	}
	c.decode()
	c.seal(0) // also where the result is to be wrong: only the fields are, then
	if !r.set.put(c) {
		return false
	}
	if r.seals {
		c.seal(r.set.keep)
	}
	return true
}

// turn makes a frame go back to where it came from.
func turn(b []byte, l dissect.Layer, network int) {
	swap := func(x, y []byte) {
		for i := range x {
			x[i], y[i] = y[i], x[i]
		}
	}
	swap(b[:6], b[6:12])
	if l == dissect.LayerIPv4 {
		swap(b[network+12:network+16], b[network+16:network+20])
	} else {
		swap(b[network+8:network+24], b[network+24:network+40])
	}
}

// send sends what an addition made.
func (w *work) send(h *Held, s *step) {
	h.rule = w.rule
	switch {
	case s.back:
		w.lane.post(h)
	case s.before:
		w.lane.Before = append(w.lane.Before, h)
	default:
		w.lane.Behind = append(w.lane.Behind, h)
	}
}

func makeReplay(a *args) (step, error) {
	ago := a.number("ago", 1, 256)
	n := a.number("n", 1, ago)
	s := step{sends: n, recall: ago + 1}
	s.add = func(w *work) bool {
		done := false
		past := w.rule.past
		for back := ago; back > ago-n; back-- {
			old := past.before(back)
			if old == nil {
				continue
			}
			h := w.lane.get(old)
			if h == nil {
				return false
			}
			w.send(h, &s)
			done = true
		}
		return done
	}
	return s, a.err
}

func makePause(a *args) (step, error) {
	quanta, n, back := a.number("quanta", 0, 0xFFFF), a.number("n", 1, 1024), a.choice("back", "no", "yes") == 1
	text, _ := a.text("priority")
	priority := -1
	if text != "all" {
		priority = a.number("priority", 0, 7)
	}
	frame := make([]byte, 60)
	copy(frame, []byte{0x01, 0x80, 0xC2, 0x00, 0x00, 0x01})
	frame[12], frame[13] = 0x88, 0x08
	if priority < 0 {
		binary.BigEndian.PutUint16(frame[14:], dissect.MACControlPause)
		binary.BigEndian.PutUint16(frame[16:], uint16(quanta))
	} else {
		binary.BigEndian.PutUint16(frame[14:], dissect.MACControlPFC)
		binary.BigEndian.PutUint16(frame[16:], 1<<priority)
		binary.BigEndian.PutUint16(frame[18+2*priority:], uint16(quanta))
	}
	s := step{sends: n, back: back}
	s.add = func(w *work) bool {
		for range n {
			h := w.lane.get(frame)
			if h == nil {
				return false
			}
			source := w.frame[6:12] // the end that the packet came from sends it, or the one that it goes to
			if back {
				source = w.frame[:6]
			}
			copy(h.buf[6:12], source)
			w.send(h, &s)
		}
		return true
	}
	return s, a.err
}
