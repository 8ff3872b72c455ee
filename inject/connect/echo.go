package connect

import (
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// Pings: the asking side of echo. Host answers them.

// AppendEcho appends an echo request, a whole frame.
func AppendEcho(dst []byte, o dissect.Outer, id, seq uint16) []byte {
	start := len(dst)
	dst = append(dst, o.DstMAC[:]...)
	dst = append(dst, o.SrcMAC[:]...)
	for _, tag := range o.VLANs {
		dst = be.AppendUint16(be.AppendUint16(dst, etherVLAN), tag)
	}
	if !o.Src.Is4() {
		dst = be.AppendUint16(dst, etherIPv6)
		return appendICMPv6(dst, o.Src, o.Dst, 0, 64, echoRequest6, EchoMessage(id, seq))
	}
	dst = be.AppendUint16(dst, etherIPv4)
	own := len(dst)
	dst = append(dst, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protoICMP, 0, 0)
	dst = append(append(dst, o.Src.AsSlice()...), o.Dst.AsSlice()...)
	dst = append(dst, EchoMessage(id, seq)...)
	ip := dissect.IPv4(dst[own : own+20])
	ip.SetTotalLen(uint16(len(dst) - own))
	ip.UpdateChecksum()
	return padEthernet(dst, start)
}

// EchoMessage is an echo request of ICMP, whose checksum is right for IPv4.
func EchoMessage(id, seq uint16) []byte {
	m := []byte{echoRequest, 0, 0, 0, byte(id >> 8), byte(id), byte(seq >> 8), byte(seq)}
	putICMPSum(m, 0)
	return m
}

// EchoID reads the identifier of an ICMP or ICMPv6 message that answers an echo request.
func EchoID(m []byte, v6 bool) (id uint16, ok bool) {
	want := byte(echoReply)
	if v6 {
		want = echoReply6
	}
	if len(m) < 8 || m[0] != want || m[1] != 0 {
		return 0, false
	}
	return be.Uint16(m[4:]), true
}

// EchoReply reads a frame that answers an echo request to one of the host's addresses: from where, and its identifier.
func (h *Host) EchoReply(frame []byte) (from netip.Addr, id uint16, ok bool) {
	at, ether := etherPayload(frame)
	if at == 0 || h.foreign(frame) {
		return from, 0, false
	}
	switch {
	case ether == etherIPv4 && len(frame) >= at+28:
		ip := dissect.IPv4(frame[at : at+20])
		n := int(ip.TotalLen())
		if ip.HeaderLen() != 20 || ip.Protocol() != protoICMP || n < 28 || len(frame) < at+n || !h.owns(ip.Dst().Netip()) || internetSum(frame[at+20:at+n], 0) != 0 {
			return from, 0, false
		}
		id, ok = EchoID(frame[at+20:at+n], false)
		return ip.Src().Netip(), id, ok
	case ether == etherIPv6:
		if ip, m := icmpv6(frame, at); m != nil && h.owns(ip.Dst().Netip()) {
			id, ok = EchoID(m, true)
			return ip.Src().Netip(), id, ok
		}
	}
	return from, 0, false
}
