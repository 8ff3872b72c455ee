//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// counted is what a tracker says of traffic, and what was sent.
type counted struct {
	feed *feed
	cpu  time.Duration
	heap uint64

	messages, sentPayload       uint64 // as sent
	counted, byStreams, payload uint64 // as the connections say
}

// countMessages has each connection do its opening and then so many cycles of WRITEs, the connections taking turns.
func countMessages(connections, cycles int) (*counted, error) {
	const payload = 64
	g := traffic.New(traffic.Config{Connections: connections, Payload: payload, WritesOnly: true})
	r := &counted{feed: newFeed(flows.Options{})}
	opening, cycle := g.Messages()
	r.messages = uint64(connections) * uint64(opening+cycles*cycle)
	r.sentPayload = r.messages * payload
	began := measure.Spent()
	r.feed.run(g.Establish, g.Opening()*connections)
	r.feed.run(g.Next, g.Cycle()*cycles*connections)
	r.cpu = measure.Spent() - began
	r.heap = heap()
	r.feed.tracker.Finish()
	s := r.feed.tracker.Snapshot()
	if len(s.Connections) != connections {
		return nil, fmt.Errorf("%d connections, not %d", len(s.Connections), connections)
	}
	for i := range s.Connections {
		for d := range s.Connections[i].Streams {
			st := &s.Connections[i].Streams[d]
			r.byStreams += st.Packets
			r.payload += st.PayloadBytes
			r.counted += st.Messages[flows.OpWrite].Count
		}
	}
	return r, nil
}
