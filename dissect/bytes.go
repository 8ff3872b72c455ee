package dissect

import "encoding/binary"

func be16(b []byte) uint16     { return binary.BigEndian.Uint16(b) }
func be24(b []byte) uint32     { _ = b[2]; return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
func be32(b []byte) uint32     { return binary.BigEndian.Uint32(b) }
func be64(b []byte) uint64     { return binary.BigEndian.Uint64(b) }
func put16(b []byte, v uint16) { binary.BigEndian.PutUint16(b, v) }
func put24(b []byte, v uint32) { _ = b[2]; b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
func put32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }
func put64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }
