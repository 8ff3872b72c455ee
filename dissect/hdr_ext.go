package dissect

// The extension headers (IBA 9.3): small views in the order of the wire.

// RDETH is the reliable datagram extended header.
type RDETH []byte

// EEContext returns the 24-bit end-to-end context.
func (h RDETH) EEContext() uint32 { return be24(h[1:]) }

// SetEEContext sets the end-to-end context.
func (h RDETH) SetEEContext(v uint32) { put24(h[1:], v) }

// XRCETH is the extended reliable connection header (annex A14).
type XRCETH []byte

// SRQ returns the 24-bit number of the shared receive queue.
func (h XRCETH) SRQ() uint32 { return be24(h[1:]) }

// SetSRQ sets the number of the shared receive queue.
func (h XRCETH) SetSRQ(v uint32) { put24(h[1:], v) }

// DETH is the datagram extended header.
type DETH []byte

// QKey returns the queue key.
func (h DETH) QKey() uint32 { return be32(h) }

// SetQKey sets the queue key.
func (h DETH) SetQKey(v uint32) { put32(h, v) }

// SrcQP returns the 24-bit source queue pair number.
func (h DETH) SrcQP() uint32 { return be24(h[5:]) }

// SetSrcQP sets the source queue pair number.
func (h DETH) SetSrcQP(v uint32) { put24(h[5:], v) }

// FETH is the flush extended header (annex A19).
type FETH []byte

// Placement returns the placement type: bit 0 global visibility, bit 1
// persistence.
func (h FETH) Placement() uint8 { return h[3] & 0xF }

// SetPlacement sets the placement type.
func (h FETH) SetPlacement(v uint8) { h[3] = h[3]&0xF0 | v&0xF }

// Selectivity returns 0 for a memory range, 1 for the whole memory region.
func (h FETH) Selectivity() uint8 { return h[3] >> 4 & 3 }

// SetSelectivity sets what is to be flushed.
func (h FETH) SetSelectivity(v uint8) { h[3] = h[3]&0xCF | v&3<<4 }

// RETH is the RDMA extended header of WRITEs and READ requests.
type RETH []byte

// VA returns the remote virtual address.
func (h RETH) VA() uint64 { return be64(h) }

// SetVA sets the remote virtual address.
func (h RETH) SetVA(v uint64) { put64(h, v) }

// RKey returns the key of the remote memory region.
func (h RETH) RKey() uint32 { return be32(h[8:]) }

// SetRKey sets the key of the remote memory region.
func (h RETH) SetRKey(v uint32) { put32(h[8:], v) }

// DMALen returns the length of the whole message in bytes.
func (h RETH) DMALen() uint32 { return be32(h[12:]) }

// SetDMALen sets the length of the whole message.
func (h RETH) SetDMALen(v uint32) { put32(h[12:], v) }

// AtomicETH is the header of compare-and-swap and fetch-and-add requests.
type AtomicETH []byte

// VA returns the remote virtual address.
func (h AtomicETH) VA() uint64 { return be64(h) }

// SetVA sets the remote virtual address.
func (h AtomicETH) SetVA(v uint64) { put64(h, v) }

// RKey returns the key of the remote memory region.
func (h AtomicETH) RKey() uint32 { return be32(h[8:]) }

// SetRKey sets the key of the remote memory region.
func (h AtomicETH) SetRKey(v uint32) { put32(h[8:], v) }

// SwapAdd returns the value to swap in, or to add.
func (h AtomicETH) SwapAdd() uint64 { return be64(h[12:]) }

// SetSwapAdd sets the value to swap in, or to add.
func (h AtomicETH) SetSwapAdd(v uint64) { put64(h[12:], v) }

// Compare returns the value to compare with.
func (h AtomicETH) Compare() uint64 { return be64(h[20:]) }

// SetCompare sets the value to compare with.
func (h AtomicETH) SetCompare(v uint64) { put64(h[20:], v) }

// AETH is the acknowledge extended header.
type AETH []byte

// Syndrome returns the syndrome.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// SetSyndrome sets the syndrome.
func (h AETH) SetSyndrome(s Syndrome) { h[0] = byte(s) }

// MSN returns the responder's message sequence number.
func (h AETH) MSN() MSN { return MSN(be24(h[1:])) }

// SetMSN sets the message sequence number.
func (h AETH) SetMSN(m MSN) { put24(h[1:], uint32(m)) }

// AtomicAckETH is the header of atomic answers.
type AtomicAckETH []byte

// Orig returns the value that the memory held before.
func (h AtomicAckETH) Orig() uint64 { return be64(h) }

// SetOrig sets the value that the memory held before.
func (h AtomicAckETH) SetOrig(v uint64) { put64(h, v) }

// ImmDt is the immediate data header.
type ImmDt []byte

// Data returns the immediate data in network byte order.
func (h ImmDt) Data() uint32 { return be32(h) }

// SetData sets the immediate data.
func (h ImmDt) SetData(v uint32) { put32(h, v) }

// IETH is the invalidate extended header.
type IETH []byte

// RKey returns the key to invalidate.
func (h IETH) RKey() uint32 { return be32(h) }

// SetRKey sets the key to invalidate.
func (h IETH) SetRKey(v uint32) { put32(h, v) }

// View returns the bytes of an extension header, nil where the frame does not
// have it whole: RETH(p.View(frame, LayerRETH)).
func (p *Packet) View(frame []byte, l Layer) []byte { return p.view(frame, l, l.Size()) }

var rdethFields = []Field{
	{Name: "infiniband.rdeth.eecnxt", Text: "E2E context", Layer: LayerRDETH, Bit: 8, Width: 24, Kind: Dec},
}

var xrcethFields = []Field{
	{Name: "infiniband.xrceth.srq", Text: "XRC shared receive queue", Layer: LayerXRCETH, Bit: 8, Width: 24, Kind: Hex},
}

var dethFields = []Field{
	{Name: "infiniband.deth.q_key", Text: "Queue key", Layer: LayerDETH, Bit: 0, Width: 32, Kind: Hex, Digits: 16},
	{Name: "infiniband.deth.srcqp", Text: "Source queue pair", Layer: LayerDETH, Bit: 40, Width: 24, Kind: Hex, Digits: 8},
}

var fethFields = []Field{
	{Name: "infiniband.feth.selectivity", Text: "Selectivity", Layer: LayerFETH, Bit: 26, Width: 2, Kind: Dec, Values: flushSelectivity},
	{Name: "infiniband.feth.placement", Text: "Placement type", Layer: LayerFETH, Bit: 28, Width: 4, Kind: Dec, Values: flushPlacement},
}

var rethFields = []Field{
	{Name: "infiniband.reth.va", Text: "Virtual address", Layer: LayerRETH, Bit: 0, Width: 64, Kind: Hex},
	{Name: "infiniband.reth.r_key", Text: "Remote key", Layer: LayerRETH, Bit: 64, Width: 32, Kind: Hex},
	{Name: "infiniband.reth.dmalen", Text: "DMA length", Layer: LayerRETH, Bit: 96, Width: 32, Kind: Dec},
}

var atomicETHFields = []Field{
	{Name: "infiniband.reth.va", Text: "Virtual address", Layer: LayerAtomicETH, Bit: 0, Width: 64, Kind: Hex},
	{Name: "infiniband.reth.r_key", Text: "Remote key", Layer: LayerAtomicETH, Bit: 64, Width: 32, Kind: Hex},
	{Name: "infiniband.atomiceth.swapdt", Text: "Swap (or add) data", Layer: LayerAtomicETH, Bit: 96, Width: 64, Kind: Dec},
	{Name: "infiniband.atomiceth.cmpdt", Text: "Compare data", Layer: LayerAtomicETH, Bit: 160, Width: 64, Kind: Dec},
}

var aethFields = []Field{
	{Name: "infiniband.aeth.syndrome", Text: "Syndrome", Layer: LayerAETH, Bit: 0, Width: 8, Kind: Dec, Values: syndromeName},
	{Name: "infiniband.aeth.syndrome.reserved", Text: "Reserved", Layer: LayerAETH, Bit: 0, Width: 1, Kind: Dec},
	{Name: "infiniband.aeth.syndrome.opcode", Text: "Kind", Layer: LayerAETH, Bit: 1, Width: 2, Kind: Dec, Values: syndromeKindName},
	{Name: "infiniband.aeth.syndrome.credit_count", Text: "Credit count", Layer: LayerAETH, Kind: Dec, Get: syndromeValue(KindACK), Values: creditName},
	{Name: "infiniband.aeth.syndrome.timer", Text: "RNR timer", Layer: LayerAETH, Kind: Dec, Get: syndromeValue(KindRNR), Values: rnrTimerName},
	{Name: "infiniband.aeth.syndrome.reserved_value", Text: "Reserved", Layer: LayerAETH, Kind: Dec, Get: syndromeValue(KindReserved)},
	{Name: "infiniband.aeth.syndrome.error_code", Text: "Error code", Layer: LayerAETH, Kind: Dec, Get: syndromeValue(KindNAK), Values: nakName},
	{Name: "infiniband.aeth.msn", Text: "Message sequence number", Layer: LayerAETH, Bit: 8, Width: 24, Kind: Dec},
}

var atomicAckETHFields = []Field{
	{Name: "infiniband.atomicacketh.origremdt", Text: "Original remote data", Layer: LayerAtomicAckETH, Bit: 0, Width: 64, Kind: Dec},
}

var immDtFields = []Field{
	{Name: "infiniband.immdt", Text: "Immediate data", Layer: LayerImmDt, Bit: 0, Width: 32, Kind: Bytes},
}

var iethFields = []Field{
	{Name: "infiniband.ieth", Text: "R_Key to invalidate", Layer: LayerIETH, Bit: 0, Width: 32, Kind: Bytes},
}

// syndromeValue is the low five bits of syndromes of one kind only.
func syndromeValue(k SyndromeKind) func(*Packet, []byte) (uint64, bool) {
	return func(p *Packet, _ []byte) (uint64, bool) {
		return uint64(p.Syndrome.Value()), p.Has(LayerAETH) && p.Syndrome.Kind() == k
	}
}

func syndromeName(v uint64) string     { return Syndrome(v).String() }
func syndromeKindName(v uint64) string { return SyndromeKind(v).String() }
func nakName(v uint64) string          { return NAKCode(v).String() }
func rnrTimerName(v uint64) string     { return RNRTimer(uint8(v)).String() }

func creditName(v uint64) string {
	n, ok := Credits(uint8(v))
	if !ok {
		return "no credit information"
	}
	return decimal(uint64(n)) + " receive WQEs"
}

func flushSelectivity(v uint64) string {
	switch v {
	case 0:
		return "memory range"
	case 1:
		return "whole memory region"
	}
	return "reserved"
}

func flushPlacement(v uint64) string {
	names := [...]string{"", "global visibility", "persistence", "global visibility and persistence"}
	if v < uint64(len(names)) {
		return names[v]
	}
	return "reserved"
}
