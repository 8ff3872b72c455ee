package dissect

// Between looks between which two addresses a frame goes, without decoding it. ok means that it is what most frames of a capture
// are: a packet of RoCE v2 in Ethernet with two VLAN tags at most, neither in a tunnel nor a fragment, to a queue pair that is not
// for management. Decode finds the same addresses in it then, if it does not find something wrong first.
func Between(link LinkType, b []byte) (src, dst Addr, ok bool) {
	const ip4, ip6, udp, bth = 20, 40, 8, 12
	if link != LinkEthernet || len(b) < 14+ip4+udp+bth {
		return src, dst, false
	}
	off, kind := 14, be16(b[12:])
	for ; kind == etherVLAN || kind == etherQinQ || kind == etherQinQOld; kind, off = be16(b[off+2:]), off+4 {
		if off > 18 {
			return src, dst, false
		}
	}
	h, rest := b[off:], []byte(nil)
	switch {
	case kind == etherIPv4 && len(h) >= ip4+udp+bth && h[0] == 0x45 && h[9] == protoUDP && be16(h[6:])&0x3FFF == 0:
		src, dst, rest = addr4(be32(h[12:])), addr4(be32(h[16:])), h[ip4:]
	case kind == etherIPv6 && len(h) >= ip6+udp+bth && h[0]>>4 == 6 && h[6] == protoUDP:
		src, dst, rest = Addr{be64(h[8:]), be64(h[16:])}, Addr{be64(h[24:]), be64(h[32:])}, h[ip6:]
	default:
		return src, dst, false
	}
	return src, dst, be16(rest[2:]) == PortRoCEv2 && be32(rest[udp+4:])&0xFFFFFF > 1
}
