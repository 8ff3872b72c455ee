package flows

import "github.com/rocescope/rocescope/dissect"

// extras is what only some connections need.
type extras struct {
	why      string
	counters [2]*Stream     // made on first need; see count
	recovery [2]recovery    // by the direction of the requests
	gaps     [2][]gap       // by the direction of the requests
	ghosts   [2]*ghost      // answers beyond what was seen, held until their requests come or do not
	doubts   uint8          // answers in a row that an inferred pair does not explain
	steps    [2][]StateStep // by end; only what a handshake or a failure proves
	firsts   [2]firsts      // by end
	neg      [2]Negotiated  // by end
	credits  [2]creditLimit // by the direction of the requests
	lat      [2]*latency    // by the direction of the requests
	dscps    [2][]uint8
	ports    [2][]uint16
	detail   *detail // nil but for some
	upper    *upperConn

	classes  [2]uint8 // 802.1p priorities beside the first one, a bit set
	migrates bool     // MigReq changed: a path was armed, or migrated
	foreign  [2]strangers
	cnp      [2]cnpPace
	cnpDSCPs [2]uint64         // a bit set
	origs    [2][]atomicAnswer // the newest atomic answers, for comparison with replays

	successor   uint32 // the connection as which it goes on, of one whose partner was found late
	candidates  []QPName
	serviceID   uint64
	established int64
	announced   int64 // when a handshake named a connection that never had a packet
}

// creditLimit is the newest word of a responder on its receive queue.
type creditLimit struct {
	known   bool
	credits int
	limit   dissect.MSN // requests up to this one may consume a receive
}

// count returns the counters of a stream that most streams never need. Those
// of its requests belong to the requester that sends in direction d, those of
// answers to the responder that does.
func (x *extras) count(d Direction) *Stream {
	if x.counters[d] == nil {
		x.counters[d] = &Stream{}
	}
	return x.counters[d]
}

func (t *Tracker) extrasOf(c *conn) *extras {
	if c.extras == 0 {
		return nil
	}
	return t.extras[c.extras]
}

// rare returns the connection's extras, made on first need.
func (t *Tracker) rare(c *conn) *extras {
	if c.extras == 0 {
		if n := len(t.extrasFree); n > 0 {
			c.extras = t.extrasFree[n-1]
			t.extrasFree = t.extrasFree[:n-1]
		} else {
			t.extras = append(t.extras, nil)
			c.extras = uint32(len(t.extras) - 1)
		}
		t.extras[c.extras] = &extras{}
	}
	return t.extras[c.extras]
}

func (t *Tracker) dropExtras(c *conn) {
	if c.extras != 0 {
		t.forgetDetails(t.extras[c.extras])
		t.extras[c.extras] = nil
		t.extrasFree = append(t.extrasFree, c.extras)
		c.extras = 0
	}
}
