package dissect

import "slices"

// CMREQ is a request for communication (IBA 12, table 106).
type CMREQ []byte

// LocalCommID returns the active side's communication identifier.
func (m CMREQ) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the active side's communication identifier.
func (m CMREQ) SetLocalCommID(v uint32) { put32(m, v) }

// VendorID returns the vendor identifier, 0 in older versions.
func (m CMREQ) VendorID() uint32 { return cmBytes(m).u24(5) }

// SetVendorID sets the vendor identifier, 0 in older versions.
func (m CMREQ) SetVendorID(v uint32) { put24(m[5:], v) }

// ServiceID returns the service that is asked for.
func (m CMREQ) ServiceID() ServiceID { return ServiceID(cmBytes(m).u64(8)) }

// SetServiceID sets the service that is asked for.
func (m CMREQ) SetServiceID(v ServiceID) { put64(m[8:], uint64(v)) }

// LocalCAGUID returns the GUID of the sender's channel adapter.
func (m CMREQ) LocalCAGUID() uint64 { return cmBytes(m).u64(16) }

// SetLocalCAGUID sets the GUID of the sender's channel adapter.
func (m CMREQ) SetLocalCAGUID(v uint64) { put64(m[16:], v) }

// LocalQKey returns the sender's queue key.
func (m CMREQ) LocalQKey() uint32 { return cmBytes(m).u32(28) }

// SetLocalQKey sets the sender's queue key.
func (m CMREQ) SetLocalQKey(v uint32) { put32(m[28:], v) }

// LocalQPN returns the sender's queue pair number.
func (m CMREQ) LocalQPN() uint32 { return cmBytes(m).u24(32) }

// SetLocalQPN sets the sender's queue pair number.
func (m CMREQ) SetLocalQPN(v uint32) { put24(m[32:], v) }

// ResponderResources returns how many READs and atomics the sender can answer at a time.
func (m CMREQ) ResponderResources() uint8 { return cmBytes(m).u8(35) }

// SetResponderResources sets how many READs and atomics the sender can answer at a time.
func (m CMREQ) SetResponderResources(v uint8) { m[35] = v }

// LocalEECN returns the sender's end-to-end context number.
func (m CMREQ) LocalEECN() uint32 { return cmBytes(m).u24(36) }

// SetLocalEECN sets the sender's end-to-end context number.
func (m CMREQ) SetLocalEECN(v uint32) { put24(m[36:], v) }

// InitiatorDepth returns how many READs and atomics the sender will have outstanding.
func (m CMREQ) InitiatorDepth() uint8 { return cmBytes(m).u8(39) }

// SetInitiatorDepth sets how many READs and atomics the sender will have outstanding.
func (m CMREQ) SetInitiatorDepth(v uint8) { m[39] = v }

// RemoteEECN returns the receiver's end-to-end context number.
func (m CMREQ) RemoteEECN() uint32 { return cmBytes(m).u24(40) }

// SetRemoteEECN sets the receiver's end-to-end context number.
func (m CMREQ) SetRemoteEECN(v uint32) { put24(m[40:], v) }

// RemoteResponseTimeout returns the code of the time in which the receiver should answer; see CMTimeout.
func (m CMREQ) RemoteResponseTimeout() uint8 { return cmBytes(m).bits(43, 3, 5) }

// SetRemoteResponseTimeout sets the code of the time in which the receiver should answer.
func (m CMREQ) SetRemoteResponseTimeout(v uint8) { cmBytes(m).putBits(43, 3, 5, v) }

// ServiceType returns the transport service type: 0 RC, 1 UC, 2 RD, 3 as ExtendedTransport says; see Transport.
func (m CMREQ) ServiceType() uint8 { return cmBytes(m).bits(43, 1, 2) }

// SetServiceType sets the transport service type.
func (m CMREQ) SetServiceType(v uint8) { cmBytes(m).putBits(43, 1, 2, v) }

// EndToEndFlowControl returns whether the sender counts receive credits.
func (m CMREQ) EndToEndFlowControl() bool { return cmBytes(m).bits(43, 0, 1) != 0 }

// SetEndToEndFlowControl sets whether the sender counts receive credits.
func (m CMREQ) SetEndToEndFlowControl(v bool) { cmBytes(m).putBits(43, 0, 1, bit(v)) }

// StartPSN returns the PSN that the sender expects first, which is where the receiver starts to send.
func (m CMREQ) StartPSN() PSN { return PSN(cmBytes(m).u24(44)) }

// SetStartPSN sets the PSN that the sender expects first.
func (m CMREQ) SetStartPSN(v PSN) { put24(m[44:], uint32(v)) }

// LocalResponseTimeout returns the code of the time in which the sender will answer; see CMTimeout.
func (m CMREQ) LocalResponseTimeout() uint8 { return cmBytes(m).bits(47, 3, 5) }

// SetLocalResponseTimeout sets the code of the time in which the sender will answer.
func (m CMREQ) SetLocalResponseTimeout(v uint8) { cmBytes(m).putBits(47, 3, 5, v) }

// RetryCount returns how often the receiver should retry after a time-out or a NAK.
func (m CMREQ) RetryCount() uint8 { return cmBytes(m).bits(47, 0, 3) }

// SetRetryCount sets how often the receiver should retry after a time-out or a NAK.
func (m CMREQ) SetRetryCount(v uint8) { cmBytes(m).putBits(47, 0, 3, v) }

// PKey returns the partition key.
func (m CMREQ) PKey() uint16 { return cmBytes(m).u16(48) }

// SetPKey sets the partition key.
func (m CMREQ) SetPKey(v uint16) { put16(m[48:], v) }

// MTU returns the code of the path MTU; see MTUBytes.
func (m CMREQ) MTU() uint8 { return cmBytes(m).bits(50, 4, 4) }

// SetMTU sets the code of the path MTU.
func (m CMREQ) SetMTU(v uint8) { cmBytes(m).putBits(50, 4, 4, v) }

// RDCExists returns whether a reliable datagram channel exists.
func (m CMREQ) RDCExists() bool { return cmBytes(m).bits(50, 3, 1) != 0 }

// SetRDCExists sets whether a reliable datagram channel exists.
func (m CMREQ) SetRDCExists(v bool) { cmBytes(m).putBits(50, 3, 1, bit(v)) }

// RNRRetryCount returns how often the receiver should retry after an RNR NAK; 7 is for ever.
func (m CMREQ) RNRRetryCount() uint8 { return cmBytes(m).bits(50, 0, 3) }

// SetRNRRetryCount sets how often the receiver should retry after an RNR NAK.
func (m CMREQ) SetRNRRetryCount(v uint8) { cmBytes(m).putBits(50, 0, 3, v) }

// MaxCMRetries returns how often a CM message is sent again.
func (m CMREQ) MaxCMRetries() uint8 { return cmBytes(m).bits(51, 4, 4) }

// SetMaxCMRetries sets how often a CM message is sent again.
func (m CMREQ) SetMaxCMRetries(v uint8) { cmBytes(m).putBits(51, 4, 4, v) }

// SRQ returns whether the sender uses a shared receive queue.
func (m CMREQ) SRQ() bool { return cmBytes(m).bits(51, 3, 1) != 0 }

// SetSRQ sets whether the sender uses a shared receive queue.
func (m CMREQ) SetSRQ(v bool) { cmBytes(m).putBits(51, 3, 1, bit(v)) }

// ExtendedTransport returns the extended transport type: 1 is XRC.
func (m CMREQ) ExtendedTransport() uint8 { return cmBytes(m).bits(51, 0, 3) }

// SetExtendedTransport sets the extended transport type.
func (m CMREQ) SetExtendedTransport(v uint8) { cmBytes(m).putBits(51, 0, 3, v) }

// Private returns the captured part of the 92 bytes of private data.
func (m CMREQ) Private() []byte { return cmBytes(m).tail(cmREQPrivate) }

// Transport returns the transport service that is asked for. ok is false where
// the message names none that is known.
func (m CMREQ) Transport() (t Transport, ok bool) {
	switch {
	case m.ServiceType() < 3:
		return Transport(m.ServiceType()), true
	case m.ExtendedTransport() == 1:
		return XRC, true
	}
	return 0, false
}

// Primary returns the view of the primary path.
func (m CMREQ) Primary() CMPath { return cmBytes(m).span(52, cmPathSize) }

// Alternate returns the view of the alternate path, all zeros without one.
func (m CMREQ) Alternate() CMPath { return cmBytes(m).span(96, cmPathSize) }

// SAP reports whether the sender supports suggested alternate paths.
func (m CMREQ) SAP() bool { return cmBytes(m).bits(139, 2, 1) != 0 }

// SetSAP sets whether the sender supports suggested alternate paths.
func (m CMREQ) SetSAP(v bool) { cmBytes(m).putBits(139, 2, 1, bit(v)) }

// IPCM returns the header of the RDMA IP CM service at the beginning of the
// private data, nil where the service is another or the header was cut.
func (m CMREQ) IPCM() IPCM { return ipcmOf(m.ServiceID(), m.Private()) }

// ConsumerPrivate returns what the application put into the private data,
// which is all of it, or what the RDMA IP CM service left of it.
func (m CMREQ) ConsumerPrivate() []byte { return consumerOf(m.ServiceID(), m.Private()) }

const cmPathSize = 44

// CMPath is one of the two paths in a REQ.
type CMPath []byte

// LocalLID returns the local identifier of the sender's port, 0xFFFF on RoCE.
func (m CMPath) LocalLID() uint16 { return cmBytes(m).u16(0) }

// SetLocalLID sets the local identifier of the sender's port.
func (m CMPath) SetLocalLID(v uint16) { put16(m, v) }

// RemoteLID returns the local identifier of the receiver's port, 0xFFFF on RoCE.
func (m CMPath) RemoteLID() uint16 { return cmBytes(m).u16(2) }

// SetRemoteLID sets the local identifier of the receiver's port.
func (m CMPath) SetRemoteLID(v uint16) { put16(m[2:], v) }

// LocalGID returns the GID of the sender's port.
func (m CMPath) LocalGID() Addr { return cmBytes(m).gid(4) }

// SetLocalGID sets the GID of the sender's port.
func (m CMPath) SetLocalGID(v Addr) { putGID(m[4:], v) }

// RemoteGID returns the GID of the receiver's port.
func (m CMPath) RemoteGID() Addr { return cmBytes(m).gid(20) }

// SetRemoteGID sets the GID of the receiver's port.
func (m CMPath) SetRemoteGID(v Addr) { putGID(m[20:], v) }

// FlowLabel returns the flow label.
func (m CMPath) FlowLabel() uint32 { return cmBytes(m).u24(36) >> 4 }

// SetFlowLabel sets the flow label.
func (m CMPath) SetFlowLabel(v uint32) { put24(m[36:], v<<4|uint32(m[38]&0xF)) }

// PacketRate returns the code of the packet rate.
func (m CMPath) PacketRate() uint8 { return cmBytes(m).bits(39, 0, 6) }

// SetPacketRate sets the code of the packet rate.
func (m CMPath) SetPacketRate(v uint8) { cmBytes(m).putBits(39, 0, 6, v) }

// TrafficClass returns the traffic class.
func (m CMPath) TrafficClass() uint8 { return cmBytes(m).u8(40) }

// SetTrafficClass sets the traffic class.
func (m CMPath) SetTrafficClass(v uint8) { m[40] = v }

// HopLimit returns the hop limit.
func (m CMPath) HopLimit() uint8 { return cmBytes(m).u8(41) }

// SetHopLimit sets the hop limit.
func (m CMPath) SetHopLimit(v uint8) { m[41] = v }

// SL returns the service level.
func (m CMPath) SL() uint8 { return cmBytes(m).bits(42, 4, 4) }

// SetSL sets the service level.
func (m CMPath) SetSL(v uint8) { cmBytes(m).putBits(42, 4, 4, v) }

// SubnetLocal returns whether the path stays in the subnet.
func (m CMPath) SubnetLocal() bool { return cmBytes(m).bits(42, 3, 1) != 0 }

// SetSubnetLocal sets whether the path stays in the subnet.
func (m CMPath) SetSubnetLocal(v bool) { cmBytes(m).putBits(42, 3, 1, bit(v)) }

// AckTimeout returns the code of the local ACK time-out; see AckTimeout.
func (m CMPath) AckTimeout() uint8 { return cmBytes(m).bits(43, 3, 5) }

// SetAckTimeout sets the code of the local ACK time-out.
func (m CMPath) SetAckTimeout(v uint8) { cmBytes(m).putBits(43, 3, 5, v) }

var cmREQFields = slices.Concat([]Field{
	{Name: "infiniband.cm.req", Text: "Local communication ID", Layer: LayerCMREQ, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.req.vendorid", Text: "Vendor ID", Layer: LayerCMREQ, Bit: 5 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.req.serviceid", Text: "Service ID", Layer: LayerCMREQ, Bit: 8 * 8, Width: 64, Kind: Hex, Values: serviceIDName},
	{Name: "infiniband.cm.req.serviceid.prefix", Text: "Prefix", Layer: LayerCMREQ, Bit: 8 * 8, Width: 40, Kind: Bytes, When: hasIPCM},
	{Name: "infiniband.cm.req.serviceid.protocol", Text: "Protocol", Layer: LayerCMREQ, Bit: 13 * 8, Width: 8, Kind: Hex, Values: portSpaceName, When: hasIPCM},
	{Name: "infiniband.cm.req.serviceid.dport", Text: "Destination port", Layer: LayerCMREQ, Bit: 14 * 8, Width: 16, Kind: Hex, Values: decimal, When: hasIPCM},
	{Name: "infiniband.cm.req.localcaguid", Text: "Local CA GUID", Layer: LayerCMREQ, Bit: 16 * 8, Width: 64, Kind: Hex},
	{Name: "infiniband.cm.req.localqkey", Text: "Local Q_Key", Layer: LayerCMREQ, Bit: 28 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.req.localqpn", Text: "Local QPN", Layer: LayerCMREQ, Bit: 32 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.req.responderres", Text: "Responder resources", Layer: LayerCMREQ, Bit: 35 * 8, Width: 8, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.req.localeecn", Text: "Local EECN", Layer: LayerCMREQ, Bit: 36 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.req.initdepth", Text: "Initiator depth", Layer: LayerCMREQ, Bit: 39 * 8, Width: 8, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.req.remoteeecn", Text: "Remote EECN", Layer: LayerCMREQ, Bit: 40 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.req.remoteresptout", Text: "Remote CM response timeout", Layer: LayerCMREQ, Bit: 43 * 8, Width: 5, Kind: Hex, Values: cmTimeoutName},
	{Name: "infiniband.cm.req.transpsvctype", Text: "Transport service type", Layer: LayerCMREQ, Bit: 43*8 + 5, Width: 2, Kind: Hex, Values: serviceTypeName},
	{Name: "infiniband.cm.req.e2eflowctrl", Text: "End-to-end flow control", Layer: LayerCMREQ, Bit: 43*8 + 7, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.req.startpsn", Text: "Starting PSN", Layer: LayerCMREQ, Bit: 44 * 8, Width: 24, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.req.localresptout", Text: "Local CM response timeout", Layer: LayerCMREQ, Bit: 47 * 8, Width: 5, Kind: Hex, Values: cmTimeoutName},
	{Name: "infiniband.cm.req.retrcount", Text: "Retry count", Layer: LayerCMREQ, Bit: 47*8 + 5, Width: 3, Kind: Hex},
	{Name: "infiniband.cm.req.pkey", Text: "Partition key", Layer: LayerCMREQ, Bit: 48 * 8, Width: 16, Kind: Hex},
	{Name: "infiniband.cm.req.pppmtu", Text: "Path packet payload MTU", Layer: LayerCMREQ, Bit: 50 * 8, Width: 4, Kind: Hex, Values: mtuName},
	{Name: "infiniband.cm.req.rdcexist", Text: "RDC exists", Layer: LayerCMREQ, Bit: 50*8 + 4, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.req.rnrretrcount", Text: "RNR retry count", Layer: LayerCMREQ, Bit: 50*8 + 5, Width: 3, Kind: Hex, Values: rnrRetryName},
	{Name: "infiniband.cm.req.maxcmretr", Text: "Max CM retries", Layer: LayerCMREQ, Bit: 51 * 8, Width: 4, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.req.srq", Text: "SRQ", Layer: LayerCMREQ, Bit: 51*8 + 4, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.req.ext_transport", Text: "Extended transport", Layer: LayerCMREQ, Bit: 51*8 + 5, Width: 3, Kind: Hex, Values: extendedTransportName},
}, cmPathRows("prim", "Primary ", 52), cmPathRows("alt", "Alternate ", 96), []Field{
	{Name: "infiniband.cm.req.alt_sap", Text: "Suggested alternate path supported", Layer: LayerCMREQ, Bit: 139*8 + 5, Width: 1, Kind: Hex},
	{Name: "infiniband.cm.req.private", Text: "Private data", Layer: LayerCMREQ, Bit: 140 * 8, Kind: Bytes, When: noIPCM},
})

// cmPathRows are the rows of the path at byte at. Of the primary path's GIDs
// Wireshark shows those of IPv4 as addresses, under another name; those of the
// alternate path it shows as bytes.
func cmPathRows(name, text string, at uint16) []Field {
	row := func(suffix, what string, offset, bit, width uint16, k Kind) Field {
		return Field{Name: "infiniband.cm.req." + name + "_" + suffix, Text: text + what, Layer: LayerCMREQ, Bit: (at+offset)*8 + bit, Width: width, Kind: k}
	}
	gid := func(suffix, what string, offset uint16) []Field {
		if name == "alt" {
			return []Field{row(suffix, what, offset, 0, 128, Bytes)}
		}
		v6, v4 := row(suffix, what, offset, 0, 128, IPv6Addr), row(suffix+"_ipv4", what, offset+12, 0, 32, IPv4Addr)
		v6.When = func(p *Packet, frame []byte) bool { return !mappedAt(frame, p.Offset(LayerCMREQ)+int(at+offset)) }
		v4.When = func(p *Packet, frame []byte) bool { return mappedAt(frame, p.Offset(LayerCMREQ)+int(at+offset)) }
		return []Field{v6, v4}
	}
	wide := func(f Field, values func(uint64) string) Field { f.Digits, f.Values = 8, values; return f }
	ack := row("localacktout", "local ACK timeout", 43, 0, 5, Hex)
	ack.Values = ackTimeoutName
	rows := slices.Concat(
		[]Field{
			row("locallid", "local port LID", 0, 0, 16, Dec),
			row("remotelid", "remote port LID", 2, 0, 16, Dec),
		},
		gid("localgid", "local port GID", 4),
		gid("remotegid", "remote port GID", 20),
		[]Field{
			wide(row("flowlabel", "flow label", 36, 0, 20, Hex), nil),
			wide(row("reserved0", "reserved", 36, 20, 6, Hex), nil),
			wide(row("pktrate", "packet rate", 36, 26, 6, Hex), rateName),
			row("tfcclass", "traffic class", 40, 0, 8, Hex),
			row("hoplim", "hop limit", 41, 0, 8, Hex),
			row("sl", "SL", 42, 0, 4, Hex),
			row("subnetlocal", "subnet local", 42, 4, 1, Hex),
			row("reserved1", "reserved", 42, 5, 3, Hex),
			ack,
		})
	if name == "prim" {
		rows = append(rows, row("reserved2", "reserved", 43, 5, 3, Hex))
	}
	return rows
}

// mappedAt reports whether an IPv4-mapped GID begins at frame[at].
func mappedAt(frame []byte, at int) bool {
	return at+16 <= len(frame) && (Addr{be64(frame[at:]), be64(frame[at+8:])}).Is4()
}
