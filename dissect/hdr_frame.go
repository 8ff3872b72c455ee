package dissect

import "strconv"

// The fields of the frame as a whole, of what the innermost header carries,
// and of the ICRC.

var frameFields = []Field{
	{Name: "frame.number", Text: "Frame number", Layer: LayerFrame, Kind: Dec, Get: func(p *Packet, _ []byte) (uint64, bool) { return p.Number, true }},
	{Name: "frame.time_epoch", Text: "Epoch time", Layer: LayerFrame, Kind: Epoch, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.Time), !p.NoTime }},
	{Name: "frame.time_relative", Text: "Time since first frame", Layer: LayerFrame, Kind: Interval, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.Time - p.Base), !p.NoTime }},
	{Name: "frame.time_delta", Text: "Time since the frame before", Layer: LayerFrame, Kind: Interval, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.Time - p.Prev), !p.NoTime }},
	{Name: "frame.len", Text: "Length on the wire", Layer: LayerFrame, Kind: Dec, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.WireLen), true }},
	{Name: "frame.cap_len", Text: "Length captured", Layer: LayerFrame, Kind: Dec, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.CapLen), true }},
	{Name: "frame.interface_id", Text: "Interface", Layer: LayerFrame, Kind: Dec, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.Iface), true }},
	{Name: "frame.packet_flags_direction", Text: "Direction (1 in, 2 out)", Layer: LayerFrame, Kind: Hex, Digits: 8, Get: func(p *Packet, _ []byte) (uint64, bool) {
		return uint64(p.Direction), p.Direction != 0
	}},
	{Name: "frame.problem", Text: "Problem", Layer: LayerFrame, Kind: Text, Values: problemName, Get: func(p *Packet, _ []byte) (uint64, bool) {
		if len(p.Problems()) == 0 {
			return 0, false
		}
		return uint64(p.problem[0].Code), true
	}},
	{Name: "frame.protocol", Text: "Protocol", Layer: LayerFrame, Kind: Text, Values: protocolName, Get: func(p *Packet, _ []byte) (uint64, bool) { return uint64(p.Proto), true }},
}

var payloadFields = []Field{
	{Name: "infiniband.payload", Text: "Payload", Layer: LayerPayload, Kind: Bytes},
	{Name: "infiniband.payload.len", Text: "Payload length", Layer: LayerPayload, Kind: Dec, Get: func(p *Packet, _ []byte) (uint64, bool) {
		return uint64(p.payloadLen), p.Has(LayerBTH)
	}},
}

var icrcFields = []Field{
	{Name: "infiniband.invariant.crc", Text: "Invariant CRC", Layer: LayerICRC, Bit: 0, Width: 32, Kind: Hex},
	{Name: "infiniband.invariant.crc.status", Text: "Invariant CRC status", Layer: LayerICRC, Kind: Text, Values: icrcName, Get: func(p *Packet, _ []byte) (uint64, bool) {
		return uint64(p.ICRC), p.Has(LayerICRC)
	}},
}

func problemName(v uint64) string  { return ProblemCode(v).String() }
func protocolName(v uint64) string { return Protocol(v).String() }
func icrcName(v uint64) string     { return ICRCStatus(v).String() }
func decimal(v uint64) string      { return strconv.FormatUint(v, 10) }
func hexNote(v uint64) string      { return "0x" + strconv.FormatUint(v, 16) }
