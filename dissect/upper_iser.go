package dissect

import (
	"bytes"
	"sync"
)

// iSER (RFC 7145): a header that names the memory for a command's data, and
// behind it an iSCSI PDU's basic header segment (RFC 7143, 11).

const (
	iserPrivateSize = 4
	iserSize        = 28
	iscsiSize       = 48
)

// iSER's opcodes.
const (
	iserControl    = 1
	iserHello      = 2
	iserHelloReply = 3
)

// iSCSI's opcodes that matter below.
const (
	iscsiCommand      = 0x01
	iscsiLogin        = 0x03
	iscsiResponse     = 0x21
	iscsiLoginAnswer  = 0x23
	iscsiReject       = 0x3F
	iscsiFromTarget   = 0x20
	iscsiReservedTask = 0xFFFFFFFF
)

// iscsiPDU is the basic header segment behind iSER's header, nil without.
func iscsiPDU(b []byte) []byte {
	if len(b) < iserSize+iscsiSize || b[0]>>4 != iserControl {
		return nil
	}
	return b[iserSize:]
}

// isISEROpening reports whether a SEND is the first of a session: a Login Request
// that offers no memory, and whose text begins with the initiator's name; or a
// Hello.
func isISEROpening(b []byte) bool {
	if len(b) == iserSize && b[0] == iserHello<<4 {
		return allZero(b[4:])
	}
	pdu := iscsiPDU(b)
	return pdu != nil && b[0]&0xF == 0 && allZero(b[1:iserSize]) && pdu[0] == 0x40|iscsiLogin && pdu[4] == 0 &&
		bytes.HasPrefix(pdu[iscsiSize:], []byte("InitiatorName="))
}

func enlistISER(p *Packet, b []byte, at int) {
	if len(b) < iserSize {
		return
	}
	p.enlist(LayerISER, at)
	if iscsiPDU(b) != nil {
		p.enlist(LayerISCSI, at+iserSize)
	}
}

func enlistISERPrivate(p *Packet, b []byte, at int) {
	if len(b) >= iserPrivateSize {
		p.enlist(LayerISERPrivate, at)
	}
}

func iserFacts(b []byte, _ Upper) (f UpperFacts) {
	pdu := iscsiPDU(b)
	if pdu == nil {
		return f
	}
	op := pdu[0] & 0x3F
	f.ID, f.Code = uint64(be32(pdu[16:])), uint32(op)
	switch {
	case f.ID == iscsiReservedTask:
	case op < iscsiFromTarget:
		f.Request = op != 0x05 && op != 0x10 // Data-Out and SNACK go on with what was asked for
		if f.Request && b[0]&8 != 0 {
			f.addKey(be32(b[4:]))
		}
		if f.Request && b[0]&4 != 0 {
			f.addKey(be32(b[16:]))
		}
	case op == iscsiResponse:
		f.Response, f.Failed = true, pdu[2] != 0 || pdu[3] != 0
	case op == iscsiLoginAnswer:
		f.Response, f.Failed = true, pdu[36] != 0
	case op != 0x25 && op != 0x31 && op != 0x32: // Data-In, R2T, asynchronous message
		f.Response, f.Failed = true, op == iscsiReject
	}
	return f
}

func appendISER(dst, b []byte, _ Upper) []byte {
	if len(b) < iserSize {
		return dst
	}
	pdu := iscsiPDU(b)
	if pdu == nil {
		return append(append(dst, "iSER "...), named(iserOpcodes(), uint64(b[0]>>4))...)
	}
	op := pdu[0] & 0x3F
	dst = append(append(dst, "iSCSI "...), named(iscsiOpcodes(), uint64(op))...)
	if op == iscsiCommand {
		dst = append(append(dst, ": "...), named(scsiOpcodes(), uint64(pdu[32]))...)
	}
	dst = appendKX(dst, "ITT", uint64(be32(pdu[16:])))
	if n := be24(pdu[5:]); n > 0 {
		dst = appendKV(dst, "Data", uint64(n))
	}
	switch op {
	case iscsiCommand:
		dst = appendKV(dst, "Len", uint64(be32(pdu[20:])))
	case iscsiResponse:
		dst = append(append(dst, ": "...), named(scsiStatuses(), uint64(pdu[3]))...)
	case iscsiLoginAnswer:
		dst = appendKX(dst, "Status", uint64(be16(pdu[36:])))
	}
	if b[0]&8 != 0 {
		dst = appendKX(dst, "WriteSTag", uint64(be32(b[4:])))
	}
	if b[0]&4 != 0 {
		dst = appendKX(dst, "ReadSTag", uint64(be32(b[16:])))
	}
	return dst
}

func iserFields() []Field {
	return []Field{
		{Name: "iser.private.flags", Text: "Flags", Layer: LayerISERPrivate, Width: 8, Kind: Hex},
		{Name: "iser.private.zbva_not_used", Text: "Zero-based virtual addresses are not used", Layer: LayerISERPrivate, Bit: 0, Width: 1, Kind: Bool},
		{Name: "iser.private.send_inval_not_used", Text: "SEND with Invalidate is not used", Layer: LayerISERPrivate, Bit: 1, Width: 1, Kind: Bool},

		{Name: "iser.flags", Text: "Flags", Layer: LayerISER, Width: 8, Kind: Hex},
		{Name: "iser.flags.opcode", Text: "Opcode", Layer: LayerISER, Width: 4, Kind: Hex, Values: nameIn(iserOpcodes)},
		{Name: "iser.flags.wsv", Text: "Write STag is valid", Layer: LayerISER, Bit: 4, Width: 1, Kind: Bool, When: iserIs(iserControl)},
		{Name: "iser.flags.rsv", Text: "Read STag is valid", Layer: LayerISER, Bit: 5, Width: 1, Kind: Bool, When: iserIs(iserControl)},
		{Name: "iser.flags.rej", Text: "Rejected", Layer: LayerISER, Bit: 7, Width: 1, Kind: Bool, When: iserIs(iserHelloReply)},
		{Name: "iser.ird", Text: "iSER-IRD", Layer: LayerISER, Bit: 16, Width: 16, Kind: Hex, When: iserIs(iserHello)},
		{Name: "iser.ord", Text: "iSER-ORD", Layer: LayerISER, Bit: 16, Width: 16, Kind: Hex, When: iserIs(iserHelloReply)},
		{Name: "iser.write_stag", Text: "Write STag", Layer: LayerISER, Bit: 32, Width: 32, Kind: Hex, When: iserIs(iserControl)},
		{Name: "iser.write_base_offset", Text: "Write base offset", Layer: LayerISER, Bit: 64, Width: 64, Kind: Hex, When: iserIs(iserControl)},
		{Name: "iser.read_stag", Text: "Read STag", Layer: LayerISER, Bit: 128, Width: 32, Kind: Hex, When: iserIs(iserControl)},
		{Name: "iser.read_base_offset", Text: "Read base offset", Layer: LayerISER, Bit: 160, Width: 64, Kind: Hex, When: iserIs(iserControl)},

		{Name: "iscsi.I", Text: "Immediate delivery", Layer: LayerISCSI, Bit: 1, Width: 1, Kind: Bool, When: iscsiRequest},
		{Name: "iscsi.opcode", Text: "Opcode", Layer: LayerISCSI, Bit: 2, Width: 6, Kind: Hex, Values: nameIn(iscsiOpcodes)},
		{Name: "iscsi.scsicommand.F", Text: "Final", Layer: LayerISCSI, Bit: 8, Width: 1, Kind: Bool, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.scsicommand.R", Text: "Reads", Layer: LayerISCSI, Bit: 9, Width: 1, Kind: Bool, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.scsicommand.W", Text: "Writes", Layer: LayerISCSI, Bit: 10, Width: 1, Kind: Bool, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.scsicommand.attr", Text: "Task attributes", Layer: LayerISCSI, Bit: 13, Width: 3, Kind: Hex, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.login.T", Text: "Transit", Layer: LayerISCSI, Bit: 8, Width: 1, Kind: Bool, When: iscsiIs(iscsiLogin, iscsiLoginAnswer)},
		{Name: "iscsi.login.C", Text: "Continue", Layer: LayerISCSI, Bit: 9, Width: 1, Kind: Bool, When: iscsiIs(iscsiLogin, iscsiLoginAnswer)},
		{Name: "iscsi.login.csg", Text: "Current stage", Layer: LayerISCSI, Bit: 12, Width: 2, Kind: Hex, Values: iscsiStage, When: iscsiIs(iscsiLogin, iscsiLoginAnswer)},
		{Name: "iscsi.login.nsg", Text: "Next stage", Layer: LayerISCSI, Bit: 14, Width: 2, Kind: Hex, Values: iscsiStage, When: iscsiIs(iscsiLogin, iscsiLoginAnswer)},
		{Name: "iscsi.scsiresponse.response", Text: "Response", Layer: LayerISCSI, Bit: 16, Width: 8, Kind: Hex, When: iscsiIs(iscsiResponse)},
		{Name: "iscsi.scsiresponse.status", Text: "SCSI status", Layer: LayerISCSI, Bit: 24, Width: 8, Kind: Hex, Values: nameIn(scsiStatuses), When: iscsiIs(iscsiResponse)},
		{Name: "iscsi.reject.reason", Text: "Reason", Layer: LayerISCSI, Bit: 16, Width: 8, Kind: Hex, When: iscsiIs(iscsiReject)},
		{Name: "iscsi.totalahslength", Text: "Additional header segments", Layer: LayerISCSI, Bit: 32, Width: 8, Kind: Dec},
		{Name: "iscsi.datasegmentlength", Text: "Data segment's length", Layer: LayerISCSI, Bit: 40, Width: 24, Kind: Dec},
		{Name: "scsi.lun_long", Text: "LUN", Layer: LayerISCSI, Bit: 64, Width: 64, Kind: Hex, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.initiatortasktag", Text: "Initiator task tag", Layer: LayerISCSI, Bit: 128, Width: 32, Kind: Hex},
		{Name: "iscsi.scsicommand.expecteddatatransferlength", Text: "Expected data transfer length", Layer: LayerISCSI, Bit: 160, Width: 32, Kind: Dec, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.cmdsn", Text: "Command number", Layer: LayerISCSI, Bit: 192, Width: 32, Kind: Dec, When: iscsiRequest},
		{Name: "iscsi.expstatsn", Text: "Status number expected", Layer: LayerISCSI, Bit: 224, Width: 32, Kind: Dec, When: iscsiRequest},
		{Name: "iscsi.statsn", Text: "Status number", Layer: LayerISCSI, Bit: 192, Width: 32, Kind: Dec, When: iscsiAnswer},
		{Name: "iscsi.expcmdsn", Text: "Command number expected", Layer: LayerISCSI, Bit: 224, Width: 32, Kind: Dec, When: iscsiAnswer},
		{Name: "iscsi.maxcmdsn", Text: "Highest command number", Layer: LayerISCSI, Bit: 256, Width: 32, Kind: Dec, When: iscsiAnswer},
		{Name: "scsi_sbc.opcode", Text: "SCSI operation", Layer: LayerISCSI, Bit: 256, Width: 8, Kind: Hex, Values: nameIn(scsiOpcodes), When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.cdb", Text: "Command descriptor block", Layer: LayerISCSI, Bit: 256, Width: 128, Kind: Bytes, When: iscsiIs(iscsiCommand)},
		{Name: "iscsi.login.status", Text: "Status", Layer: LayerISCSI, Bit: 36 * 8, Width: 16, Kind: Hex, When: iscsiIs(iscsiLoginAnswer)},
	}
}

func iserIs(op uint8) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		b := p.view(frame, LayerISER, iserSize)
		return b != nil && b[0]>>4 == op
	}
}

func iscsiIs(ops ...uint8) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		b := p.view(frame, LayerISCSI, iscsiSize)
		return b != nil && bytes.IndexByte(ops, b[0]&0x3F) >= 0
	}
}

func iscsiRequest(p *Packet, frame []byte) bool {
	b := p.view(frame, LayerISCSI, iscsiSize)
	return b != nil && b[0]&iscsiFromTarget == 0
}

func iscsiAnswer(p *Packet, frame []byte) bool {
	b := p.view(frame, LayerISCSI, iscsiSize)
	return b != nil && b[0]&iscsiFromTarget != 0
}

func iscsiStage(v uint64) string {
	return [...]string{"security negotiation", "operational negotiation", "", "full feature phase"}[v&3]
}

var (
	iserOpcodes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{iserControl: "control-type PDU", iserHello: "Hello", iserHelloReply: "HelloReply"}
	})
	iscsiOpcodes = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{
			0x00: "NOP-Out", 0x01: "SCSI Command", 0x02: "Task Management Request", 0x03: "Login Request", 0x04: "Text Request", 0x05: "SCSI Data-Out",
			0x06: "Logout Request", 0x10: "SNACK Request", 0x20: "NOP-In", 0x21: "SCSI Response", 0x22: "Task Management Response", 0x23: "Login Response",
			0x24: "Text Response", 0x25: "SCSI Data-In", 0x26: "Logout Response", 0x31: "Ready To Transfer", 0x32: "Asynchronous Message", 0x3F: "Reject",
		}
	})
	scsiStatuses = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{
			0x00: "good", 0x02: "check condition", 0x04: "condition met", 0x08: "busy", 0x18: "reservation conflict", 0x28: "task set full",
			0x30: "ACA active", 0x40: "task aborted",
		}
	})
	scsiOpcodes = sync.OnceValue(func() map[uint64]string { // SPC-4 and SBC-3
		return map[uint64]string{
			0x00: "TEST UNIT READY", 0x03: "REQUEST SENSE", 0x04: "FORMAT UNIT", 0x08: "READ(6)", 0x0A: "WRITE(6)", 0x12: "INQUIRY", 0x15: "MODE SELECT(6)",
			0x1A: "MODE SENSE(6)", 0x1B: "START STOP UNIT", 0x1D: "SEND DIAGNOSTIC", 0x1E: "PREVENT ALLOW MEDIUM REMOVAL", 0x25: "READ CAPACITY(10)",
			0x28: "READ(10)", 0x2A: "WRITE(10)", 0x2E: "WRITE AND VERIFY(10)", 0x2F: "VERIFY(10)", 0x35: "SYNCHRONIZE CACHE(10)", 0x3B: "WRITE BUFFER",
			0x3C: "READ BUFFER(10)", 0x41: "WRITE SAME(10)", 0x42: "UNMAP", 0x4D: "LOG SENSE", 0x55: "MODE SELECT(10)", 0x5A: "MODE SENSE(10)",
			0x5E: "PERSISTENT RESERVE IN", 0x5F: "PERSISTENT RESERVE OUT", 0x83: "EXTENDED COPY", 0x84: "RECEIVE COPY RESULTS", 0x88: "READ(16)",
			0x89: "COMPARE AND WRITE", 0x8A: "WRITE(16)", 0x8E: "WRITE AND VERIFY(16)", 0x8F: "VERIFY(16)", 0x91: "SYNCHRONIZE CACHE(16)",
			0x93: "WRITE SAME(16)", 0x9E: "SERVICE ACTION IN(16)", 0xA0: "REPORT LUNS", 0xA3: "MAINTENANCE IN", 0xA4: "MAINTENANCE OUT", 0xA8: "READ(12)",
			0xAA: "WRITE(12)",
		}
	})
)
