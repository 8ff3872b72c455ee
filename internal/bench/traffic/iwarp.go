package traffic

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// WriteIWARP writes n packets of one iWARP connection with CRCs to a pcapng
// file: WRITEs of eight FPDUs that do not begin with TCP's segments, and an
// acknowledgement for every eighth segment.
func WriteIWARP(path string, n int) error {
	const segment, payload = 1448, 1400
	return write(path, func(put func(frame []byte, at int64)) {
		now := int64(1_700_000_000_000_000_000)
		seq := [2]uint32{1, 1}
		send := func(side int, data []byte) {
			b := make([]byte, 54, 54+len(data))
			b[5], b[11], b[12] = byte(2-side), byte(1+side), 8
			ip, tcp := b[14:], b[34:]
			ip[0], ip[8], ip[9] = 0x45, 64, 6
			binary.BigEndian.PutUint16(ip[2:], uint16(40+len(data)))
			copy(ip[12:], []byte{10, 0, 0, byte(1 + side), 10, 0, 0, byte(2 - side)})
			ports := [2]uint16{40000, 7174}
			binary.BigEndian.PutUint16(tcp, ports[side])
			binary.BigEndian.PutUint16(tcp[2:], ports[1-side])
			binary.BigEndian.PutUint32(tcp[4:], seq[side])
			binary.BigEndian.PutUint32(tcp[8:], seq[1-side])
			tcp[12], tcp[13], tcp[14] = 0x50, 0x18, 0x40
			seq[side] += uint32(len(data))
			put(append(b, data...), now)
			now += 1000
		}
		for side, key := range []string{dissect.MPARequestKey, dissect.MPAReplyKey} {
			send(side, append([]byte(key), 0x40, 1, 0, 0))
		}
		var stream []byte
		for i, fpdus := 2, uint64(0); i < n; i++ {
			for len(stream) < segment {
				u := append([]byte{0x81, 0x40}, 0, 0, 0, 7)
				if fpdus%8 == 7 {
					u[0] |= 0x40
				}
				u = binary.BigEndian.AppendUint64(u, fpdus*payload)
				u = append(u, make([]byte, payload)...)
				f := append(binary.BigEndian.AppendUint16(nil, uint16(len(u))), u...)
				f = append(f, make([]byte, -len(f)&3)...)
				stream = append(stream, binary.LittleEndian.AppendUint32(f, dissect.FPDUCRC(f))...)
				fpdus++
			}
			if i%9 == 8 {
				send(1, nil)
				continue
			}
			send(0, stream[:segment])
			stream = stream[segment:]
		}
	})
}
