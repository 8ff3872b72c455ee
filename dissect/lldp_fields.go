package dissect

// How many elements of a kind have rows. A name's first value is the first
// element's.
const (
	shownTLVs         = 20
	shownOrgs         = 12
	shownVLANs        = 4
	shownApplications = 8
)

// lldpPart makes Field.Part of what finds an element in the data unit.
func lldpPart(find func(h LLDP) (from, to int)) func(p *Packet, frame []byte) (from, to int) {
	return func(p *Packet, frame []byte) (int, int) {
		h := p.LLDP(frame)
		if h == nil {
			return -1, 0
		}
		at := p.find(LayerLLDP)
		from, to := find(h)
		if from < 0 {
			return -1, 0
		}
		return at + from, at + to
	}
}

// elementPart is the value of element n (from 0) of a type.
func elementPart(kind uint8, n int) func(*Packet, []byte) (int, int) {
	return lldpPart(func(h LLDP) (int, int) { return h.find(kind, 0, 0, n) })
}

// orgPart is the value of element n of an organization, behind the subtype.
func orgPart(oui uint32, subtype uint8, n int) func(*Packet, []byte) (int, int) {
	return lldpPart(func(h LLDP) (int, int) { return h.find(tlvOrganization, oui, subtype, n) })
}

// ceePart is the value of an element within CEE's.
func ceePart(kind uint8) func(*Packet, []byte) (int, int) {
	return lldpPart(func(h LLDP) (int, int) { return h.cee(kind) })
}

// anyPart is element n of those that pass, with its head.
func anyPart(n int, pass func(h LLDP, t tlv) bool) func(*Packet, []byte) (int, int) {
	return lldpPart(func(h LLDP) (from, to int) {
		from, left := -1, n
		walkTLVs(h, func(t tlv) bool {
			if !pass(h, t) {
				return true
			}
			if left--; left < 0 {
				from, to = t.from, t.end
			}
			return left >= 0
		})
		return from, to
	})
}

func anyTLV(LLDP, tlv) bool { return true }

func anyOrg(h LLDP, t tlv) bool { return t.kind == tlvOrganization && t.end >= t.value+4 }

func orgOf(oui uint32) func(h LLDP, t tlv) bool {
	return func(h LLDP, t tlv) bool { return anyOrg(h, t) && be24(h[t.value:]) == oui }
}

// where lets rows only stand for elements whose first byte has one of the values.
func where(part func(*Packet, []byte) (int, int), values ...uint8) func(*Packet, []byte) (int, int) {
	return func(p *Packet, frame []byte) (int, int) {
		from, to := part(p, frame)
		if from < 0 || from >= to {
			return -1, 0
		}
		for _, v := range values {
			if frame[from] == v {
				return from, to
			}
		}
		return -1, 0
	}
}

// with gives rows their layer and their part.
func with(l Layer, part func(*Packet, []byte) (int, int), rows ...Field) []Field {
	for i := range rows {
		rows[i].Layer, rows[i].Part = l, part
	}
	return rows
}

// eight is a row for each of eight priorities, classes or groups: the first at
// bit, the next step bits on, which may be negative.
func eight(name, text string, bit, step int, width uint16, kind Kind) (rows []Field) {
	for i := range 8 {
		n := decimal(uint64(i))
		rows = append(rows, Field{Name: name + n, Text: text + " " + n, Bit: uint16(bit + i*step), Width: width, Kind: kind})
	}
	return rows
}

// lldpFields are the rows of LLDP. Priorities are numbered from the left in
// ETS's tables and from the right in PFC's.
func lldpFields() (rows []Field) {
	add := func(more ...Field) { rows = append(rows, more...) }
	l := LayerLLDP
	for n := range shownTLVs {
		add(with(l, anyPart(n, anyTLV),
			Field{Name: "lldp.tlv.type", Text: "Element", Bit: 0, Width: 7, Kind: Dec, Values: tlvName},
			Field{Name: "lldp.tlv.len", Text: "Element's length", Bit: 7, Width: 9, Kind: Dec})...)
	}
	add(lldpIDRows("chassis", "Chassis ID", Bytes, elementPart(tlvChassisID, 0), 4, 5, chassisSubtype)...)
	add(lldpIDRows("port", "Port ID", String, elementPart(tlvPortID, 0), 3, 4, portSubtype)...)
	add(with(l, elementPart(tlvTTL, 0), Field{Name: "lldp.time_to_live", Text: "Time to live in seconds", Width: 16, Kind: Dec})...)
	add(with(l, elementPart(tlvPortDesc, 0), Field{Name: "lldp.port.desc", Text: "Port description", Kind: String})...)
	add(with(l, elementPart(tlvSystemName, 0), Field{Name: "lldp.tlv.system.name", Text: "System name", Kind: String})...)
	add(with(l, elementPart(tlvSystemDesc, 0), Field{Name: "lldp.tlv.system.desc", Text: "System description", Kind: String})...)
	for i, set := range [...]string{"system_cap", "enable_system_cap"} {
		text := [...]string{"Capability", "Enabled capability"}[i]
		caps := []Field{{Name: "lldp.tlv." + set, Text: text, Bit: uint16(16 * i), Width: 16, Kind: Hex}}
		for k, c := range [...]string{"other", "repeater", "bridge", "wlan_access_pt", "router", "telephone", "docsis_cable_device", "station_only"} {
			caps = append(caps, Field{Name: "lldp.tlv." + set + "." + c, Text: text + " " + c, Bit: uint16(16*i + 15 - k), Width: 1, Kind: Bool})
		}
		add(with(l, elementPart(tlvCapabilities, 0), caps...)...)
	}
	add(managementRows()...)
	for n := range shownOrgs {
		add(with(l, anyPart(n, anyOrg), Field{Name: "lldp.orgtlv.oui", Text: "Organization", Bit: 16, Width: 24, Kind: Dec, Values: ouiName})...)
		add(with(l, anyPart(n, orgOf(oui8021)), Field{Name: "lldp.ieee.802_1.subtype", Text: "IEEE 802.1 element", Bit: 40, Width: 8, Kind: Hex, Values: sub8021Name})...)
		add(with(l, anyPart(n, orgOf(oui8023)), Field{Name: "lldp.ieee.802_3.subtype", Text: "IEEE 802.3 element", Bit: 40, Width: 8, Kind: Hex, Values: sub8023Name})...)
	}
	add(ieee8021Rows()...)
	add(ieee8023Rows()...)
	add(dcbxRows()...)
	add(ceeRows()...)
	return rows
}

// lldpIDRows are those of chassis and port, whose first byte says what the ID is.
func lldpIDRows(which, text string, kind Kind, part func(*Packet, []byte) (int, int), mac, net uint8, values func(uint64) string) (rows []Field) {
	name := "lldp." + which
	rows = append(rows, with(LayerLLDP, part, Field{Name: name + ".subtype", Text: text + " subtype", Width: 8, Kind: Dec, Values: values})...)
	rows = append(rows, with(LayerLLDP, where(part, mac), Field{Name: name + ".id.mac", Text: text, Bit: 8, Width: 48, Kind: MAC})...)
	rows = append(rows, with(LayerLLDP, addressOf(where(part, net), 1), Field{Name: name + ".id.ip4", Text: text, Width: 32, Kind: IPv4Addr})...)
	rows = append(rows, with(LayerLLDP, addressOf(where(part, net), 2), Field{Name: name + ".id.ip6", Text: text, Width: 128, Kind: IPv6Addr})...)
	var others []uint8
	for v := uint8(1); v < 8; v++ {
		if v != mac && v != net {
			others = append(others, v)
		}
	}
	return append(rows, with(LayerLLDP, where(part, others...), Field{Name: name + ".id", Text: text, Bit: 8, Kind: kind})...)
}

// addressOf is a network address of a family, behind its number (1 IPv4, 2 IPv6)
// and the byte in front of that.
func addressOf(part func(*Packet, []byte) (int, int), family uint8) func(*Packet, []byte) (int, int) {
	return func(p *Packet, frame []byte) (int, int) {
		from, to := part(p, frame)
		if from < 0 || from+2 > to || frame[from+1] != family {
			return -1, 0
		}
		return from + 2, to
	}
}

// managementRows are those of a management address: a length that counts the
// family, the family, the address, the interface and an object identifier.
func managementRows() (rows []Field) {
	part := elementPart(tlvManagement, 0)
	behind := func(p *Packet, frame []byte) (int, int) {
		from, to := part(p, frame)
		if from < 0 || from >= to {
			return -1, 0
		}
		if from += 1 + int(frame[from]); from >= to {
			return -1, 0
		}
		return from, to
	}
	rows = with(LayerLLDP, part,
		Field{Name: "lldp.mgn.address.len", Text: "Management address: length", Width: 8, Kind: Dec},
		Field{Name: "lldp.mgn.address.subtype", Text: "Management address: family", Bit: 8, Width: 8, Kind: Dec, Values: addressFamily})
	rows = append(rows, with(LayerLLDP, addressOf(part, 1), Field{Name: "lldp.mgn.addr.ip4", Text: "Management address", Width: 32, Kind: IPv4Addr})...)
	rows = append(rows, with(LayerLLDP, addressOf(part, 2), Field{Name: "lldp.mgn.addr.ip6", Text: "Management address", Width: 128, Kind: IPv6Addr})...)
	return append(rows, with(LayerLLDP, behind,
		Field{Name: "lldp.mgn.interface.subtype", Text: "Management address: kind of interface number", Width: 8, Kind: Dec, Values: interfaceSubtype},
		Field{Name: "lldp.mgn.interface.number", Text: "Management address: interface", Bit: 8, Width: 32, Kind: Dec},
		Field{Name: "lldp.mgn.obj.len", Text: "Management address: object identifier's length", Bit: 40, Width: 8, Kind: Dec})...)
}

func ieee8021Rows() (rows []Field) {
	l := LayerLLDP
	rows = append(rows, with(l, orgPart(oui8021, 1, 0), Field{Name: "lldp.ieee.802_1.port_vlan.id", Text: "Port VLAN", Width: 16, Kind: Dec})...)
	rows = append(rows, with(l, orgPart(oui8021, 2, 0),
		Field{Name: "lldp.ieee.802_1.port_and_vlan_id_flag", Text: "Port and protocol VLAN: flags", Width: 8, Kind: Hex},
		Field{Name: "lldp.ieee.802_1.port_and_vlan_id_flag.supported", Text: "Port and protocol VLAN: supported", Bit: 6, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_1.port_and_vlan_id_flag.enabled", Text: "Port and protocol VLAN: enabled", Bit: 5, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_1.port_proto_vlan.id", Text: "Port and protocol VLAN", Bit: 8, Width: 16, Kind: Dec})...)
	for n := range shownVLANs {
		rows = append(rows, with(l, orgPart(oui8021, 3, n),
			Field{Name: "lldp.ieee.802_1.vlan.id", Text: "VLAN", Width: 16, Kind: Dec},
			Field{Name: "lldp.ieee.802_1.vlan.name_len", Text: "VLAN's name: length", Bit: 16, Width: 8, Kind: Dec},
			Field{Name: "lldp.ieee.802_1.vlan.name", Text: "VLAN's name", Bit: 24, Kind: String})...)
	}
	rows = append(rows, with(l, orgPart(oui8021, 4, 0),
		Field{Name: "lldp.ieee.802_1.proto.id_length", Text: "Protocol identity: length", Width: 8, Kind: Dec},
		Field{Name: "lldp.ieee.802_1.proto.id", Text: "Protocol identity", Bit: 8, Kind: Bytes})...)
	rows = append(rows, with(l, orgPart(oui8021, 7, 0),
		Field{Name: "lldp.ieee.802_1.aggregation_status", Text: "Link aggregation", Width: 8, Kind: Hex},
		Field{Name: "lldp.ieee.802_1.aggregation_status.cap", Text: "Link aggregation: capable", Bit: 7, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_1.aggregation_status.enabled", Text: "Link aggregation: enabled", Bit: 6, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_1.aggregation_status.porttype", Text: "Link aggregation: kind of port", Bit: 4, Width: 2, Kind: Dec},
		Field{Name: "lldp.ieee.802_1.aggregated_port_id", Text: "Link aggregation: port", Bit: 8, Width: 32, Kind: Dec})...)
	rows = append(rows, with(l, orgPart(oui8021, 8, 0), append(
		eight("lldp.ieee.802_1qau.cnpv.prio", "Congestion notification: priority", 7, -1, 1, Bool),
		eight("lldp.ieee.802_1qau.ready.prio", "Congestion notification: ready, priority", 15, -1, 1, Bool)...)...)...)
	return rows
}

func ieee8023Rows() (rows []Field) {
	l := LayerLLDP
	rows = append(rows, with(l, orgPart(oui8023, 1, 0),
		Field{Name: "lldp.ieee.802_3.mac_phy_auto_neg_status", Text: "Auto-negotiation", Width: 8, Kind: Hex},
		Field{Name: "lldp.ieee.802_3.mac_phy_auto_neg_status.supported", Text: "Auto-negotiation: supported", Bit: 7, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_3.mac_phy_auto_neg_status.enabled", Text: "Auto-negotiation: enabled", Bit: 6, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_3.pmd_auto_neg_advertised_caps", Text: "Auto-negotiation: offered", Bit: 8, Width: 16, Kind: Hex},
		Field{Name: "lldp.ieee.802_3.pmd_mau_type", Text: "Kind of port (MAU type)", Bit: 24, Width: 16, Kind: Hex})...)
	rows = append(rows, with(l, orgPart(oui8023, 3, 0),
		Field{Name: "lldp.ieee.802_3.aggregation_status", Text: "Link aggregation", Width: 8, Kind: Hex},
		Field{Name: "lldp.ieee.802_3.aggregation_status.cap", Text: "Link aggregation: capable", Bit: 7, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_3.aggregation_status.enabled", Text: "Link aggregation: enabled", Bit: 6, Width: 1, Kind: Bool},
		Field{Name: "lldp.ieee.802_3.aggregated_port_id", Text: "Link aggregation: port", Bit: 8, Width: 32, Kind: Dec})...)
	return append(rows, with(l, orgPart(oui8023, 4, 0), Field{Name: "lldp.ieee.802_3.max_frame_size", Text: "Longest frame", Width: 16, Kind: Dec})...)
}

func tlvName(v uint64) string {
	switch v {
	case tlvEnd:
		return "end"
	case tlvChassisID:
		return "chassis ID"
	case tlvPortID:
		return "port ID"
	case tlvTTL:
		return "time to live"
	case tlvPortDesc:
		return "port description"
	case tlvSystemName:
		return "system name"
	case tlvSystemDesc:
		return "system description"
	case tlvCapabilities:
		return "capabilities"
	case tlvManagement:
		return "management address"
	case tlvOrganization:
		return "organization's own"
	}
	return "reserved"
}

func ouiName(v uint64) string {
	switch v {
	case oui8021:
		return "IEEE 802.1"
	case oui8023:
		return "IEEE 802.3"
	case ouiCEE:
		return "CEE DCBX"
	case 0x0012BB:
		return "TIA, media endpoints"
	case 0x000ECF:
		return "PROFIBUS"
	}
	return ""
}

// nameAt names a number by its place in a list; "" where that has none.
func nameAt(v uint64, names []string) string {
	if v < uint64(len(names)) {
		return names[v]
	}
	return ""
}

func sub8021Name(v uint64) string {
	return nameAt(v, []string{
		"", "port VLAN", "port and protocol VLAN", "VLAN name", "protocol identity", "VID usage digest", "management VID", "link aggregation",
		"congestion notification", "ETS configuration", "ETS recommendation", "PFC configuration", "application priority", "EVB", "CDCP",
	})
}

func sub8023Name(v uint64) string {
	return nameAt(v, []string{"", "MAC/PHY configuration", "power via MDI", "link aggregation", "longest frame", "energy-efficient Ethernet"})
}

func chassisSubtype(v uint64) string {
	return nameAt(v, []string{"", "chassis component", "interface alias", "port component", "MAC address", "network address", "interface name", "locally assigned"})
}

func portSubtype(v uint64) string {
	return nameAt(v, []string{"", "interface alias", "port component", "MAC address", "network address", "interface name", "agent circuit ID", "locally assigned"})
}

func addressFamily(v uint64) string { return nameAt(v, []string{"", "IPv4", "IPv6"}) }

func interfaceSubtype(v uint64) string {
	return nameAt(v, []string{"", "unknown", "ifIndex", "system port number"})
}
