package captures

import (
	"encoding/binary"
)

// Files are built here by hand, field by field from the format's tables, so that
// the reader is not tested against a writer of the same mind.

// bytesOf puts together numbers in the given byte order and bytes as they are.
func bytesOf(order binary.AppendByteOrder, parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = order.AppendUint16(b, v)
		case uint32:
			b = order.AppendUint32(b, v)
		case uint64:
			b = order.AppendUint64(b, v)
		case []byte:
			b = append(b, v...)
		case string:
			b = append(b, v...)
		default:
			panic("bytesOf: only sized unsigned integers, bytes and strings")
		}
	}
	return b
}

// pad4 pads to a multiple of 4.
func pad4(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// pcapHeader is a pcap file header of version 2.4.
func pcapHeader(o binary.AppendByteOrder, magic, snap, link uint32) []byte {
	return bytesOf(o, magic, uint16(2), uint16(4), uint32(0), uint32(0), snap, link)
}

// pcapRecord is a whole record.
func pcapRecord(o binary.AppendByteOrder, sec, frac uint32, data string) []byte {
	return bytesOf(o, sec, frac, uint32(len(data)), uint32(len(data)), data)
}

// block is a pcapng block of the given body, which is padded.
func block(o binary.AppendByteOrder, typ uint32, body ...any) []byte {
	b := pad4(bytesOf(o, body...))
	total := uint32(len(b) + blockMin)
	return bytesOf(o, typ, total, b, total)
}

// option is a pcapng option, padded.
func option(o binary.AppendByteOrder, code uint16, value []byte) []byte {
	return pad4(bytesOf(o, code, uint16(len(value)), value))
}

// shb is a section header of version 1.0 and unknown length.
func shb(o binary.AppendByteOrder, opts ...any) []byte {
	return block(o, blockSHB, append([]any{uint32(byteOrderMagic), uint16(1), uint16(0), ^uint64(0)}, opts...)...)
}

// idb describes an interface.
func idb(o binary.AppendByteOrder, link uint16, snap uint32, opts ...any) []byte {
	return block(o, blockIDB, append([]any{link, uint16(0), snap}, opts...)...)
}

// epb is a packet of an interface.
func epb(o binary.AppendByteOrder, iface uint32, ts uint64, data string, opts ...any) []byte {
	return block(o, blockEPB, append([]any{iface, uint32(ts >> 32), uint32(ts), uint32(len(data)), uint32(len(data)), pad4([]byte(data))}, opts...)...)
}

// join puts blocks one after the other.
func join(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}
