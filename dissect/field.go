package dissect

import (
	"bytes"
	"math/bits"
	"sync"
)

// Kind is how a field's value is shown and compared.
type Kind uint8

// The kinds.
const (
	Dec      Kind = iota // unsigned decimal
	Hex                  // 0x and as many digits as the field's bytes need
	Bool                 // one bit, 0 or 1
	MAC                  // 48-bit hardware address
	IPv4Addr             // 32-bit address
	IPv6Addr             // 128-bit address or GID
	Bytes                // raw bytes
	Epoch                // nanoseconds since the Unix epoch, shown as seconds
	Interval             // nanoseconds, shown as seconds
	Text                 // words that Values makes from the number
	String               // text in the frame, up to its end or its first NUL
)

// Field is a row of a field table: where a value lies, what Wireshark calls
// it and how it is shown. Several rows may share a name: the first whose layer
// a frame has is the field's value there, and filters look at all.
type Field struct {
	Name   string // as typed: "infiniband.bth.psn"
	Text   string // as shown: "Packet Sequence Number"
	Layer  Layer
	Bit    uint16 // offset of the most significant bit from the layer's first
	Width  uint16 // in bits; 0 = to the layer's end
	Kind   Kind
	Little bool                                              // the least significant byte is first; Bit and Width are whole bytes then
	Values func(v uint64) string                             // what a value means; may be nil, may return ""
	Get    func(p *Packet, frame []byte) (v uint64, ok bool) // for values that lie nowhere; else nil
	When   func(p *Packet, frame []byte) bool                // what must hold besides the frame having the layer; else nil
	Digits uint8                                             // hexadecimal digits where Wireshark shows more than Width needs
	// Part finds, in bytes, where the element begins and ends that Bit counts from, where that has no fixed place in its
	// layer: from is -1 where the frame does not have it. Else nil.
	Part func(p *Packet, frame []byte) (from, to int)
}

// fieldTables lists every table. A header's table stands beside the header.
var fieldTables = [][]Field{
	frameFields, erfFields, outerFields, ethernetFields, sllFields, sll2Fields, nullFields, vlanFields, macControlFields,
	mplsFields, pppoeFields, greFields, erspanFields, vxlanFields, geneveFields,
	ibLinkFields, lrhFields, rwhFields, ipv4Fields, ipv6Fields, grhFields, udpFields, tcpFields,
	bthFields, rdethFields, xrcethFields, dethFields, fethFields, rethFields, atomicETHFields,
	aethFields, atomicAckETHFields, immDtFields, iethFields, payloadFields, icrcFields, vcrcFields,
	madFields, cmFields,
	mpaFields, ddpFields, rdmapFields,
}

// seldomTables are tables that are only made where a name or a layer is asked
// for.
var seldomTables = []func() []Field{lldpFields, mgmtFields, nvmeFields, rpcFields, iserFields, smbFields}

// fieldIndex is all rows in one slice, in the tables' order, and where to find
// them.
type fieldIndex struct {
	all     []Field
	byName  map[string][]*Field
	byLayer [numLayers][]*Field
}

var fields = sync.OnceValue(func() *fieldIndex {
	x := &fieldIndex{}
	for _, t := range fieldTables {
		x.all = append(x.all, t...)
	}
	for _, t := range seldomTables {
		x.all = append(x.all, t()...)
	}
	x.byName = make(map[string][]*Field, len(x.all))
	for i := range x.all {
		f := &x.all[i]
		x.byName[f.Name] = append(x.byName[f.Name], f)
		x.byLayer[f.Layer] = append(x.byLayer[f.Layer], f)
	}
	for alias, names := range fieldUnions {
		for _, n := range names {
			x.byName[alias] = append(x.byName[alias], x.byName[n]...)
		}
	}
	return x
})

// fieldUnions are names that stand for either of two fields, as in Wireshark.
var fieldUnions = map[string][]string{
	"eth.addr":  {"eth.dst", "eth.src"}, // in the order of the wire
	"ip.addr":   {"ip.src", "ip.dst"},
	"ipv6.addr": {"ipv6.src", "ipv6.dst"},
	"udp.port":  {"udp.srcport", "udp.dstport"},
	"tcp.port":  {"tcp.srcport", "tcp.dstport"},
}

// Fields returns all rows of the field tables. The slice is not to be changed.
func Fields() []Field { return fields().all }

// FieldUnions returns the names that stand for several fields.
func FieldUnions() map[string][]string { return fieldUnions }

// LayerFields returns the rows of one layer in table order.
func LayerFields(l Layer) []*Field {
	if l >= numLayers {
		return nil
	}
	return fields().byLayer[l]
}

// LookupField returns the rows of a name; "infiniband." in front may be left
// out. It is nil for an unknown name.
func LookupField(name string) []*Field {
	if f, ok := fields().byName[name]; ok {
		return f
	}
	return fields().byName["infiniband."+name]
}

// Uint returns the field's value in a frame. ok is false where the frame does
// not have the field, or its bytes were not captured. Fields wider than 64
// bits give their last 64; use Raw for those.
func (f *Field) Uint(p *Packet, frame []byte) (v uint64, ok bool) {
	if f.Get != nil {
		return f.Get(p, frame)
	}
	if !p.Has(f.Layer) || f.When != nil && !f.When(p, frame) {
		return 0, false
	}
	bit := p.Offset(f.Layer)*8 + int(f.Bit)
	if f.Part != nil {
		if bit, _, ok = f.inPart(p, frame); !ok {
			return 0, false
		}
	}
	v, ok = readBits(frame, bit, int(f.Width))
	if f.Little {
		v = f.reverse(v)
	}
	return v, ok
}

// reverse turns the bytes of a number of the field's width round.
func (f *Field) reverse(v uint64) uint64 { return bits.ReverseBytes64(v) >> (64 - f.Width) }

// Place returns where in the frame the field begins, in bits. ok is false where
// the frame does not have the field, or it lies nowhere.
func (f *Field) Place(p *Packet, frame []byte) (bit int, ok bool) {
	switch {
	case f.Get != nil || !p.Has(f.Layer) || f.When != nil && !f.When(p, frame):
		return 0, false
	case f.Part != nil:
		bit, _, ok = f.inPart(p, frame)
		return bit, ok
	}
	return p.Offset(f.Layer)*8 + int(f.Bit), true
}

// inPart returns where the field begins, in bits, and where its element ends, in
// bytes. ok is false where the element is missing or too short for it.
func (f *Field) inPart(p *Packet, frame []byte) (bit, end int, ok bool) {
	from, end := f.Part(p, frame)
	bit = from*8 + int(f.Bit)
	return bit, end, from >= 0 && bit+int(f.Width) <= end*8
}

// readBits reads width bits at a bit offset, most significant first. Of more
// than 64 bits it returns the last 64.
func readBits(b []byte, bit, width int) (v uint64, ok bool) {
	if width > 64 {
		bit, width = bit+width-64, 64
	}
	lo, hi := bit>>3, (bit+width+7)>>3
	if hi > len(b) || lo < 0 || width <= 0 {
		return 0, false
	}
	if hi-lo <= 8 {
		for _, c := range b[lo:hi] {
			v = v<<8 | uint64(c)
		}
		v >>= uint(hi*8 - bit - width)
		if width < 64 {
			v &= 1<<uint(width) - 1
		}
		return v, true
	}
	for i := 0; i < width; i++ { // nine bytes: no table has such a row
		v = v<<1 | uint64(b[(bit+i)>>3]>>(7-(bit+i)&7)&1)
	}
	return v, true
}

// Put writes the field's value into a frame: the generic counterpart of the
// views' setters. ok is false where the frame has no such bytes or the field
// lies nowhere.
func (f *Field) Put(p *Packet, frame []byte, v uint64) (ok bool) {
	bit, ok := f.Place(p, frame)
	if !ok || f.Width == 0 || f.Width > 64 || bit+int(f.Width) > len(frame)*8 {
		return false
	}
	if f.Little {
		v = f.reverse(v)
	}
	for i := int(f.Width) - 1; i >= 0; i-- {
		at := bit + i
		mask := byte(1) << (7 - at&7)
		if v&1 != 0 {
			frame[at>>3] |= mask
		} else {
			frame[at>>3] &^= mask
		}
		v >>= 1
	}
	return true
}

// Raw returns the field's bytes in the frame, for kinds MAC, IPv4Addr,
// IPv6Addr, Bytes and String. ok is false as for Uint; a field that the capture cut is
// returned as far as it goes if it is of kind Bytes or String.
func (f *Field) Raw(p *Packet, frame []byte) (raw []byte, ok bool) {
	if f.Get != nil || !p.Has(f.Layer) || f.Bit&7 != 0 || f.Width&7 != 0 || f.When != nil && !f.When(p, frame) {
		return nil, false
	}
	lo := p.Offset(f.Layer) + int(f.Bit>>3)
	hi := lo + int(f.Width>>3)
	switch {
	case f.Part != nil:
		bit, end, ok := f.inPart(p, frame)
		if !ok {
			return nil, false
		}
		lo, hi = bit>>3, bit>>3+int(f.Width>>3)
		if f.Width == 0 {
			hi = end
		}
	case f.Width == 0:
		hi = p.layerEnd(f.Layer)
	}
	if hi > len(frame) {
		if f.Kind != Bytes && f.Kind != String {
			return nil, false
		}
		hi = len(frame)
	}
	if lo >= hi {
		return nil, false
	}
	if f.Kind == String {
		if n := bytes.IndexByte(frame[lo:hi], 0); n >= 0 {
			hi = lo + n
		}
	}
	return frame[lo:hi:hi], true
}

// layerEnd is where a layer of varying size ends by the length fields.
func (p *Packet) layerEnd(l Layer) int {
	switch l {
	case LayerFrame:
		return int(p.CapLen)
	case LayerPayload, LayerMAD, LayerIPCM, LayerRDMAPTerminate:
		return int(p.payload + p.payloadLen)
	default:
		return p.Offset(l) + l.Size()
	}
}
