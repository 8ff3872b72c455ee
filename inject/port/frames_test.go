package port

// roce is the headers of a RoCE v2 frame of a length, whose payload says a number. Ports do not look at more.
func roce(b []byte, number, length int, ipv6, vlan bool) int {
	clear(b[:length])
	copy(b, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01")
	at := 12
	if vlan {
		copy(b[at:], "\x81\x00\x60\x05") // priority 3, VLAN 5
		at += 4
	}
	if ipv6 {
		copy(b[at:], "\x86\xdd\x60\x00\x00\x00")
		l := length - at - 42
		copy(b[at+6:], []byte{byte(l >> 8), byte(l), 17, 64})
		copy(b[at+10:], "\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02")
		at += 42
	} else {
		copy(b[at:], "\x08\x00\x45\x00")
		l := length - at - 2
		copy(b[at+4:], []byte{byte(l >> 8), byte(l), 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2})
		at += 22
	}
	l := length - at
	copy(b[at:], []byte{0xC0, 0, 4791 >> 8, 4791 & 0xFF, byte(l >> 8), byte(l), 0, 0, 4, 0, 0xFF, 0xFF, 0, 0, 0, 0x11})
	copy(b[at+16:], []byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)})
	for i := at + 20; i < length; i++ {
		b[i] = byte(i + number)
	}
	return length
}

// shape is what frames of a run look like: the n-th one.
type shape func(b []byte, n int) int

// mixed is RoCE frames of all path MTUs, IPv4 and IPv6, with and without VLAN, of sizes around what ports divide them by.
func mixed(b []byte, n int) int {
	sizes := []int{62, 64, 256, 512, 1024, 2048, 3839, 3840, 3841, 4095, 4096}
	ipv6, vlan := n&1 != 0, n&2 != 0
	size := sizes[n/4%len(sizes)]
	if n/4%len(sizes) > 1 { // a path MTU: headers, BTH, RETH, immediate, ICRC
		size += 14 + 20 + 8 + 12 + 16 + 4 + 4
	}
	if ipv6 {
		size += 20
	}
	if vlan {
		size += 4
	}
	return roce(b, n, size, ipv6, vlan)
}
