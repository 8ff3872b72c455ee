package dissect

// CMSIDRREQ asks for the queue pair and queue key of a datagram service
// (IBA 12, table 119).
type CMSIDRREQ []byte

// RequestID returns the request identifier.
func (m CMSIDRREQ) RequestID() uint32 { return cmBytes(m).u32(0) }

// SetRequestID sets the request identifier.
func (m CMSIDRREQ) SetRequestID(v uint32) { put32(m, v) }

// PKey returns the partition key.
func (m CMSIDRREQ) PKey() uint16 { return cmBytes(m).u16(4) }

// SetPKey sets the partition key.
func (m CMSIDRREQ) SetPKey(v uint16) { put16(m[4:], v) }

// ServiceID returns the service that is asked for.
func (m CMSIDRREQ) ServiceID() ServiceID { return ServiceID(cmBytes(m).u64(8)) }

// SetServiceID sets the service that is asked for.
func (m CMSIDRREQ) SetServiceID(v ServiceID) { put64(m[8:], uint64(v)) }

// Private returns the captured part of the 216 bytes of private data.
func (m CMSIDRREQ) Private() []byte { return cmBytes(m).tail(cmSIDRREQPrivate) }

// IPCM returns the header of the RDMA IP CM service at the beginning of the
// private data, nil where the service is another or the header was cut.
func (m CMSIDRREQ) IPCM() IPCM { return ipcmOf(m.ServiceID(), m.Private()) }

// ConsumerPrivate returns what the application put into the private data,
// which is all of it, or what the RDMA IP CM service left of it.
func (m CMSIDRREQ) ConsumerPrivate() []byte { return consumerOf(m.ServiceID(), m.Private()) }

// CMSIDRREP is the answer to a SIDR_REQ (IBA 12, table 120).
type CMSIDRREP []byte

// RequestID returns the request identifier.
func (m CMSIDRREP) RequestID() uint32 { return cmBytes(m).u32(0) }

// SetRequestID sets the request identifier.
func (m CMSIDRREP) SetRequestID(v uint32) { put32(m, v) }

// Status returns the status.
func (m CMSIDRREP) Status() SIDRStatus { return SIDRStatus(cmBytes(m).u8(4)) }

// SetStatus sets the status.
func (m CMSIDRREP) SetStatus(v SIDRStatus) { m[4] = uint8(v) }

// InfoLen returns how many bytes of the additional information are meant.
func (m CMSIDRREP) InfoLen() uint8 { return cmBytes(m).u8(5) }

// SetInfoLen sets how many bytes of the additional information are meant.
func (m CMSIDRREP) SetInfoLen(v uint8) { m[5] = v }

// QPN returns the queue pair number to send to.
func (m CMSIDRREP) QPN() uint32 { return cmBytes(m).u24(8) }

// SetQPN sets the queue pair number to send to.
func (m CMSIDRREP) SetQPN(v uint32) { put24(m[8:], v) }

// ServiceID returns the service that was asked for.
func (m CMSIDRREP) ServiceID() ServiceID { return ServiceID(cmBytes(m).u64(12)) }

// SetServiceID sets the service that was asked for.
func (m CMSIDRREP) SetServiceID(v ServiceID) { put64(m[12:], uint64(v)) }

// QKey returns the queue key to send with.
func (m CMSIDRREP) QKey() uint32 { return cmBytes(m).u32(20) }

// SetQKey sets the queue key to send with.
func (m CMSIDRREP) SetQKey(v uint32) { put32(m[20:], v) }

// Info returns the captured part of the 72 bytes of additional information,
// of which InfoLen are meant.
func (m CMSIDRREP) Info() []byte { return cmBytes(m).span(24, 72) }

// Private returns the captured part of the 136 bytes of private data.
func (m CMSIDRREP) Private() []byte { return cmBytes(m).tail(96) }

// VendorID returns the vendor identifier, which lies in two places; 0 in older
// versions.
func (m CMSIDRREP) VendorID() uint32 {
	b := cmBytes(m)
	return uint32(b.u16(6))<<8 | uint32(b.u8(11))
}

// SetVendorID sets the vendor identifier.
func (m CMSIDRREP) SetVendorID(v uint32) { m[6], m[7], m[11] = byte(v>>16), byte(v>>8), byte(v) }

// SIDRStatus is the status of a SIDR_REP.
type SIDRStatus uint8

// The states.
const (
	SIDRValid SIDRStatus = iota
	SIDRUnsupported
	SIDRRejected
	SIDRNoQP
	SIDRRedirect
	SIDRVersion
)

var sidrStatusNames = [...]string{"valid", "service ID not supported", "rejected by the service provider", "no QP available", "redirection", "version not supported"}

func (s SIDRStatus) String() string {
	if int(s) < len(sidrStatusNames) {
		return sidrStatusNames[s]
	}
	return "reserved"
}

var cmSIDRREQFields = []Field{
	{Name: "infiniband.cm.sidr_req.requestid", Text: "Request ID", Layer: LayerCMSIDRREQ, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.sidr_req.pkey", Text: "Partition key", Layer: LayerCMSIDRREQ, Bit: 4 * 8, Width: 16, Kind: Hex},
	{Name: "infiniband.cm.sidr_req.serviceid", Text: "Service ID", Layer: LayerCMSIDRREQ, Bit: 8 * 8, Width: 64, Kind: Hex, Values: serviceIDName},
	{Name: "infiniband.cm.sidr_req.serviceid.prefix", Text: "Prefix", Layer: LayerCMSIDRREQ, Bit: 8 * 8, Width: 40, Kind: Bytes, When: hasIPCM},
	{Name: "infiniband.cm.sidr_req.serviceid.protocol", Text: "Protocol", Layer: LayerCMSIDRREQ, Bit: 13 * 8, Width: 8, Kind: Hex, Values: portSpaceName, When: hasIPCM},
	{Name: "infiniband.cm.sidr_req.serviceid.dport", Text: "Destination port", Layer: LayerCMSIDRREQ, Bit: 14 * 8, Width: 16, Kind: Hex, Values: decimal, When: hasIPCM},
	{Name: "infiniband.cm.sidr_req.private", Text: "Private data", Layer: LayerCMSIDRREQ, Bit: 16 * 8, Kind: Bytes, When: noIPCM},
}

var cmSIDRREPFields = []Field{
	{Name: "infiniband.cm.sidr_rep.requestid", Text: "Request ID", Layer: LayerCMSIDRREP, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.sidr_rep.status", Text: "Status", Layer: LayerCMSIDRREP, Bit: 4 * 8, Width: 8, Kind: Hex, Values: sidrStatusName},
	{Name: "infiniband.cm.sidr_rep.addinfolen", Text: "Additional information length", Layer: LayerCMSIDRREP, Bit: 5 * 8, Width: 8, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.sidr_rep.vendorid", Text: "Vendor ID", Layer: LayerCMSIDRREP, Kind: Hex, Digits: 6, Get: sidrVendorID},
	{Name: "infiniband.cm.sidr_rep.qpn", Text: "QPN", Layer: LayerCMSIDRREP, Bit: 8 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.sidr_rep.serviceid", Text: "Service ID", Layer: LayerCMSIDRREP, Bit: 12 * 8, Width: 64, Kind: Hex, Values: serviceIDName},
	{Name: "infiniband.cm.sidr_rep.qkey", Text: "Q_Key", Layer: LayerCMSIDRREP, Bit: 20 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.sidr_rep.addinfo", Text: "Additional information", Layer: LayerCMSIDRREP, Bit: 24 * 8, Width: 72 * 8, Kind: Bytes},
	{Name: "infiniband.cm.sidr_rep.private", Text: "Private data", Layer: LayerCMSIDRREP, Bit: 96 * 8, Kind: Bytes},
}

func sidrStatusName(v uint64) string { return SIDRStatus(v).String() }

// sidrVendorID needs all of the three bytes.
func sidrVendorID(p *Packet, frame []byte) (uint64, bool) {
	m := p.cmData(frame, LayerCMSIDRREP)
	return uint64(CMSIDRREP(m).VendorID()), len(m) > 11
}
