package dissect

// Upper protocols: what programs put into the payload of SENDs and into the
// private data of CM messages. No packet says by itself which of them it
// carries: whoever follows the connection knows, and tells it by SetUpper. From
// then on the packet has their layers, as it has all others.

// UpperProtocol is a protocol that runs over RDMA.
type UpperProtocol uint8

// The upper protocols.
const (
	NoUpper UpperProtocol = iota
	NVMe
	RPCRDMA
	ISER
	SMBDirect
	numUpperProtocols
)

// upperProtocols is the table of the upper protocols: how they are called on a
// command line and to people, and the ports that they are registered for.
var upperProtocols = [numUpperProtocols]struct {
	key, name string
	ports     []uint16
}{
	NVMe:      {"nvme", "NVMe over RDMA", []uint16{4420}},
	RPCRDMA:   {"rpcrdma", "RPC-over-RDMA", []uint16{20049}},
	ISER:      {"iser", "iSER", []uint16{3260}},
	SMBDirect: {"smbdirect", "SMB Direct", []uint16{5445}},
}

func (u UpperProtocol) String() string {
	if u > NoUpper && u < numUpperProtocols {
		return upperProtocols[u].name
	}
	return "none"
}

// Key is the protocol's name in options and records; "" for NoUpper.
func (u UpperProtocol) Key() string {
	if u < numUpperProtocols {
		return upperProtocols[u].key
	}
	return ""
}

// UpperByKey finds a protocol by its key.
func UpperByKey(key string) (UpperProtocol, bool) {
	for u := NVMe; u < numUpperProtocols; u++ {
		if upperProtocols[u].key == key {
			return u, true
		}
	}
	return NoUpper, false
}

// UpperKeys lists the keys of all protocols.
func UpperKeys() (keys []string) {
	for u := NVMe; u < numUpperProtocols; u++ {
		keys = append(keys, upperProtocols[u].key)
	}
	return keys
}

// UpperByPort returns the protocol that a port is registered for. SMB Direct
// has a port of its own on iWARP only: on InfiniBand and RoCE it uses that of
// SMB, which UpperByService knows.
func UpperByPort(port uint16) UpperProtocol {
	for u := NVMe; u < numUpperProtocols; u++ {
		for _, p := range upperProtocols[u].ports {
			if p == port {
				return u
			}
		}
	}
	return NoUpper
}

// portSMB is that of SMB over TCP, by which SMB Direct is asked for in the RDMA
// IP CM service (MS-SMBD, 2.1).
const portSMB = 445

// UpperByService returns the protocol that a CM service identifier asks for.
func UpperByService(s ServiceID) UpperProtocol {
	if !s.IsIPCM() || s.Protocol() != PortSpaceTCP {
		return NoUpper
	}
	if s.Port() == portSMB {
		return SMBDirect
	}
	return UpperByPort(s.Port())
}

// UpperBySignature returns the protocol whose opening message a SEND is for
// certain: each has so many bytes with one possible value that nothing else
// comes out like it. payload is what was captured of its first packet, whole
// says that this is the message to its end.
func UpperBySignature(payload []byte, whole bool) UpperProtocol {
	switch {
	case isNVMeOpening(payload, whole):
		return NVMe
	case isRPCOpening(payload):
		return RPCRDMA
	case isISEROpening(payload):
		return ISER
	case whole && isSMBDOpening(payload):
		return SMBDirect
	}
	return NoUpper
}

// Upper is what a packet's payload is in the words of an upper protocol.
type Upper uint8

// What payloads are. NVMe's opcodes mean one thing in the admin queue and
// another in those for I/O, and what a response says depends on its command.
const (
	UpperNone Upper = iota
	UpperNVMeCommand
	UpperNVMeAdmin
	UpperNVMeIO
	UpperNVMeResponse
	UpperNVMeConnectResponse
	UpperNVMePropertyResponse
	UpperNVMeConnect // the data of a Connect command that the controller reads
	UpperNVMePrivate // of CM messages
	UpperRPCRDMA
	UpperRPCPrivate
	UpperISER
	UpperISERPrivate
	UpperSMBDirect
	UpperSMBDirectPart // goes on with a message that an earlier SEND began
	numUppers
)

// upperTable says of each what makes its layers, and its line.
var upperTable = [numUppers]struct {
	name     string
	protocol UpperProtocol
	enlist   func(p *Packet, b []byte, at int)
	line     func(dst, b []byte, u Upper) []byte
	facts    func(b []byte, u Upper) UpperFacts
}{
	UpperNone:                 {name: "none"},
	UpperNVMeCommand:          {"NVMe command", NVMe, enlistNVMeCommand, appendNVMeCommand, nvmeCommandFacts},
	UpperNVMeAdmin:            {"NVMe admin command", NVMe, enlistNVMeCommand, appendNVMeCommand, nvmeCommandFacts},
	UpperNVMeIO:               {"NVMe I/O command", NVMe, enlistNVMeCommand, appendNVMeCommand, nvmeCommandFacts},
	UpperNVMeResponse:         {"NVMe response", NVMe, enlistNVMeResponse, appendNVMeResponse, nvmeResponseFacts},
	UpperNVMeConnectResponse:  {"NVMe response to Connect", NVMe, enlistNVMeResponse, appendNVMeResponse, nvmeResponseFacts},
	UpperNVMePropertyResponse: {"NVMe response to Property Get", NVMe, enlistNVMeResponse, appendNVMeResponse, nvmeResponseFacts},
	UpperNVMeConnect:          {"NVMe Connect data", NVMe, enlistNVMeConnect, appendNVMeConnect, noFacts},
	UpperNVMePrivate:          {"NVMe private data", NVMe, enlistNVMePrivate, nil, noFacts},
	UpperRPCRDMA:              {"RPC-over-RDMA", RPCRDMA, enlistRPC, appendRPC, rpcFacts},
	UpperRPCPrivate:           {"RPC-over-RDMA private data", RPCRDMA, enlistRPCPrivate, nil, noFacts},
	UpperISER:                 {"iSER", ISER, enlistISER, appendISER, iserFacts},
	UpperISERPrivate:          {"iSER private data", ISER, enlistISERPrivate, nil, noFacts},
	UpperSMBDirect:            {"SMB Direct", SMBDirect, enlistSMBD, appendSMBD, smbdFacts},
	UpperSMBDirectPart:        {"SMB Direct, a further part", SMBDirect, enlistSMBD, appendSMBD, smbdFacts},
}

func (u Upper) String() string {
	if u < numUppers {
		return upperTable[u].name
	}
	return "unknown"
}

// Protocol is what the payload belongs to.
func (u Upper) Protocol() UpperProtocol {
	if u < numUppers {
		return upperTable[u].protocol
	}
	return NoUpper
}

// Upper is what SetUpper was told; UpperNone without.
func (p *Packet) Upper() Upper {
	if p.nlisted > 0 && p.list[p.nlisted-1].layer.Upper() {
		return p.upper
	}
	return UpperNone
}

// SetUpper tells a decoded packet what its payload is, or the private data of
// its CM message: it then has the layers of the protocol, as far as their bytes
// are in the packet and captured. UpperNone takes them away.
func (p *Packet) SetUpper(frame []byte, u Upper) {
	for p.nlisted > 0 && p.list[p.nlisted-1].layer.Upper() {
		p.nlisted--
	}
	if u == UpperNone || u >= numUppers {
		return
	}
	p.upper = u
	at := int(p.payload)
	b := p.Payload(frame)
	if p.Has(LayerMAD) {
		at, b = p.consumerPrivate(frame)
	}
	if b != nil {
		upperTable[u].enlist(p, b, at)
	}
}

// consumerPrivate is where a CM message has what the application said, and the
// captured part of it.
func (p *Packet) consumerPrivate(frame []byte) (at int, b []byte) {
	m, ok := p.CM(frame)
	if !ok {
		return 0, nil
	}
	switch b = m.Data; m.Attribute {
	case CMAttrREQ:
		b = CMREQ(b).ConsumerPrivate()
	case CMAttrREP:
		b = CMREP(b).Private()
	case CMAttrREJ:
		b = CMREJ(b).Private()
	default:
		return 0, nil
	}
	return int(p.payload) + madHeaderSize + len(m.Data) - len(b), b
}

// AppendUpper appends what the payload says as one line, with the protocol in
// front.
func (p *Packet) AppendUpper(dst, frame []byte) []byte {
	return AppendUpper(dst, p.Payload(frame), p.Upper())
}

// AppendUpper appends what a message's beginning says as one line.
func AppendUpper(dst, payload []byte, u Upper) []byte {
	if u >= numUppers || upperTable[u].line == nil {
		return dst
	}
	return upperTable[u].line(dst, payload, u)
}

// MaxUpperKeys is how many keys of a message UpperFacts holds.
const MaxUpperKeys = 16

// UpperFacts is what a message says that is needed to find the others that
// belong to it.
type UpperFacts struct {
	Request, Response bool
	Failed            bool   // a response that tells an error
	ID                uint64 // request and response have the same
	Code              uint32 // of requests: which
	NumKeys           int
	Keys              [MaxUpperKeys]uint32 // of the sender's memory that its other side may read or write
}

func (f *UpperFacts) addKey(k uint32) {
	if f.NumKeys < MaxUpperKeys {
		f.Keys[f.NumKeys] = k
		f.NumKeys++
	}
}

// UpperFactsOf reads a message's beginning.
func UpperFactsOf(payload []byte, u Upper) UpperFacts {
	if u == UpperNone || u >= numUppers {
		return UpperFacts{}
	}
	return upperTable[u].facts(payload, u)
}

func noFacts([]byte, Upper) UpperFacts { return UpperFacts{} }

func le16(b []byte) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }

// allZero reports whether there is nothing but zeros.
func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// named is a name of a table, or the number in hexadecimal.
func named(names map[uint64]string, v uint64) string {
	if n := names[v]; n != "" {
		return n
	}
	return hexNote(v)
}

// nameIn makes the Values of a field from a table.
func nameIn(names func() map[uint64]string) func(uint64) string {
	return func(v uint64) string { return names()[v] }
}

// appendKV appends a space, a label and a number.
func appendKV(dst []byte, label string, v uint64) []byte {
	dst = append(append(dst, ' '), label...)
	return append(append(dst, '='), decimal(v)...)
}

// appendKX is appendKV in hexadecimal.
func appendKX(dst []byte, label string, v uint64) []byte {
	dst = append(append(dst, ' '), label...)
	return append(append(dst, '='), hexNote(v)...)
}
