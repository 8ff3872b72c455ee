package port

import "fmt"

const (
	etherHeader = 14 // two addresses and a type
	vlanTag     = 4
	rocePort    = 4791
)

// maxFrame is the longest frame that an interface sends: an untagged one is shorter by a VLAN tag.
func (l *link) maxFrame() int { return l.mtu + etherHeader + vlanTag }

// fits says whether frames of a length may be sent, and how to make it possible. 0 is what the MTU allows.
func (l *link) fits(length int) (int, error) {
	if length <= 0 {
		return l.maxFrame(), nil
	}
	if length > l.maxFrame() {
		return 0, failed(l.name, fmt.Sprintf("send frames of %d bytes", length), fmt.Errorf("%w for an MTU of %d", ErrFrameSize, l.mtu),
			fmt.Sprintf("ip link set %s mtu %d, on both ends and on what lies between them", l.name, length-etherHeader))
	}
	return length, nil
}
