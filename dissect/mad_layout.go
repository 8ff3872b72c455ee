package dissect

import "strings"

// component is a field of a management attribute, as IBA's tables list them: one
// behind the other, most significant bit first. Without a name it is reserved.
type component struct {
	name   string // IBA's
	bits   uint16
	kind   Kind
	values func(uint64) string
	digits uint8  // of hexadecimal numbers, where Wireshark shows more than needed
	field  string // Wireshark's name, where that is not IBA's in small letters

	times int         // how many times each stands there, one set behind the other
	each  []component // of a table
	flags []string    // bits of the component before, the least significant first; "" where one is reserved
}

// layout is what an attribute, or a part of one, is made of; its fields' names
// begin with its own.
type layout struct {
	name  string
	parts []component
	traps []uint16 // of Notice: only of these traps
}

// layoutRows appends the rows of layouts that lie one behind the other in a
// layer, of attributes that pass when.
func layoutRows(rows []Field, l Layer, when func(*Packet, []byte) bool, layouts []*layout) []Field {
	at := uint16(0)
	for _, x := range layouts {
		when := when
		if x.traps != nil {
			when = trapIs(l, when, x.traps)
		}
		var end uint16
		rows, end = componentRows(rows, l, when, "infiniband."+x.name+".", "", x.parts, at)
		if x.traps == nil { // the details of traps share one place
			at = end
		}
	}
	return rows
}

func componentRows(rows []Field, l Layer, when func(*Packet, []byte) bool, prefix, suffix string, parts []component, at uint16) ([]Field, uint16) {
	for i := range parts {
		c := &parts[i]
		for k := range c.times {
			rows, at = componentRows(rows, l, when, prefix, " ("+decimal(uint64(k))+")", c.each, at)
		}
		if c.name != "" {
			f := Field{Name: prefix + strings.ToLower(c.name), Text: c.name + suffix, Layer: l, Bit: at, Width: c.bits, Kind: c.kind, Values: c.values, Digits: c.digits, When: when}
			if c.field != "" {
				f.Name = "infiniband." + c.field
			}
			rows = append(rows, f)
			for k, flag := range c.flags {
				if flag != "" {
					rows = append(rows, Field{
						Name: f.Name + "." + strings.ToLower(flag), Text: c.name + ": " + flag, Layer: l,
						Bit: at + c.bits - 1 - uint16(k), Width: 1, Kind: Hex, Digits: uint8(c.bits / 4), When: when,
					})
				}
			}
		}
		at += c.bits
	}
	return rows, at
}

// mgmtFields are the rows of all attributes that are decoded.
func mgmtFields() []Field {
	rows := mgmtHeaderFields()
	for i := range attributes {
		if a := &attributes[i]; a.layouts != nil {
			rows = layoutRows(rows, attributeLayer(a.class), attributeIs(a.id), a.layouts)
		}
	}
	for _, l := range [...]Layer{LayerSARecord, LayerPerfData, LayerDevMgtData, LayerCongestionData, LayerClassPortInfo} {
		rows = layoutRows(rows, l, attributeIs(attrClassPortInfo), []*layout{&layoutClassPortInfo})
	}
	return rows
}

// attributeIs tells the datagrams of an attribute, of the class that the layer
// already tells.
func attributeIs(id uint16) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		h := p.MAD(frame)
		return h != nil && h.Attribute() == id
	}
}

// trapIs narrows a condition to the generic notices of some traps.
func trapIs(l Layer, when func(*Packet, []byte) bool, traps []uint16) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		at := p.Offset(l)
		if !when(p, frame) || at+6 > len(frame) || frame[at]&0x80 == 0 {
			return false
		}
		for _, t := range traps {
			if be16(frame[at+4:]) == t {
				return true
			}
		}
		return false
	}
}
