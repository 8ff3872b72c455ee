package testkit

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/rocescope/rocescope/dissect"
)

// Duplex is a TCP connection whose packets are written byte by byte from the RFCs, without our own crafter: side 0 connects
// from 10.0.0.1, port 40000, to side 1 at 10.0.0.2, port 7174.
type Duplex struct {
	Frames []Frame
	Now    int64     // time of the next packet, in nanoseconds; each takes 1 µs
	Seq    [2]uint32 // of the next byte that a side sends
}

// NewDuplex begins with the handshake.
func NewDuplex() *Duplex {
	d := &Duplex{Now: 1e18, Seq: [2]uint32{0xFFFFF000, 2000}} // the first one wraps soon
	d.packet(0, d.Seq[0], 0, 0x02, nil)
	d.Seq[0]++
	d.packet(1, d.Seq[1], d.Seq[0], 0x12, nil)
	d.Seq[1]++
	d.Ack(0)
	return d
}

// Send sends data of a side in one segment, and returns its place in Frames.
func (d *Duplex) Send(side int, data []byte) int {
	i := d.At(side, d.Seq[side], data)
	d.Seq[side] += uint32(len(data))
	return i
}

// At sends data at a sequence number.
func (d *Duplex) At(side int, seq uint32, data []byte) int {
	return d.packet(side, seq, d.Seq[1-side], 0x18, data)
}

// Ack acknowledges all that the other side has sent.
func (d *Duplex) Ack(side int) { d.packet(side, d.Seq[side], d.Seq[1-side], 0x10, nil) }

// Close ends a side.
func (d *Duplex) Close(side int) { d.packet(side, d.Seq[side], d.Seq[1-side], 0x11, nil) }

func (d *Duplex) packet(side int, seq, ack uint32, flags byte, data []byte) int {
	b := make([]byte, 54, 54+len(data))
	b[5], b[11] = byte(2-side), byte(1+side) // MAC addresses
	b[12], b[13] = 0x08, 0x00
	ip := b[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(40+len(data)))
	copy(ip[12:], []byte{10, 0, 0, byte(1 + side), 10, 0, 0, byte(2 - side)})
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	tcp := b[34:]
	ports := [2]uint16{40000, 7174}
	binary.BigEndian.PutUint16(tcp, ports[side])
	binary.BigEndian.PutUint16(tcp[2:], ports[1-side])
	binary.BigEndian.PutUint32(tcp[4:], seq)
	binary.BigEndian.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13], tcp[14] = 0x50, flags, 0x40
	b = append(b, data...)
	d.Frames = append(d.Frames, Frame{Link: dissect.LinkEthernet, Time: d.Now, WireLen: len(b), Data: b})
	d.Now += 1000
	return len(d.Frames) - 1
}

// MPAFrame is a start-up frame (RFC 5044, 7.1.1): kind is "Req" or "Rep", flags the byte behind the key.
func MPAFrame(kind string, flags, revision byte, private []byte) []byte {
	b := append([]byte("MPA ID "+kind+" Frame"), flags, revision)
	b = binary.BigEndian.AppendUint16(b, uint16(len(private)))
	return append(b, private...)
}

// MPA cuts one direction into FPDUs (RFC 5044, 4).
type MPA struct {
	Markers, CRC bool
	sent         int // bytes since full operation began
}

// FPDU puts length, pad, CRC and markers around a ULPDU.
func (m *MPA) FPDU(ulpdu []byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	body = append(body, ulpdu...)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	var out []byte
	start := -1 // where the length field is
	put := func(word []byte) {
		if m.Markers && m.sent%512 == 0 {
			back := 0
			if start >= 0 {
				back = m.sent - start
			}
			out = append(out, 0, 0, byte(back>>8), byte(back))
			m.sent += 4
		}
		if start < 0 {
			start = m.sent
		}
		out = append(out, word...)
		m.sent += 4
	}
	for i := 0; i < len(body); i += 4 {
		put(body[i : i+4])
	}
	// A marker in front of the CRC is covered by it.
	if m.Markers && m.sent%512 == 0 {
		back := m.sent - start
		out = append(out, 0, 0, byte(back>>8), byte(back))
		m.sent += 4
	}
	var crc [4]byte
	if m.CRC {
		binary.LittleEndian.PutUint32(crc[:], crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli)))
	}
	m.sent += 4
	return append(out, crc[:]...)
}

// Tagged is a tagged DDP segment (RFC 5041, 4.2).
func Tagged(op byte, last bool, stag uint32, to uint64, data []byte) []byte {
	b := []byte{0x81, 0x40 | op}
	if last {
		b[0] |= 0x40
	}
	b = binary.BigEndian.AppendUint32(b, stag)
	b = binary.BigEndian.AppendUint64(b, to)
	return append(b, data...)
}

// Untagged is an untagged DDP segment (RFC 5041, 4.3); first is the word that RDMAP uses for the STag to invalidate.
func Untagged(op byte, last bool, first, qn, msn, mo uint32, data []byte) []byte {
	b := []byte{0x01, 0x40 | op}
	if last {
		b[0] |= 0x40
	}
	for _, v := range []uint32{first, qn, msn, mo} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, data...)
}

// ReadRequest is the ULPDU of an RDMA Read Request (RFC 5040, 4.4).
func ReadRequest(msn, sinkSTag uint32, sinkTO uint64, size, sourceSTag uint32, sourceTO uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, sinkSTag)
	b = binary.BigEndian.AppendUint64(b, sinkTO)
	b = binary.BigEndian.AppendUint32(b, size)
	b = binary.BigEndian.AppendUint32(b, sourceSTag)
	b = binary.BigEndian.AppendUint64(b, sourceTO)
	return Untagged(1, true, 0, 1, msn, 0, b)
}
