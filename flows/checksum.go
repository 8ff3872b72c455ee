package flows

import (
	"github.com/rocescope/rocescope/dissect"
)

// Checksums counts verdicts on UDP checksums.
type Checksums struct {
	Zero    int // none: usual in RoCE v2
	Right   int
	Partial int // left to the sending card: the pseudo header's sum only
	Wrong   int
}

// checksumVerdict is what a packet's UDP checksum is.
type checksumVerdict uint8

const (
	checksumUnknown checksumVerdict = iota
	checksumZero
	checksumRight
	checksumPartial
	checksumWrong
)

func (c *Checksums) of(v checksumVerdict) *int {
	return [...]*int{nil, &c.Zero, &c.Right, &c.Partial, &c.Wrong}[v]
}

// checksum judges the UDP checksum (RFC 768; IPv6: RFC 8200, 8.1). A frame that
// was captured before the sending card had filled it in holds the sum of the
// pseudo header only.
func (t *Tracker) checksum(p *dissect.Packet, frame []byte) checksumVerdict {
	u := p.UDP(frame)
	if u == nil || p.Fragment {
		return checksumUnknown
	}
	if u.Checksum() == 0 {
		return checksumZero
	}
	at := p.Offset(dissect.LayerUDP)
	n := int(u.Len())
	if n < 8 || at+n > len(frame) {
		return checksumUnknown
	}
	var pseudo uint32
	switch {
	case p.Has(dissect.LayerIPv4):
		ip := frame[p.Offset(dissect.LayerIPv4):]
		pseudo = dissect.OnesSum(0, ip[12:20])
	case p.Has(dissect.LayerIPv6):
		ip := frame[p.Offset(dissect.LayerIPv6):]
		pseudo = dissect.OnesSum(0, ip[8:40])
	default:
		return checksumUnknown
	}
	pseudo += 17 + uint32(n)
	if dissect.FoldSum(pseudo) == u.Checksum() {
		return checksumPartial
	}
	if dissect.FoldSum(dissect.OnesSum(pseudo, frame[at:at+n])) == 0xFFFF {
		return checksumRight
	}
	return checksumWrong
}
