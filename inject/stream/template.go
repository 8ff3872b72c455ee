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
	valPSN = iota // AckReq and PSN
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
	set   uint32 // bits that are always set
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
	info    *dissect.OpInfo
	ackReq  bool
	head    []byte // up to the payload, with zeros in its words
	payload []byte
	icrc    int    // where it is, behind the pad
	base    uint32 // what it is while all words are zero
	ofQP    []word
	ofMsg   []word
}

// templateKey tells templates apart.
type templateKey struct {
	op      dissect.Opcode
	ackReq  bool
	payload int
	segment int    // whose payload it has
	dmaLen  uint32 // where the packet says it
}

// newTemplate makes a template of an opcode.
func (p *plan) newTemplate(k templateKey, payload []byte) (*template, error) {
	t := &template{info: k.op.Info(), ackReq: k.ackReq, payload: payload}
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

	t.addWord(&t.ofQP, bth-8, qpPorts)
	t.addWord(&t.ofQP, bth+4, qpDestQP)
	t.addWord(&t.ofMsg, bth+8, valPSN)
	at := bth + dissect.LayerBTH.Size()
	for _, l := range t.info.Headers {
		for offset := 0; offset < l.Size(); offset += 4 {
			if v, ok := wordsOf[l].qp[offset]; ok {
				t.addWord(&t.ofQP, at+offset, v)
			}
			if v, ok := wordsOf[l].message[offset]; ok {
				t.addWord(&t.ofMsg, at+offset, v)
			}
		}
		at += l.Size()
	}
	return t, nil
}

// addWord adds the word at a place of the frame. What the head has there stays set; base is that of zeros.
func (t *template) addWord(to *[]word, at int, value uint8) {
	w, ok := dissect.NewICRCWord(at, t.icrc)
	if !ok {
		panic("stream: a frame is longer than the ICRC's tables reach") // its payload is at most a path MTU
	}
	set := binary.BigEndian.Uint32(t.head[at:])
	if value == qpPorts { // the destination port comes with the source port
		t.base ^= w.Delta(set)
		set = 0
	}
	*to = append(*to, word{w, value, set})
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

// patch writes what a packet differs in into a frame of this template: the QP's words, the message's, and the ICRC, for which
// key is that of the QP.
func (t *template) patch(frame []byte, q *qpValues, key uint32, v *values) {
	for i := range t.ofQP {
		w := &t.ofQP[i]
		binary.BigEndian.PutUint32(frame[w.At():], q[w.value]|w.set)
	}
	for i := range t.ofMsg {
		w := &t.ofMsg[i]
		key ^= w.Put(frame, v[w.value%numValues])
	}
	binary.LittleEndian.PutUint32(frame[t.icrc:], key)
}
