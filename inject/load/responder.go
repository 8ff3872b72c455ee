package load

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Serving says what a Responder gives to who connects.
type Serving struct {
	Region      int             // bytes of memory of a conversation that does not tell what it needs; 0 = 8 MiB, the most that perftest -a wants
	Memory      uint64          // bytes of all conversations; 0 = 1 GiB
	Connections int             // queue pairs of all conversations; 0 = 16000
	Rally       Rally           // how clients of perftest are answered, who do not tell
	RallySize   int             // WriteRally: the bytes of a message, as the client has them
	RallyCount  uint64          // WriteRally: how many messages; 0 = 1000, perftest's default
	Tell        func(Happening) // on the host's threads, one at a time
}

// Responder serves: memory to write and to read, receives for what is sent, and answers where they are asked for.
type Responder struct {
	h        *peer.Host
	o        Serving
	stations []*station // one on each of the host's threads

	mu     sync.Mutex // of what follows
	all    []*conversation
	memory uint64
	qps    int
	ids    int
	totals Totals

	telling sync.Mutex
}

// station is where one of the host's threads serves the queue pairs that live on it.
type station struct {
	thread   *peer.Thread
	worker   peer.Worker
	shares   atomic.Pointer[[]*share] // who changes it has Responder.mu
	polled   [64]rnic.Completion
	received atomic.Uint64 // messages
	bytes    atomic.Uint64
}

// Totals count since the Responder was made.
type Totals struct {
	Conversations, Refused, Failed uint64
	QPs                            uint64
	Received, ReceivedBytes        uint64 // by SEND or WRITE with immediate
	Checked, Wrong, Lost           uint64
}

// Happening is something that a Responder tells.
type Happening struct {
	Kind    HappeningKind
	Serving int // number of the conversation
	Way     peer.Way
	Peer    netip.AddrPort
	Conn    *peer.Conn      // of Connected
	Traffic connect.Traffic // of Planned
	Report  connect.Report  // of Checked
	QPs     int             // of Closed
	Err     error
}

// HappeningKind is the kind of a Happening.
type HappeningKind uint8

// The kinds.
const (
	Called    HappeningKind = iota // somebody wants to connect
	Refused                        // and may not, by Err
	Planned                        // the traffic that it announces
	Connected                      // a queue pair is in RTS
	Ready                          // both sides are ready
	Checked                        // data was checked
	Broken                         // a queue pair failed, by Err
	Closed                         // the end; Err is nil if it was an orderly one
	numHappenings
)

var happeningNames = [numHappenings]string{"called", "refused", "planned", "connected", "ready", "checked", "broken", "closed"}

func (k HappeningKind) String() string {
	if k < numHappenings {
		return happeningNames[k]
	}
	return "unknown"
}

const (
	defaultRegion = 8 << 20
	defaultMemory = 1 << 30
	defaultQPs    = 16000
	recvDepth     = 512 // receives of a queue pair, as perftest has them
	recvBytes     = 16 << 20
	groupQPs      = 16 // queue pairs that share a completion queue
)

// NewResponder makes one and begins its work. Accept is what peer.Listening wants.
func NewResponder(h *peer.Host, o Serving) (*Responder, error) {
	if o.Region == 0 {
		o.Region = defaultRegion
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Connections == 0 {
		o.Connections = defaultQPs
	}
	if o.RallyCount == 0 {
		o.RallyCount = 1000
	}
	if o.Rally == WriteRally && (o.RallySize < 1 || o.RallySize > o.Region) {
		return nil, fmt.Errorf("WRITEs that are to be answered need a size of 1 to %d bytes, as the client has it", o.Region)
	}
	r := &Responder{h: h, o: o}
	for _, t := range h.Threads() {
		s := &station{thread: t}
		s.shares.Store(new([]*share))
		s.worker.Work = s.work
		r.stations = append(r.stations, s)
		if err := t.Do(func() error { t.Attach(&s.worker); return nil }); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Totals are what was done until now.
func (r *Responder) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.totals
	for _, s := range r.stations {
		t.Received += s.received.Load()
		t.ReceivedBytes += s.bytes.Load()
	}
	return t
}

func (r *Responder) tell(v *conversation, what Happening) {
	if r.o.Tell == nil {
		return
	}
	what.Serving, what.Way, what.Peer = v.id, v.call.Way, v.call.Peer
	r.telling.Lock()
	defer r.telling.Unlock()
	r.o.Tell(what)
}

// Accept takes a call, on the host's thread.
func (r *Responder) Accept(c peer.Call) (peer.Party, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	v := &conversation{r: r, id: r.ids, call: c, rally: OneWay, pd: r.h.Device().AllocPD()}
	r.tell(v, Happening{Kind: Called})
	if err := r.full(); err != nil {
		r.totals.Refused++
		r.tell(v, Happening{Kind: Refused, Err: err})
		return nil, err
	}
	switch c.Way {
	case peer.ByPingpong:
		v.rally = SendRally
	case peer.ByPerftest:
		v.rally = r.o.Rally
	}
	r.totals.Conversations++
	r.all = append(r.all, v)
	return v, nil
}

// full says that there may be no further queue pair.
func (r *Responder) full() error {
	if r.qps >= r.o.Connections {
		return fmt.Errorf("there are %d queue pairs already, as many as are allowed", r.qps)
	}
	return nil
}

// work is done once per batch.
func (s *station) work(int64) (busy bool) {
	for _, x := range *s.shares.Load() {
		busy = x.work(s.polled[:]) || busy
	}
	return busy
}
