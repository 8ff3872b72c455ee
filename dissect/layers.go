package dissect

// Layer names one header of a frame.
type Layer uint8

// The layers, outermost first. The extension headers stand in the order in
// which they appear on the wire.
const (
	LayerFrame Layer = iota // the frame as a whole: length, time, number
	LayerEthernet
	LayerSLL
	LayerSLL2
	LayerNull
	LayerVLAN  // outermost 802.1Q or 802.1ad tag, from its TCI on
	LayerVLAN2 // the tag inside it
	LayerMACControl
	LayerLRH
	LayerIPv4
	LayerIPv6
	LayerGRH
	LayerUDP
	LayerTCP
	LayerBTH

	numBaseLayers
)

// The extension headers of the transport, in wire order (IBA 9.2 to 9.3).
const (
	LayerRDETH Layer = numBaseLayers + iota
	LayerXRCETH
	LayerDETH
	LayerFETH
	LayerRETH
	LayerAtomicETH
	LayerAETH
	LayerAtomicAckETH
	LayerImmDt
	LayerIETH

	endExtLayers
)

// What the payload holds where it is a management datagram (IBA 13.4): the
// header that all share, behind it one of the CM messages (IBA 12), and in
// the private data of some of those the header of the RDMA IP CM service
// (annex A11).
const (
	LayerMAD Layer = endExtLayers + iota
	LayerCMREQ
	LayerCMMRA
	LayerCMREJ
	LayerCMREP
	LayerCMRTU
	LayerCMDREQ
	LayerCMDREP
	LayerCMSIDRREQ
	LayerCMSIDRREP
	LayerCMLAP
	LayerCMAPR
	LayerIPCM

	// What the classes that manage a fabric put behind the common header or, of
	// directed routes, into it; and their attributes.
	LayerSMP
	LayerSMPDirected
	LayerRMPP
	LayerSA
	LayerSMPData
	LayerSARecord
	LayerPerfData
	LayerDevMgtData
	LayerCongestionKey
	LayerCongestionData
	LayerClassPortInfo // of the other classes

	LayerPayload
	LayerICRC

	endSetLayers
)

// The layers that a frame seldom has. They are no part of a LayerSet: a packet
// lists those that it has, with their offsets. The headers around a tunnel's
// inner packet are layers of their own, so that the inner ones keep their names.
const (
	LayerOuterEthernet Layer = firstListed + iota
	LayerOuterVLAN
	LayerOuterIPv4
	LayerOuterIPv6
	LayerOuterUDP
	LayerOuterEthernet2 // of a tunnel in a tunnel
	LayerOuterVLAN2
	LayerOuterIPv42
	LayerOuterIPv62
	LayerOuterUDP2
	LayerERF
	LayerMPLS
	LayerMPLS2 // the label below it
	LayerPPPoE
	LayerGRE
	LayerERSPAN2
	LayerERSPAN3
	LayerVXLAN
	LayerGENEVE
	LayerRWH
	LayerVCRC
	LayerIBLink
	LayerMPARequest
	LayerMPAReply
	LayerFPDU
	LayerDDPTagged
	LayerDDPUntagged
	LayerRDMAPReadRequest
	LayerRDMAPTerminate
	LayerRDMAPAtomicRequest
	LayerRDMAPAtomicResponse
	LayerRDMAPImmediate
	LayerLLDP
	LayerDCBX // LLDP's elements of IEEE 802.1Qaz
	LayerCEE  // those that came before that

	// What upper protocols put into the payload, and into the private data of
	// CM messages. Only SetUpper lists these, for it takes more than one packet
	// to know them.
	LayerNVMeRequest // private data of a REQ
	LayerNVMeAccept  // of a REP
	LayerNVMeReject  // of a REJ
	LayerNVMeCommand
	LayerNVMeConnect // the data of a Connect command
	LayerNVMeResponse
	LayerRPCRDMAPrivate // of REQ and REP
	LayerRPCRDMA
	LayerRPC
	LayerISERPrivate // of REQ and REP
	LayerISER
	LayerISCSI
	LayerSMBDNegotiate
	LayerSMBDAnswer
	LayerSMBDData
	LayerSMB2

	// NumLayers is one more than the last layer; not all numbers below are used.
	NumLayers
)

const numLayers = NumLayers

// firstListed is the first layer that does not fit into a LayerSet.
const firstListed = 64

const _ = uint(firstListed - endSetLayers) // all others fit

// layerInfo is what the tree view and the decoder need to know of a layer.
var layerInfo = [numLayers]struct {
	name string // as people say it
	size int    // bytes of the fixed part; 0 where it varies
}{
	LayerFrame:        {"Frame", 0},
	LayerEthernet:     {"Ethernet", 14},
	LayerSLL:          {"Linux cooked capture v1", 16},
	LayerSLL2:         {"Linux cooked capture v2", 20},
	LayerNull:         {"Loopback", 4},
	LayerVLAN:         {"802.1Q VLAN", 4},
	LayerVLAN2:        {"802.1Q VLAN (inner)", 4},
	LayerMACControl:   {"MAC Control", 2},
	LayerLRH:          {"Local Route Header", 8},
	LayerIPv4:         {"Internet Protocol Version 4", 20},
	LayerIPv6:         {"Internet Protocol Version 6", 40},
	LayerGRH:          {"Global Route Header", 40},
	LayerUDP:          {"User Datagram Protocol", 8},
	LayerTCP:          {"Transmission Control Protocol", 20},
	LayerBTH:          {"Base Transport Header", 12},
	LayerRDETH:        {"RDETH - Reliable Datagram Extended Transport Header", 4},
	LayerXRCETH:       {"XRCETH - XRC Extended Transport Header", 4},
	LayerDETH:         {"DETH - Datagram Extended Transport Header", 8},
	LayerFETH:         {"FETH - Flush Extended Transport Header", 4},
	LayerRETH:         {"RETH - RDMA Extended Transport Header", 16},
	LayerAtomicETH:    {"AtomicETH - Atomic Extended Transport Header", 28},
	LayerAETH:         {"AETH - ACK Extended Transport Header", 4},
	LayerAtomicAckETH: {"AtomicAckETH - Atomic ACK Extended Transport Header", 8},
	LayerImmDt:        {"ImmDt - Immediate Data", 4},
	LayerIETH:         {"IETH - Invalidate Extended Transport Header", 4},
	LayerMAD:          {"Management Datagram", madHeaderSize},
	LayerCMREQ:        {"CM REQ - Request for Communication", madDataSize},
	LayerCMMRA:        {"CM MRA - Message Receipt Acknowledgment", madDataSize},
	LayerCMREJ:        {"CM REJ - Reject", madDataSize},
	LayerCMREP:        {"CM REP - Reply to Request for Communication", madDataSize},
	LayerCMRTU:        {"CM RTU - Ready To Use", madDataSize},
	LayerCMDREQ:       {"CM DREQ - Request for Communication Release", madDataSize},
	LayerCMDREP:       {"CM DREP - Reply to Request for Communication Release", madDataSize},
	LayerCMSIDRREQ:    {"CM SIDR_REQ - Service ID Resolution Request", madDataSize},
	LayerCMSIDRREP:    {"CM SIDR_REP - Service ID Resolution Response", madDataSize},
	LayerCMLAP:        {"CM LAP - Load Alternate Path", madDataSize},
	LayerCMAPR:        {"CM APR - Alternate Path Response", madDataSize},
	LayerIPCM:         {"RDMA IP CM Service", ipcmSize},
	LayerPayload:      {"Payload", 0},

	LayerSMP:            {"Subnet Management Packet, LID routed", 8},
	LayerSMPDirected:    {"Subnet Management Packet, directed route", 0},
	LayerRMPP:           {"RMPP - Reliable Multi-Packet Transaction Protocol", 12},
	LayerSA:             {"Subnet Administration", 20},
	LayerSMPData:        {"Subnet management attribute", 64},
	LayerSARecord:       {"Subnet administration record", 200},
	LayerPerfData:       {"Performance management attribute", 192},
	LayerDevMgtData:     {"Device management attribute", 192},
	LayerCongestionKey:  {"Congestion control", 40},
	LayerCongestionData: {"Congestion control attribute", 192},
	LayerClassPortInfo:  {"ClassPortInfo", 72},
	LayerICRC:           {"ICRC - Invariant CRC", 4},

	LayerOuterEthernet:       {"Ethernet (outer)", 14},
	LayerOuterVLAN:           {"802.1Q VLAN (outer)", 4},
	LayerOuterIPv4:           {"Internet Protocol Version 4 (outer)", 20},
	LayerOuterIPv6:           {"Internet Protocol Version 6 (outer)", 40},
	LayerOuterUDP:            {"User Datagram Protocol (outer)", 8},
	LayerOuterEthernet2:      {"Ethernet (second outer)", 14},
	LayerOuterVLAN2:          {"802.1Q VLAN (second outer)", 4},
	LayerOuterIPv42:          {"Internet Protocol Version 4 (second outer)", 20},
	LayerOuterIPv62:          {"Internet Protocol Version 6 (second outer)", 40},
	LayerOuterUDP2:           {"User Datagram Protocol (second outer)", 8},
	LayerERF:                 {"Extensible Record Format", 16},
	LayerMPLS:                {"MPLS", 4},
	LayerMPLS2:               {"MPLS (second label)", 4},
	LayerPPPoE:               {"PPP-over-Ethernet Session", 8},
	LayerGRE:                 {"Generic Routing Encapsulation", 4},
	LayerERSPAN2:             {"ERSPAN type II", 8},
	LayerERSPAN3:             {"ERSPAN type III", 12},
	LayerVXLAN:               {"Virtual eXtensible LAN", 8},
	LayerGENEVE:              {"Generic Network Virtualization Encapsulation", 8},
	LayerRWH:                 {"Raw Header", 4},
	LayerVCRC:                {"VCRC - Variant CRC", 2},
	LayerIBLink:              {"InfiniBand Link Packet", 6},
	LayerMPARequest:          {"MPA Request Frame", mpaFrameSize},
	LayerMPAReply:            {"MPA Reply Frame", mpaFrameSize},
	LayerFPDU:                {"MPA FPDU", 2},
	LayerDDPTagged:           {"DDP/RDMAP, tagged", ddpTaggedSize},
	LayerDDPUntagged:         {"DDP/RDMAP, untagged", ddpUntaggedSize},
	LayerRDMAPReadRequest:    {"RDMAP Read Request", 28},
	LayerRDMAPTerminate:      {"RDMAP Terminate", 4},
	LayerRDMAPAtomicRequest:  {"RDMAP Atomic Request", 52},
	LayerRDMAPAtomicResponse: {"RDMAP Atomic Response", 12},
	LayerRDMAPImmediate:      {"RDMAP Immediate Data", 8},
	LayerLLDP:                {"Link Layer Discovery Protocol", 0},
	LayerDCBX:                {"Data Center Bridging Exchange (IEEE 802.1Qaz)", 0},
	LayerCEE:                 {"Data Center Bridging Exchange (CEE)", 0},

	LayerNVMeRequest:    {"NVMe over RDMA: private data of the request", nvmePrivateSize},
	LayerNVMeAccept:     {"NVMe over RDMA: private data of the reply", nvmePrivateSize},
	LayerNVMeReject:     {"NVMe over RDMA: private data of the rejection", nvmeRejectSize},
	LayerNVMeCommand:    {"NVMe command capsule", nvmeCommandSize},
	LayerNVMeConnect:    {"NVMe Connect data", nvmeConnectSize},
	LayerNVMeResponse:   {"NVMe response capsule", nvmeResponseSize},
	LayerRPCRDMAPrivate: {"RPC-over-RDMA private data", rpcPrivateSize},
	LayerRPCRDMA:        {"RPC-over-RDMA", rpcRDMASize},
	LayerRPC:            {"Remote Procedure Call", rpcSize},
	LayerISERPrivate:    {"iSER private data", iserPrivateSize},
	LayerISER:           {"iSER", iserSize},
	LayerISCSI:          {"iSCSI Basic Header Segment", iscsiSize},
	LayerSMBDNegotiate:  {"SMB Direct Negotiate Request", smbdNegotiateSize},
	LayerSMBDAnswer:     {"SMB Direct Negotiate Response", smbdAnswerSize},
	LayerSMBDData:       {"SMB Direct Data Transfer", smbdDataSize},
	LayerSMB2:           {"SMB2", smb2Size},
}

// String returns the layer's name as the detail tree shows it.
func (l Layer) String() string {
	if l < numLayers {
		return layerInfo[l].name
	}
	return "unknown layer"
}

// Upper reports whether the layer is of an upper protocol: a packet has it only
// once SetUpper was told what the connection carries.
func (l Layer) Upper() bool { return l >= LayerNVMeRequest && l <= LayerSMB2 }

// Size is the length of the layer's fixed part in bytes, 0 where it varies.
func (l Layer) Size() int {
	if l < numLayers {
		return layerInfo[l].size
	}
	return 0
}

// LayerSet is a set of layers, one bit each. It holds those that frames
// usually have; for the others see Packet.Listed.
type LayerSet uint64

// Has reports whether l is in the set.
func (s LayerSet) Has(l Layer) bool { return s>>l&1 != 0 }

func setOf(ls ...Layer) (s LayerSet) {
	for _, l := range ls {
		s |= 1 << l
	}
	return s
}
