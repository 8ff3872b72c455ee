package dissect

// CMLAP asks to load an alternate path (IBA 12, table 115).
type CMLAP []byte

// LocalCommID returns the sender's communication identifier.
func (m CMLAP) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMLAP) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMLAP) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMLAP) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// RemoteQPN returns the receiver's queue pair number.
func (m CMLAP) RemoteQPN() uint32 { return cmBytes(m).u24(12) }

// SetRemoteQPN sets the receiver's queue pair number.
func (m CMLAP) SetRemoteQPN(v uint32) { put24(m[12:], v) }

// RemoteResponseTimeout returns the code of the time in which the receiver should answer; see CMTimeout.
func (m CMLAP) RemoteResponseTimeout() uint8 { return cmBytes(m).bits(15, 3, 5) }

// SetRemoteResponseTimeout sets the code of the time in which the receiver should answer.
func (m CMLAP) SetRemoteResponseTimeout(v uint8) { cmBytes(m).putBits(15, 3, 5, v) }

// LocalLID returns the alternate path's local identifier of the sender's port.
func (m CMLAP) LocalLID() uint16 { return cmBytes(m).u16(20) }

// SetLocalLID sets the alternate path's local identifier of the sender's port.
func (m CMLAP) SetLocalLID(v uint16) { put16(m[20:], v) }

// RemoteLID returns the alternate path's local identifier of the receiver's port.
func (m CMLAP) RemoteLID() uint16 { return cmBytes(m).u16(22) }

// SetRemoteLID sets the alternate path's local identifier of the receiver's port.
func (m CMLAP) SetRemoteLID(v uint16) { put16(m[22:], v) }

// LocalGID returns the alternate path's GID of the sender's port.
func (m CMLAP) LocalGID() Addr { return cmBytes(m).gid(24) }

// SetLocalGID sets the alternate path's GID of the sender's port.
func (m CMLAP) SetLocalGID(v Addr) { putGID(m[24:], v) }

// RemoteGID returns the alternate path's GID of the receiver's port.
func (m CMLAP) RemoteGID() Addr { return cmBytes(m).gid(40) }

// SetRemoteGID sets the alternate path's GID of the receiver's port.
func (m CMLAP) SetRemoteGID(v Addr) { putGID(m[40:], v) }

// FlowLabel returns the flow label.
func (m CMLAP) FlowLabel() uint32 { return cmBytes(m).u24(56) >> 4 }

// SetFlowLabel sets the flow label.
func (m CMLAP) SetFlowLabel(v uint32) { put24(m[56:], v<<4|uint32(m[58]&0xF)) }

// TrafficClass returns the traffic class.
func (m CMLAP) TrafficClass() uint8 { return cmBytes(m).u8(59) }

// SetTrafficClass sets the traffic class.
func (m CMLAP) SetTrafficClass(v uint8) { m[59] = v }

// HopLimit returns the hop limit.
func (m CMLAP) HopLimit() uint8 { return cmBytes(m).u8(60) }

// SetHopLimit sets the hop limit.
func (m CMLAP) SetHopLimit(v uint8) { m[60] = v }

// PacketRate returns the code of the packet rate.
func (m CMLAP) PacketRate() uint8 { return cmBytes(m).bits(61, 0, 6) }

// SetPacketRate sets the code of the packet rate.
func (m CMLAP) SetPacketRate(v uint8) { cmBytes(m).putBits(61, 0, 6, v) }

// SL returns the service level.
func (m CMLAP) SL() uint8 { return cmBytes(m).bits(62, 4, 4) }

// SetSL sets the service level.
func (m CMLAP) SetSL(v uint8) { cmBytes(m).putBits(62, 4, 4, v) }

// SubnetLocal returns whether the path stays in the subnet.
func (m CMLAP) SubnetLocal() bool { return cmBytes(m).bits(62, 3, 1) != 0 }

// SetSubnetLocal sets whether the path stays in the subnet.
func (m CMLAP) SetSubnetLocal(v bool) { cmBytes(m).putBits(62, 3, 1, bit(v)) }

// AckTimeout returns the code of the local ACK time-out; see AckTimeout.
func (m CMLAP) AckTimeout() uint8 { return cmBytes(m).bits(63, 3, 5) }

// SetAckTimeout sets the code of the local ACK time-out.
func (m CMLAP) SetAckTimeout(v uint8) { cmBytes(m).putBits(63, 3, 5, v) }

// Private returns the captured part of the 168 bytes of private data.
func (m CMLAP) Private() []byte { return cmBytes(m).tail(64) }

// CMAPR is the answer to a LAP (IBA 12, table 116).
type CMAPR []byte

// LocalCommID returns the sender's communication identifier.
func (m CMAPR) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMAPR) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMAPR) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMAPR) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// InfoLen returns how many bytes of the additional information are meant.
func (m CMAPR) InfoLen() uint8 { return cmBytes(m).u8(8) }

// SetInfoLen sets how many bytes of the additional information are meant.
func (m CMAPR) SetInfoLen(v uint8) { m[8] = v }

// Status returns the answer.
func (m CMAPR) Status() APStatus { return APStatus(cmBytes(m).u8(9)) }

// SetStatus sets the answer.
func (m CMAPR) SetStatus(v APStatus) { m[9] = uint8(v) }

// Info returns the captured part of the 72 bytes of additional information,
// of which InfoLen are meant.
func (m CMAPR) Info() []byte { return cmBytes(m).span(12, 72) }

// Private returns the captured part of the 148 bytes of private data.
func (m CMAPR) Private() []byte { return cmBytes(m).tail(84) }

// APStatus is the status of an APR.
type APStatus uint8

var apStatusNames = [...]string{
	"alternate path loaded", "invalid communication ID", "alternate paths not supported", "rejected", "redirection",
	"is the primary path already", "invalid QPN or EECN", "invalid LID", "invalid GID", "invalid flow label", "invalid traffic class",
	"invalid hop limit", "invalid packet rate", "invalid SL",
}

func (s APStatus) String() string {
	if int(s) < len(apStatusNames) {
		return apStatusNames[s]
	}
	return "reserved"
}

var cmLAPFields = []Field{
	{Name: "infiniband.cm.lap.localcommid", Text: "Local communication ID", Layer: LayerCMLAP, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.lap.remotecommid", Text: "Remote communication ID", Layer: LayerCMLAP, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.lap.remoteqpneecn", Text: "Remote QPN/EECN", Layer: LayerCMLAP, Bit: 12 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.lap.remoteresptout", Text: "Remote CM response timeout", Layer: LayerCMLAP, Bit: 15 * 8, Width: 5, Kind: Hex, Values: cmTimeoutName},
	{Name: "infiniband.cm.lap.alt_locallid", Text: "Alternate local port LID", Layer: LayerCMLAP, Bit: 20 * 8, Width: 16, Kind: Dec},
	{Name: "infiniband.cm.lap.alt_remotelid", Text: "Alternate remote port LID", Layer: LayerCMLAP, Bit: 22 * 8, Width: 16, Kind: Dec},
	{Name: "infiniband.cm.lap.alt_localgid", Text: "Alternate local port GID", Layer: LayerCMLAP, Bit: 24 * 8, Width: 128, Kind: IPv6Addr},
	{Name: "infiniband.cm.lap.alt_remotegid", Text: "Alternate remote port GID", Layer: LayerCMLAP, Bit: 40 * 8, Width: 128, Kind: IPv6Addr},
	{Name: "infiniband.cm.lap.alt_flowlabel", Text: "Alternate flow label", Layer: LayerCMLAP, Bit: 56 * 8, Width: 20, Kind: Hex},
	{Name: "infiniband.cm.lap.alt_tfcclass", Text: "Alternate traffic class", Layer: LayerCMLAP, Bit: 59 * 8, Width: 8, Kind: Hex},
	{Name: "infiniband.cm.lap.alt_hoplim", Text: "Alternate hop limit", Layer: LayerCMLAP, Bit: 60 * 8, Width: 8, Kind: Hex},
	{Name: "infiniband.cm.lap.alt_pktrate", Text: "Alternate packet rate", Layer: LayerCMLAP, Bit: 61*8 + 2, Width: 6, Kind: Hex, Values: rateName},
	{Name: "infiniband.cm.lap.alt_sl", Text: "Alternate SL", Layer: LayerCMLAP, Bit: 62 * 8, Width: 4, Kind: Hex},
	{Name: "infiniband.cm.lap.alt_subnetlocal", Text: "Alternate subnet local", Layer: LayerCMLAP, Bit: 62*8 + 4, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.lap.alt_localacktout", Text: "Alternate local ACK timeout", Layer: LayerCMLAP, Bit: 63 * 8, Width: 5, Kind: Hex, Values: ackTimeoutName},
	{Name: "infiniband.cm.lap.private", Text: "Private data", Layer: LayerCMLAP, Bit: 64 * 8, Kind: Bytes},
}

var cmAPRFields = []Field{
	{Name: "infiniband.cm.apr.localcommid", Text: "Local communication ID", Layer: LayerCMAPR, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.apr.remotecommid", Text: "Remote communication ID", Layer: LayerCMAPR, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.apr.addinfolen", Text: "Additional information length", Layer: LayerCMAPR, Bit: 8 * 8, Width: 8, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.apr.apstatus", Text: "AP status", Layer: LayerCMAPR, Bit: 9 * 8, Width: 8, Kind: Hex, Values: apStatusName},
	{Name: "infiniband.cm.apr.addinfo", Text: "Additional information", Layer: LayerCMAPR, Bit: 12 * 8, Width: 72 * 8, Kind: Bytes},
	{Name: "infiniband.cm.apr.private", Text: "Private data", Layer: LayerCMAPR, Bit: 84 * 8, Kind: Bytes},
}

func apStatusName(v uint64) string { return APStatus(v).String() }
