package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// What differs between packets of a template: of a QP, the same in all its packets …
const (
	qpPorts  = iota // UDP source and destination port
	qpDestQP        // BTH, from the byte of FECN and BECN on, which the ICRC counts as ones
	qpRKey
	qpSrcQP
	numQPValues
)

// … and of a message.
const (
	valPSN = iota
	valVAHi
	valVALo
	valImm
	valAETH
	valSwapHi
	valSwapLo
	valCompareHi
	valCompareLo
	numValues = 16 // a power of two, so that an index needs no check
)

type (
	qpValues [numQPValues]uint32
	values   [numValues]uint32
)

// word is a place in a template's frames that is patched.
type word struct {
	dissect.ICRCWord
	value uint8
}

// wordsOf says which words the headers have, by their offsets.
var wordsOf = map[dissect.Layer]struct{ qp, message map[int]uint8 }{
	dissect.LayerRETH:      {qp: map[int]uint8{8: qpRKey}, message: map[int]uint8{0: valVAHi, 4: valVALo}},
	dissect.LayerAtomicETH: {qp: map[int]uint8{8: qpRKey}, message: map[int]uint8{0: valVAHi, 4: valVALo, 12: valSwapHi, 16: valSwapLo, 20: valCompareHi, 24: valCompareLo}},
	dissect.LayerImmDt:     {message: map[int]uint8{0: valImm}},
	dissect.LayerIETH:      {qp: map[int]uint8{0: qpRKey}},
	dissect.LayerAETH:      {message: map[int]uint8{0: valAETH}},
	dissect.LayerDETH:      {qp: map[int]uint8{4: qpSrcQP}},
}

// template is a kind of frame: everything of it is settled but for its words.
type template struct {
	id      int
	part    int // of the mix
	info    *dissect.OpInfo
	ackReq  bool
	ends    bool   // the message is whole with it
	head    []byte // up to the payload, with zeros in its words
	payload []byte
	icrc    int    // where it is, behind the pad
	base    uint32 // what it is while all words are zero
	ofQP    []word

	// The words of nearly all packets have fixed places from the UDP header on: ports, queue pair and PSN, and behind the BTH
	// address and key.
	udp        int
	becn       uint32 // in the word of the queue pair
	ack        uint32 // AckReq, in the word of the PSN
	psn        dissect.ICRCWord
	hasVA      bool
	vaHi, vaLo dissect.ICRCWord

	otherQP, otherMsg []word // the rest
}

// Places from the UDP header on, and how far patch may reach.
const (
	atPorts  = 0
	atDestQP = 8 + 4
	atPSN    = 8 + 8
	atVA     = 8 + 12
	atRKey   = 8 + 20
	reach    = 8 + 12 + 28
)

// leastRoom is how much room a template's frames need at least, with the longest headers in front: two VLAN tags and IPv6.
const leastRoom = 14 + 8 + 40 + reach

// memo is what is the same in most frames of a QP and template, and what it makes of the ICRC: the QP's values, the upper byte
// of the PSN, the upper six bytes of the address.
type memo struct {
	upper uint64 // of PSN and address; 0 = not known
	key   uint32 // of the QP's values
	icrc  uint32 // of all of them
}

// templateKey tells templates apart.
type templateKey struct {
	part    int // of the mix: what was sent is counted by template
	op      dissect.Opcode
	ackReq  bool
	payload int
	segment int    // whose payload it has
	dmaLen  uint32 // where the packet says it
}

// newTemplate makes a template of an opcode.
func (p *plan) newTemplate(k templateKey, payload []byte) (*template, error) {
	t := &template{part: k.part, info: k.op.Info(), ackReq: k.ackReq, payload: payload}
	t.ends = t.info.Ends() || t.info.Family == dissect.Congestion
	o := p.config.Outer
	o.SrcPort = 0
	frame := o.AppendTo(nil)
	bth := len(frame)
	if t.info.Family == dissect.Congestion {
		frame = dissect.AppendCNP(frame, 0)
	} else {
		frame = dissect.AppendTransport(frame, k.op)
	}
	headers := frame[bth:]
	if p.config.PKey != 0 {
		dissect.BTH(headers).SetPKey(p.config.PKey)
	}
	if h := dissect.RETH(t.info.View(headers, dissect.LayerRETH)); h != nil {
		h.SetDMALen(k.dmaLen)
	}
	if h := dissect.DETH(t.info.View(headers, dissect.LayerDETH)); h != nil {
		h.SetQKey(p.config.QKey)
	}
	n := len(frame)
	whole, err := p.crafter.Seal(&o, append(frame, payload...))
	if err != nil {
		return nil, fmt.Errorf("a %s of %d bytes: %w", t.info.Name, len(payload), err)
	}
	t.head = whole[:n:n]
	t.icrc = len(whole) - dissect.ICRCSize
	t.base = binary.LittleEndian.Uint32(whole[t.icrc:])

	t.udp = bth - 8
	t.addWord(bth-8, qpPorts, true)
	t.addWord(bth+4, qpDestQP, true)
	t.addWord(bth+8, valPSN, false)
	at := bth + dissect.LayerBTH.Size()
	for _, l := range t.info.Headers {
		for offset := 0; offset < l.Size(); offset += 4 {
			if v, ok := wordsOf[l].qp[offset]; ok {
				t.addWord(at+offset, v, true)
			}
			if v, ok := wordsOf[l].message[offset]; ok {
				t.addWord(at+offset, v, false)
			}
		}
		at += l.Size()
	}
	return t, nil
}

// addWord adds the word at a place of the frame, of the QP or of the message.
func (t *template) addWord(at int, value uint8, ofQP bool) {
	w, ok := dissect.NewICRCWord(at, t.icrc)
	if !ok {
		panic("stream: a frame is longer than the ICRC's tables reach") // its payload is at most a path MTU
	}
	if ofQP {
		t.ofQP = append(t.ofQP, word{w, value})
	}
	switch from := at - t.udp; {
	case ofQP && value == qpPorts: // the destination port comes with the source port
		t.base ^= w.Delta(binary.BigEndian.Uint32(t.head[at:]))
	case ofQP && value == qpDestQP:
		t.becn = binary.BigEndian.Uint32(t.head[at:])
	case ofQP && value == qpRKey && from == atRKey:
	case ofQP:
		t.otherQP = append(t.otherQP, word{w, value})
	case value == valPSN:
		t.psn = w
		if t.ackReq {
			t.ack = 1 << 31
			t.base ^= w.Delta(t.ack)
		}
	case value == valVAHi && from == atVA:
		t.hasVA, t.vaHi = true, w
	case value == valVALo && from == atVA+4:
		t.vaLo = w
	default:
		t.otherMsg = append(t.otherMsg, word{w, value})
	}
}

// key is what a QP's values make of the ICRC.
func (t *template) key(q *qpValues) uint32 {
	crc := t.base
	for i := range t.ofQP {
		crc ^= t.ofQP[i].Delta(q[t.ofQP[i].value])
	}
	return crc
}

// length is that of the frame.
func (t *template) length() int { return t.icrc + dissect.ICRCSize }

// write writes the whole frame, whose words and ICRC are then patched.
func (t *template) write(room []byte) {
	n := copy(room, t.head)
	n += copy(room[n:], t.payload)
	clear(room[n:t.icrc])
}

// patch writes what a packet differs in into a frame of this template: the QP's words, the message's, and the ICRC. room is
// leastRoom or longer; m is the memo of QP and template.
func (t *template) patch(room []byte, q *qpValues, v *values, m *memo) {
	h := (*[reach]byte)(room[t.udp:])
	binary.BigEndian.PutUint32(h[atPorts:], q[qpPorts])
	binary.BigEndian.PutUint32(h[atDestQP:], q[qpDestQP]|t.becn)
	psn := v[valPSN]
	binary.BigEndian.PutUint32(h[atPSN:], psn|t.ack)
	icrc, upper := t.psn.Delta16(uint16(psn)), known|uint64(psn>>16)
	if t.hasVA {
		hi, lo := v[valVAHi], v[valVALo]
		binary.BigEndian.PutUint64(h[atVA:], uint64(hi)<<32|uint64(lo))
		binary.BigEndian.PutUint32(h[atRKey:], q[qpRKey])
		icrc ^= t.vaLo.Delta16(uint16(lo))
		upper |= uint64(hi)<<24 | uint64(lo>>16)<<8
	}
	if upper != m.upper {
		t.remember(m, upper)
	}
	icrc ^= m.icrc
	for i := range t.otherQP {
		w := &t.otherQP[i]
		binary.BigEndian.PutUint32(room[w.At():], q[w.value])
	}
	for i := range t.otherMsg {
		w := &t.otherMsg[i]
		icrc ^= w.Put(room, v[w.value%numValues])
	}
	binary.LittleEndian.PutUint32(room[t.icrc:], icrc)
}

// known marks a memo's upper parts as filled in.
const known = 1 << 63

// remember computes the memo anew for other upper parts.
func (t *template) remember(m *memo, upper uint64) {
	m.upper, m.icrc = upper, m.key^t.psn.Delta(uint32(upper&0xFF)<<16)
	if t.hasVA {
		m.icrc ^= t.vaHi.Delta(uint32(upper>>24)) ^ t.vaLo.Delta(uint32(upper>>8&0xFFFF)<<16)
	}
}
