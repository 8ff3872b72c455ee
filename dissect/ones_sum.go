package dissect

// OnesSum adds the 16-bit words of b to a ones' complement sum (RFC 1071), for
// the checksums of IP, UDP and ICMP. The sum has room for 128 KiB, which is more
// than a datagram and its pseudo-header have; only the last piece may be of an
// odd length.
func OnesSum(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(be16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// FoldSum makes 16 bits of a ones' complement sum. The checksum is their
// complement; the sum of what has a right checksum in it is 0xFFFF.
func FoldSum(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	return uint16(sum)
}
