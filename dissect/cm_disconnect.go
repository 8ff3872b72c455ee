package dissect

// CMDREQ asks to end a connection (IBA 12, table 112).
type CMDREQ []byte

// LocalCommID returns the sender's communication identifier.
func (m CMDREQ) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMDREQ) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMDREQ) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMDREQ) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// RemoteQPN returns the receiver's queue pair number.
func (m CMDREQ) RemoteQPN() uint32 { return cmBytes(m).u24(8) }

// SetRemoteQPN sets the receiver's queue pair number.
func (m CMDREQ) SetRemoteQPN(v uint32) { put24(m[8:], v) }

// Private returns the captured part of the 220 bytes of private data.
func (m CMDREQ) Private() []byte { return cmBytes(m).tail(12) }

// CMDREP agrees to end a connection (IBA 12, table 113).
type CMDREP []byte

// LocalCommID returns the sender's communication identifier.
func (m CMDREP) LocalCommID() uint32 { return cmBytes(m).u32(0) }

// SetLocalCommID sets the sender's communication identifier.
func (m CMDREP) SetLocalCommID(v uint32) { put32(m, v) }

// RemoteCommID returns the receiver's communication identifier, 0 if not known.
func (m CMDREP) RemoteCommID() uint32 { return cmBytes(m).u32(4) }

// SetRemoteCommID sets the receiver's communication identifier, 0 if not known.
func (m CMDREP) SetRemoteCommID(v uint32) { put32(m[4:], v) }

// Private returns the captured part of the 224 bytes of private data.
func (m CMDREP) Private() []byte { return cmBytes(m).tail(8) }

// Wireshark puts DREQ's queue pair number under REQ, and calls DREP DRSP.
var cmDREQFields = []Field{
	{Name: "infiniband.cm.dreq.localcommid", Text: "Local communication ID", Layer: LayerCMDREQ, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.dreq.remotecommid", Text: "Remote communication ID", Layer: LayerCMDREQ, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.req.remoteqpneecn", Text: "Remote QPN/EECN", Layer: LayerCMDREQ, Bit: 8 * 8, Width: 24, Kind: Hex},
	{Name: "infiniband.cm.dreq.private", Text: "Private data", Layer: LayerCMDREQ, Bit: 12 * 8, Kind: Bytes},
}

var cmDREPFields = []Field{
	{Name: "infiniband.cm.drsp.localcommid", Text: "Local communication ID", Layer: LayerCMDREP, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.drsp.remotecommid", Text: "Remote communication ID", Layer: LayerCMDREP, Bit: 4 * 8, Width: 32, Kind: Hex},
	{Name: "infiniband.cm.drsp.private", Text: "Private data", Layer: LayerCMDREP, Bit: 8 * 8, Kind: Bytes},
}
