package dissect

import "sync"

// SMB Direct (MS-SMBD, 2.2): the two sides negotiate, then each SEND has a header
// with credits, and behind it an SMB2 message (MS-SMB2, 2.2) or a part of one.
// All numbers are little-endian.

const (
	smbdNegotiateSize = 20
	smbdAnswerSize    = 32
	smbdDataSize      = 20
	smb2Size          = 64
	smbdVersion       = 0x0100
	smbdLeastSize     = 128     // of a send or receive buffer (MS-SMBD, 3.1.5.2)
	smbdLeastFragment = 131_072 // of a message in parts
)

// Statuses that are no error.
const (
	smbPending        = 0x00000103
	smbMoreProcessing = 0xC0000016
	smbMoreEntries    = 0x80000005 // STATUS_BUFFER_OVERFLOW: the answer is cut
)

// smbdKind is what a SEND is: nothing of one kind looks like another, for what
// must be zero in one is not in the others (MS-SMBD, 2.2.1 to 2.2.3).
func smbdKind(b []byte) Layer {
	switch {
	case len(b) >= smbdAnswerSize && le16(b) == smbdVersion && le16(b[2:]) == smbdVersion && le16(b[4:]) == smbdVersion:
		return LayerSMBDAnswer
	case len(b) >= smbdNegotiateSize && le16(b) == smbdVersion && le16(b[2:]) == smbdVersion && le16(b[4:]) == 0 && le16(b[6:]) != 0:
		return LayerSMBDNegotiate
	case len(b) >= smbdDataSize:
		return LayerSMBDData
	}
	return LayerFrame
}

// isSMBDOpening reports whether a whole SEND is a Negotiate Request within the
// bounds that its receiver checks.
func isSMBDOpening(b []byte) bool {
	return len(b) == smbdNegotiateSize && smbdKind(b) == LayerSMBDNegotiate && le32(b[8:]) >= smbdLeastSize && le32(b[12:]) >= smbdLeastSize &&
		le32(b[8:]) < 1<<24 && le32(b[12:]) < 1<<24 && le32(b[16:]) >= smbdLeastFragment
}

// SMBDRemaining returns how many bytes of a message in parts are still to come
// behind a SEND.
func SMBDRemaining(b []byte) uint32 {
	if smbdKind(b) != LayerSMBDData {
		return 0
	}
	return le32(b[8:])
}

// smb2Header returns the SMB2 message in a data transfer, nil where there is none
// that can be read.
func smb2Header(b []byte, u Upper) []byte {
	if u != UpperSMBDirect || smbdKind(b) != LayerSMBDData || le32(b[16:]) < smb2Size {
		return nil
	}
	at := uint64(le32(b[12:]))
	if at < smbdDataSize || at&7 != 0 || at+smb2Size > uint64(len(b)) {
		return nil
	}
	if m := b[at:]; le32(m) == 0x424D53FE && le16(m[4:]) == smb2Size {
		return m
	}
	return nil
}

func enlistSMBD(p *Packet, b []byte, at int) {
	l := smbdKind(b)
	if l == LayerFrame {
		return
	}
	p.enlist(l, at)
	if m := smb2Header(b, p.upper); m != nil {
		p.enlist(LayerSMB2, at+len(b)-len(m))
	}
}

func smbdFacts(b []byte, u Upper) (f UpperFacts) {
	m := smb2Header(b, u)
	if m == nil {
		switch smbdKind(b) {
		case LayerSMBDNegotiate:
			f.Request, f.ID = true, 1<<64-1 // no message has it (MS-SMB2, 2.2.1: but a break notification, which is no request)
		case LayerSMBDAnswer:
			f.Response, f.ID, f.Failed = true, 1<<64-1, le32(b[12:]) != 0
		}
		return f
	}
	f.ID, f.Code = le64(m[24:]), uint32(le16(m[12:]))
	if m[16]&1 == 0 {
		f.Request = f.Code != 12 // CANCEL has the number of what it cancels, and no answer
		smbKeys(&f, m)
		return f
	}
	switch status := le32(m[8:]); {
	case status == smbPending, f.ID == 1<<64-1:
	default:
		f.Response, f.Failed = true, status>>30 == 3 && status != smbMoreProcessing
	}
	return f
}

// smbKeys notes the buffer descriptors of READ and WRITE requests (MS-SMB2, 2.2.19
// and 2.2.21; MS-SMBD, 2.2.3.1).
func smbKeys(f *UpperFacts, m []byte) {
	body := m[smb2Size:]
	if len(body) < 48 || le16(body) != 49 {
		return
	}
	var channel uint32
	var at, n int
	switch f.Code {
	case 8:
		channel, at, n = le32(body[36:]), int(le16(body[44:])), int(le16(body[46:]))
	case 9:
		channel, at, n = le32(body[32:]), int(le16(body[40:])), int(le16(body[42:]))
	}
	if channel != 1 && channel != 2 || at < smb2Size || n%16 != 0 || at+n > len(m) {
		return
	}
	for ; n > 0; at, n = at+16, n-16 {
		f.addKey(le32(m[at+8:]))
	}
}

func appendSMBD(dst, b []byte, u Upper) []byte {
	switch smbdKind(b) {
	case LayerSMBDNegotiate:
		dst = append(dst, "SMB Direct Negotiate Request"...)
		return appendKV(dst, "Credits", uint64(le16(b[6:])))
	case LayerSMBDAnswer:
		dst = append(dst, "SMB Direct Negotiate Response"...)
		dst = appendKV(dst, "Credits", uint64(le16(b[10:])))
		return append(append(dst, ": "...), named(smbStatuses(), uint64(le32(b[12:])))...)
	case LayerSMBDData:
	default:
		return dst
	}
	m := smb2Header(b, u)
	switch {
	case m != nil:
		dst = append(append(dst, "SMB2 "...), named(smbCommands(), uint64(le16(m[12:])))...)
		if m[16]&1 == 0 {
			dst = append(dst, " Request"...)
		} else {
			dst = append(dst, " Response"...)
		}
		dst = appendKV(dst, "ID", le64(m[24:]))
		if m[16]&1 != 0 {
			dst = append(append(dst, ": "...), named(smbStatuses(), uint64(le32(m[8:])))...)
		}
	case le32(b[16:]) == 0:
		dst = append(dst, "SMB Direct credits"...)
	default:
		dst = append(dst, "SMB Direct data"...)
	}
	dst = appendKV(dst, "Granted", uint64(le16(b[2:])))
	if n := le32(b[16:]); n > 0 {
		dst = appendKV(dst, "Data", uint64(n))
	}
	if n := le32(b[8:]); n > 0 {
		dst = appendKV(dst, "Remaining", uint64(n))
	}
	return dst
}

// smbField makes rows of little-endian numbers; offset and length are in bytes.
func smbField(l Layer, name, text string, at, size int, k Kind) Field {
	return Field{Name: name, Text: text, Layer: l, Bit: uint16(8 * at), Width: uint16(8 * size), Kind: k, Little: true}
}

func smbFields() []Field {
	return []Field{
		smbField(LayerSMBDNegotiate, "smb_direct.version.min", "Lowest version", 0, 2, Hex),
		smbField(LayerSMBDNegotiate, "smb_direct.version.max", "Highest version", 2, 2, Hex),
		smbField(LayerSMBDNegotiate, "smb_direct.credits.requested", "Credits requested", 6, 2, Dec),
		smbField(LayerSMBDNegotiate, "smb_direct.preferred_send_size", "Preferred send size", 8, 4, Dec),
		smbField(LayerSMBDNegotiate, "smb_direct.max_receive_size", "Largest receive size", 12, 4, Dec),
		smbField(LayerSMBDNegotiate, "smb_direct.max_fragmented_size", "Largest message in parts", 16, 4, Dec),

		smbField(LayerSMBDAnswer, "smb_direct.version.min", "Lowest version", 0, 2, Hex),
		smbField(LayerSMBDAnswer, "smb_direct.version.max", "Highest version", 2, 2, Hex),
		smbField(LayerSMBDAnswer, "smb_direct.version.negotiated", "Version negotiated", 4, 2, Hex),
		smbField(LayerSMBDAnswer, "smb_direct.credits.requested", "Credits requested", 8, 2, Dec),
		smbField(LayerSMBDAnswer, "smb_direct.credits.granted", "Credits granted", 10, 2, Dec),
		{Name: "smb_direct.status", Text: "Status", Layer: LayerSMBDAnswer, Bit: 12 * 8, Width: 32, Kind: Hex, Little: true, Values: nameIn(smbStatuses)},
		smbField(LayerSMBDAnswer, "smb_direct.max_read_write_size", "Largest RDMA transfer", 16, 4, Dec),
		smbField(LayerSMBDAnswer, "smb_direct.preferred_send_size", "Preferred send size", 20, 4, Dec),
		smbField(LayerSMBDAnswer, "smb_direct.max_receive_size", "Largest receive size", 24, 4, Dec),
		smbField(LayerSMBDAnswer, "smb_direct.max_fragmented_size", "Largest message in parts", 28, 4, Dec),

		smbField(LayerSMBDData, "smb_direct.credits.requested", "Credits requested", 0, 2, Dec),
		smbField(LayerSMBDData, "smb_direct.credits.granted", "Credits granted", 2, 2, Dec),
		smbField(LayerSMBDData, "smb_direct.flags", "Flags", 4, 2, Hex),
		{Name: "smb_direct.flags.response_requested", Text: "Answer wanted", Layer: LayerSMBDData, Bit: 39, Width: 1, Kind: Bool},
		smbField(LayerSMBDData, "smb_direct.remaining_length", "Bytes to come", 8, 4, Dec),
		smbField(LayerSMBDData, "smb_direct.data_offset", "Data's offset", 12, 4, Dec),
		smbField(LayerSMBDData, "smb_direct.data_length", "Data's length", 16, 4, Dec),

		smbField(LayerSMB2, "smb2.header_len", "Header's length", 4, 2, Dec),
		smbField(LayerSMB2, "smb2.credit.charge", "Credit charge", 6, 2, Dec),
		{Name: "smb2.nt_status", Text: "Status", Layer: LayerSMB2, Bit: 64, Width: 32, Kind: Hex, Little: true, Values: nameIn(smbStatuses), When: smbAnswer},
		{Name: "smb2.cmd", Text: "Command", Layer: LayerSMB2, Bit: 12 * 8, Width: 16, Kind: Dec, Little: true, Values: nameIn(smbCommands)},
		{Name: "smb2.credits.requested", Text: "Credits requested", Layer: LayerSMB2, Bit: 14 * 8, Width: 16, Kind: Dec, Little: true, When: smbQuestion},
		{Name: "smb2.credits.granted", Text: "Credits granted", Layer: LayerSMB2, Bit: 14 * 8, Width: 16, Kind: Dec, Little: true, When: smbAnswer},
		smbField(LayerSMB2, "smb2.flags", "Flags", 16, 4, Hex),
		{Name: "smb2.flags.response", Text: "From the server", Layer: LayerSMB2, Bit: 16*8 + 7, Width: 1, Kind: Bool},
		{Name: "smb2.flags.async", Text: "Asynchronous", Layer: LayerSMB2, Bit: 16*8 + 6, Width: 1, Kind: Bool},
		{Name: "smb2.flags.chained", Text: "Related to the one before", Layer: LayerSMB2, Bit: 16*8 + 5, Width: 1, Kind: Bool},
		{Name: "smb2.flags.signature", Text: "Signed", Layer: LayerSMB2, Bit: 16*8 + 4, Width: 1, Kind: Bool},
		smbField(LayerSMB2, "smb2.chain_offset", "Next command", 20, 4, Hex),
		smbField(LayerSMB2, "smb2.msg_id", "Message", 24, 8, Dec),
		{Name: "smb2.tid", Text: "Tree", Layer: LayerSMB2, Bit: 36 * 8, Width: 32, Kind: Hex, Little: true, When: smbSynchronous},
		smbField(LayerSMB2, "smb2.sesid", "Session", 40, 8, Hex),
	}
}

// smbFlag makes a condition on the flags of an SMB2 message.
func smbFlag(bit uint8, set bool) func(*Packet, []byte) bool {
	return func(p *Packet, frame []byte) bool {
		m := p.view(frame, LayerSMB2, smb2Size)
		return m != nil && (m[16]&bit != 0) == set
	}
}

var (
	smbAnswer      = smbFlag(1, true)
	smbQuestion    = smbFlag(1, false)
	smbSynchronous = smbFlag(2, false)
)

var (
	smbCommands = sync.OnceValue(func() map[uint64]string { // MS-SMB2, 2.2.1
		return map[uint64]string{
			0: "NEGOTIATE", 1: "SESSION_SETUP", 2: "LOGOFF", 3: "TREE_CONNECT", 4: "TREE_DISCONNECT", 5: "CREATE", 6: "CLOSE", 7: "FLUSH", 8: "READ",
			9: "WRITE", 10: "LOCK", 11: "IOCTL", 12: "CANCEL", 13: "ECHO", 14: "QUERY_DIRECTORY", 15: "CHANGE_NOTIFY", 16: "QUERY_INFO", 17: "SET_INFO",
			18: "OPLOCK_BREAK",
		}
	})
	smbStatuses = sync.OnceValue(func() map[uint64]string { // MS-ERREF, 2.3; those that are met most
		return map[uint64]string{
			0: "STATUS_SUCCESS", smbPending: "STATUS_PENDING", smbMoreEntries: "STATUS_BUFFER_OVERFLOW", 0x80000006: "STATUS_NO_MORE_FILES",
			0xC0000003: "STATUS_INVALID_INFO_CLASS", 0xC000000D: "STATUS_INVALID_PARAMETER", 0xC000000F: "STATUS_NO_SUCH_FILE",
			0xC0000010: "STATUS_INVALID_DEVICE_REQUEST", 0xC0000011: "STATUS_END_OF_FILE", smbMoreProcessing: "STATUS_MORE_PROCESSING_REQUIRED",
			0xC0000022: "STATUS_ACCESS_DENIED", 0xC0000034: "STATUS_OBJECT_NAME_NOT_FOUND", 0xC0000035: "STATUS_OBJECT_NAME_COLLISION",
			0xC000003A: "STATUS_OBJECT_PATH_NOT_FOUND", 0xC0000043: "STATUS_SHARING_VIOLATION", 0xC000006D: "STATUS_LOGON_FAILURE",
			0xC000009A: "STATUS_INSUFFICIENT_RESOURCES", 0xC00000BA: "STATUS_FILE_IS_A_DIRECTORY", 0xC00000BB: "STATUS_NOT_SUPPORTED",
			0xC00000CC: "STATUS_BAD_NETWORK_NAME", 0xC0000120: "STATUS_CANCELLED", 0xC0000203: "STATUS_USER_SESSION_DELETED",
		}
	})
)
