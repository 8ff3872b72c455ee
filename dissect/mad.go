package dissect

// A management datagram (MAD) is the payload of a UD SEND Only to QP 0 or 1:
// a header that all classes share and 232 bytes of the class (IBA 13.4.2).
const (
	madSize       = 256
	madHeaderSize = 24
	madDataSize   = madSize - madHeaderSize
)

// QP1QKey is the queue key of the general services interface, QP 1.
const QP1QKey = 0x80010000

// MADClass is a management class (IBA 13.4).
type MADClass uint8

// The management classes.
const (
	ClassSubnLID      MADClass = 0x01
	ClassSubnAdm      MADClass = 0x03
	ClassPerf         MADClass = 0x04
	ClassBM           MADClass = 0x05
	ClassDevMgt       MADClass = 0x06
	ClassCM           MADClass = 0x07
	ClassSNMP         MADClass = 0x08
	ClassDevAdm       MADClass = 0x10
	ClassBootMgt      MADClass = 0x11
	ClassBIS          MADClass = 0x12
	ClassCongestion   MADClass = 0x21
	ClassSubnDirected MADClass = 0x81
)

func (c MADClass) String() string {
	switch c {
	case ClassSubnLID:
		return "subnet management, LID routed"
	case ClassSubnAdm:
		return "subnet administration"
	case ClassPerf:
		return "performance management"
	case ClassBM:
		return "baseboard management"
	case ClassDevMgt:
		return "device management"
	case ClassCM:
		return "communication management"
	case ClassSNMP:
		return "SNMP tunneling"
	case ClassDevAdm:
		return "device administration"
	case ClassBootMgt:
		return "boot management"
	case ClassBIS:
		return "BIS"
	case ClassCongestion:
		return "congestion management"
	case ClassSubnDirected:
		return "subnet management, directed route"
	}
	if c >= 0x09 && c <= 0x0F || c >= 0x30 && c <= 0x4F {
		return "vendor specific"
	}
	return "reserved"
}

// MADMethod is what a management datagram does (IBA 13.4).
type MADMethod uint8

// The methods. CM messages are all MethodSend.
const (
	MethodGet         MADMethod = 0x01
	MethodSet         MADMethod = 0x02
	MethodSend        MADMethod = 0x03
	MethodTrap        MADMethod = 0x05
	MethodReport      MADMethod = 0x06
	MethodTrapRepress MADMethod = 0x07
	MethodGetResp     MADMethod = 0x81
	MethodReportResp  MADMethod = 0x86
)

func (m MADMethod) String() string {
	switch m {
	case MethodGet:
		return "Get"
	case MethodSet:
		return "Set"
	case MethodSend:
		return "Send"
	case MethodTrap:
		return "Trap"
	case MethodReport:
		return "Report"
	case MethodTrapRepress:
		return "TrapRepress"
	case MethodGetResp:
		return "GetResp"
	case MethodReportResp:
		return "ReportResp"
	}
	return "class specific"
}

// MAD is a management datagram: 24 bytes of common header, then its data as
// far as it was captured (IBA 13.4.2).
type MAD []byte

// BaseVersion returns the base version, 1.
func (h MAD) BaseVersion() uint8 { return h[0] }

// SetBaseVersion sets the base version.
func (h MAD) SetBaseVersion(v uint8) { h[0] = v }

// Class returns the management class.
func (h MAD) Class() MADClass { return MADClass(h[1]) }

// SetClass sets the management class.
func (h MAD) SetClass(v MADClass) { h[1] = byte(v) }

// ClassVersion returns the version of the class; CM's is 2.
func (h MAD) ClassVersion() uint8 { return h[2] }

// SetClassVersion sets the version of the class.
func (h MAD) SetClassVersion(v uint8) { h[2] = v }

// Method returns the method.
func (h MAD) Method() MADMethod { return MADMethod(h[3]) }

// SetMethod sets the method.
func (h MAD) SetMethod(v MADMethod) { h[3] = byte(v) }

// Status returns the status.
func (h MAD) Status() uint16 { return be16(h[4:]) }

// SetStatus sets the status.
func (h MAD) SetStatus(v uint16) { put16(h[4:], v) }

// ClassSpecific returns what the class puts behind the status.
func (h MAD) ClassSpecific() uint16 { return be16(h[6:]) }

// SetClassSpecific sets what the class puts behind the status.
func (h MAD) SetClassSpecific(v uint16) { put16(h[6:], v) }

// TransactionID returns the transaction identifier; it is the same through one
// CM handshake.
func (h MAD) TransactionID() uint64 { return be64(h[8:]) }

// SetTransactionID sets the transaction identifier.
func (h MAD) SetTransactionID(v uint64) { put64(h[8:], v) }

// Attribute returns the attribute identifier: in CM, the message.
func (h MAD) Attribute() uint16 { return be16(h[16:]) }

// SetAttribute sets the attribute identifier.
func (h MAD) SetAttribute(v uint16) { put16(h[16:], v) }

// AttributeModifier returns the attribute modifier.
func (h MAD) AttributeModifier() uint32 { return be32(h[20:]) }

// SetAttributeModifier sets the attribute modifier.
func (h MAD) SetAttributeModifier(v uint32) { put32(h[20:], v) }

// Data returns the data behind the common header, as far as it was captured.
func (h MAD) Data() []byte { return h[madHeaderSize:min(len(h), madSize):min(len(h), madSize)] }

// MAD returns the view of the frame's management datagram, header and captured
// data, nil without one.
func (p *Packet) MAD(frame []byte) MAD {
	if !p.Has(LayerMAD) {
		return nil
	}
	if b := p.Payload(frame); len(b) >= madHeaderSize {
		return b
	}
	return nil
}

// mad names the layers of a management datagram, the payload at off. The
// layers of its data are only there where the datagram has its full length.
func (p *Packet) mad(b []byte, off int) {
	if p.payloadLen != madSize {
		p.note(ProblemMAD, off)
	}
	if p.payloadLen < madHeaderSize {
		return
	}
	if off+madHeaderSize > len(b) {
		p.short(b, off)
		return
	}
	p.layers |= 1 << LayerMAD
	h := MAD(b[off : off+madHeaderSize])
	if p.payloadLen < madSize {
		return
	}
	if h.Class() != ClassCM || p.DestQP != 1 {
		p.mgmt(b[off:])
		return
	}
	if l := CMAttribute(h.Attribute()).Layer(); l != LayerMAD {
		p.layers |= 1 << l
		if serviceIDOf(l, b[off+madHeaderSize:]).IsIPCM() {
			p.layers |= 1 << LayerIPCM
		}
	}
}

var madFields = []Field{
	{Name: "infiniband.mad", Text: "Management datagram", Layer: LayerMAD, Kind: Bytes},
	{Name: "infiniband.mad.baseversion", Text: "Base version", Layer: LayerMAD, Bit: 0, Width: 8, Kind: Hex},
	{Name: "infiniband.mad.mgmtclass", Text: "Management class", Layer: LayerMAD, Bit: 1 * 8, Width: 8, Kind: Hex, Values: madClassName},
	{Name: "infiniband.mad.classversion", Text: "Class version", Layer: LayerMAD, Bit: 2 * 8, Width: 8, Kind: Hex},
	{Name: "infiniband.mad.method", Text: "Method", Layer: LayerMAD, Bit: 3 * 8, Width: 8, Kind: Hex, Values: madMethodName},
	{Name: "infiniband.mad.status", Text: "Status", Layer: LayerMAD, Bit: 4 * 8, Width: 16, Kind: Hex},
	{Name: "infiniband.mad.classspecific", Text: "Class specific", Layer: LayerMAD, Bit: 6 * 8, Width: 16, Kind: Hex},
	{Name: "infiniband.mad.transactionid", Text: "Transaction ID", Layer: LayerMAD, Bit: 8 * 8, Width: 64, Kind: Hex},
	{Name: "infiniband.mad.attributeid", Text: "Attribute ID", Layer: LayerMAD, Bit: 16 * 8, Width: 16, Kind: Hex},
	{Name: "infiniband.mad.attribute", Text: "Attribute", Layer: LayerMAD, Kind: Text, Get: madAttribute, Values: madAttributeName},
	{Name: "infiniband.mad.attributemodifier", Text: "Attribute modifier", Layer: LayerMAD, Bit: 20 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.mad.data", Text: "Data", Layer: LayerMAD, Bit: madHeaderSize * 8, Kind: Bytes},
}

func madClassName(v uint64) string  { return MADClass(v).String() }
func madMethodName(v uint64) string { return MADMethod(v).String() }

// madAttribute is class and attribute together: the number alone means another
// thing in each class.
func madAttribute(p *Packet, frame []byte) (uint64, bool) {
	h := p.MAD(frame)
	if h == nil || attributeName(h.Class(), h.Attribute()) == "" {
		return 0, false
	}
	return uint64(h.Class())<<16 | uint64(h.Attribute()), true
}

func madAttributeName(v uint64) string { return attributeName(MADClass(v>>16), uint16(v)) }

// attributeName names an attribute of a class, "" where it is not known here.
func attributeName(c MADClass, a uint16) string {
	switch {
	case a == attrClassPortInfo:
		return "ClassPortInfo"
	case c == ClassCM && CMAttribute(a).Layer() != LayerMAD:
		return CMAttribute(a).String()
	}
	return fabricAttribute(c, a)
}
