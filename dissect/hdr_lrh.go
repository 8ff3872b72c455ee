package dissect

// LRH is the local route header of native InfiniBand (IBA 7.7).
type LRH []byte

// LNH returns what follows: 2 a BTH, 3 a GRH, 0 and 1 raw packets.
func (h LRH) LNH() uint8 { return h[1] & 3 }

// DLID returns the destination's local identifier.
func (h LRH) DLID() uint16 { return be16(h[2:]) }

// PktLen returns the packet's length in 4-byte words, from the LRH to the
// ICRC, VCRC left out.
func (h LRH) PktLen() uint16 { return be16(h[4:]) & 0x7FF }

// SLID returns the source's local identifier.
func (h LRH) SLID() uint16 { return be16(h[6:]) }

// LRH returns the view of the frame's local route header, nil without one.
func (p *Packet) LRH(frame []byte) LRH { return p.view(frame, LayerLRH, 8) }

var lrhFields = []Field{
	{Name: "infiniband.lrh.vl", Text: "Virtual lane", Layer: LayerLRH, Bit: 0, Width: 4, Kind: Hex},
	{Name: "infiniband.lrh.lver", Text: "Link version", Layer: LayerLRH, Bit: 4, Width: 4, Kind: Dec},
	{Name: "infiniband.lrh.sl", Text: "Service level", Layer: LayerLRH, Bit: 8, Width: 4, Kind: Dec},
	{Name: "infiniband.lrh.lnh", Text: "Link next header", Layer: LayerLRH, Bit: 14, Width: 2, Kind: Hex},
	{Name: "infiniband.lrh.dlid", Text: "Destination LID", Layer: LayerLRH, Bit: 16, Width: 16, Kind: Dec},
	{Name: "infiniband.lrh.pktlen", Text: "Packet length in words", Layer: LayerLRH, Bit: 37, Width: 11, Kind: Dec},
	{Name: "infiniband.lrh.slid", Text: "Source LID", Layer: LayerLRH, Bit: 48, Width: 16, Kind: Dec},
}
