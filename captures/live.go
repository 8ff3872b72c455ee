package captures

import (
	"errors"
	"fmt"
	"time"
)

// What can be wrong with a live capture; test with errors.Is.
var (
	// ErrNoInterface: there is no interface of that name.
	ErrNoInterface = errors.New("no such interface")
	// ErrInterfaceDown: the interface exists and is not up.
	ErrInterfaceDown = errors.New("the interface is down")
	// ErrInterfaceGone: the interface vanished while it was captured from.
	ErrInterfaceGone = errors.New("the interface is gone")
	// ErrPrivilege: capturing is not allowed to this process.
	ErrPrivilege = errors.New("not allowed")
	// ErrNotOffered: this kernel, driver or interface cannot do what was asked for.
	ErrNotOffered = errors.New("not offered here")
)

// Direction says whether this host received or sent frames.
type Direction uint8

// Directions.
const (
	InOut Direction = iota // both; of one frame: not known
	In
	Out
)

// Clock is where time stamps come from.
type Clock uint8

// Clocks.
const (
	HostClock    Clock = iota // the kernel, when it gets to see the frame
	AdapterClock              // the card, when the frame arrives
)

func (c Clock) String() string {
	if c == AdapterClock {
		return "adapter"
	}
	return "host"
}

// Engine is a way to get frames from an interface.
type Engine string

// Engines.
const (
	// EnginePacket copies frames into a ring (AF_PACKET, TPACKET_V3). The host's
	// own stack sees them too.
	EnginePacket Engine = "packet"
	// EngineXDP takes frames from the driver (AF_XDP), so that the host does not
	// see them any more.
	EngineXDP Engine = "xdp"
)

// LiveOptions say what to capture. Only Interface must be set.
type LiveOptions struct {
	Interface     string
	Engine        Engine        // EnginePacket unless set
	Filter        string        // see FilterHelp; DefaultFilter unless set
	SnapLen       int           // bytes kept of each frame; 0 keeps all
	Direction     Direction     //
	NoPromiscuous bool          // only frames for this host
	Ring          int           // bytes of all of the kernel's rings together; 0 is 64 MiB
	Rings         int           // rings of EnginePacket; 0 is one for each queue of the interface, at most one for each core, and 8
	Block         int           // bytes of the blocks that a ring of EnginePacket consists of; 0 is 1 MiB
	Timeout       time.Duration // for how long a frame may wait in a block that is not full; 0 is 20 ms, 5 ms with several rings
	Clock         Clock         //
}

// LiveStats is what became of the frames that passed the filter.
//
//	Seen = Delivered + RingDropped + Waiting
type LiveStats struct {
	Seen        uint64 // frames that passed the filter
	Delivered   uint64 // frames that ReadBatch handed out
	RingDropped uint64 // frames that found the kernel's ring full
	Waiting     uint64 // frames in the ring; after the end, frames that nobody wanted any more
	CardDropped uint64 // frames that the card dropped before anybody saw them (rx_missed), since the capture began
	HostTimes   uint64 // with AdapterClock: frames that the card gave no time
	Late        uint64 // frames that were handed out behind a younger one
	Downs       uint64 // times that the interface went down
	Rings       []RingStats
}

// RingStats is one ring's part: of EnginePacket, the rings that cores fill; of
// EngineXDP, the interface's queues.
type RingStats struct{ Seen, Delivered, Dropped uint64 }

// add adds a ring's part. Frames that came in while it was counted may have been
// delivered already.
func (s *LiveStats) add(r RingStats) {
	r.Seen = max(r.Seen, r.Delivered+r.Dropped)
	s.Rings = append(s.Rings, r)
	s.Seen += r.Seen
	s.Delivered += r.Delivered
	s.RingDropped += r.Dropped
	s.Waiting += r.Seen - r.Delivered - r.Dropped
}

// LiveInterface is an interface of this machine.
type LiveInterface struct {
	Name      string
	Index     int
	Up        bool
	Loopback  bool
	MTU       int
	Driver    string   // empty where there is none to ask
	Kind      string   // of virtual ones: "veth", "vlan", "bridge", …
	Hardware  string   // address
	Addresses []string // with prefix lengths
}

// Live is a Source that captures from an interface. The frames of a batch lie in
// the kernel's ring until the next ReadBatch, so that whoever holds them long
// makes the ring fill up, which is counted.
//
// ReadBatch waits for frames. Stop ends that: ReadBatch hands out what was
// captured by then and returns io.EOF. When the interface vanishes it does the
// same, with an ErrInterfaceGone. While an interface is down the capture waits.
type Live struct{ backend }

// backend is what an engine implements.
type backend interface {
	Source
	Prompter
	// Stop may be called from any goroutine, and more than once.
	Stop()
	// Stats may be called from any goroutine, also after Close.
	Stats() LiveStats
}

// OpenLive begins a capture: frames are caught from now on.
func OpenLive(o LiveOptions) (*Live, error) {
	if o.Engine == "" {
		o.Engine = EnginePacket
	}
	if o.SnapLen <= 0 || o.SnapLen > maxSnap {
		o.SnapLen = maxSnap
	}
	if o.Ring == 0 {
		o.Ring = 64 << 20
	}
	b, err := openBackend(&o)
	if err != nil {
		return nil, err
	}
	return &Live{b}, nil
}

// LiveInterfaces lists the interfaces of this machine, by index.
func LiveInterfaces() ([]LiveInterface, error) { return liveInterfaces() }

// liveError says what failed, on which interface. Its sentinel comes first.
func liveError(iface, doing string, sentinel, err error) error {
	switch {
	case sentinel == nil:
		return fmt.Errorf("captures: %s: %s: %w", iface, doing, err)
	case err == nil:
		return fmt.Errorf("captures: %s: %w", iface, sentinel)
	}
	return fmt.Errorf("captures: %s: %s: %w (%w)", iface, doing, sentinel, err)
}

// Interface is what a capture file says of such counts, as far as the source
// knows them: frames that were handed out count as delivered.
func (s LiveStats) Interface() InterfaceStats {
	return InterfaceStats{
		Received: int64(s.Seen), FilterAccepted: int64(s.Seen), OSDropped: int64(s.RingDropped),
		Dropped: int64(s.RingDropped), Delivered: int64(s.Delivered),
	}
}
