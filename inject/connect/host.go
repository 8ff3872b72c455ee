package connect

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// Host answers for addresses that rocescope owns and the kernel does not: ARP (RFC 826), neighbour discovery (RFC 4861) and
// echo (RFC 792, RFC 4443), untagged or in VLANs. It knows no clock and keeps no state.
type Host struct {
	MAC   [6]byte
	Addrs []netip.Addr // of either kind
}

var be = binary.BigEndian

// What the frames here are made of.
const (
	etherIPv4, etherARP, etherIPv6 = 0x0800, 0x0806, 0x86DD
	etherVLAN, etherQinQ           = 0x8100, 0x88A8

	arpSize                   = 28
	arpRequest, arpReply      = 1, 2
	protoICMP, protoICMPv6    = 1, 58
	echoRequest, echoReply    = 8, 0
	echoRequest6, echoReply6  = 128, 129
	ndSolicit, ndAdvertise    = 135, 136
	ndSize                    = 24 // of either message, without options
	ndOptSource, ndOptTarget  = 1, 2
	ndSolicited, ndOverride   = 0x40, 0x20
	hopLimitOfNeighbours      = 255
	minEthernet, maxEchoFrame = 60, 9018
)

// Answer appends the answer to a frame to dst, or returns dst as it is if there is none. Frames that are not for one of the
// host's addresses have none, nor have those that are cut or whose checksum is wrong.
func (h *Host) Answer(dst, frame []byte) []byte {
	at, ether := etherPayload(frame)
	if at == 0 || len(frame) > maxEchoFrame || h.foreign(frame) {
		return dst
	}
	switch ether {
	case etherARP:
		return h.answerARP(dst, frame, at)
	case etherIPv4:
		return h.answerEcho(dst, frame, at)
	case etherIPv6:
		return h.answerICMPv6(dst, frame, at)
	}
	return dst
}

// foreign reports whether a frame is for another station, or from where no answer can go.
func (h *Host) foreign(frame []byte) bool {
	return frame[0]&1 == 0 && [6]byte(frame[:6]) != h.MAC || frame[6]&1 != 0 || [6]byte(frame[6:12]) == h.MAC
}

func (h *Host) owns(a netip.Addr) bool {
	for _, own := range h.Addrs {
		if own == a {
			return true
		}
	}
	return false
}

// etherPayload finds what a frame carries behind its tags: at is 0 where it is cut.
func etherPayload(frame []byte) (at int, ether uint16) {
	for at = 14; at <= 14+2*4; at += 4 {
		if len(frame) < at {
			return 0, 0
		}
		if ether = be.Uint16(frame[at-2:]); ether != etherVLAN && ether != etherQinQ {
			return at, ether
		}
	}
	return 0, 0
}

// back appends Ethernet header and tags of a frame, turned round.
func (h *Host) back(dst, frame []byte, at int) []byte {
	dst = append(dst, frame[6:12]...)
	dst = append(dst, h.MAC[:]...)
	return append(dst, frame[12:at]...)
}

func (h *Host) answerARP(dst, frame []byte, at int) []byte {
	a := frame[at:]
	if !validARP(a) || be.Uint16(a[6:]) != arpRequest {
		return dst
	}
	target := netip.AddrFrom4([4]byte(a[24:28]))
	if !h.owns(target) {
		return dst
	}
	start := len(dst)
	dst = h.back(dst, frame, at)
	dst = appendARP(dst, arpReply, h.MAC, target, [6]byte(a[8:14]), netip.AddrFrom4([4]byte(a[14:18])))
	return padEthernet(dst, start)
}

// validARP reports whether it is whole, and of Ethernet and IPv4.
func validARP(a []byte) bool { return len(a) >= arpSize && be.Uint64(a)>>16 == 0x000108000604 }

func appendARP(dst []byte, op uint16, mac [6]byte, addr netip.Addr, toMAC [6]byte, to netip.Addr) []byte {
	dst = append(dst, 0, 1, 8, 0, 6, 4, byte(op>>8), byte(op))
	dst = append(dst, mac[:]...)
	dst = append(dst, addr.AsSlice()...)
	dst = append(dst, toMAC[:]...)
	return append(dst, to.AsSlice()...)
}

func padEthernet(dst []byte, start int) []byte {
	for len(dst)-start < minEthernet {
		dst = append(dst, 0)
	}
	return dst
}

// answerEcho answers an IPv4 echo request.
func (h *Host) answerEcho(dst, frame []byte, at int) []byte {
	if len(frame) < at+20 {
		return dst
	}
	ip := dissect.IPv4(frame[at : at+20])
	n, head := int(ip.TotalLen()), ip.HeaderLen()
	if ip.Version() != 4 || head < 20 || ip.Protocol() != protoICMP || ip.MoreFragments() || ip.FragOffset() != 0 || n < head+8 || len(frame) < at+n {
		return dst
	}
	icmp := frame[at+head : at+n]
	if icmp[0] != echoRequest || icmp[1] != 0 || internetSum(icmp, 0) != 0 || internetSum(frame[at:at+head], 0) != 0 ||
		!h.owns(ip.Dst().Netip()) || !unicast(ip.Src().Netip()) {
		return dst
	}
	start := len(dst)
	dst = h.back(dst, frame, at)
	own := len(dst)
	dst = append(dst, 0x45, ip.TOS(), 0, 0, 0, 0, 0x40, 0, 64, protoICMP, 0, 0)
	dst = append(append(dst, frame[at+16:at+20]...), frame[at+12:at+16]...)
	dst = append(dst, icmp...)
	out := dissect.IPv4(dst[own : own+20])
	out.SetTotalLen(uint16(len(dst) - own))
	out.UpdateChecksum()
	reply := dst[own+20:]
	reply[0] = echoReply
	putICMPSum(reply, 0)
	return padEthernet(dst, start)
}

func unicast(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() }

// answerICMPv6 answers neighbour solicitations and echo requests.
func (h *Host) answerICMPv6(dst, frame []byte, at int) []byte {
	ip, icmp := icmpv6(frame, at)
	if icmp == nil || icmp[1] != 0 {
		return dst
	}
	src, to := ip.Src().Netip(), ip.Dst().Netip()
	switch {
	case icmp[0] == ndSolicit && ip.HopLimit() == hopLimitOfNeighbours && len(icmp) >= ndSize:
		target := netip.AddrFrom16([16]byte(icmp[8:24]))
		if !h.owns(target) {
			return dst
		}
		flags := byte(ndSolicited | ndOverride)
		dst = h.back(dst, frame, at)
		if src.IsUnspecified() { // is the address taken? All nodes are to hear that it is
			flags, src = ndOverride, netip.MustParseAddr("ff02::1")
			copy(dst[len(dst)-at:], []byte{0x33, 0x33, 0, 0, 0, 1})
		}
		return appendND(dst, ndAdvertise, flags, target, src, target, ndOptTarget, h.MAC)
	case icmp[0] == echoRequest6 && h.owns(to) && unicast(src):
		dst = h.back(dst, frame, at)
		return appendICMPv6(dst, to, src, ip.TrafficClass(), 64, echoReply6, icmp)
	}
	return dst
}

// icmpv6 returns the IPv6 header of a frame and the sound ICMPv6 message right behind it, nil without one.
func icmpv6(frame []byte, at int) (dissect.IPv6, []byte) {
	if len(frame) < at+40 {
		return nil, nil
	}
	ip := dissect.IPv6(frame[at : at+40])
	n := int(ip.PayloadLen())
	if ip.Version() != 6 || ip.NextHeader() != protoICMPv6 || n < 8 || len(frame) < at+40+n {
		return nil, nil
	}
	icmp := frame[at+40 : at+40+n]
	if internetSum(icmp, pseudoSum(frame[at+8:at+40], n)) != 0 {
		return nil, nil
	}
	return ip, icmp
}

// appendND appends IPv6 header and a neighbour message with one option, a link-layer address.
func appendND(dst []byte, kind, flags byte, src, to, target netip.Addr, option byte, mac [6]byte) []byte {
	var m [ndSize + 8]byte
	m[4] = flags
	copy(m[8:], target.AsSlice())
	m[24], m[25] = option, 1
	copy(m[26:], mac[:])
	return appendICMPv6(dst, src, to, 0, hopLimitOfNeighbours, kind, m[:])
}

// appendICMPv6 appends IPv6 header and message; its type and checksum are set here.
func appendICMPv6(dst []byte, src, to netip.Addr, class, hops, kind byte, message []byte) []byte {
	at := len(dst)
	dst = append(dst, 0x60|class>>4, class<<4, 0, 0, byte(len(message)>>8), byte(len(message)), protoICMPv6, hops)
	dst = append(append(dst, src.AsSlice()...), to.AsSlice()...)
	dst = append(dst, message...)
	m := dst[at+40:]
	m[0] = kind
	putICMPSum(m, pseudoSum(dst[at+8:at+40], len(m)))
	return dst
}

func putICMPSum(m []byte, pseudo uint32) {
	m[2], m[3] = 0, 0
	be.PutUint16(m[2:], internetSum(m, pseudo))
}

// pseudoSum is the sum of ICMPv6's pseudo-header (RFC 8200 8.1): two addresses, the length, the protocol.
func pseudoSum(addrs []byte, n int) uint32 {
	return dissect.OnesSum(uint32(n)+protoICMPv6, addrs)
}

// internetSum is the checksum of RFC 1071 over b, with a sum to begin with: 0 where b holds a right one.
func internetSum(b []byte, sum uint32) uint16 {
	return ^dissect.FoldSum(dissect.OnesSum(sum, b))
}
