package load

import (
	"fmt"
	"net/netip"

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
	Tell        func(Happening) // on the host's thread
}

// Responder serves: memory to write and to read, receives for what is sent, and answers where they are asked for.
type Responder struct {
	h      *peer.Host
	o      Serving
	all    []*conversation
	memory uint64
	qps    int
	ids    int
	worker peer.Worker
	polled [64]rnic.Completion
	Totals Totals
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
	r.worker.Work = r.work
	return r, h.Do(func() error { h.Attach(&r.worker); return nil })
}

func (r *Responder) tell(v *conversation, what Happening) {
	if r.o.Tell == nil {
		return
	}
	what.Serving, what.Way, what.Peer = v.id, v.call.Way, v.call.Peer
	r.o.Tell(what)
}

// Accept takes a call, on the host's thread.
func (r *Responder) Accept(c peer.Call) (peer.Party, error) {
	r.ids++
	v := &conversation{r: r, id: r.ids, call: c, rally: OneWay, pd: r.h.Device().AllocPD()}
	r.tell(v, Happening{Kind: Called})
	if r.qps >= r.o.Connections {
		return nil, r.refuse(v, fmt.Errorf("there are %d queue pairs already, as many as are allowed", r.qps))
	}
	switch c.Way {
	case peer.ByPingpong:
		v.rally = SendRally
	case peer.ByPerftest:
		v.rally = r.o.Rally
	}
	r.Totals.Conversations++
	r.all = append(r.all, v)
	return v, nil
}

func (r *Responder) refuse(v *conversation, err error) error {
	r.Totals.Refused++
	r.tell(v, Happening{Kind: Refused, Err: err})
	return err
}

// work is done once per batch.
func (r *Responder) work(now int64) (busy bool) {
	for _, v := range r.all {
		busy = v.work() || busy
	}
	return busy
}
