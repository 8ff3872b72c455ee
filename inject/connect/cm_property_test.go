package connect

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// flight is a frame on its way.
type flight struct {
	at    int64
	to    int
	frame []byte
}

// lossyNet lets two hosts talk over a wire that loses, doubles, delays and reorders, for as long as something is due.
type lossyNet struct {
	hosts    [2]*host
	now      int64
	flights  []flight
	pick     func(label string, n int) int
	faults   int // left
	percents [2]int
}

func (n *lossyNet) collect() {
	for i, h := range n.hosts {
		for _, f := range h.take() {
			copies := 1
			if n.faults > 0 {
				switch r := n.pick("fate", 100); {
				case r < n.percents[0]:
					copies, n.faults = 0, n.faults-1
				case r < n.percents[0]+n.percents[1]:
					copies, n.faults = 2, n.faults-1
				}
			}
			for range copies {
				n.flights = append(n.flights, flight{n.now + int64(n.pick("delay", 20))*ms, 1 - i, f})
			}
		}
	}
}

// run goes on until nothing is due, or until a time.
func (n *lossyNet) run(until int64) {
	for {
		n.collect()
		next, arrives := int64(never), -1
		for i := range n.flights {
			if n.flights[i].at < next {
				next, arrives = n.flights[i].at, i
			}
		}
		for _, h := range n.hosts {
			if due := h.Tick(n.now); due < next {
				next, arrives = due, -1
			}
		}
		if next == never || next > until {
			return
		}
		n.now = max(n.now, next)
		if arrives >= 0 {
			f := n.flights[arrives]
			n.flights = slices.Delete(n.flights, arrives, arrives+1)
			n.hosts[f.to].Handle(f.frame, n.now)
		}
		for _, h := range n.hosts {
			h.Tick(n.now)
		}
	}
}

// TestCMUnderFaults: whatever happens to datagrams, as long as there are fewer faults than retries (7, of which a request that
// is thought about needs two) both sides agree: each
// connection is established on both with the same parameters, then over on both, and nothing is left.
func TestCMUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := &lossyNet{
			pick:   func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) },
			faults: rapid.IntRange(0, 5).Draw(rt, "faults"), percents: [2]int{rapid.IntRange(0, 60).Draw(rt, "loss"), rapid.IntRange(0, 40).Draw(rt, "doubled")},
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		for i := range n.hosts {
			n.hosts[i] = newHost(t, func(c *CMConfig) { c.GUID, c.Rand, c.ResponseTimeout = uint64(i+1), rand.NewPCG(seed, uint64(i)), 14 })
		}
		a, b := n.hosts[0], n.hosts[1]
		must(t, b.Listen(rpingService))
		thinks := int64(rapid.IntRange(0, 300).Draw(rt, "the application thinks, ms")) * ms
		var waiting []ConnID
		b.on = func(e Event) {
			if e.Kind == EventRequest {
				waiting = append(waiting, e.ID)
			}
		}
		a.on = func(e Event) {
			if e.Kind == EventResponse {
				must(t, a.Confirm(n.now, e.ID, nil))
			}
		}
		conns := rapid.IntRange(1, 4).Draw(rt, "connections")
		for i := range conns {
			r := rcRequest()
			r.Local.QPN += uint32(i)
			_, err := a.Connect(n.now, r)
			must(t, err)
		}
		for len(b.established()) < conns || len(a.established()) < conns {
			until := n.now + thinks
			n.run(until)
			n.now = max(n.now, until)
			for _, id := range waiting {
				must(t, b.Accept(n.now, id, Answer{Local: Parameters{QPN: 0x100 + uint32(id)&0xFFFF}}))
			}
			waiting = nil
			if n.now > int64(time.Hour) {
				rt.Fatalf("%d and %d of %d established", len(a.established()), len(b.established()), conns)
			}
			n.now += ms
		}
		n.run(n.now + int64(time.Minute))
		for _, ea := range a.established() {
			i := slices.IndexFunc(b.established(), func(e Event) bool { return e.Remote.QPN == ea.Local.QPN })
			if i < 0 {
				rt.Fatalf("%v is not known to the other side", ea)
			}
			eb := b.established()[i]
			if ea.Local != eb.Remote || ea.Remote != eb.Local {
				rt.Fatalf("a: %+v - %+v\nb: %+v - %+v", ea.Local, ea.Remote, eb.Remote, eb.Local)
			}
			n.faults = max(n.faults, rapid.IntRange(0, 2).Draw(rt, "more faults"))
			who, id := a, ea.ID
			if rapid.Bool().Draw(rt, "b ends it") {
				who, id = b, eb.ID
			}
			must(t, who.Disconnect(n.now, id, nil))
			if rapid.Bool().Draw(rt, "the other too") {
				other, id := b, eb.ID
				if who == b {
					other, id = a, ea.ID
				}
				if other.State(id) == StateEstablished {
					must(t, other.Disconnect(n.now, id, nil))
				}
			}
		}
		n.run(never - 1)
		for _, h := range n.hosts {
			kinds := map[EventKind]int{}
			for _, e := range h.events {
				kinds[e.Kind]++
			}
			if kinds[EventEstablished] != conns || kinds[EventDisconnected] != conns || kinds[EventClosed] != conns || kinds[EventRejected]+kinds[EventUnreachable] > 0 {
				rt.Fatalf("events %v, want each of %d established, disconnected and closed once", kinds, conns)
			}
			if s := h.Stats(); s.Connections != 0 || s.Pending != 0 || len(h.table.byRemote)+len(h.table.byQPN)+len(h.table.heap) != 0 {
				rt.Fatalf("left: %+v, %+v", s, h.table)
			}
		}
	})
}

func (h *host) established() (es []Event) {
	for _, e := range h.events {
		if e.Kind == EventEstablished {
			es = append(es, e)
		}
	}
	return es
}

// TestCMAgreesWhateverIsLost: with more losses than retries either side may give up, but nothing is left half open and nobody
// believes in a connection for ever that the other gave up: the next DREQ ends it.
func TestCMAgreesWhateverIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := &lossyNet{
			pick:   func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) },
			faults: 1000, percents: [2]int{rapid.IntRange(30, 90).Draw(rt, "loss"), 10},
		}
		for i := range n.hosts {
			n.hosts[i] = newHost(t, func(c *CMConfig) {
				c.Rand, c.ResponseTimeout, c.MaxRetries = rand.NewPCG(7, uint64(i)), 14, 2
			})
		}
		a, b := n.hosts[0], n.hosts[1]
		must(t, b.Listen(rpingService))
		b.on = func(e Event) {
			if e.Kind == EventRequest {
				must(t, b.Accept(n.now, e.ID, Answer{Local: Parameters{QPN: 0x77}}))
			}
		}
		a.on = func(e Event) {
			if e.Kind == EventResponse {
				must(t, a.Confirm(n.now, e.ID, nil))
			}
		}
		_, err := a.Connect(0, rcRequest())
		must(t, err)
		n.run(never - 1)
		for _, h := range n.hosts {
			for id, c := range h.table.byID {
				if c.state != StateEstablished {
					rt.Fatalf("%v is left", c.state)
				}
				must(t, h.Disconnect(n.now, id, nil))
			}
		}
		n.run(never - 1)
		for _, h := range n.hosts {
			if len(h.table.byID)+len(h.table.byRemote)+len(h.table.byQPN) > 0 {
				rt.Fatalf("left: %+v", h.table)
			}
			ends := 0
			for _, e := range h.events {
				switch e.Kind {
				case EventRejected, EventUnreachable, EventDisconnected:
					ends++
				}
			}
			if requests := len(h.events) > 0; requests && ends == 0 {
				rt.Fatalf("no end was told: %v", h.events)
			}
		}
	})
}
