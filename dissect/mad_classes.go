package dissect

// What the classes put in front of their attributes, and where the attributes
// begin, as bytes of the datagram (IBA 14.2.1, 15.2.1, 16.1.2, 16.3.2, A10.4.1).
const (
	smpKeyAt     = 24
	smpDataAt    = 64
	rmppAt       = 24
	saAt         = 36
	saRecordAt   = 56
	gmpDataAt    = 64
	congestionAt = 24
)

// RMPPType is what a segment of a reliable multi-packet transaction is
// (IBA 13.6.2.1).
type RMPPType uint8

// The types of segments.
const (
	RMPPNone  RMPPType = 0
	RMPPData  RMPPType = 1
	RMPPAck   RMPPType = 2
	RMPPStop  RMPPType = 3
	RMPPAbort RMPPType = 4
)

func (t RMPPType) String() string {
	return nameAt(uint64(t), []string{"not active", "data", "ACK", "STOP", "ABORT"})
}

// attributeLayer is the layer that holds a class's attributes.
func attributeLayer(c MADClass) Layer {
	switch c {
	case ClassSubnLID, ClassSubnDirected:
		return LayerSMPData
	case ClassSubnAdm:
		return LayerSARecord
	case ClassPerf:
		return LayerPerfData
	case ClassDevMgt:
		return LayerDevMgtData
	case ClassCongestion:
		return LayerCongestionData
	}
	return LayerClassPortInfo
}

// mgmt names the layers of a datagram of full length that is no CM message.
// Subnet management goes to QP 0, all others to QP 1.
func (p *Packet) mgmt(h MAD) {
	c := h.Class()
	switch {
	case p.DestQP == 0:
		if c == ClassSubnLID || c == ClassSubnDirected {
			p.layers |= 1<<LayerSMP | 1<<LayerSMPData
		}
		if c == ClassSubnDirected {
			p.layers |= 1 << LayerSMPDirected
		}
	case c == ClassSubnAdm:
		p.layers |= 1<<LayerRMPP | 1<<LayerSA
		// A record begins a transaction's first segment; those of the others begin somewhere.
		if len(h) >= rmppAt+8 && (RMPPType(h[rmppAt+1]) == RMPPNone || RMPPType(h[rmppAt+1]) == RMPPData && be32(h[rmppAt+4:]) <= 1) {
			p.layers |= 1 << LayerSARecord
		}
	case c == ClassPerf:
		p.layers |= 1 << LayerPerfData
	case c == ClassDevMgt:
		p.layers |= 1 << LayerDevMgtData
	case c == ClassCongestion:
		p.layers |= 1<<LayerCongestionKey | 1<<LayerCongestionData
	case c >= 0x30 && c <= 0x4F: // makers' classes with RMPP
		p.layers |= 1 << LayerRMPP
	case h.Attribute() == attrClassPortInfo && c != ClassSubnLID && c != ClassSubnDirected && c != ClassCM:
		p.layers |= 1 << LayerClassPortInfo
	}
}

// mgmtOffset is where such a layer begins in the datagram.
func mgmtOffset(l Layer) int {
	switch l {
	case LayerSMPDirected:
		return 0
	case LayerSMP:
		return smpKeyAt
	case LayerRMPP:
		return rmppAt
	case LayerSA:
		return saAt
	case LayerSARecord:
		return saRecordAt
	case LayerCongestionKey:
		return congestionAt
	}
	return gmpDataAt
}

// mgmtHeaderFields are the rows of what is in front of the attributes.
func mgmtHeaderFields() []Field {
	maker := func(p *Packet, frame []byte) bool {
		h := p.MAD(frame)
		return h != nil && h.Class() >= 0x30 && h.Class() <= 0x4F
	}
	of := func(types ...RMPPType) func(*Packet, []byte) bool {
		return func(p *Packet, frame []byte) bool {
			at := p.Offset(LayerRMPP)
			if at+2 > len(frame) {
				return false
			}
			for _, t := range types {
				if RMPPType(frame[at+1]) == t {
					return true
				}
			}
			return false
		}
	}
	d, s, r, a := LayerSMPDirected, LayerSMP, LayerRMPP, LayerSA
	return []Field{
		{Name: "infiniband.smpdirected.d", Text: "Direction (1 back)", Layer: d, Bit: 32, Width: 1, Kind: Hex, Digits: 16},
		{Name: "infiniband.smpdirected.smpstatus", Text: "Status", Layer: d, Bit: 33, Width: 15, Kind: Hex},
		{Name: "infiniband.smpdirected.hoppointer", Text: "Hop Pointer", Layer: d, Bit: 48, Width: 8, Kind: Hex},
		{Name: "infiniband.smpdirected.hopcount", Text: "Hop Count", Layer: d, Bit: 56, Width: 8, Kind: Hex},
		{Name: "infiniband.smpdirected.drslid", Text: "DrSLID", Layer: d, Bit: 32 * 8, Width: 16, Kind: Hex},
		{Name: "infiniband.smpdirected.drdlid", Text: "DrDLID", Layer: d, Bit: 34 * 8, Width: 16, Kind: Hex},
		{Name: "infiniband.smpdirected.initialpath", Text: "Initial Path", Layer: d, Bit: 128 * 8, Width: 64 * 8, Kind: Bytes},
		{Name: "infiniband.smpdirected.returnpath", Text: "Return Path", Layer: d, Bit: 192 * 8, Width: 64 * 8, Kind: Bytes},

		{Name: "infiniband.smplid.mkey", Text: "M_Key", Layer: s, Width: 64, Kind: Hex},

		{Name: "infiniband.rmpp.rmppversion", Text: "RMPP Version", Layer: r, Width: 8, Kind: Hex},
		{Name: "infiniband.rmpp.rmpptype", Text: "RMPP Type", Layer: r, Bit: 8, Width: 8, Kind: Hex, Values: func(v uint64) string { return RMPPType(v).String() }},
		{Name: "infiniband.rmpp.rresptime", Text: "Response Time", Layer: r, Bit: 16, Width: 5, Kind: Hex},
		{Name: "infiniband.rmpp.rmppflags", Text: "RMPP Flags", Layer: r, Bit: 21, Width: 3, Kind: Hex, Values: rmppFlagNames},
		{Name: "infiniband.rmpp.rmppstatus", Text: "RMPP Status", Layer: r, Bit: 24, Width: 8, Kind: Hex, Values: rmppStatusName},
		{Name: "infiniband.rmpp.segmentnumber", Text: "Segment Number", Layer: r, Bit: 32, Width: 32, Kind: Hex, When: of(RMPPData, RMPPAck)},
		{Name: "infiniband.rmpp.payloadlength", Text: "Payload Length", Layer: r, Bit: 64, Width: 32, Kind: Hex, When: of(RMPPData)},
		{Name: "infiniband.rmpp.newwindowlast", Text: "New Window Last", Layer: r, Bit: 64, Width: 32, Kind: Hex, When: of(RMPPAck)},
		{Name: "infiniband.vendor.oui", Text: "Maker's OUI", Layer: r, Bit: 13 * 8, Width: 24, Kind: Hex, When: maker},

		{Name: "infiniband.sa.smkey", Text: "SM_Key", Layer: a, Width: 64, Kind: Hex},
		{Name: "infiniband.sa.attributeoffset", Text: "Attribute Offset in units of 8 bytes", Layer: a, Bit: 64, Width: 16, Kind: Hex},
		{Name: "infiniband.sa.componentmask", Text: "Component Mask", Layer: a, Bit: 96, Width: 64, Kind: Hex},

		{Name: "infiniband.cc.key", Text: "CC_Key", Layer: LayerCongestionKey, Width: 64, Kind: Hex},
		{Name: "infiniband.cc.logdata", Text: "Log data", Layer: LayerCongestionKey, Bit: 64, Width: 256, Kind: Bytes},
	}
}

func rmppFlagNames(v uint64) string { return setText(v, []string{"active", "first", "last"}) }

// rmppStatusName names the status of STOP and ABORT (IBA 13.6.2.3).
func rmppStatusName(v uint64) string {
	switch v {
	case 0:
		return "normal"
	case 1:
		return "out of resources"
	case 118:
		return "transaction took too long"
	case 119:
		return "inconsistent last segment and payload length"
	case 120:
		return "inconsistent first segment and segment number"
	case 121:
		return "bad RMPP type"
	case 122:
		return "new window last too small"
	case 123:
		return "segment number too big"
	case 124:
		return "illegal status"
	case 125:
		return "version not supported"
	case 126:
		return "too many retries"
	case 127:
		return "unspecified"
	}
	return ""
}
