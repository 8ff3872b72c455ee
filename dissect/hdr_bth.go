package dissect

// BTH is the base transport header (IBA 9.2).
type BTH []byte

// Opcode returns the opcode.
func (h BTH) Opcode() Opcode { return Opcode(h[0]) }

// SetOpcode sets the opcode.
func (h BTH) SetOpcode(o Opcode) { h[0] = byte(o) }

// SE returns the solicited event bit.
func (h BTH) SE() bool { return h[1]&0x80 != 0 }

// SetSE sets the solicited event bit.
func (h BTH) SetSE(on bool) { setBit(&h[1], 0x80, on) }

// MigReq returns the migration request bit.
func (h BTH) MigReq() bool { return h[1]&0x40 != 0 }

// SetMigReq sets the migration request bit.
func (h BTH) SetMigReq(on bool) { setBit(&h[1], 0x40, on) }

// PadCnt returns the number of pad bytes, 0 … 3.
func (h BTH) PadCnt() uint8 { return h[1] >> 4 & 3 }

// SetPadCnt sets the number of pad bytes, 0 … 3.
func (h BTH) SetPadCnt(n uint8) { h[1] = h[1]&^0x30 | n&3<<4 }

// TVer returns the transport header version, 0.
func (h BTH) TVer() uint8 { return h[1] & 0x0F }

// SetTVer sets the transport header version.
func (h BTH) SetTVer(v uint8) { h[1] = h[1]&^0x0F | v&0x0F }

// PKey returns the partition key; bit 15 is full membership.
func (h BTH) PKey() uint16 { return be16(h[2:]) }

// SetPKey sets the partition key.
func (h BTH) SetPKey(v uint16) { put16(h[2:], v) }

// FECN returns the forward congestion bit.
func (h BTH) FECN() bool { return h[4]&0x80 != 0 }

// SetFECN sets the forward congestion bit.
func (h BTH) SetFECN(on bool) { setBit(&h[4], 0x80, on) }

// BECN returns the backward congestion bit.
func (h BTH) BECN() bool { return h[4]&0x40 != 0 }

// SetBECN sets the backward congestion bit.
func (h BTH) SetBECN(on bool) { setBit(&h[4], 0x40, on) }

// DestQP returns the 24-bit destination queue pair number.
func (h BTH) DestQP() uint32 { return be24(h[5:]) }

// SetDestQP sets the destination queue pair number.
func (h BTH) SetDestQP(v uint32) { put24(h[5:], v) }

// AckReq returns the acknowledge request bit.
func (h BTH) AckReq() bool { return h[8]&0x80 != 0 }

// SetAckReq sets the acknowledge request bit.
func (h BTH) SetAckReq(on bool) { setBit(&h[8], 0x80, on) }

// PSN returns the packet sequence number.
func (h BTH) PSN() PSN { return PSN(be24(h[9:])) }

// SetPSN sets the packet sequence number.
func (h BTH) SetPSN(p PSN) { put24(h[9:], uint32(p)) }

func setBit(b *byte, mask byte, on bool) {
	if on {
		*b |= mask
	} else {
		*b &^= mask
	}
}

// BTH returns the view of the frame's BTH, nil without one.
func (p *Packet) BTH(frame []byte) BTH { return p.view(frame, LayerBTH, 12) }

var bthFields = []Field{
	{Name: "infiniband.bth.opcode", Text: "Opcode", Layer: LayerBTH, Bit: 0, Width: 8, Kind: Dec, Values: opcodeName},
	{Name: "infiniband.bth.se", Text: "Solicited event", Layer: LayerBTH, Bit: 8, Width: 1, Kind: Bool},
	{Name: "infiniband.bth.m", Text: "MigReq", Layer: LayerBTH, Bit: 9, Width: 1, Kind: Bool},
	{Name: "infiniband.bth.padcnt", Text: "Pad count", Layer: LayerBTH, Bit: 10, Width: 2, Kind: Dec},
	{Name: "infiniband.bth.tver", Text: "Header version", Layer: LayerBTH, Bit: 12, Width: 4, Kind: Dec},
	{Name: "infiniband.bth.p_key", Text: "Partition key", Layer: LayerBTH, Bit: 16, Width: 16, Kind: Dec, Values: hexNote},
	{Name: "infiniband.bth.f", Text: "FECN", Layer: LayerBTH, Bit: 32, Width: 1, Kind: Bool},
	{Name: "infiniband.bth.b", Text: "BECN", Layer: LayerBTH, Bit: 33, Width: 1, Kind: Bool},
	{Name: "infiniband.bth.reserved6", Text: "Reserved (6 bits)", Layer: LayerBTH, Bit: 34, Width: 6, Kind: Dec},
	{Name: "infiniband.bth.destqp", Text: "Destination queue pair", Layer: LayerBTH, Bit: 40, Width: 24, Kind: Hex},
	{Name: "infiniband.bth.a", Text: "Acknowledge request", Layer: LayerBTH, Bit: 64, Width: 1, Kind: Bool},
	{Name: "infiniband.bth.reserved7", Text: "Reserved (7 bits)", Layer: LayerBTH, Bit: 65, Width: 7, Kind: Dec},
	{Name: "infiniband.bth.psn", Text: "Packet sequence number", Layer: LayerBTH, Bit: 72, Width: 24, Kind: Dec, Values: hexNote},
}

func opcodeName(v uint64) string { return opTable[v&0xFF].Name }
