package flows

import (
	"github.com/rocescope/rocescope/dissect"
)

// ipidVerdict is what the IPv4 identification says of a packet.
type ipidVerdict uint8

const (
	ipidSilent ipidVerdict = iota // does not run, or no IPv4
	ipidNew                       // later than all before: sent anew
	ipidCopy                      // seen before: the same packet again
	ipidLate                      // earlier than others, and not seen before: overtaken
)

// ipidWindow is how many identifications back are remembered.
const ipidWindow = 64

// judgeIPID follows a sender's IPv4 identification. Where it counts up, a
// retransmission has a new one, a copy made by the network the same one, and a
// packet that was overtaken one that was left out.
func judgeIPID(s *stream, p *dissect.Packet, first bool) ipidVerdict {
	if !p.Has(dissect.LayerIPv4) {
		return ipidSilent
	}
	if first {
		s.ipid, s.ipidSeen = p.IPID, 1
		return ipidSilent
	}
	step := int(int16(p.IPID - s.ipid))
	v := ipidNew
	switch {
	case step > 0:
		s.ipidSeen = s.ipidSeen<<min(step, ipidWindow) | 1
		s.ipid = p.IPID
		if s.ipidRuns < 255 {
			s.ipidRuns++
		}
	case step <= -ipidWindow:
		v = ipidSilent
	default:
		bit := uint64(1) << -step
		v = ipidLate
		if s.ipidSeen&bit != 0 {
			v = ipidCopy
			if p.IPID == 0 {
				s.ipidRuns = 0
			}
		}
		s.ipidSeen |= bit
	}
	if s.ipidRuns < 3 {
		return ipidSilent
	}
	return v
}
