package dissect

import (
	"bytes"
	"sync"
)

// NVMe over Fabrics by its RDMA transport (NVM Express Base Specification 2.0,
// 3.3.2 and 6; NVM Express RDMA Transport Specification 1.0, 3). A command
// capsule is a submission queue entry and perhaps data, a response capsule a
// completion queue entry. All numbers are little-endian.

const (
	nvmePrivateSize  = 32
	nvmeRejectSize   = 4
	nvmeCommandSize  = 64
	nvmeResponseSize = 16
	nvmeConnectSize  = 768  // up to the end of the host's name
	nvmeConnectData  = 1024 // all of it
)

// Opcodes and fabrics command types that matter below.
const (
	nvmeOpcFabrics    = 0x7F
	nvmePropertySet   = 0x00
	nvmeConnect       = 0x01
	nvmePropertyGet   = 0x04
	nvmeKeyedData     = 4 // SGL descriptor type
	nvmeInvalidateKey = 0xF
)

// The codes of two commands in UpperFacts.Code: opcode, and type of a fabrics
// command above it.
const (
	NVMeConnectCode     = nvmeOpcFabrics | nvmeConnect<<8
	NVMePropertyGetCode = nvmeOpcFabrics | nvmePropertyGet<<8
)

// NVMeCommand is a submission queue entry.
type NVMeCommand []byte

// Opcode returns the opcode; fabrics commands all have 0x7f.
func (c NVMeCommand) Opcode() uint8 { return c[0] }

// CID returns the command's identifier, which its response repeats.
func (c NVMeCommand) CID() uint16 { return le16(c[2:]) }

// FabricsType returns which fabrics command it is; ok is false of others.
func (c NVMeCommand) FabricsType() (t uint8, ok bool) { return c[4], c[0] == nvmeOpcFabrics }

// NSID returns the namespace.
func (c NVMeCommand) NSID() uint32 { return le32(c[4:]) }

// Key returns the key of the host's memory that the data is in or goes to; ok
// is false where the command names none.
func (c NVMeCommand) Key() (key uint32, ok bool) { return le32(c[35:]), c[39]>>4 == nvmeKeyedData }

// Length returns how much data the command's SGL describes.
func (c NVMeCommand) Length() uint32 {
	if c[39]>>4 == nvmeKeyedData {
		return uint32(le16(c[32:])) | uint32(c[34])<<16
	}
	return le32(c[32:])
}

// ConnectQueue returns the queue that a Connect command is for; ok is false of
// other commands.
func (c NVMeCommand) ConnectQueue() (id uint16, ok bool) {
	t, ok := c.FabricsType()
	return le16(c[42:]), ok && t == nvmeConnect
}

// IsPropertyGet reports whether the command's response has a property's value.
func (c NVMeCommand) IsPropertyGet() bool {
	t, ok := c.FabricsType()
	return ok && t == nvmePropertyGet
}

// NVMeCommandOf returns the command of a capsule, nil where b is too short for
// one.
func NVMeCommandOf(b []byte) NVMeCommand {
	if len(b) < nvmeCommandSize {
		return nil
	}
	return b[:nvmeCommandSize:nvmeCommandSize]
}

// IsNVMeResponse reports whether a SEND of so many bytes on a connection of NVMe
// is a response capsule: these have one size, which is too short for a command.
func IsNVMeResponse(n int) bool { return n == nvmeResponseSize }

// NVMeQueueOf returns the queue that the private data of a REQ is for.
func NVMeQueueOf(private []byte) (id uint16, ok bool) {
	if len(private) < 8 || le16(private) != 0 {
		return 0, false
	}
	return le16(private[2:]), true
}

// isNVMeOpening reports whether a capsule is a Connect command, with or without
// its data: of its 64 bytes more than 40 have one possible value.
func isNVMeOpening(b []byte, whole bool) bool {
	if len(b) < nvmeCommandSize || b[0] != nvmeOpcFabrics || b[4] != nvmeConnect || b[1]&0xC0 != 0x40 || b[1]&0x3F != 0 {
		return false
	}
	c := NVMeCommand(b)
	if !allZero(b[5:24]) || c.Length() != nvmeConnectData || le16(b[40:]) != 0 || b[47] != 0 || !allZero(b[52:64]) {
		return false
	}
	if b[39]>>4 == nvmeKeyedData {
		return whole && len(b) == nvmeCommandSize
	}
	return b[39] == 0x01 && len(b) >= nvmeCommandSize+nvmeConnectSize && bytes.HasPrefix(b[nvmeCommandSize+256:], []byte("nqn.")) &&
		bytes.HasPrefix(b[nvmeCommandSize+512:], []byte("nqn."))
}

func enlistNVMeCommand(p *Packet, b []byte, at int) {
	if len(b) < nvmeCommandSize {
		return
	}
	p.enlist(LayerNVMeCommand, at)
	if _, ok := NVMeCommand(b).ConnectQueue(); ok && len(b) >= nvmeCommandSize+nvmeConnectSize {
		p.enlist(LayerNVMeConnect, at+nvmeCommandSize)
	}
}

func enlistNVMeConnect(p *Packet, b []byte, at int) {
	if len(b) >= nvmeConnectSize {
		p.enlist(LayerNVMeConnect, at)
	}
}

func enlistNVMeResponse(p *Packet, b []byte, at int) {
	if len(b) >= nvmeResponseSize {
		p.enlist(LayerNVMeResponse, at)
	}
}

// enlistNVMePrivate takes the private data of a CM message.
func enlistNVMePrivate(p *Packet, b []byte, at int) {
	switch {
	case p.Has(LayerCMREQ) && len(b) >= nvmePrivateSize:
		p.enlist(LayerNVMeRequest, at)
	case p.Has(LayerCMREP) && len(b) >= nvmePrivateSize:
		p.enlist(LayerNVMeAccept, at)
	case p.Has(LayerCMREJ) && len(b) >= nvmeRejectSize:
		p.enlist(LayerNVMeReject, at)
	}
}

func nvmeCommandFacts(b []byte, _ Upper) (f UpperFacts) {
	if len(b) < nvmeCommandSize {
		return f
	}
	c := NVMeCommand(b)
	f.Request, f.ID, f.Code = true, uint64(c.CID()), uint32(c.Opcode())
	if t, ok := c.FabricsType(); ok {
		f.Code |= uint32(t) << 8
	}
	if k, ok := c.Key(); ok && c.Length() > 0 {
		f.addKey(k)
	}
	return f
}

func nvmeResponseFacts(b []byte, _ Upper) (f UpperFacts) {
	if len(b) >= nvmeResponseSize {
		f.Response, f.ID, f.Failed = true, uint64(le16(b[12:])), le16(b[14:])>>1 != 0
	}
	return f
}

func appendNVMeCommand(dst, b []byte, u Upper) []byte {
	if len(b) < nvmeCommandSize {
		return dst
	}
	c := NVMeCommand(b)
	dst = append(dst, "NVMe "...)
	t, fabrics := c.FabricsType()
	if fabrics {
		dst = append(dst, named(nvmeFabricsTypes(), uint64(t))...)
	} else {
		dst = append(dst, nvmeOpcodeName(u, c.Opcode())...)
	}
	dst = appendKV(dst, "CID", uint64(c.CID()))
	switch {
	case fabrics && t == nvmeConnect:
		dst = appendKV(dst, "Queue", uint64(le16(c[42:])))
	case fabrics && (t == nvmePropertyGet || t == nvmePropertySet):
		dst = append(append(dst, ' '), named(nvmeProperties(), uint64(le32(c[44:])))...)
		if t == nvmePropertySet {
			dst = append(append(dst, '='), hexNote(nvmeValue(c[40]&7, le64(c[48:])))...)
		}
	case fabrics:
	default:
		dst = appendKX(dst, "NSID", uint64(c.NSID()))
		if nvmeHasLBA(u, c) {
			dst = appendKX(dst, "LBA", le64(c[40:]))
			dst = appendKV(dst, "Blocks", uint64(le16(c[48:]))+1)
		}
	}
	if k, ok := c.Key(); ok && c.Length() > 0 {
		dst = appendKV(dst, "Len", uint64(c.Length()))
		dst = appendKX(dst, "Key", uint64(k))
	}
	return dst
}

// nvmeValue is a property's value of 4 or 8 bytes.
func nvmeValue(size uint8, v uint64) uint64 {
	if size == 0 {
		return uint64(uint32(v))
	}
	return v
}

// nvmeHasLBA reports whether the command has a first block and a number of them.
func nvmeHasLBA(u Upper, c NVMeCommand) bool {
	switch c.Opcode() {
	case 0x01, 0x02, 0x04, 0x05, 0x08, 0x0C:
		return u == UpperNVMeIO
	}
	return false
}

func appendNVMeResponse(dst, b []byte, u Upper) []byte {
	if len(b) < nvmeResponseSize {
		return dst
	}
	dst = append(dst, "NVMe response"...)
	dst = appendKV(dst, "CID", uint64(le16(b[12:])))
	dst = append(append(dst, ": "...), nvmeStatus(u, le16(b[14:]))...)
	switch {
	case le16(b[14:])>>1 != 0:
	case u == UpperNVMeConnectResponse:
		dst = appendKV(dst, "Controller", uint64(le16(b)))
	case u == UpperNVMePropertyResponse:
		dst = appendKX(dst, "Value", le64(b))
	}
	return dst
}

func appendNVMeConnect(dst, b []byte, _ Upper) []byte {
	if len(b) < nvmeConnectSize {
		return dst
	}
	dst = append(dst, "NVMe Connect data Subsystem="...)
	name, _, _ := bytes.Cut(b[256:512], []byte{0})
	return appendString(dst, name)
}

// nvmeStatus puts a status field into words: type and code, which mean another
// thing for Connect than for others.
func nvmeStatus(u Upper, v uint16) string {
	code, kind := uint64(v>>1&0xFF), uint64(v>>9&7)
	name := nvmeStatuses()[kind<<8|code]
	if kind == 1 {
		if name = ""; u == UpperNVMeConnectResponse {
			name = nvmeConnectStatuses()[code]
		}
	}
	if name == "" {
		name = "status type " + decimal(kind) + " code " + hexNote(code)
	}
	if v&0x8000 != 0 && v>>1&0x7FF != 0 {
		name += ", do not retry"
	}
	return name
}

func nvmeOpcodeName(u Upper, op uint8) string {
	io, admin := named(nvmeIOOpcodes(), uint64(op)), named(nvmeAdminOpcodes(), uint64(op))
	switch {
	case u == UpperNVMeIO:
		return io
	case u == UpperNVMeAdmin, io == admin:
		return admin
	}
	return admin + " or " + io
}

// nvmeField makes rows for the layers of NVMe; offset and length are in bytes.
func nvmeField(l Layer, name, text string, at, size int, k Kind) Field {
	return Field{Name: name, Text: text, Layer: l, Bit: uint16(8 * at), Width: uint16(8 * size), Kind: k, Little: k == Dec || k == Hex}
}

func nvmeFields() []Field {
	return []Field{
		nvmeField(LayerNVMeRequest, "nvme-rdma.cm.req.recfmt", "Record format", 0, 2, Dec),
		nvmeField(LayerNVMeRequest, "nvme-rdma.cm.req.qid", "Queue", 2, 2, Dec),
		nvmeField(LayerNVMeRequest, "nvme-rdma.cm.req.hrqsize", "Host's receive queue size", 4, 2, Dec),
		nvmeField(LayerNVMeRequest, "nvme-rdma.cm.req.hsqsize", "Host's send queue size (one less)", 6, 2, Dec),
		nvmeField(LayerNVMeRequest, "nvme-rdma.cm.req.cntlid", "Controller", 8, 2, Hex),
		nvmeField(LayerNVMeAccept, "nvme-rdma.cm.rsp.recfmt", "Record format", 0, 2, Dec),
		nvmeField(LayerNVMeAccept, "nvme-rdma.cm.rsp.crqsize", "Controller's receive queue size", 2, 2, Dec),
		nvmeField(LayerNVMeReject, "nvme-rdma.cm.rej.recfmt", "Record format", 0, 2, Dec),
		{Name: "nvme-rdma.cm.rej.status", Text: "Status", Layer: LayerNVMeReject, Bit: 16, Width: 16, Kind: Hex, Little: true, Values: nameIn(nvmeRejections)},

		{Name: "nvme.cmd.opc", Text: "Opcode", Layer: LayerNVMeCommand, Width: 8, Kind: Hex, Values: nvmeName(UpperNVMeAdmin), When: nvmeCommandIs(UpperNVMeAdmin)},
		{Name: "nvme.cmd.opc", Text: "Opcode", Layer: LayerNVMeCommand, Width: 8, Kind: Hex, Values: nvmeName(UpperNVMeIO), When: nvmeCommandIs(UpperNVMeIO)},
		{Name: "nvme.cmd.opc", Text: "Opcode", Layer: LayerNVMeCommand, Width: 8, Kind: Hex, Values: nvmeName(UpperNVMeCommand), When: nvmeCommandIs(UpperNVMeCommand)},
		{Name: "nvme.cmd.psdt", Text: "PRP or SGL", Layer: LayerNVMeCommand, Bit: 8, Width: 2, Kind: Hex},
		{Name: "nvme.cmd.fuse_op", Text: "Fused operation", Layer: LayerNVMeCommand, Bit: 14, Width: 2, Kind: Hex},
		nvmeField(LayerNVMeCommand, "nvme.cmd.cid", "Command identifier", 2, 2, Hex),
		{Name: "nvme.fabrics.cmd.fctype", Text: "Fabrics command type", Layer: LayerNVMeCommand, Bit: 32, Width: 8, Kind: Hex, Values: nameIn(nvmeFabricsTypes), When: nvmeFabrics},
		{Name: "nvme.cmd.nsid", Text: "Namespace", Layer: LayerNVMeCommand, Bit: 32, Width: 32, Kind: Hex, Little: true, When: nvmeNotFabrics},
		{Name: "nvme.cmd.mptr", Text: "Metadata pointer", Layer: LayerNVMeCommand, Bit: 16 * 8, Width: 64, Kind: Hex, Little: true, When: nvmeNotFabrics},
		nvmeField(LayerNVMeCommand, "nvme.cmd.sgl1.addr", "SGL address", 24, 8, Hex),
		{Name: "nvme.cmd.sgl1.len", Text: "SGL length", Layer: LayerNVMeCommand, Bit: 32 * 8, Width: 24, Kind: Dec, Little: true, When: nvmeKeyed},
		{Name: "nvme.cmd.sgl1.len", Text: "SGL length", Layer: LayerNVMeCommand, Bit: 32 * 8, Width: 32, Kind: Dec, Little: true, When: nvmeNotKeyed},
		{Name: "nvme.cmd.sgl1.key", Text: "SGL key", Layer: LayerNVMeCommand, Bit: 35 * 8, Width: 32, Kind: Hex, Little: true, When: nvmeKeyed},
		{Name: "nvme.cmd.sgl.type", Text: "SGL descriptor type", Layer: LayerNVMeCommand, Bit: 39 * 8, Width: 4, Kind: Hex, Values: nameIn(nvmeSGLTypes)},
		{Name: "nvme.cmd.sgl.subtype", Text: "SGL descriptor subtype", Layer: LayerNVMeCommand, Bit: 39*8 + 4, Width: 4, Kind: Hex, Values: nvmeSubtype},
		{Name: "nvme.cmd.slba", Text: "First logical block", Layer: LayerNVMeCommand, Bit: 40 * 8, Width: 64, Kind: Hex, Little: true, When: nvmeWithLBA},
		{Name: "nvme.cmd.nlb", Text: "Logical blocks (one less)", Layer: LayerNVMeCommand, Bit: 48 * 8, Width: 16, Kind: Dec, Little: true, When: nvmeWithLBA},
		{Name: "nvme.fabrics.cmd.connect.recfmt", Text: "Record format", Layer: LayerNVMeCommand, Bit: 40 * 8, Width: 16, Kind: Dec, Little: true, When: nvmeFabricsIs(nvmeConnect)},
		{Name: "nvme.fabrics.cmd.connect.qid", Text: "Queue", Layer: LayerNVMeCommand, Bit: 42 * 8, Width: 16, Kind: Dec, Little: true, When: nvmeFabricsIs(nvmeConnect)},
		{Name: "nvme.fabrics.cmd.connect.sqsize", Text: "Submission queue size (one less)", Layer: LayerNVMeCommand, Bit: 44 * 8, Width: 16, Kind: Dec, Little: true, When: nvmeFabricsIs(nvmeConnect)},
		{Name: "nvme.fabrics.cmd.connect.cattr", Text: "Connect attributes", Layer: LayerNVMeCommand, Bit: 46 * 8, Width: 8, Kind: Hex, When: nvmeFabricsIs(nvmeConnect)},
		{Name: "nvme.fabrics.cmd.connect.kato", Text: "Keep-alive time-out in ms", Layer: LayerNVMeCommand, Bit: 48 * 8, Width: 32, Kind: Dec, Little: true, When: nvmeFabricsIs(nvmeConnect)},
		{Name: "nvme.fabrics.cmd.prop_get_set.attrib.size", Text: "Property size", Layer: LayerNVMeCommand, Bit: 40*8 + 5, Width: 3, Kind: Hex, Values: nvmePropertySize, When: nvmeProperty},
		{Name: "nvme.fabrics.cmd.prop_get_set.offset", Text: "Property", Layer: LayerNVMeCommand, Bit: 44 * 8, Width: 32, Kind: Hex, Little: true, Values: nameIn(nvmeProperties), When: nvmeProperty},
		{Name: "nvme.fabrics.prop_get_set.data", Text: "Property's value", Layer: LayerNVMeCommand, Bit: 48 * 8, Width: 64, Kind: Bytes, When: nvmeFabricsIs(nvmePropertySet)},
		{Name: "nvme.cmd.dword10", Text: "Double word 10", Layer: LayerNVMeCommand, Bit: 40 * 8, Width: 32, Kind: Hex, Little: true, When: nvmePlain},
		{Name: "nvme.cmd.dword11", Text: "Double word 11", Layer: LayerNVMeCommand, Bit: 44 * 8, Width: 32, Kind: Hex, Little: true, When: nvmePlain},

		{Name: "nvme.fabrics.cmd.connect.data.hostid", Text: "Host identifier", Layer: LayerNVMeConnect, Width: 128, Kind: Bytes},
		nvmeField(LayerNVMeConnect, "nvme.fabrics.cmd.connect.data.cntrlid", "Controller", 16, 2, Hex),
		nvmeField(LayerNVMeConnect, "nvme.fabrics.cmd.connect.data.subnqn", "Subsystem", 256, 256, String),
		nvmeField(LayerNVMeConnect, "nvme.fabrics.cmd.connect.data.hostnqn", "Host", 512, 256, String),

		{Name: "nvme.fabrics.cqe.connect.cntrlid", Text: "Controller", Layer: LayerNVMeResponse, Width: 16, Kind: Hex, Little: true, When: nvmeAnswers(UpperNVMeConnectResponse)},
		{Name: "nvme.fabrics.cqe.connect.authreq", Text: "Authentication required", Layer: LayerNVMeResponse, Bit: 16, Width: 16, Kind: Hex, Little: true, When: nvmeAnswers(UpperNVMeConnectResponse)},
		{Name: "nvme.fabrics.prop_get_set.data", Text: "Property's value", Layer: LayerNVMeResponse, Width: 64, Kind: Bytes, When: nvmeAnswers(UpperNVMePropertyResponse)},
		{Name: "nvme.cqe.dword0", Text: "Double word 0", Layer: LayerNVMeResponse, Width: 32, Kind: Hex, Little: true, When: nvmeAnswers(UpperNVMeResponse)},
		{Name: "nvme.cqe.dword1", Text: "Double word 1", Layer: LayerNVMeResponse, Bit: 32, Width: 32, Kind: Hex, Little: true, When: nvmeAnswers(UpperNVMeResponse)},
		nvmeField(LayerNVMeResponse, "nvme.cqe.sqhd", "Head of the submission queue", 8, 2, Hex),
		nvmeField(LayerNVMeResponse, "nvme.cqe.sqid", "Submission queue", 10, 2, Hex),
		nvmeField(LayerNVMeResponse, "nvme.cqe.cid", "Command identifier", 12, 2, Hex),
		{Name: "nvme.cqe.status", Text: "Status", Layer: LayerNVMeResponse, Bit: 14 * 8, Width: 16, Kind: Hex, Little: true, Values: nvmeStatusName(UpperNVMeResponse), When: nvmeAnswersOther},
		{Name: "nvme.cqe.status", Text: "Status", Layer: LayerNVMeResponse, Bit: 14 * 8, Width: 16, Kind: Hex, Little: true, Values: nvmeStatusName(UpperNVMeConnectResponse), When: nvmeAnswers(UpperNVMeConnectResponse)},
		{Name: "nvme.cqe.status.sc", Text: "Status code", Layer: LayerNVMeResponse, Kind: Hex, Digits: 2, Get: nvmeStatusBits(1, 8)},
		{Name: "nvme.cqe.status.sct", Text: "Status code type", Layer: LayerNVMeResponse, Kind: Hex, Digits: 1, Get: nvmeStatusBits(9, 3), Values: nameIn(nvmeStatusTypes)},
		{Name: "nvme.cqe.status.crd", Text: "Command retry delay", Layer: LayerNVMeResponse, Bit: 15*8 + 2, Width: 2, Kind: Hex},
		{Name: "nvme.cqe.status.m", Text: "More in the log page", Layer: LayerNVMeResponse, Bit: 15*8 + 1, Width: 1, Kind: Bool},
		{Name: "nvme.cqe.status.dnr", Text: "Do not retry", Layer: LayerNVMeResponse, Bit: 15 * 8, Width: 1, Kind: Bool},
	}
}

func nvmeName(u Upper) func(uint64) string {
	return func(v uint64) string { return nvmeOpcodeName(u, uint8(v)) }
}

func nvmeStatusName(u Upper) func(uint64) string {
	return func(v uint64) string { return nvmeStatus(u, uint16(v)) }
}

func nvmeStatusBits(shift, width uint) func(*Packet, []byte) (uint64, bool) {
	return func(p *Packet, frame []byte) (uint64, bool) {
		b := p.view(frame, LayerNVMeResponse, nvmeResponseSize)
		if b == nil {
			return 0, false
		}
		return uint64(le16(b[14:])>>shift) & (1<<width - 1), true
	}
}

func nvmeCommandIs(u Upper) func(*Packet, []byte) bool {
	return func(p *Packet, _ []byte) bool { return p.upper == u }
}

func nvmeAnswers(u Upper) func(*Packet, []byte) bool {
	return func(p *Packet, _ []byte) bool { return p.upper == u }
}

func nvmeAnswersOther(p *Packet, _ []byte) bool { return p.upper != UpperNVMeConnectResponse }

// nvmeWhen makes a condition on the command.
func nvmeWhen(is func(p *Packet, c NVMeCommand) bool) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		c := p.view(frame, LayerNVMeCommand, nvmeCommandSize)
		return c != nil && is(p, c)
	}
}

func nvmeFabricsIs(t uint8) func(*Packet, []byte) bool {
	return nvmeWhen(func(_ *Packet, c NVMeCommand) bool { is, ok := c.FabricsType(); return ok && is == t })
}

var (
	nvmeFabrics    = nvmeWhen(func(_ *Packet, c NVMeCommand) bool { return c[0] == nvmeOpcFabrics })
	nvmeNotFabrics = nvmeWhen(func(_ *Packet, c NVMeCommand) bool { return c[0] != nvmeOpcFabrics })
	nvmeKeyed      = nvmeWhen(func(_ *Packet, c NVMeCommand) bool { return c[39]>>4 == nvmeKeyedData })
	nvmeNotKeyed   = nvmeWhen(func(_ *Packet, c NVMeCommand) bool { return c[39]>>4 != nvmeKeyedData })
	nvmeWithLBA    = nvmeWhen(func(p *Packet, c NVMeCommand) bool { return nvmeHasLBA(p.upper, c) })
	nvmePlain      = nvmeWhen(func(p *Packet, c NVMeCommand) bool { return c[0] != nvmeOpcFabrics && !nvmeHasLBA(p.upper, c) })
	nvmeProperty   = nvmeWhen(func(_ *Packet, c NVMeCommand) bool {
		t, ok := c.FabricsType()
		return ok && (t == nvmePropertyGet || t == nvmePropertySet)
	})
)

func nvmePropertySize(v uint64) string {
	switch v {
	case 0:
		return "4 bytes"
	case 1:
		return "8 bytes"
	}
	return ""
}

func nvmeSubtype(v uint64) string {
	switch v {
	case 0:
		return "address"
	case 1:
		return "offset"
	case nvmeInvalidateKey:
		return "address, key to be invalidated"
	}
	return ""
}

// The names of numbers, made when they are first asked for.
var (
	nvmeRejections = sync.OnceValue(func() map[uint64]string { // RDMA Transport Specification, figure 4
		return map[uint64]string{
			1: "invalid private data length", 2: "invalid record format", 3: "invalid queue identifier", 4: "invalid host send queue size",
			5: "invalid host receive queue size", 6: "no resources", 7: "invalid IRD", 8: "invalid ORD", 9: "invalid controller identifier",
		}
	})
	nvmeSGLTypes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{0: "data block", 1: "bit bucket", 2: "segment", 3: "last segment", 4: "keyed data block", 5: "transport data block", 15: "vendor specific"}
	})
	nvmeFabricsTypes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{0: "Property Set", 1: "Connect", 4: "Property Get", 5: "Authentication Send", 6: "Authentication Receive", 8: "Disconnect"}
	})
	nvmeProperties = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{
			0x00: "CAP", 0x08: "VS", 0x0C: "INTMS", 0x10: "INTMC", 0x14: "CC", 0x1C: "CSTS", 0x20: "NSSR", 0x24: "AQA", 0x28: "ASQ", 0x30: "ACQ",
			0x38: "CMBLOC", 0x3C: "CMBSZ", 0x40: "BPINFO", 0x44: "BPRSEL", 0x48: "BPMBL", 0x50: "CMBMSC", 0x58: "CMBSTS", 0x68: "CRTO",
		}
	})
	nvmeAdminOpcodes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{
			0x00: "Delete I/O Submission Queue", 0x01: "Create I/O Submission Queue", 0x02: "Get Log Page", 0x04: "Delete I/O Completion Queue",
			0x05: "Create I/O Completion Queue", 0x06: "Identify", 0x08: "Abort", 0x09: "Set Features", 0x0A: "Get Features",
			0x0C: "Asynchronous Event Request", 0x0D: "Namespace Management", 0x10: "Firmware Commit", 0x11: "Firmware Image Download",
			0x14: "Device Self-test", 0x15: "Namespace Attachment", 0x18: "Keep Alive", 0x19: "Directive Send", 0x1A: "Directive Receive",
			0x1C: "Virtualization Management", 0x1D: "NVMe-MI Send", 0x1E: "NVMe-MI Receive", 0x20: "Capacity Management", 0x24: "Lockdown",
			0x7C: "Doorbell Buffer Config", 0x7F: "Fabrics", 0x80: "Format NVM", 0x81: "Security Send", 0x82: "Security Receive", 0x84: "Sanitize",
			0x86: "Get LBA Status",
		}
	})
	nvmeIOOpcodes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{
			0x00: "Flush", 0x01: "Write", 0x02: "Read", 0x04: "Write Uncorrectable", 0x05: "Compare", 0x08: "Write Zeroes",
			0x09: "Dataset Management", 0x0C: "Verify", 0x0D: "Reservation Register", 0x0E: "Reservation Report", 0x11: "Reservation Acquire",
			0x12: "I/O Management Receive", 0x15: "Reservation Release", 0x18: "Cancel", 0x19: "Copy", 0x1D: "I/O Management Send", 0x79: "Zone Management Send",
			0x7A: "Zone Management Receive", 0x7D: "Zone Append", 0x7F: "Fabrics",
		}
	})
	nvmeStatusTypes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{0: "generic", 1: "command specific", 2: "media and data integrity", 3: "path related", 7: "vendor specific"}
	})
	nvmeConnectStatuses = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{
			0x80: "Incompatible Format", 0x81: "Controller Busy", 0x82: "Invalid Parameters", 0x83: "Restart Discovery", 0x84: "Invalid Host",
			0x91: "Authentication Required",
		}
	})
	nvmeStatuses = sync.OnceValue(func() map[uint64]string { // type << 8 | code
		return map[uint64]string{
			0x00: "Successful Completion", 0x01: "Invalid Command Opcode", 0x02: "Invalid Field in Command", 0x03: "Command ID Conflict",
			0x04: "Data Transfer Error", 0x05: "Aborted due to Power Loss Notification", 0x06: "Internal Error", 0x07: "Command Abort Requested",
			0x08: "Aborted due to SQ Deletion", 0x09: "Aborted due to Failed Fused Command", 0x0A: "Aborted due to Missing Fused Command",
			0x0B: "Invalid Namespace or Format", 0x0C: "Command Sequence Error", 0x0D: "Invalid SGL Segment Descriptor",
			0x0E: "Invalid Number of SGL Descriptors", 0x0F: "Data SGL Length Invalid", 0x10: "Metadata SGL Length Invalid",
			0x11: "SGL Descriptor Type Invalid", 0x12: "Invalid Use of Controller Memory Buffer", 0x13: "PRP Offset Invalid",
			0x14: "Atomic Write Unit Exceeded", 0x15: "Operation Denied", 0x16: "SGL Offset Invalid", 0x18: "Host Identifier Inconsistent Format",
			0x19: "Keep Alive Timer Expired", 0x1A: "Keep Alive Timeout Invalid", 0x1B: "Aborted due to Preempt and Abort", 0x1C: "Sanitize Failed",
			0x1D: "Sanitize In Progress", 0x1E: "SGL Data Block Granularity Invalid", 0x1F: "Command Not Supported for Queue in CMB",
			0x20: "Namespace is Write Protected", 0x21: "Command Interrupted", 0x22: "Transient Transport Error", 0x80: "LBA Out of Range",
			0x81: "Capacity Exceeded", 0x82: "Namespace Not Ready", 0x83: "Reservation Conflict", 0x84: "Format In Progress",
			0x280: "Write Fault", 0x281: "Unrecovered Read Error", 0x282: "End-to-end Guard Check Error", 0x283: "End-to-end Application Tag Check Error",
			0x284: "End-to-end Reference Tag Check Error", 0x285: "Compare Failure", 0x286: "Access Denied", 0x287: "Deallocated or Unwritten Logical Block",
			0x300: "Internal Path Error", 0x301: "Asymmetric Access Persistent Loss", 0x302: "Asymmetric Access Inaccessible",
			0x303: "Asymmetric Access Transition", 0x360: "Controller Pathing Error", 0x370: "Host Pathing Error", 0x371: "Command Aborted By Host",
		}
	})
)
