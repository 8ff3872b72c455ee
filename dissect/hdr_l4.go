package dissect

// UDP is a UDP header.
type UDP []byte

// SrcPort returns the source port.
func (h UDP) SrcPort() uint16 { return be16(h) }

// SetSrcPort sets the source port.
func (h UDP) SetSrcPort(v uint16) { put16(h, v) }

// DstPort returns the destination port.
func (h UDP) DstPort() uint16 { return be16(h[2:]) }

// SetDstPort sets the destination port.
func (h UDP) SetDstPort(v uint16) { put16(h[2:], v) }

// Len returns the length of header and data; for RoCE v2 the ICRC is part of
// the data.
func (h UDP) Len() uint16 { return be16(h[4:]) }

// SetLen sets the length of header and data.
func (h UDP) SetLen(v uint16) { put16(h[4:], v) }

// Checksum returns the checksum; 0 means none.
func (h UDP) Checksum() uint16 { return be16(h[6:]) }

// SetChecksum sets the checksum.
func (h UDP) SetChecksum(v uint16) { put16(h[6:], v) }

// UDP returns the view of the frame's UDP header, nil without one.
func (p *Packet) UDP(frame []byte) UDP { return p.view(frame, LayerUDP, 8) }

var udpFields = []Field{
	{Name: "udp.srcport", Text: "Source port", Layer: LayerUDP, Bit: 0, Width: 16, Kind: Dec},
	{Name: "udp.dstport", Text: "Destination port", Layer: LayerUDP, Bit: 16, Width: 16, Kind: Dec},
	{Name: "udp.length", Text: "Length", Layer: LayerUDP, Bit: 32, Width: 16, Kind: Dec},
	{Name: "udp.checksum", Text: "Checksum", Layer: LayerUDP, Bit: 48, Width: 16, Kind: Hex},
}

// TCP is a TCP header without options.
type TCP []byte

// TCP flags, as in Packet.TCPFlags.
const (
	TCPFin = 0x01
	TCPSyn = 0x02
	TCPRst = 0x04
	TCPAck = 0x10
)

// TCP returns the view of the frame's TCP header, nil without one.
func (p *Packet) TCP(frame []byte) TCP { return p.view(frame, LayerTCP, 20) }

var tcpFields = []Field{
	{Name: "tcp.srcport", Text: "Source port", Layer: LayerTCP, Bit: 0, Width: 16, Kind: Dec},
	{Name: "tcp.dstport", Text: "Destination port", Layer: LayerTCP, Bit: 16, Width: 16, Kind: Dec},
	{Name: "tcp.seq_raw", Text: "Sequence number", Layer: LayerTCP, Bit: 32, Width: 32, Kind: Dec},
	{Name: "tcp.ack_raw", Text: "Acknowledgment number", Layer: LayerTCP, Bit: 64, Width: 32, Kind: Dec},
	{Name: "tcp.flags", Text: "Flags", Layer: LayerTCP, Bit: 100, Width: 12, Kind: Hex, Digits: 4},
	{Name: "tcp.window_size_value", Text: "Window", Layer: LayerTCP, Bit: 112, Width: 16, Kind: Dec},
	{Name: "tcp.len", Text: "Segment length", Layer: LayerTCP, Kind: Dec, Get: tcpLen},
}

func tcpLen(p *Packet, _ []byte) (uint64, bool) { return uint64(p.payloadLen), p.Has(LayerTCP) }
