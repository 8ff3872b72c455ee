package dissect

import (
	"fmt"
	"math"
	"strings"
)

// Opcode is the first byte of a BTH: the transport service in the top three
// bits, the operation in the low five (IBA 9.2.1).
type Opcode uint8

// Transport is a transport service.
type Transport uint8

// The transport services, numbered by the opcode's top three bits.
const (
	RC Transport = iota
	UC
	RD
	UD
	CNP // congestion notification, outside of any QP's sequence
	XRC
	Manufacturer
	manufacturer2
)

var transportNames = [...]string{"RC", "UC", "RD", "UD", "CNP", "XRC", "Manufacturer", "Manufacturer"}

func (t Transport) String() string { return transportNames[t&7] }

// Family is what an operation does.
type Family uint8

// The families. Reserved marks opcodes that no text defines.
const (
	Reserved Family = iota
	Send
	Write
	Read // READ requests and READ responses; Role tells them apart
	Acknowledge
	AtomicAcknowledge
	CompareSwap
	FetchAdd
	Resync
	Flush
	AtomicWrite
	Congestion
	Vendor
)

var familyNames = [...]string{"reserved", "send", "write", "read", "acknowledge", "atomic acknowledge", "compare swap", "fetch add", "resync", "flush", "atomic write", "congestion", "vendor"}

func (f Family) String() string {
	if int(f) < len(familyNames) {
		return familyNames[f]
	}
	return "unknown"
}

// Role says which end of a stream sends a packet.
type Role uint8

// The roles.
const (
	NoRole Role = iota
	Request
	Response
)

var roleNames = [...]string{"none", "request", "response"}

func (r Role) String() string { return roleNames[r%3] }

// Position is a packet's place in its message.
type Position uint8

// The positions. Only is a message (or a READ's answer) of one packet.
const (
	NoPosition Position = iota
	First
	Middle
	Last
	Only
)

var positionNames = [...]string{"", "first", "middle", "last", "only"}

func (p Position) String() string { return positionNames[p%5] }

// PayloadRule says how many bytes an opcode may carry.
type PayloadRule uint8

// The payload rules (IBA 9.7.4.1, 9.8.2.2.4).
const (
	NoPayload  PayloadRule = iota // none
	FullMTU                       // exactly the path MTU, no pad
	OneToMTU                      // 1 … path MTU
	UpToMTU                       // 0 … path MTU
	EightBytes                    // exactly 8, no pad
	AnyPayload                    // not known
)

var payloadNames = [...]string{"none", "PMTU", "1..PMTU", "0..PMTU", "8", "any"}

func (r PayloadRule) String() string { return payloadNames[r%6] }

// bounds are the least and the most bytes that the rule allows where the path
// MTU is not known.
func (r PayloadRule) bounds() (least, most uint32) {
	switch r {
	case NoPayload:
		return 0, 0
	case OneToMTU:
		return 1, math.MaxUint32
	case EightBytes:
		return 8, 8
	}
	return 0, math.MaxUint32
}

// OpFlags are properties of an operation.
type OpFlags uint8

// The flags.
const (
	WithImm         OpFlags = 1 << iota // carries immediate data
	WithInv                             // carries an R_Key to invalidate
	ConsumesReceive                     // takes a receive WQE at the responder
)

// OpInfo is a row of the opcode table.
type OpInfo struct {
	Code      Opcode
	Name      string // "RC RDMA WRITE Only"
	Token     string // the name in filters and JSON: "RC_RDMA_WRITE_ONLY"
	Transport Transport
	Family    Family
	Role      Role
	Position  Position
	Flags     OpFlags
	Payload   PayloadRule
	Headers   []Layer  // extension headers, in wire order
	Layers    LayerSet // the same as a set
	Len       int      // bytes of BTH and extension headers

	least, most uint32                              // payload bytes that the rule allows without knowing the path MTU
	offset      [endExtLayers - numBaseLayers]uint8 // of each extension header from the BTH; 0 = absent
}

// operation is a row of the table below: an operation of the low five bits,
// and the services that have it.
type operation struct {
	code     Opcode
	name     string
	family   Family
	role     Role
	position Position
	payload  PayloadRule
	flags    OpFlags
	headers  []Layer
	services []Transport
}

func hdrs(l ...Layer) []Layer       { return l }
func on(t ...Transport) []Transport { return t }

// operations is the one list of what InfiniBand transports can do (IBA 9.2.1
// table 38; RESYNC 9.8.4; XRC annex A14; FLUSH and ATOMIC WRITE annex A19).
// What a service puts in front of an operation's own headers stands in
// services.
var operations = []operation{
	{0x00, "SEND First", Send, Request, First, FullMTU, ConsumesReceive, hdrs(), on(RC, UC, RD, XRC)},
	{0x01, "SEND Middle", Send, Request, Middle, FullMTU, ConsumesReceive, hdrs(), on(RC, UC, RD, XRC)},
	{0x02, "SEND Last", Send, Request, Last, OneToMTU, ConsumesReceive, hdrs(), on(RC, UC, RD, XRC)},
	{0x03, "SEND Last with Immediate", Send, Request, Last, OneToMTU, ConsumesReceive | WithImm, hdrs(LayerImmDt), on(RC, UC, RD, XRC)},
	{0x04, "SEND Only", Send, Request, Only, UpToMTU, ConsumesReceive, hdrs(), on(RC, UC, RD, UD, XRC)},
	{0x05, "SEND Only with Immediate", Send, Request, Only, UpToMTU, ConsumesReceive | WithImm, hdrs(LayerImmDt), on(RC, UC, RD, UD, XRC)},
	{0x06, "RDMA WRITE First", Write, Request, First, FullMTU, 0, hdrs(LayerRETH), on(RC, UC, RD, XRC)},
	{0x07, "RDMA WRITE Middle", Write, Request, Middle, FullMTU, 0, hdrs(), on(RC, UC, RD, XRC)},
	{0x08, "RDMA WRITE Last", Write, Request, Last, OneToMTU, 0, hdrs(), on(RC, UC, RD, XRC)},
	{0x09, "RDMA WRITE Last with Immediate", Write, Request, Last, OneToMTU, ConsumesReceive | WithImm, hdrs(LayerImmDt), on(RC, UC, RD, XRC)},
	{0x0A, "RDMA WRITE Only", Write, Request, Only, UpToMTU, 0, hdrs(LayerRETH), on(RC, UC, RD, XRC)},
	{0x0B, "RDMA WRITE Only with Immediate", Write, Request, Only, UpToMTU, ConsumesReceive | WithImm, hdrs(LayerRETH, LayerImmDt), on(RC, UC, RD, XRC)},
	{0x0C, "RDMA READ Request", Read, Request, Only, NoPayload, 0, hdrs(LayerRETH), on(RC, RD, XRC)},
	{0x0D, "RDMA READ Response First", Read, Response, First, FullMTU, 0, hdrs(LayerAETH), on(RC, RD, XRC)},
	{0x0E, "RDMA READ Response Middle", Read, Response, Middle, FullMTU, 0, hdrs(), on(RC, RD, XRC)},
	{0x0F, "RDMA READ Response Last", Read, Response, Last, OneToMTU, 0, hdrs(LayerAETH), on(RC, RD, XRC)},
	{0x10, "RDMA READ Response Only", Read, Response, Only, UpToMTU, 0, hdrs(LayerAETH), on(RC, RD, XRC)},
	{0x11, "Acknowledge", Acknowledge, Response, Only, NoPayload, 0, hdrs(LayerAETH), on(RC, RD, XRC)},
	{0x12, "ATOMIC Acknowledge", AtomicAcknowledge, Response, Only, NoPayload, 0, hdrs(LayerAETH, LayerAtomicAckETH), on(RC, RD, XRC)},
	{0x13, "Compare Swap", CompareSwap, Request, Only, NoPayload, 0, hdrs(LayerAtomicETH), on(RC, RD, XRC)},
	{0x14, "Fetch Add", FetchAdd, Request, Only, NoPayload, 0, hdrs(LayerAtomicETH), on(RC, RD, XRC)},
	{0x15, "RESYNC", Resync, Request, Only, NoPayload, 0, hdrs(), on(RD)},
	{0x16, "SEND Last with Invalidate", Send, Request, Last, OneToMTU, ConsumesReceive | WithInv, hdrs(LayerIETH), on(RC, XRC)},
	{0x17, "SEND Only with Invalidate", Send, Request, Only, UpToMTU, ConsumesReceive | WithInv, hdrs(LayerIETH), on(RC, XRC)},
	{0x1C, "FLUSH", Flush, Request, Only, NoPayload, 0, hdrs(LayerFETH, LayerRETH), on(RC)},
	{0x1D, "ATOMIC WRITE", AtomicWrite, Request, Only, EightBytes, 0, hdrs(LayerRETH), on(RC)},
}

// services lists what each transport puts between the BTH and the headers of
// an operation.
var services = map[Transport]struct{ request, response []Layer }{
	RC:  {},
	UC:  {},
	RD:  {hdrs(LayerRDETH, LayerDETH), hdrs(LayerRDETH)},
	UD:  {hdrs(LayerDETH), nil},
	XRC: {hdrs(LayerXRCETH), nil},
}

// The opcodes that code has to name. All others are reached by the table.
const (
	OpRCSendFirst         Opcode = 0x00
	OpRCSendMiddle        Opcode = 0x01
	OpRCSendLast          Opcode = 0x02
	OpRCSendLastImm       Opcode = 0x03
	OpRCSendOnly          Opcode = 0x04
	OpRCSendOnlyImm       Opcode = 0x05
	OpRCWriteFirst        Opcode = 0x06
	OpRCWriteMiddle       Opcode = 0x07
	OpRCWriteLast         Opcode = 0x08
	OpRCWriteLastImm      Opcode = 0x09
	OpRCWriteOnly         Opcode = 0x0A
	OpRCWriteOnlyImm      Opcode = 0x0B
	OpRCReadRequest       Opcode = 0x0C
	OpRCReadResponseFirst Opcode = 0x0D
	OpRCReadResponseMid   Opcode = 0x0E
	OpRCReadResponseLast  Opcode = 0x0F
	OpRCReadResponseOnly  Opcode = 0x10
	OpRCAcknowledge       Opcode = 0x11
	OpRCAtomicAcknowledge Opcode = 0x12
	OpRCCompareSwap       Opcode = 0x13
	OpRCFetchAdd          Opcode = 0x14
	OpRCSendLastInv       Opcode = 0x16
	OpRCSendOnlyInv       Opcode = 0x17
	OpUDSendOnly          Opcode = 0x64
	OpUDSendOnlyImm       Opcode = 0x65
	OpIBCNP               Opcode = 0x80 // annex A10
	OpCNP                 Opcode = 0x81 // annex A17
)

// opTable is filled from operations once; nothing writes to it later.
var opTable = buildOpTable()

func buildOpTable() (t [256]OpInfo) {
	for i := range t {
		tr := Transport(i >> 5)
		switch {
		case tr >= Manufacturer:
			t[i] = OpInfo{Name: fmt.Sprintf("Manufacturer 0x%02X", i), Transport: Manufacturer, Family: Vendor, Payload: AnyPayload}
		default:
			t[i] = OpInfo{Name: fmt.Sprintf("Reserved 0x%02X", i), Transport: tr, Payload: AnyPayload}
		}
	}
	for _, o := range operations {
		for _, tr := range o.services {
			prefix := services[tr].request
			if o.role == Response {
				prefix = services[tr].response
			}
			headers := append(append([]Layer(nil), prefix...), o.headers...)
			t[o.code|Opcode(tr)<<5] = OpInfo{
				Name: tr.String() + " " + o.name, Transport: tr, Family: o.family, Role: o.role,
				Position: o.position, Flags: o.flags, Payload: o.payload, Headers: headers,
			}
		}
	}
	t[OpIBCNP] = OpInfo{Name: "IB CNP", Transport: CNP, Family: Congestion, Payload: AnyPayload}
	t[OpCNP] = OpInfo{Name: "CNP", Transport: CNP, Family: Congestion, Payload: AnyPayload}
	for i := range t {
		o := &t[i]
		o.Code = Opcode(i)
		o.Token = strings.ToUpper(strings.ReplaceAll(o.Name, " ", "_"))
		o.Layers = setOf(o.Headers...)
		o.least, o.most = o.Payload.bounds()
		n := LayerBTH.Size()
		for _, h := range o.Headers {
			o.offset[h-numBaseLayers] = uint8(n)
			n += h.Size()
		}
		o.Len = n
	}
	return t
}

// Info returns the opcode's row in the table. There is one for every value:
// rows that no text defines have Family Reserved or Vendor.
func (o Opcode) Info() *OpInfo { return &opTable[o] }

func (o Opcode) String() string { return opTable[o].Name }

// Opcodes returns all 256 rows in order.
func Opcodes() []OpInfo { return append([]OpInfo(nil), opTable[:]...) }

// Defined reports whether a specification text defines the opcode.
func (i *OpInfo) Defined() bool { return i.Family != Reserved && i.Family != Vendor }

// Has reports whether packets of this opcode carry the header.
func (i *OpInfo) Has(l Layer) bool { return i.Layers.Has(l) }

// Starts reports whether the packet can begin a message or a READ's answer.
func (i *OpInfo) Starts() bool { return i.Position == First || i.Position == Only }

// Ends reports whether the packet completes a message or a READ's answer.
func (i *OpInfo) Ends() bool { return i.Position == Last || i.Position == Only }

// MayFollow reports whether i may be the next packet behind prev in the same
// stream and role (IBA 9.7.4.1.1 for requests, 9.7.5.1 for responses). A nil
// prev is a stream that starts. The responses of a READ may also be broken off
// by an Acknowledge (a NAK), or begin anew where the READ was sent again.
func (i *OpInfo) MayFollow(prev *OpInfo) bool {
	switch {
	case prev == nil:
		return i.Starts()
	case prev.Transport != i.Transport:
		return false
	case prev.Ends():
		return i.Starts()
	case prev.Role != i.Role:
		return false
	case prev.Role == Response && i.Family == Acknowledge:
		return true
	case prev.Family != i.Family:
		return false
	}
	return i.Role == Response || !i.Starts()
}

// OpcodeOf returns the opcode of a service with the given properties, for
// crafting. ok is false where the service has none.
func OpcodeOf(t Transport, f Family, r Role, p Position, flags OpFlags) (op Opcode, ok bool) {
	flags &= WithImm | WithInv
	for i := range opTable {
		o := &opTable[i]
		if o.Transport == t && o.Family == f && o.Role == r && o.Position == p && o.Flags&(WithImm|WithInv) == flags {
			return o.Code, true
		}
	}
	return 0, false
}
