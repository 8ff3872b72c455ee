package dissect

// CMREP is the answer to a REQ (IBA 12, table 110).
type CMREP []byte

// LocalCommID returns the sender's communication identifier.
func (m CMREP) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMREP) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMREP) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMREP) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// LocalQKey returns the sender's queue key.
func (m CMREP) LocalQKey() uint32 { return cmBytes(m).u32(8) }

// SetLocalQKey sets the sender's queue key.
func (m CMREP) SetLocalQKey(v uint32) { put32(m[8:], v) }

// LocalQPN returns the sender's queue pair number.
func (m CMREP) LocalQPN() uint32 { return cmBytes(m).u24(12) }

// SetLocalQPN sets the sender's queue pair number.
func (m CMREP) SetLocalQPN(v uint32) { put24(m[12:], v) }

// LocalEECN returns the sender's end-to-end context number.
func (m CMREP) LocalEECN() uint32 { return cmBytes(m).u24(16) }

// SetLocalEECN sets the sender's end-to-end context number.
func (m CMREP) SetLocalEECN(v uint32) { put24(m[16:], v) }

// StartPSN returns the PSN that the sender expects first, which is where the receiver starts to send.
func (m CMREP) StartPSN() PSN { return PSN(cmBytes(m).u24(20)) }

// SetStartPSN sets the PSN that the sender expects first.
func (m CMREP) SetStartPSN(v PSN) { put24(m[20:], uint32(v)) }

// ResponderResources returns how many READs and atomics the sender can answer at a time.
func (m CMREP) ResponderResources() uint8 { return cmBytes(m).u8(24) }

// SetResponderResources sets how many READs and atomics the sender can answer at a time.
func (m CMREP) SetResponderResources(v uint8) { m[24] = v }

// InitiatorDepth returns how many READs and atomics the sender will have outstanding.
func (m CMREP) InitiatorDepth() uint8 { return cmBytes(m).u8(25) }

// SetInitiatorDepth sets how many READs and atomics the sender will have outstanding.
func (m CMREP) SetInitiatorDepth(v uint8) { m[25] = v }

// TargetAckDelay returns the code of the longest time the sender needs to acknowledge; see CMTimeout.
func (m CMREP) TargetAckDelay() uint8 { return cmBytes(m).bits(26, 3, 5) }

// SetTargetAckDelay sets the code of the longest time the sender needs to acknowledge.
func (m CMREP) SetTargetAckDelay(v uint8) { cmBytes(m).putBits(26, 3, 5, v) }

// FailoverAccepted returns the answer to the alternate path: 0 accepted, 1 not supported, 2 rejected.
func (m CMREP) FailoverAccepted() uint8 { return cmBytes(m).bits(26, 1, 2) }

// SetFailoverAccepted sets the answer to the alternate path.
func (m CMREP) SetFailoverAccepted(v uint8) { cmBytes(m).putBits(26, 1, 2, v) }

// EndToEndFlowControl returns whether the sender counts receive credits.
func (m CMREP) EndToEndFlowControl() bool { return cmBytes(m).bits(26, 0, 1) != 0 }

// SetEndToEndFlowControl sets whether the sender counts receive credits.
func (m CMREP) SetEndToEndFlowControl(v bool) { cmBytes(m).putBits(26, 0, 1, bit(v)) }

// RNRRetryCount returns how often the receiver should retry after an RNR NAK; 7 is for ever.
func (m CMREP) RNRRetryCount() uint8 { return cmBytes(m).bits(27, 5, 3) }

// SetRNRRetryCount sets how often the receiver should retry after an RNR NAK.
func (m CMREP) SetRNRRetryCount(v uint8) { cmBytes(m).putBits(27, 5, 3, v) }

// SRQ returns whether the sender uses a shared receive queue.
func (m CMREP) SRQ() bool { return cmBytes(m).bits(27, 4, 1) != 0 }

// SetSRQ sets whether the sender uses a shared receive queue.
func (m CMREP) SetSRQ(v bool) { cmBytes(m).putBits(27, 4, 1, bit(v)) }

// LocalCAGUID returns the GUID of the sender's channel adapter.
func (m CMREP) LocalCAGUID() uint64 { return cmBytes(m).u64(28) }

// SetLocalCAGUID sets the GUID of the sender's channel adapter.
func (m CMREP) SetLocalCAGUID(v uint64) { put64(m[28:], v) }

// Private returns the captured part of the 196 bytes of private data.
func (m CMREP) Private() []byte { return cmBytes(m).tail(36) }

// VendorID returns the vendor identifier, which lies in three places; 0 in
// older versions.
func (m CMREP) VendorID() uint32 {
	b := cmBytes(m)
	return uint32(b.u8(15))<<16 | uint32(b.u8(19))<<8 | uint32(b.u8(23))
}

// SetVendorID sets the vendor identifier.
func (m CMREP) SetVendorID(v uint32) { m[15], m[19], m[23] = byte(v>>16), byte(v>>8), byte(v) }

// CMRTU says that the active side is ready to use the connection
// (IBA 12, table 111).
type CMRTU []byte

// LocalCommID returns the sender's communication identifier.
func (m CMRTU) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMRTU) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMRTU) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMRTU) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// Private returns the captured part of the 224 bytes of private data.
func (m CMRTU) Private() []byte { return cmBytes(m).tail(8) }

var cmREPFields = []Field{
	{Name: "infiniband.cm.rep", Text: "Local communication ID", Layer: LayerCMREP, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rep.remotecommid", Text: "Remote communication ID", Layer: LayerCMREP, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rep.localqkey", Text: "Local Q_Key", Layer: LayerCMREP, Bit: 8 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rep.localqpn", Text: "Local QPN", Layer: LayerCMREP, Bit: 12 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.rep.localeecn", Text: "Local EE context number", Layer: LayerCMREP, Bit: 16 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.rep.startpsn", Text: "Starting PSN", Layer: LayerCMREP, Bit: 20 * 8, Width: 24, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.rep.respres", Text: "Responder resources", Layer: LayerCMREP, Bit: 24 * 8, Width: 8, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.rep.initdepth", Text: "Initiator depth", Layer: LayerCMREP, Bit: 25 * 8, Width: 8, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.rep.tgtackdelay", Text: "Target ACK delay", Layer: LayerCMREP, Bit: 26 * 8, Width: 5, Kind: Hex, Values: cmTimeoutName},
	{Name: "infiniband.cm.rep.failoveracc", Text: "Failover accepted", Layer: LayerCMREP, Bit: 26*8 + 5, Width: 2, Kind: Hex, Values: failoverName},
	{Name: "infiniband.cm.rep.e2eflowctrl", Text: "End-to-end flow control", Layer: LayerCMREP, Bit: 26*8 + 7, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.rep.rnrretrcount", Text: "RNR retry count", Layer: LayerCMREP, Bit: 27 * 8, Width: 3, Kind: Hex, Values: rnrRetryName},
	{Name: "infiniband.cm.rep.srq", Text: "SRQ", Layer: LayerCMREP, Bit: 27*8 + 3, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.rep.reserved", Text: "Reserved", Layer: LayerCMREP, Bit: 27*8 + 4, Width: 4, Kind: Hex},
	{Name: "infiniband.cm.rep.vendorid", Text: "Vendor ID", Layer: LayerCMREP, Kind: Hex, Digits: 6, Get: repVendorID},
	{Name: "infiniband.cm.rep.localcaguid", Text: "Local CA GUID", Layer: LayerCMREP, Bit: 28 * 8, Width: 64, Kind: Hex},
	{Name: "infiniband.cm.rep.private", Text: "Private data", Layer: LayerCMREP, Bit: 36 * 8, Kind: Bytes},
}

var cmRTUFields = []Field{
	{Name: "infiniband.cm.rtu.localcommid", Text: "Local communication ID", Layer: LayerCMRTU, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rtu.remotecommid", Text: "Remote communication ID", Layer: LayerCMRTU, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.rtu.private", Text: "Private data", Layer: LayerCMRTU, Bit: 8 * 8, Kind: Bytes},
}

// repVendorID needs all of the three bytes.
func repVendorID(p *Packet, frame []byte) (uint64, bool) {
	m := p.cmData(frame, LayerCMREP)
	return uint64(CMREP(m).VendorID()), len(m) > 23
}
