package dissect

const (
	ddpTaggedSize   = 14
	ddpUntaggedSize = 18
)

// DDP is the header of a DDP segment, and the RDMAP header that shares it: a
// control word, then what a tagged or an untagged segment needs (RFC 5041, 4;
// RFC 5040, 4).
type DDP []byte

// Tagged returns the T bit: the segment names the buffer that it goes to.
func (h DDP) Tagged() bool { return h[0]&0x80 != 0 }

// Last returns the L bit: the segment is the last of its message.
func (h DDP) Last() bool { return h[0]&0x40 != 0 }

// Version returns DDP's version, 1.
func (h DDP) Version() uint8 { return h[0] & 3 }

// RDMAPVersion returns RDMAP's version, 1 (0 of the RDMA Consortium's).
func (h DDP) RDMAPVersion() uint8 { return h[1] >> 6 }

// Reserved returns the reserved bits of both protocols.
func (h DDP) Reserved() uint8 { return h[0]>>2&15<<2 | h[1]>>4&3 }

// Opcode returns RDMAP's opcode.
func (h DDP) Opcode() RDMAPOpcode { return RDMAPOpcode(h[1] & 15) }

// STag returns a tagged segment's steering tag, or the one that an untagged
// message asks to invalidate.
func (h DDP) STag() uint32 { return be32(h[2:]) }

// TO returns a tagged segment's offset in its buffer.
func (h DDP) TO() uint64 { return be64(h[6:]) }

// QN returns an untagged segment's queue.
func (h DDP) QN() uint32 { return be32(h[6:]) }

// MSN returns the number of an untagged segment's message in its queue,
// beginning at 1.
func (h DDP) MSN() uint32 { return be32(h[10:]) }

// MO returns an untagged segment's offset in its message.
func (h DDP) MO() uint32 { return be32(h[14:]) }

// Size is the length of the header: 14 bytes tagged, 18 untagged.
func (h DDP) Size() int {
	if h.Tagged() {
		return ddpTaggedSize
	}
	return ddpUntaggedSize
}

// RDMAPOpcode is an opcode of RDMAP (RFC 5040, 4.3; RFC 7306, 4).
type RDMAPOpcode uint8

// The opcodes.
const (
	RDMAPWrite RDMAPOpcode = iota
	RDMAPReadRequest
	RDMAPReadResponse
	RDMAPSend
	RDMAPSendInvalidate
	RDMAPSendSE
	RDMAPSendSEInvalidate
	RDMAPTerminate
	RDMAPImmediate
	RDMAPImmediateSE
	RDMAPAtomicRequest
	RDMAPAtomicResponse
	numRDMAPOpcodes
)

// RDMAPInfo is a row of the table of RDMAP's opcodes.
type RDMAPInfo struct {
	Name   string
	Tagged bool
	Queue  uint32 // of an untagged message
	Size   int    // least bytes of a ULPDU
	header Layer  // behind that of DDP; LayerFrame without
}

// rdmapOpcodes is the table of RDMAP's opcodes (RFC 5040, figures 3 and 4; RFC
// 7306, figures 2 and 3).
var rdmapOpcodes = [numRDMAPOpcodes]RDMAPInfo{
	RDMAPWrite:            {"Write", true, 0, ddpTaggedSize, LayerFrame},
	RDMAPReadRequest:      {"Read Request", false, 1, ddpUntaggedSize + 28, LayerRDMAPReadRequest},
	RDMAPReadResponse:     {"Read Response", true, 0, ddpTaggedSize, LayerFrame},
	RDMAPSend:             {"Send", false, 0, ddpUntaggedSize, LayerFrame},
	RDMAPSendInvalidate:   {"Send with Invalidate", false, 0, ddpUntaggedSize, LayerFrame},
	RDMAPSendSE:           {"Send with Solicited Event", false, 0, ddpUntaggedSize, LayerFrame},
	RDMAPSendSEInvalidate: {"Send with Solicited Event and Invalidate", false, 0, ddpUntaggedSize, LayerFrame},
	RDMAPTerminate:        {"Terminate", false, 2, ddpUntaggedSize + 4, LayerRDMAPTerminate},
	RDMAPImmediate:        {"Immediate Data", false, 0, ddpUntaggedSize + 8, LayerRDMAPImmediate},
	RDMAPImmediateSE:      {"Immediate Data with Solicited Event", false, 0, ddpUntaggedSize + 8, LayerRDMAPImmediate},
	RDMAPAtomicRequest:    {"Atomic Request", false, 1, ddpUntaggedSize + 52, LayerRDMAPAtomicRequest},
	RDMAPAtomicResponse:   {"Atomic Response", false, 3, ddpUntaggedSize + 12, LayerRDMAPAtomicResponse},
}

// Info returns the opcode's row, nil of an opcode that no text defines.
func (o RDMAPOpcode) Info() *RDMAPInfo {
	if o < numRDMAPOpcodes {
		return &rdmapOpcodes[o]
	}
	return nil
}

func (o RDMAPOpcode) String() string {
	if i := o.Info(); i != nil {
		return i.Name
	}
	return "reserved opcode " + decimal(uint64(o))
}

// RDMAPRead is what a Read Request says behind the DDP header (RFC 5040, 4.4).
type RDMAPRead []byte

// SinkSTag names the requester's buffer.
func (h RDMAPRead) SinkSTag() uint32 { return be32(h) }

// SinkTO is the offset in the requester's buffer.
func (h RDMAPRead) SinkTO() uint64 { return be64(h[4:]) }

// Length is the number of bytes asked for.
func (h RDMAPRead) Length() uint32 { return be32(h[12:]) }

// SourceSTag names the responder's buffer.
func (h RDMAPRead) SourceSTag() uint32 { return be32(h[16:]) }

// SourceTO is the offset in the responder's buffer.
func (h RDMAPRead) SourceTO() uint64 { return be64(h[20:]) }

// RDMAPAtomic is what an Atomic Request says behind the DDP header (RFC 7306,
// 5.2.1).
type RDMAPAtomic []byte

// Operation returns 0 fetch and add, 2 compare and swap, or another.
func (h RDMAPAtomic) Operation() uint8 { return h[3] & 15 }

// ID returns the request's number, which the response repeats.
func (h RDMAPAtomic) ID() uint32 { return be32(h[4:]) }

// STag names the remote buffer.
func (h RDMAPAtomic) STag() uint32 { return be32(h[8:]) }

// TO is the offset in the remote buffer.
func (h RDMAPAtomic) TO() uint64 { return be64(h[12:]) }

// Data is what is added or swapped in.
func (h RDMAPAtomic) Data() uint64 { return be64(h[20:]) }

// Compare is what a compare and swap compares with.
func (h RDMAPAtomic) Compare() uint64 { return be64(h[36:]) }

// Terminated is what a Terminate message says (RFC 5040, 4.8).
type Terminated uint16

// Terminated returns the layer, type and code of a Terminate message's control.
func (h DDP) Terminated() Terminated { return Terminated(be16(h[ddpUntaggedSize:])) }

// Layer returns which protocol found the error: 0 RDMAP, 1 DDP, 2 MPA.
func (t Terminated) Layer() uint8 { return uint8(t >> 12) }

// Type returns the kind of error.
func (t Terminated) Type() uint8 { return uint8(t >> 8 & 15) }

// Code returns the error.
func (t Terminated) Code() uint8 { return uint8(t) }

// terminations are the errors that a Terminate message can tell (RFC 5040,
// 4.8; RFC 5041, 8; RFC 5044, 8; RFC 6581, 7; RFC 7306, 8).
var terminations = [...]struct {
	layer, kind uint8
	codes       map[uint8]string
}{
	{0, 0, map[uint8]string{0: "local catastrophic error"}},
	{0, 1, map[uint8]string{
		0: "invalid STag", 1: "base or bounds violation", 2: "access rights violation", 3: "STag not associated with the stream",
		4: "TO wrap", 9: "STag cannot be invalidated", 0xFF: "unspecified error",
	}},
	{0, 2, map[uint8]string{
		5: "invalid RDMAP version", 6: "unexpected opcode", 7: "catastrophic error, localized to the stream", 8: "catastrophic error, global",
		9: "STag cannot be invalidated", 0xFF: "unspecified error",
	}},
	{1, 0, map[uint8]string{0: "local catastrophic error"}},
	{1, 1, map[uint8]string{0: "invalid STag", 1: "base or bounds violation", 2: "STag not associated with the stream", 3: "TO wrap", 4: "invalid DDP version"}},
	{1, 2, map[uint8]string{
		1: "invalid queue number", 2: "invalid MSN: no buffer available", 3: "invalid MSN: out of range", 4: "invalid message offset",
		5: "message too long for the buffer", 6: "invalid DDP version",
	}},
	{2, 0, map[uint8]string{
		1: "TCP connection closed, terminated or lost", 2: "received CRC does not match the calculated one", 3: "received marker and ULPDU length disagree on the FPDU's start",
		4: "invalid MPA request or reply frame", 5: "local catastrophic error", 6: "insufficient IRD resources", 7: "no matching RTR option",
	}},
}

var (
	terminatedLayers = [...]string{"RDMAP", "DDP", "MPA"}
	terminatedTypes  = [3][3]string{
		{"local catastrophic error", "remote protection error", "remote operation error"},
		{"local catastrophic error", "tagged buffer error", "untagged buffer error"},
		{"MPA error", "", ""},
	}
)

func (t Terminated) String() string {
	l := t.Layer()
	if int(l) >= len(terminatedLayers) {
		return "layer " + decimal(uint64(l)) + ", type " + decimal(uint64(t.Type())) + ", code " + decimal(uint64(t.Code()))
	}
	kind := "type " + decimal(uint64(t.Type()))
	if t.Type() < 3 && terminatedTypes[l][t.Type()] != "" {
		kind = terminatedTypes[l][t.Type()]
	}
	what := "code " + decimal(uint64(t.Code()))
	for i := range terminations {
		if x := &terminations[i]; x.layer == l && x.kind == t.Type() && x.codes[t.Code()] != "" {
			what = x.codes[t.Code()]
		}
	}
	if what == kind {
		return terminatedLayers[l] + ": " + what
	}
	return terminatedLayers[l] + ": " + kind + ": " + what
}

var ddpFields = append(append(ddpRows(LayerDDPTagged), ddpRows(LayerDDPUntagged)...), []Field{
	{Name: "iwarp_ddp.stag", Text: "Steering tag", Layer: LayerDDPTagged, Bit: 16, Width: 32, Kind: Hex},
	{Name: "iwarp_ddp.tagged_offset", Text: "Tagged offset", Layer: LayerDDPTagged, Bit: 48, Width: 64, Kind: Hex},
	{Name: "iwarp_rdma.inval_stag", Text: "Steering tag to invalidate", Layer: LayerDDPUntagged, Bit: 16, Width: 32, Kind: Dec, When: invalidates, Values: hexNote},
	{Name: "iwarp_ddp.qn", Text: "Queue number", Layer: LayerDDPUntagged, Bit: 48, Width: 32, Kind: Dec},
	{Name: "iwarp_ddp.msn", Text: "Message sequence number", Layer: LayerDDPUntagged, Bit: 80, Width: 32, Kind: Dec},
	{Name: "iwarp_ddp.mo", Text: "Message offset", Layer: LayerDDPUntagged, Bit: 112, Width: 32, Kind: Dec},
}...)

func ddpRows(l Layer) []Field {
	return []Field{
		{Name: "iwarp_ddp.tagged_flag", Text: "Tagged", Layer: l, Bit: 0, Width: 1, Kind: Bool},
		{Name: "iwarp_ddp.last_flag", Text: "Last segment", Layer: l, Bit: 1, Width: 1, Kind: Bool},
		{Name: "iwarp_ddp.rsvd", Text: "Reserved", Layer: l, Bit: 2, Width: 4, Kind: Hex},
		{Name: "iwarp_ddp.dv", Text: "DDP version", Layer: l, Bit: 6, Width: 2, Kind: Dec},
		{Name: "iwarp_rdma.version", Text: "RDMAP version", Layer: l, Bit: 8, Width: 2, Kind: Dec},
		{Name: "iwarp_rdma.rsv", Text: "Reserved", Layer: l, Bit: 10, Width: 2, Kind: Hex},
		{Name: "iwarp_rdma.opcode", Text: "RDMAP opcode", Layer: l, Bit: 12, Width: 4, Kind: Hex, Values: rdmapName},
	}
}

func invalidates(p *Packet, frame []byte) bool {
	at := p.find(LayerDDPUntagged)
	if at < 0 || at+2 > len(frame) {
		return false
	}
	op := DDP(frame[at:]).Opcode()
	return op == RDMAPSendInvalidate || op == RDMAPSendSEInvalidate
}

func rdmapName(v uint64) string { return RDMAPOpcode(v).String() }

var rdmapFields = []Field{
	{Name: "iwarp_rdma.sinkstag", Text: "Data sink steering tag", Layer: LayerRDMAPReadRequest, Bit: 0, Width: 32, Kind: Hex},
	{Name: "iwarp_rdma.sinkto", Text: "Data sink tagged offset", Layer: LayerRDMAPReadRequest, Bit: 32, Width: 64, Kind: Hex},
	{Name: "iwarp_rdma.rdmardsz", Text: "Read message size", Layer: LayerRDMAPReadRequest, Bit: 96, Width: 32, Kind: Dec},
	{Name: "iwarp_rdma.srcstag", Text: "Data source steering tag", Layer: LayerRDMAPReadRequest, Bit: 128, Width: 32, Kind: Hex},
	{Name: "iwarp_rdma.srcto", Text: "Data source tagged offset", Layer: LayerRDMAPReadRequest, Bit: 160, Width: 64, Kind: Hex},

	{Name: "iwarp_rdma.term_layer", Text: "Layer that found the error", Layer: LayerRDMAPTerminate, Bit: 0, Width: 4, Kind: Hex, Values: terminatedLayer},
	{Name: "iwarp_rdma.term_etype_rdma", Text: "Error type of RDMAP", Layer: LayerRDMAPTerminate, Bit: 4, Width: 4, Kind: Hex, When: terminatedBy(0, 0xF)},
	{Name: "iwarp_rdma.term_etype_ddp", Text: "Error type of DDP", Layer: LayerRDMAPTerminate, Bit: 4, Width: 4, Kind: Hex, When: terminatedBy(1, 0xF)},
	{Name: "iwarp_rdma.term_etype_llp", Text: "Error type of MPA", Layer: LayerRDMAPTerminate, Bit: 4, Width: 4, Kind: Hex, When: terminatedBy(2, 0xF)},
	{Name: "iwarp_rdma.term_errcode_rdma", Text: "Error code of RDMAP", Layer: LayerRDMAPTerminate, Bit: 8, Width: 8, Kind: Hex, When: terminatedBy(0, 0xF)},
	{Name: "iwarp_rdma.term_errcode_ddp_tagged", Text: "Error code of a tagged buffer", Layer: LayerRDMAPTerminate, Bit: 8, Width: 8, Kind: Hex, When: terminatedBy(1, 1)},
	{Name: "iwarp_rdma.term_errcode_ddp_untagged", Text: "Error code of an untagged buffer", Layer: LayerRDMAPTerminate, Bit: 8, Width: 8, Kind: Hex, When: terminatedBy(1, 2)},
	{Name: "iwarp_rdma.term_errcode_llp", Text: "Error code of MPA", Layer: LayerRDMAPTerminate, Bit: 8, Width: 8, Kind: Hex, When: terminatedBy(2, 0xF)},
	{Name: "iwarp_rdma.term_hdrct_m", Text: "The offending segment's length is valid", Layer: LayerRDMAPTerminate, Bit: 16, Width: 1, Kind: Bool},
	{Name: "iwarp_rdma.term_error", Text: "Error", Layer: LayerRDMAPTerminate, Bit: 0, Width: 16, Kind: Text, Values: terminatedName},

	{Name: "iwarp_rdma.atomic.opcode", Text: "Atomic operation", Layer: LayerRDMAPAtomicRequest, Bit: 28, Width: 4, Kind: Dec, Values: atomicName},
	{Name: "iwarp_rdma.atomic.request_identifier", Text: "Request identifier", Layer: LayerRDMAPAtomicRequest, Bit: 32, Width: 32, Kind: Dec},
	{Name: "iwarp_rdma.atomic.remote_stag", Text: "Remote steering tag", Layer: LayerRDMAPAtomicRequest, Bit: 64, Width: 32, Kind: Dec, Values: hexNote},
	{Name: "iwarp_rdma.atomic.remote_tagged_offset", Text: "Remote tagged offset", Layer: LayerRDMAPAtomicRequest, Bit: 96, Width: 64, Kind: Dec, Values: hexNote},
	{Name: "iwarp_rdma.atomic.add_data", Text: "Add data", Layer: LayerRDMAPAtomicRequest, Bit: 160, Width: 64, Kind: Dec, When: atomicIs(0)},
	{Name: "iwarp_rdma.atomic.add_mask", Text: "Add mask", Layer: LayerRDMAPAtomicRequest, Bit: 224, Width: 64, Kind: Hex, When: atomicIs(0)},
	{Name: "iwarp_rdma.atomic.swap_data", Text: "Swap data", Layer: LayerRDMAPAtomicRequest, Bit: 160, Width: 64, Kind: Dec, When: atomicIs(2)},
	{Name: "iwarp_rdma.atomic.swap_mask", Text: "Swap mask", Layer: LayerRDMAPAtomicRequest, Bit: 224, Width: 64, Kind: Hex, When: atomicIs(2)},
	{Name: "iwarp_rdma.atomic.compare_data", Text: "Compare data", Layer: LayerRDMAPAtomicRequest, Bit: 288, Width: 64, Kind: Dec},
	{Name: "iwarp_rdma.atomic.compare_mask", Text: "Compare mask", Layer: LayerRDMAPAtomicRequest, Bit: 352, Width: 64, Kind: Hex},
	{Name: "iwarp_rdma.atomic.original_request_identifier", Text: "Identifier of the request", Layer: LayerRDMAPAtomicResponse, Bit: 0, Width: 32, Kind: Dec},
	{Name: "iwarp_rdma.atomic.original_remote_data_value", Text: "Value before", Layer: LayerRDMAPAtomicResponse, Bit: 32, Width: 64, Kind: Dec},
	{Name: "iwarp_rdma.immediate", Text: "Immediate data", Layer: LayerRDMAPImmediate, Bit: 0, Width: 64, Kind: Hex},
}

func terminatedLayer(v uint64) string {
	if v < uint64(len(terminatedLayers)) {
		return terminatedLayers[v]
	}
	return ""
}

func terminatedName(v uint64) string { return Terminated(v).String() }

// terminatedBy is true of Terminate messages of one layer, and of one type of
// error unless that is 0xF.
func terminatedBy(layer, kind uint8) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		at := p.find(LayerRDMAPTerminate)
		if at < 0 || at+2 > len(frame) {
			return false
		}
		t := Terminated(be16(frame[at:]))
		return t.Layer() == layer && (kind == 0xF || t.Type() == kind)
	}
}

func atomicIs(op uint8) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		at := p.find(LayerRDMAPAtomicRequest)
		return at >= 0 && at+4 <= len(frame) && RDMAPAtomic(frame[at:]).Operation() == op
	}
}

func atomicName(v uint64) string {
	switch v {
	case 0:
		return "fetch and add"
	case 2:
		return "compare and swap"
	}
	return ""
}
