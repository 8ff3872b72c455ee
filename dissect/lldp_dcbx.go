package dissect

import "math/bits"

// The elements of Data Center Bridging Exchange: by them the two ends of a link
// agree which priorities share which bandwidth (ETS) and which are lossless
// (PFC). IEEE 802.1Qaz made them elements of LLDP (IEEE 802.1Q D.2.8 to D.2.11);
// before that they were elements within one of LLDP's (DCBX 1.01, "CEE").

// dcbxRows are those of IEEE 802.1Qaz.
func dcbxRows() (rows []Field) {
	l := LayerDCBX
	table := func() []Field { // ETS, behind the first byte
		return append(append(
			eight("lldp.dcbx.feature.pg.pgid_prio", "Traffic class of priority", 8, 4, 4, Dec),
			eight("lldp.dcbx.feature.pg.per", "Bandwidth in percent of traffic class", 40, 8, 8, Dec)...),
			withValues(eight("lldp.dcbx.ieee.ets.tsa", "Transmission selection of traffic class", 104, 8, 8, Dec), selectionName)...)
	}
	rows = append(rows, with(l, orgPart(oui8021, subETS, 0), append([]Field{
		{Name: "lldp.dcbx.ieee.willing", Text: "ETS: takes over its peer's", Width: 1, Kind: Bool},
		{Name: "lldp.dcbx.ieee.ets.cbs", Text: "ETS: has a credit-based shaper", Bit: 1, Width: 1, Kind: Bool},
		{Name: "lldp.dcbx.ieee.ets.maxtcs", Text: "ETS: traffic classes (0: 8)", Bit: 5, Width: 3, Kind: Dec},
	}, table()...)...)...)
	rows = append(rows, with(l, orgPart(oui8021, subETSRecommended, 0), table()...)...)
	rows = append(rows, with(l, orgPart(oui8021, subPFC, 0), append([]Field{
		{Name: "lldp.dcbx.ieee.willing", Text: "PFC: takes over its peer's", Width: 1, Kind: Bool},
		{Name: "lldp.dcbx.ieee.pfc.mbc", Text: "PFC: MACsec bypass capability", Bit: 1, Width: 1, Kind: Bool},
		{Name: "lldp.dcbx.ieee.pfc.numtcs", Text: "PFC: classes that may have it", Bit: 4, Width: 4, Kind: Dec},
	}, pfcBits(15)...)...)...)
	rows = append(rows, with(l, orgPart(oui8021, subApplication, 0), Field{Name: "lldp.dcbx.ieee.app.reserved", Text: "Reserved", Width: 8, Kind: Hex})...)
	for n := range shownApplications {
		at := uint16(8 + 24*n)
		rows = append(rows, with(l, orgPart(oui8021, subApplication, 0),
			Field{Name: "lldp.dcbx.ieee.app.prio", Text: "Application: priority", Bit: at, Width: 3, Kind: Dec},
			Field{Name: "lldp.dcbx.iee.app.sf", Text: "Application: selector", Bit: at + 5, Width: 3, Kind: Dec, Values: selectorName},
			Field{Name: "lldp.dcbx.feature.app.proto", Text: "Application: protocol", Bit: at + 8, Width: 16, Kind: Hex, Values: applicationName})...)
	}
	return rows
}

// ceeRows are those of CEE.
func ceeRows() (rows []Field) {
	l := LayerCEE
	rows = append(rows, with(l, lldpPart(func(h LLDP) (int, int) {
		from, to := h.find(tlvOrganization, ouiCEE, subCEE, 0)
		return from - 1, to
	}), Field{Name: "lldp.dcbx.proto", Text: "Protocol", Width: 8, Kind: Hex, Values: ceeName})...)
	for _, kind := range [...]uint8{ceeControl, ceeGroups, ceePFC, ceeApplication} {
		part := ceePart(kind)
		head := func(p *Packet, frame []byte) (int, int) {
			if from, to := part(p, frame); from >= 0 {
				return from - 2, to
			}
			return -1, 0
		}
		rows = append(rows, with(l, head,
			Field{Name: "lldp.dcbx.type", Text: "Element", Width: 7, Kind: Dec, Values: ceeElementName},
			Field{Name: "lldp.dcbx.len", Text: "Element's length", Bit: 7, Width: 9, Kind: Dec},
			Field{Name: "lldp.dcbx.version", Text: "Operating version", Bit: 16, Width: 8, Kind: Hex},
			Field{Name: "lldp.dcbx.max_version", Text: "Highest version", Bit: 24, Width: 8, Kind: Hex})...)
		if kind != ceeControl {
			rows = append(rows, with(l, part,
				Field{Name: "lldp.dcbx.feature.enabled", Text: "Enabled", Bit: 16, Width: 1, Kind: Bool},
				Field{Name: "lldp.dcbx.feature.willing", Text: "Takes over its peer's", Bit: 17, Width: 1, Kind: Bool},
				Field{Name: "lldp.dcbx.feature.error", Text: "Error", Bit: 18, Width: 1, Kind: Bool},
				Field{Name: "lldp.dcbx.feature.subtype", Text: "Subtype", Bit: 24, Width: 8, Kind: Hex})...)
		}
		switch kind {
		case ceeControl:
			rows = append(rows, with(l, part,
				Field{Name: "lldp.dcbx.control.seq", Text: "Sequence number", Bit: 16, Width: 32, Kind: Dec},
				Field{Name: "lldp.dcbx.control.ack", Text: "Acknowledgement number", Bit: 48, Width: 32, Kind: Dec})...)
		case ceeGroups:
			rows = append(rows, with(l, part, append(append(
				eight("lldp.dcbx.feature.pg.pgid_prio", "Group of priority", 32, 4, 4, Dec),
				eight("lldp.dcbx.feature.pg.per", "Bandwidth in percent of group", 64, 8, 8, Dec)...),
				Field{Name: "lldp.dcbx.feature.pg.numtcs", Text: "Traffic classes", Bit: 128, Width: 8, Kind: Hex})...)...)
		case ceePFC:
			rows = append(rows, with(l, part, append(pfcBits(39),
				Field{Name: "lldp.dcbx.feature.pfc.numtcs", Text: "Traffic classes that may have PFC", Bit: 40, Width: 8, Kind: Hex})...)...)
		case ceeApplication:
			for n := range shownApplications {
				at := uint16(32 + 48*n)
				rows = append(rows, with(l, part,
					Field{Name: "lldp.dcbx.feature.app.proto", Text: "Application: protocol", Bit: at, Width: 16, Kind: Hex, Values: applicationName},
					Field{Name: "lldp.dcbx.feature.app.sf", Text: "Application: selector", Bit: at + 22, Width: 2, Kind: Dec, Values: ceeSelectorName},
					Field{Name: "lldp.dcbx.feature.app.priomap", Text: "Application: priorities, the last bit for 0", Bit: at + 40, Width: 8, Kind: Hex})...)
				rows = append(rows, Field{Name: "lldp.dcbx.feature.app.prio", Text: "Application: lowest priority", Layer: l, Kind: Dec, Get: lowestPriority(part, int(at+40)/8)})
			}
		}
	}
	return rows
}

// lowestPriority is the lowest priority of a map that lies at bytes into an element.
func lowestPriority(part func(*Packet, []byte) (int, int), at int) func(p *Packet, frame []byte) (uint64, bool) {
	return func(p *Packet, frame []byte) (uint64, bool) {
		from, to := part(p, frame)
		if from < 0 || from+at >= to || frame[from+at] == 0 {
			return 0, false
		}
		return uint64(bits.TrailingZeros8(frame[from+at])), true
	}
}

// pfcBits are the bits of the priorities that have PFC, the last for priority 0.
func pfcBits(bit int) []Field {
	return eight("lldp.dcbx.feature.pfc.prio", "PFC for priority", bit, -1, 1, Bool)
}

func withValues(rows []Field, values func(uint64) string) []Field {
	for i := range rows {
		rows[i].Values = values
	}
	return rows
}

func selectionName(v uint64) string {
	switch v {
	case 0:
		return "strict priority"
	case 1:
		return "credit-based shaper"
	case 2:
		return "enhanced transmission selection"
	case 255:
		return "maker's own"
	}
	return ""
}

func selectorName(v uint64) string {
	return nameAt(v, []string{"", "EtherType", "TCP or SCTP port", "UDP or DCCP port", "TCP, SCTP, UDP or DCCP port", "DSCP"})
}

// applicationName names the EtherTypes and ports that priorities are given to.
func applicationName(v uint64) string {
	switch v {
	case PortRoCEv2:
		return "RoCE v2"
	case etherRoCEv1:
		return "RoCE v1"
	case 0x8906:
		return "FCoE"
	case 0x8914:
		return "FIP"
	case 3260:
		return "iSCSI"
	}
	return ""
}

func ceeSelectorName(v uint64) string { return nameAt(v, []string{"EtherType", "TCP or UDP port"}) }

func ceeName(v uint64) string { return nameAt(v, []string{"", "CIN", "CEE"}) }

func ceeElementName(v uint64) string {
	return nameAt(v, []string{"", "control", "priority groups", "PFC", "application priority"})
}
