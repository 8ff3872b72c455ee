package dissect

import "slices"

// cmFields are the rows of all CM messages.
var cmFields = slices.Concat(
	cmREQFields, cmMRAFields, cmREJFields, cmREPFields, cmRTUFields, cmDREQFields, cmDREPFields,
	cmSIDRREQFields, cmSIDRREPFields, cmLAPFields, cmAPRFields, ipcmFields,
)

// cmData returns the captured part of a frame's CM message of one kind, nil
// where it is another.
func (p *Packet) cmData(frame []byte, l Layer) cmBytes {
	if !p.Has(l) {
		return nil
	}
	return cmBytes(frame).span(p.Offset(l), madDataSize)
}

func cmTimeoutName(v uint64) string { return CMTimeout(uint8(v)).String() }

func ackTimeoutName(v uint64) string {
	if v == 0 {
		return "none"
	}
	return AckTimeout(uint8(v)).String()
}

func mtuName(v uint64) string {
	if n := MTUBytes(uint8(v)); n > 0 {
		return decimal(uint64(n)) + " bytes"
	}
	return "reserved"
}

func rnrRetryName(v uint64) string {
	if v == 7 {
		return "for ever"
	}
	return ""
}

func serviceTypeName(v uint64) string {
	names := [...]string{"RC", "UC", "RD", "see extended transport"}
	return names[v&3]
}

func extendedTransportName(v uint64) string {
	switch v {
	case 0:
		return "not used"
	case 1:
		return "XRC"
	}
	return "reserved"
}

func failoverName(v uint64) string {
	names := [...]string{"accepted", "not supported", "rejected", "reserved"}
	return names[v&3]
}

// rateName decodes a static rate code.
func rateName(v uint64) string {
	names := [...]string{
		2: "2.5", 3: "10", 4: "30", 5: "5", 6: "20", 7: "40", 8: "60", 9: "80", 10: "120", 11: "14", 12: "56", 13: "112",
		14: "168", 15: "25", 16: "100", 17: "200", 18: "300", 19: "28", 20: "50", 21: "400", 22: "600", 23: "800",
	}
	if v < uint64(len(names)) && names[v] != "" {
		return names[v] + " Gb/s"
	}
	return ""
}
