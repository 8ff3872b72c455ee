package dissect

// Ethernet is an Ethernet II header: destination, source, EtherType.
type Ethernet []byte

// Dst returns the six bytes of the destination address.
func (h Ethernet) Dst() []byte { return h[0:6:6] }

// SetDst sets the destination address.
func (h Ethernet) SetDst(a [6]byte) { copy(h[0:6], a[:]) }

// Src returns the six bytes of the source address.
func (h Ethernet) Src() []byte { return h[6:12:12] }

// SetSrc sets the source address.
func (h Ethernet) SetSrc(a [6]byte) { copy(h[6:12], a[:]) }

// Type returns the EtherType.
func (h Ethernet) Type() uint16 { return be16(h[12:]) }

// SetType sets the EtherType.
func (h Ethernet) SetType(v uint16) { put16(h[12:], v) }

// Ethernet returns the view of the frame's Ethernet header, nil without one.
func (p *Packet) Ethernet(frame []byte) Ethernet { return p.view(frame, LayerEthernet, 14) }

// VLAN is an 802.1Q or 802.1ad tag from its TCI on: priority, drop
// eligibility, VLAN identifier, inner EtherType.
type VLAN []byte

// Priority returns the priority code point, 0 … 7.
func (h VLAN) Priority() uint8 { return h[0] >> 5 }

// SetPriority sets the priority code point, 0 … 7.
func (h VLAN) SetPriority(v uint8) { h[0] = h[0]&0x1F | v<<5 }

// DEI returns the drop eligible bit.
func (h VLAN) DEI() bool { return h[0]&0x10 != 0 }

// SetDEI sets the drop eligible bit.
func (h VLAN) SetDEI(on bool) { setBit(&h[0], 0x10, on) }

// ID returns the VLAN identifier, 12 bits.
func (h VLAN) ID() uint16 { return be16(h) & 0xFFF }

// SetID sets the VLAN identifier, 12 bits.
func (h VLAN) SetID(v uint16) { put16(h, be16(h)&0xF000|v&0xFFF) }

// TCI returns priority (3 bits), DEI (1) and VLAN identifier (12).
func (h VLAN) TCI() uint16 { return be16(h) }

// SetTCI sets priority, DEI and VLAN identifier.
func (h VLAN) SetTCI(v uint16) { put16(h, v) }

// Type returns the EtherType behind the tag.
func (h VLAN) Type() uint16 { return be16(h[2:]) }

// SetType sets the EtherType behind the tag.
func (h VLAN) SetType(v uint16) { put16(h[2:], v) }

var ethernetFields = []Field{
	{Name: "eth.dst", Text: "Destination", Layer: LayerEthernet, Bit: 0, Width: 48, Kind: MAC},
	{Name: "eth.src", Text: "Source", Layer: LayerEthernet, Bit: 48, Width: 48, Kind: MAC},
	{Name: "eth.type", Text: "Type", Layer: LayerEthernet, Bit: 96, Width: 16, Kind: Hex, Values: etherTypeName},
}

var vlanFields = append(vlanRows(LayerVLAN), vlanRows(LayerVLAN2)...)

func vlanRows(l Layer) []Field {
	return []Field{
		{Name: "vlan.priority", Text: "Priority", Layer: l, Bit: 0, Width: 3, Kind: Dec},
		{Name: "vlan.dei", Text: "Drop eligible", Layer: l, Bit: 3, Width: 1, Kind: Bool},
		{Name: "vlan.id", Text: "ID", Layer: l, Bit: 4, Width: 12, Kind: Dec},
		{Name: "vlan.etype", Text: "Type", Layer: l, Bit: 16, Width: 16, Kind: Hex, Values: etherTypeName},
	}
}

var sllFields = []Field{
	{Name: "sll.pkttype", Text: "Packet type", Layer: LayerSLL, Bit: 0, Width: 16, Kind: Dec, Values: sllPacketType},
	{Name: "sll.hatype", Text: "Link-layer address type", Layer: LayerSLL, Bit: 16, Width: 16, Kind: Dec},
	{Name: "sll.halen", Text: "Link-layer address length", Layer: LayerSLL, Bit: 32, Width: 16, Kind: Dec},
	{Name: "sll.src.eth", Text: "Source", Layer: LayerSLL, Bit: 48, Width: 48, Kind: MAC},
	{Name: "sll.etype", Text: "Protocol", Layer: LayerSLL, Bit: 112, Width: 16, Kind: Hex, Values: etherTypeName},
}

var sll2Fields = []Field{
	{Name: "sll.etype", Text: "Protocol", Layer: LayerSLL2, Bit: 0, Width: 16, Kind: Hex, Values: etherTypeName},
	{Name: "sll.ifindex", Text: "Interface index", Layer: LayerSLL2, Bit: 32, Width: 32, Kind: Dec},
	{Name: "sll.hatype", Text: "Link-layer address type", Layer: LayerSLL2, Bit: 64, Width: 16, Kind: Dec},
	{Name: "sll.pkttype", Text: "Packet type", Layer: LayerSLL2, Bit: 80, Width: 8, Kind: Dec, Values: sllPacketType},
	{Name: "sll.halen", Text: "Link-layer address length", Layer: LayerSLL2, Bit: 88, Width: 8, Kind: Dec},
	{Name: "sll.src.eth", Text: "Source", Layer: LayerSLL2, Bit: 96, Width: 48, Kind: MAC},
}

var nullFields = []Field{
	{Name: "loopback.family", Text: "Address family, as written", Layer: LayerNull, Bit: 0, Width: 32, Kind: Hex},
}

func etherTypeName(v uint64) string {
	switch v {
	case etherIPv4:
		return "IPv4"
	case 0x0806:
		return "ARP"
	case etherVLAN:
		return "802.1Q VLAN"
	case etherIPv6:
		return "IPv6"
	case etherMACControl:
		return "MAC control"
	case etherQinQ, etherQinQOld:
		return "802.1ad VLAN"
	case etherRoCEv1:
		return "RoCE v1"
	case 0x88CC:
		return "LLDP"
	case etherBridging:
		return "bridged Ethernet"
	case etherMPLS, etherMPLSMulticast:
		return "MPLS"
	case etherPPPoE:
		return "PPPoE session"
	case etherERSPAN:
		return "ERSPAN type I or II"
	case etherERSPAN3:
		return "ERSPAN type III"
	}
	return ""
}

func sllPacketType(v uint64) string {
	names := [...]string{"to us", "broadcast", "multicast", "to another host", "sent by us"}
	if v < uint64(len(names)) {
		return names[v]
	}
	return ""
}
