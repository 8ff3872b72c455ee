package xsk

import (
	"encoding/binary"
	"hash/crc32"
)

const icrcSize = 4

// livePlan is what LiveOptions come to: the page that all frames are made in, what has to be written to turn whatever frame is
// there into one of a kind, and the tables by which its ICRC follows.
//
// The page holds the longest frame; frames with shorter headers begin later in it, so that all payloads begin at the same
// place. CRCs are linear: that of a frame is that of the frame with its PSN and address all zero, XORed with a table's entry
// for each of their bytes. Queue pairs' own fields (numbers, keys, ports) never change, and are in the former.
type livePlan struct {
	options *LiveOptions
	page    []byte
	kinds   []liveKind
	tables  []byte // of all kinds, for the program to look into
	state   []byte // what the program counts with: its header, then a record for each queue pair
	record  int    // its length
	vaBytes int    // how many of an address's bytes ever change
}

type liveKind struct {
	LiveKind
	length    int
	skip, cut int // bytes of the page before and behind the frame
	patches   []livePatch
	fixed     int // where in a queue pair's record is what this kind needs of it: ICRC, AckReq and the bits beside it, patches
	tables    int // where in livePlan.tables are its tables: three for the PSN, eight for the address, four for the number, one word for AckReq
}

// livePatch is a run of 1, 2, 4 or 8 bytes to be written.
type livePatch struct {
	at, size int
	same     bool // for all queue pairs: value says what
	value    []byte
	record   int // else: where in the record it is
}

// The state's header and records, as offsets.
const (
	stateUntil  = 0 // how many frames are to have been sent when Run returns
	stateNext   = 8 // offset of the record that is next
	stateSent   = 16
	stateGone   = 24
	stateHeader = 64

	recordPSN     = 0
	recordSegment = 4  // of the current message
	recordVA      = 8  // of the region
	recordOffset  = 16 // of the current message within it
	recordStep    = 24
	recordSpan    = 32
	recordSeed    = 40
	recordNumber  = 48 // of the current message
	recordAck     = 56 // messages since AckReq
	recordFixed   = 64

	fixedCRC, fixedFlags, fixedPatches = 0, 4, 8 // in each kind's part of a record

	tableSize  = 256 * 4
	tablePSN   = 0 // by byte, from the last one
	tableVA    = 3 * tableSize
	tableNum   = 11 * tableSize
	tableAck   = 15 * tableSize
	kindTables = tableAck + 8

	ackReq = 0x80 // in the byte before the PSN
)

// planLive works out how the frames of o are made.
func planLive(o *LiveOptions) (*livePlan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p := &livePlan{options: o}
	payload, length := 0, 0
	for _, k := range o.Kinds {
		payload = max(payload, k.Payload)
	}
	for i, k := range o.Kinds {
		n := len(o.QPs[0].Frames[i])
		p.kinds = append(p.kinds, liveKind{LiveKind: k, length: n, skip: payload - k.Payload})
		length = max(length, n+payload-k.Payload)
	}
	p.page = make([]byte, length)
	for i := len(p.kinds) - 1; i >= 0; i-- {
		copy(p.page[p.kinds[i].skip:], o.QPs[0].Frames[i])
	}
	for i := range o.QPs {
		p.vaBytes = max(p.vaBytes, o.QPs[i].changing(o.RandomVA))
	}
	differs := p.differences()
	p.record = recordFixed
	for i := range p.kinds {
		k := &p.kinds[i]
		k.cut = length - k.skip - k.length
		k.fixed = p.record
		p.record += fixedPatches
		if !p.patch(i, differs) {
			return nil, o.fail(ErrNotSupported, "give all messages the same payload, or send them through another port",
				"live frames share their payload: these differ in more than their headers")
		}
		p.record = (p.record + 7) &^ 7
		k.tables = len(p.tables)
		p.tables = append(p.tables, k.makeTables()...)
	}
	p.state = make([]byte, stateHeader+len(o.QPs)*p.record)
	for i := range o.QPs {
		p.fill(p.state[stateHeader+i*p.record:], &o.QPs[i])
	}
	return p, nil
}

// differences finds the page's bytes that are not the same in all frames.
func (p *livePlan) differences() []bool {
	differs := make([]bool, len(p.page))
	for q := range p.options.QPs {
		for i := range p.kinds {
			k := &p.kinds[i]
			for at, v := range p.options.QPs[q].Frames[i] {
				if p.page[k.skip+at] != v && !k.computed(at) {
					differs[k.skip+at] = true
				}
			}
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		for at := range k.length {
			if k.computed(at) {
				differs[k.skip+at] = true
			}
		}
	}
	return differs
}

// computed says whether the program computes the byte for each frame.
func (k *liveKind) computed(at int) bool {
	return at >= k.PSN && at < k.PSN+4 || k.VA > 0 && at >= k.VA && at < k.VA+8 ||
		k.Number > 0 && at >= k.Number && at < k.Number+4 || at >= k.length-icrcSize
}

// patch lists what has to be written into a frame of kind i, in pieces as large as is worth it. It says whether they are few.
func (p *livePlan) patch(i int, differs []bool) bool {
	k := &p.kinds[i]
	must := func(at int) bool { return at < k.length && differs[k.skip+at] && !k.computed(at) }
	for at := 0; at < k.length; at++ {
		if !must(at) {
			continue
		}
		size := 1
		for s, whole := 2, true; s <= 8; s *= 2 {
			useful := false
			for b := at + s/2; b < at+s; b++ {
				whole = whole && b < k.length && !k.computed(b)
				useful = useful || must(b)
			}
			if whole && useful {
				size = s
			}
		}
		if len(k.patches) == maxPatches {
			return false
		}
		patch := livePatch{at: at, size: size, same: true, value: p.options.QPs[0].Frames[i][at : at+size]}
		for q := range p.options.QPs {
			if string(p.options.QPs[q].Frames[i][at:at+size]) != string(patch.value) {
				patch.same = false
			}
		}
		if !patch.same {
			p.record = (p.record + size - 1) / size * size
			patch.record = p.record
			p.record += size
		}
		k.patches = append(k.patches, patch)
		at += size - 1
	}
	return true
}

// fill writes a queue pair's record.
func (p *livePlan) fill(record []byte, q *LiveQP) {
	ne := binary.NativeEndian
	ne.PutUint32(record[recordPSN:], q.PSN&0xFFFFFF)
	ne.PutUint64(record[recordVA:], q.VA)
	ne.PutUint64(record[recordStep:], q.VAStep)
	ne.PutUint64(record[recordSpan:], q.VASpan)
	ne.PutUint64(record[recordSeed:], q.Seed)
	for i := range p.kinds {
		k := &p.kinds[i]
		frame := q.Frames[i]
		crc := binary.LittleEndian.Uint32(frame[k.length-icrcSize:])
		flags := frame[k.PSN]
		for b := 1; b < 4; b++ {
			crc ^= k.weigh(k.PSN+b, frame[k.PSN+b])
		}
		if p.options.AckEvery > 0 {
			crc ^= k.weigh(k.PSN, flags&ackReq)
			flags &^= ackReq
		}
		for b := range 8 {
			if k.VA > 0 {
				crc ^= k.weigh(k.VA+b, frame[k.VA+b])
				if b < 8-p.vaBytes {
					crc ^= k.weigh(k.VA+b, byte(q.VA>>(56-8*b)))
				}
			}
			if k.Number > 0 && b < 4 {
				crc ^= k.weigh(k.Number+b, frame[k.Number+b])
			}
		}
		ne.PutUint32(record[k.fixed+fixedCRC:], crc)
		ne.PutUint32(record[k.fixed+fixedFlags:], uint32(flags)<<24)
		for _, patch := range k.patches {
			if !patch.same {
				copy(record[patch.record:], frame[patch.at:patch.at+patch.size])
			}
		}
	}
}

// changing is how many of an address's bytes, from the last, differ between messages.
func (q *LiveQP) changing(random bool) (n int) {
	last := q.VA
	switch {
	case random:
		last += (q.VASpan - 1) * q.VAStep
	case q.VAStep > 0:
		last += q.VASpan - q.VAStep
	}
	if last < q.VA {
		return 8
	}
	for n < 8 && q.VA>>(8*n) != last>>(8*n) {
		n++
	}
	return n
}

// weigh is what a byte there adds to the ICRC.
func (k *liveKind) weigh(at int, v byte) uint32 {
	crc := crc32.IEEETable[v]
	for range k.length - icrcSize - 1 - at {
		crc = crc32.IEEETable[byte(crc)] ^ crc>>8
	}
	return crc
}

// makeTables has the weight of each byte that changes, whatever its value.
func (k *liveKind) makeTables() []byte {
	b := make([]byte, kindTables)
	table := func(to []byte, at int) {
		var t [256]uint32
		for v := 1; v < 256; v++ {
			if low := v & -v; v == low {
				t[v] = k.weigh(at, byte(v))
			} else {
				t[v] = t[low] ^ t[v^low]
			}
			binary.NativeEndian.PutUint32(to[4*v:], t[v])
		}
	}
	for i := range 3 {
		table(b[tablePSN+i*tableSize:], k.PSN+3-i)
	}
	for i := range 8 {
		if k.VA > 0 {
			table(b[tableVA+i*tableSize:], k.VA+7-i)
		}
		if k.Number > 0 && i < 4 {
			table(b[tableNum+i*tableSize:], k.Number+3-i)
		}
	}
	binary.NativeEndian.PutUint32(b[tableAck:], k.weigh(k.PSN, ackReq))
	return b
}
