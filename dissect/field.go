package dissect

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
	Values func(v uint64) string                             // what a value means; may be nil, may return ""
	Get    func(p *Packet, frame []byte) (v uint64, ok bool) // for values that lie nowhere; else nil
	When   func(p *Packet, frame []byte) bool                // what must hold besides the frame having the layer; else nil
	Digits uint8                                             // hexadecimal digits where Wireshark shows more than Width needs
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

// fields is all rows in one slice, in the tables' order; byName and byLayer
// index it.
var (
	fields  = joinFields()
	byName  = indexNames()
	byLayer = indexLayers()
)

func joinFields() (all []Field) {
	for _, t := range fieldTables {
		all = append(all, t...)
	}
	return all
}

func indexNames() map[string][]*Field {
	m := make(map[string][]*Field, len(fields))
	for i := range fields {
		f := &fields[i]
		m[f.Name] = append(m[f.Name], f)
	}
	for alias, names := range fieldUnions {
		for _, n := range names {
			m[alias] = append(m[alias], m[n]...)
		}
	}
	return m
}

func indexLayers() (t [numLayers][]*Field) {
	for i := range fields {
		f := &fields[i]
		t[f.Layer] = append(t[f.Layer], f)
	}
	return t
}

// fieldUnions are names that stand for either of two fields, as in Wireshark.
var fieldUnions = map[string][]string{
	"eth.addr":  {"eth.dst", "eth.src"}, // in the order of the wire
	"ip.addr":   {"ip.src", "ip.dst"},
	"ipv6.addr": {"ipv6.src", "ipv6.dst"},
	"udp.port":  {"udp.srcport", "udp.dstport"},
	"tcp.port":  {"tcp.srcport", "tcp.dstport"},
}

// Fields returns all rows of the field tables. The slice is not to be changed.
func Fields() []Field { return fields }

// FieldUnions returns the names that stand for several fields.
func FieldUnions() map[string][]string { return fieldUnions }

// LayerFields returns the rows of one layer in table order.
func LayerFields(l Layer) []*Field {
	if l >= numLayers {
		return nil
	}
	return byLayer[l]
}

// LookupField returns the rows of a name; "infiniband." in front may be left
// out. It is nil for an unknown name.
func LookupField(name string) []*Field {
	if f, ok := byName[name]; ok {
		return f
	}
	return byName["infiniband."+name]
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
	return readBits(frame, bit, int(f.Width))
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
	if f.Get != nil || f.Width == 0 || f.Width > 64 || !p.Has(f.Layer) || f.When != nil && !f.When(p, frame) {
		return false
	}
	bit := p.Offset(f.Layer)*8 + int(f.Bit)
	if bit+int(f.Width) > len(frame)*8 {
		return false
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
// IPv6Addr and Bytes. ok is false as for Uint; a field that the capture cut is
// returned as far as it goes if it is of kind Bytes.
func (f *Field) Raw(p *Packet, frame []byte) (raw []byte, ok bool) {
	if f.Get != nil || !p.Has(f.Layer) || f.Bit&7 != 0 || f.Width&7 != 0 || f.When != nil && !f.When(p, frame) {
		return nil, false
	}
	lo := p.Offset(f.Layer) + int(f.Bit>>3)
	hi := lo + int(f.Width>>3)
	if f.Width == 0 {
		hi = p.layerEnd(f.Layer)
	}
	if hi > len(frame) {
		if f.Kind != Bytes {
			return nil, false
		}
		hi = len(frame)
	}
	if lo >= hi {
		return nil, false
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
