package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Access is the way in which a QP's messages go over the remote memory.
type Access uint8

// The ways.
const (
	Linear Access = iota // each message behind the one before, without end
	Ring                 // the same, and over again within the region
	Random               // anywhere in the region where the message has room, at multiples of 64 bytes
)

// Policy is what a QP does about a NAK that asks for a PSN again. After other NAKs the responder is in the ERROR state, so that
// only Ignore goes on.
type Policy uint8

// The policies.
const (
	GoBack Policy = iota // send again from the PSN that is asked for; after an RNR NAK, once its time is over
	Stop                 // that QP sends no more
	Ignore               // go on as if nothing had been said
)

// Config says what a stream sends. Of the zero value, Outer's addresses and Mix have to be set.
type Config struct {
	Outer dissect.Outer // addresses, VLAN tags, traffic class; its UDP source port is ignored
	MTU   int           // path MTU; 0 = 1024
	Mix   []Op
	// Size is that of operations that say none; without a value 65536 bytes, or the path MTU on UD. On UD beside other services
	// longer messages are cut to the path MTU.
	Size Sizes
	QPs  int // of each service that the mix has; 0 = 1

	LocalQPN Series // where answers go
	DestQPN  Series
	PSN      Series // of the first packet
	RKey     Series
	VA       Series // where the region begins
	SrcPort  Series // without a value: spread over 0xC000 … 0xFFFF by QP
	QKey     uint32 // UD
	PKey     uint16 // 0 = the default partition
	Region   uint64 // bytes; 0 = 1 GiB
	Access   Access
	Payload  Pattern

	Count      uint64        // messages of each QP; 0 = no limit
	Duration   time.Duration // 0 = no limit
	Packets    uint64        // of all QPs, within a message if it comes to that; 0 = no limit
	Rate       Rate
	Burst      int  // packets handed over at a time; 0 = 512, or 64 where answers are looked at, or what 100 µs have if that is less
	Threads    int  // ports to send through, each with a thread; 0 = all. Answers come from all ports
	Interleave bool // QPs take turns after each packet, not each message
	Window     int  // PSNs of a QP that may be unacknowledged; 0 = no limit
	OnNAK      Policy
	Seed       uint64
	Linger     time.Duration // how long to wait for answers that do not come; 0 = 500 ms
	Clock      Clock         // nil = the machine's
	Turns      bool          // one goroutine sends and looks in turns; time passes while it waits for answers: for simulations
}

const (
	maxQPs   = 1 << 20
	maxBurst = 1024
	most24   = 1<<24 - 1
)

// setDefaults fills in what was left out.
func (c *Config) setDefaults() {
	if c.MTU == 0 {
		c.MTU = 1024
	}
	if c.QPs == 0 {
		c.QPs = 1
	}
	if c.Region == 0 {
		c.Region = 1 << 30
	}
	if c.Linger == 0 {
		c.Linger = 500 * time.Millisecond
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Payload.data == nil {
		c.Payload, _ = Named("counter")
	}
	c.Mix = append([]Op(nil), c.Mix...)
	for i := range c.Mix {
		op := &c.Mix[i]
		if op.Weight == 0 {
			op.Weight = 1
		}
		switch {
		case op.Operation == nil: // check says it
		case op.Operation.size > 0:
			op.Sizes = Size(uint32(op.Operation.size))
		case op.Operation.size == noSize:
			op.Sizes = Size(0)
		case op.Sizes.values != nil:
		case c.Size.values != nil && op.Transport == dissect.UD && len(c.services()) > 1:
			op.Sizes = c.Size.atMost(uint32(c.MTU))
		case c.Size.values != nil:
			op.Sizes = c.Size
		case op.Transport == dissect.UD:
			op.Sizes = Size(uint32(c.MTU))
		default:
			op.Sizes = Size(64 << 10)
		}
	}
}

// Check finds what cannot be meant. It does not ask for addresses, which may still have to be found.
func (c *Config) Check() error {
	whole := *c
	whole.setDefaults()
	return whole.check()
}

func (c *Config) checkAddresses() error {
	src, dst := c.Outer.Src, c.Outer.Dst
	switch {
	case !src.IsValid() || !dst.IsValid():
		return errors.New("a stream needs a source and a destination address")
	case src.Is4() != dst.Is4():
		return fmt.Errorf("source %v and destination %v are not of one kind: both IPv4 or both IPv6", src, dst)
	}
	return nil
}

func (c *Config) check() error {
	switch {
	case c.Outer.RoCEv1:
		return errors.New("a stream is RoCE v2")
	case !dissect.ValidMTU(c.MTU):
		return fmt.Errorf("%d is no path MTU; there are 256, 512, 1024, 2048 and 4096", c.MTU)
	case len(c.Mix) == 0:
		return errors.New("a stream needs an operation")
	case c.QPs < 1 || c.QPs > maxQPs:
		return fmt.Errorf("%d QPs cannot be: 1 to %d can", c.QPs, maxQPs)
	case c.Burst < 0 || c.Burst > maxBurst:
		return fmt.Errorf("a burst of %d packets cannot be: 1 to %d can", c.Burst, maxBurst)
	case c.Window < 0 || c.Window > 1<<22:
		return fmt.Errorf("a window of %d PSNs cannot be: 1 to %d can", c.Window, 1<<22)
	case c.Turns && c.Rate == (Rate{}):
		return errors.New("a stream to a simulation needs a rate: its time passes between packets only")
	case c.Rate.Packets < 0 || c.Rate.Bits < 0 || c.Rate.Packets > 0 && c.Rate.Bits > 0:
		return errors.New("a rate is a number of packets or of bits per second, above 0")
	case c.Count == 0 && c.Duration == 0 && c.Packets == 0:
		return errors.New("a stream needs an end: a number of messages or a duration")
	}
	for i := range c.Mix {
		if err := c.checkOp(&c.Mix[i]); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		what   string
		series *Series
		most   uint64
	}{
		{"local QPN", &c.LocalQPN, most24},
		{"destination QPN", &c.DestQPN, most24},
		{"PSN", &c.PSN, 1<<64 - 1},
		{"rkey", &c.RKey, 1<<32 - 1},
		{"UDP source port", &c.SrcPort, 1<<16 - 1},
	} {
		if last := s.series.At(c.QPs*len(c.services()) - 1); last > s.most {
			return fmt.Errorf("the %s of the last QP is 0x%x: at most 0x%x can be", s.what, last, s.most)
		}
	}
	return nil
}

func (c *Config) checkOp(op *Op) error {
	if op.Operation == nil || op.Weight < 0 {
		return errors.New("a part of a mix needs an operation and a weight above 0")
	}
	if !op.Operation.On(op.Transport) {
		return fmt.Errorf("%v has no %s", op.Transport, op.Operation.Name)
	}
	most := op.Sizes.Most()
	if _, ok := op.Operation.opcode(op.Transport, dissect.First); !ok && op.Operation.family == dissect.Send && int(most) > c.MTU {
		return fmt.Errorf("a message on %v is one packet: %d bytes do not fit into a path MTU of %d", op.Transport, most, c.MTU)
	}
	if op.Operation.Request() && op.Operation.family != dissect.Send && uint64(most) > c.Region {
		return fmt.Errorf("a message of %d bytes does not fit into a region of %d", most, c.Region)
	}
	return nil
}

// services are the transports of the mix, in their order.
func (c *Config) services() []dissect.Transport {
	var all []dissect.Transport
	seen := map[dissect.Transport]bool{}
	for i := range c.Mix {
		if t := c.Mix[i].Transport; !seen[t] {
			seen[t] = true
			all = append(all, t)
		}
	}
	return all
}
