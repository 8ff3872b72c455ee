package dissect

// CMMRA asks the other side to wait longer (IBA 12, table 107).
type CMMRA []byte

// LocalCommID returns the sender's communication identifier.
func (m CMMRA) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMMRA) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMMRA) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMMRA) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// Message returns which message is to be waited for: 0 REQ, 1 REP, 2 LAP.
func (m CMMRA) Message() uint8 { return cmBytes(m).bits(8, 6, 2) }

// SetMessage sets which message is to be waited for.
func (m CMMRA) SetMessage(v uint8) { cmBytes(m).putBits(8, 6, 2, v) }

// ServiceTimeout returns the code of the time to wait; see CMTimeout.
func (m CMMRA) ServiceTimeout() uint8 { return cmBytes(m).bits(9, 3, 5) }

// SetServiceTimeout sets the code of the time to wait.
func (m CMMRA) SetServiceTimeout(v uint8) { cmBytes(m).putBits(9, 3, 5, v) }

// Private returns the captured part of the 222 bytes of private data.
func (m CMMRA) Private() []byte { return cmBytes(m).tail(10) }

// CMREJ refuses a connection (IBA 12, table 108).
type CMREJ []byte

// LocalCommID returns the sender's communication identifier.
func (m CMREJ) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMREJ) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMREJ) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMREJ) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// Message returns which message is rejected: 0 REQ, 1 REP, 2 another or none.
func (m CMREJ) Message() uint8 { return cmBytes(m).bits(8, 6, 2) }

// SetMessage sets which message is rejected.
func (m CMREJ) SetMessage(v uint8) { cmBytes(m).putBits(8, 6, 2, v) }

// InfoLen returns how many bytes of the additional information are meant.
func (m CMREJ) InfoLen() uint8 { return cmBytes(m).bits(9, 1, 7) }

// SetInfoLen sets how many bytes of the additional information are meant.
func (m CMREJ) SetInfoLen(v uint8) { cmBytes(m).putBits(9, 1, 7, v) }

// Reason returns the reason.
func (m CMREJ) Reason() RejReason { return RejReason(cmBytes(m).u16(10)) }

// SetReason sets the reason.
func (m CMREJ) SetReason(v RejReason) { put16(m[10:], uint16(v)) }

// Info returns the captured part of the 72 bytes of additional information,
// of which InfoLen are meant.
func (m CMREJ) Info() []byte { return cmBytes(m).span(12, 72) }

// Private returns the captured part of the 148 bytes of private data.
func (m CMREJ) Private() []byte { return cmBytes(m).tail(84) }

// RejReason is the reason of a REJ.
type RejReason uint16

// The reasons that code has to name. All have a name as text.
const (
	RejNoQP             RejReason = 1
	RejNoResources      RejReason = 3
	RejTimeout          RejReason = 4
	RejUnsupported      RejReason = 5
	RejInvalidCommID    RejReason = 6
	RejInvalidServiceID RejReason = 8
	RejInvalidTransport RejReason = 9
	RejStaleConnection  RejReason = 10
	RejInvalidGID       RejReason = 12
	RejInvalidMTU       RejReason = 26
	RejConsumer         RejReason = 28
)

var rejReasons = [...]string{
	1: "no QP available", 2: "no EEC available", 3: "no resources available", 4: "timeout", 5: "unsupported request",
	6: "invalid communication ID", 7: "invalid communication instance", 8: "invalid service ID: nobody listens", 9: "invalid transport service type",
	10: "stale connection", 11: "RDC does not exist", 12: "primary remote port GID rejected", 13: "primary remote port LID rejected",
	14: "invalid primary SL", 15: "invalid primary traffic class", 16: "invalid primary hop limit", 17: "invalid primary packet rate",
	18: "alternate remote port GID rejected", 19: "alternate remote port LID rejected", 20: "invalid alternate SL",
	21: "invalid alternate traffic class", 22: "invalid alternate hop limit", 23: "invalid alternate packet rate",
	24: "CM redirection", 25: "port redirection", 26: "invalid path MTU", 27: "insufficient responder resources",
	28: "consumer reject: the application refused", 29: "RNR retry count rejected", 30: "duplicate local communication ID", 31: "unsupported class version",
	32: "invalid primary flow label", 33: "invalid alternate flow label", 35: "vendor option not supported",
}

func (r RejReason) String() string {
	if int(r) < len(rejReasons) && rejReasons[r] != "" {
		return rejReasons[r]
	}
	return "reserved"
}

var cmMRAFields = []Field{
	{Name: "infiniband.cm.mra.localcommid", Text: "Local communication ID", Layer: LayerCMMRA, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.mra.remotecommid", Text: "Remote communication ID", Layer: LayerCMMRA, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.mra.msgmraed", Text: "Message MRAed", Layer: LayerCMMRA, Bit: 8 * 8, Width: 2, Kind: Hex, Values: mraMessageName},
	{Name: "infiniband.cm.mra.servicetout", Text: "Service timeout", Layer: LayerCMMRA, Bit: 9 * 8, Width: 5, Kind: Hex, Values: cmTimeoutName},
	{Name: "infiniband.cm.mra.private", Text: "Private data", Layer: LayerCMMRA, Bit: 10 * 8, Kind: Bytes},
}

var cmREJFields = []Field{
	{Name: "infiniband.cm.rej.localcommid", Text: "Local communication ID", Layer: LayerCMREJ, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rej.remotecommid", Text: "Remote communication ID", Layer: LayerCMREJ, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rej.msgrej", Text: "Message rejected", Layer: LayerCMREJ, Bit: 8 * 8, Width: 2, Kind: Hex, Values: rejMessageName},
	{Name: "infiniband.cm.rej.reserved0", Text: "Reserved", Layer: LayerCMREJ, Bit: 8*8 + 2, Width: 6, Kind: Hex},
	{Name: "infiniband.cm.rej.rejinfolen", Text: "Reject info length", Layer: LayerCMREJ, Bit: 9 * 8, Width: 7, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.rej.reserved1", Text: "Reserved", Layer: LayerCMREJ, Bit: 9*8 + 7, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.rej.reason", Text: "Reason", Layer: LayerCMREJ, Bit: 10 * 8, Width: 16, Kind: Hex, Values: rejReasonName},
	{Name: "infiniband.cm.rej.ari", Text: "Additional reject information", Layer: LayerCMREJ, Bit: 12 * 8, Width: 72 * 8, Kind: Bytes},
	{Name: "infiniband.cm.rej.private", Text: "Private data", Layer: LayerCMREJ, Bit: 84 * 8, Kind: Bytes},
}

func rejReasonName(v uint64) string { return RejReason(v).String() }

func rejMessageName(v uint64) string {
	names := [...]string{"REQ", "REP", "another message, or none", "reserved"}
	return names[v&3]
}

func mraMessageName(v uint64) string {
	names := [...]string{"REQ", "REP", "LAP", "reserved"}
	return names[v&3]
}
