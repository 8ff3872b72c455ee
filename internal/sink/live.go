package sink

import (
	"github.com/rocescope/rocescope/flows"
)

// liveState is what a Collector remembers between two snapshots of a capture that goes on.
type liveState struct {
	at    int64 // time of the last update, of the packets
	conns map[uint32]*[2]flows.Stream
	found map[foundKey]flows.Finding
}

// foundKey names a finding.
type foundKey struct {
	id        flows.FindingID
	conn      uint32
	direction flows.Direction
	where     string
}

func (l *liveState) forget(conn uint32) { delete(l.conns, conn) }

// Update takes a snapshot while a capture goes on: series get a row for each direction that had a packet since the last one.
// To a writer that replaces rows, connections, streams and findings are given as they are now, where they changed.
func (c *Collector) Update(s *flows.Snapshot) error {
	l := &c.state
	if l.conns == nil {
		l.conns, l.found, l.at = map[uint32]*[2]flows.Stream{}, map[foundKey]flows.Finding{}, c.run.start
	}
	at, replaces := l.at, c.w.Replaces()
	for i := range s.Connections {
		at = max(at, s.Connections[i].LastSeen)
	}
	for i := range s.Connections {
		f := &s.Connections[i]
		if c.changes(f, l.at, at) && replaces {
			c.connection(f)
		}
	}
	if replaces && c.blocks[inFindings] != nil {
		c.foundSince(s)
	}
	l.at = at
	return c.flush()
}

// changes makes series rows of what a connection did since the last update, and says whether it did anything.
func (c *Collector) changes(f *flows.Connection, from, to int64) bool {
	before := c.state.conns[f.ID]
	if before == nil {
		before = &[2]flows.Stream{}
		c.state.conns[f.ID] = before
	}
	changed := false
	for d := range f.Streams {
		now, was := &f.Streams[d], &before[d]
		if now.LastSeen == was.LastSeen && now.Packets == was.Packets && sum(&now.Messages) == sum(&was.Messages) {
			continue
		}
		changed = true
		if b := c.blocks[inSeries]; b != nil {
			p := difference(now, was)
			c.direct(&c.point.where, f, flows.Direction(d))
			c.pointOf(b, from, max(to-from, 1), &p, true)
		}
		*was = *now
	}
	return changed
}

// difference is what a stream did between two snapshots.
func difference(now, was *flows.Stream) flows.PointStream {
	p := flows.PointStream{
		Packets: now.Packets - was.Packets, Bytes: now.Bytes - was.Bytes, Payload: now.PayloadBytes - was.PayloadBytes,
		Messages:        sum(&now.Messages).Completed - sum(&was.Messages).Completed,
		Retransmissions: now.RetransmittedPackets - was.RetransmittedPackets, CE: now.ECNCE - was.ECNCE, CNPs: now.CNPs - was.CNPs,
	}
	p.Latency = latencies(now.Latencies, was.Latencies)
	if p.RTT.Count = now.RTT.Count - was.RTT.Count; p.RTT.Count > 0 {
		p.RTT.Mean = (now.RTT.Mean*int64(now.RTT.Count) - was.RTT.Mean*int64(was.RTT.Count)) / int64(p.RTT.Count)
	}
	return p
}

// latencies are the percentiles of what a histogram gained. A bucket counts as its upper bound.
func latencies(now, was []flows.LatencyBucket) (l flows.PointLatency) {
	gained := make([]flows.LatencyBucket, 0, len(now))
	for _, b := range now {
		for len(was) > 0 && was[0].From < b.From {
			was = was[1:]
		}
		if len(was) > 0 && was[0].From == b.From {
			b.Count -= min(was[0].Count, b.Count)
		}
		if b.Count > 0 {
			gained = append(gained, b)
			l.Count += b.Count
		}
	}
	rank := func(share float64) int64 {
		want, seen := uint64(share*float64(l.Count)+0.5), uint64(0)
		for _, b := range gained {
			if seen += b.Count; seen >= max(want, 1) {
				return max(b.To, b.From)
			}
		}
		return 0
	}
	l.P50, l.P99, l.Max = rank(0.5), rank(0.99), rank(1)
	return l
}

// foundSince makes rows of the findings that are new or have grown, and of those that turned out mistaken.
func (c *Collector) foundSince(s *flows.Snapshot) {
	finder := newFinder(c, s)
	there := make(map[foundKey]bool, len(s.Findings))
	for i := range s.Findings {
		f := &s.Findings[i]
		k := foundKey{f.ID, f.Conn, f.Direction, f.Where}
		there[k] = true
		if was, known := c.state.found[k]; known && was.Count == f.Count && was.Last == f.Last {
			continue
		}
		c.state.found[k] = *f
		c.finding(finder.row(f))
	}
	for k, f := range c.state.found {
		if !there[k] {
			r := finder.row(&f)
			r.gone = true
			c.finding(r)
			delete(c.state.found, k)
		}
	}
}
