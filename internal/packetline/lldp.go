package packetline

import (
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// appendLLDP appends who speaks and what it says of priority flow control:
// "sw-01 Eth1/1, TTL 120 s, PFC for 3".
func appendLLDP(dst []byte, p *dissect.Packet, frame []byte, h dissect.LLDP) []byte {
	for _, names := range [...][]string{
		{"lldp.tlv.system.name", "lldp.chassis.id.mac", "lldp.chassis.id.ip4", "lldp.chassis.id.ip6", "lldp.chassis.id"},
		{"lldp.port.id", "lldp.port.id.mac", "lldp.port.id.ip4", "lldp.port.id.ip6"},
	} {
		before := len(dst)
		for _, name := range names {
			if dst = appendField(dst, name, p, frame); len(dst) > before {
				dst = append(dst, ' ')
				break
			}
		}
	}
	dst = append(dst, "TTL "...)
	dst = appendField(dst, "lldp.time_to_live", p, frame)
	dst = append(dst, " s"...)
	priorities, willing, ok := h.PFC()
	switch {
	case !ok:
		return dst
	case priorities == 0:
		dst = append(dst, ", PFC off"...)
	default:
		dst = append(dst, ", PFC for"...)
		for i := range 8 {
			if priorities>>i&1 != 0 {
				dst = append(dst, ' ')
				dst = strconv.AppendInt(dst, int64(i), 10)
			}
		}
	}
	if willing {
		dst = append(dst, ", willing"...)
	}
	return dst
}
