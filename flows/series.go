package flows

import (
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Series is how a connection went over time: points of equal length, of which
// those without a packet are left out. A capture of any length has at most
// MaxPoints points, for their interval doubles whenever there are more.
type Series struct {
	Start    int64 // ns since the Unix epoch
	Interval time.Duration
	Points   []Point
}

// MaxPoints is the greatest number of points in a series.
const MaxPoints = 128

// Point is what happened in one interval.
type Point struct {
	Time    int64 // when it begins
	Streams [2]PointStream
}

// PointStream is one direction of a point. Requests, messages and latencies
// belong to the requester that sends in that direction.
type PointStream struct {
	Packets, Bytes, Payload uint64
	Messages                uint64 // completed
	Retransmissions         uint64 // packets sent again
	CE, CNPs                uint64
	InFlight                uint64        // most payload bytes sent, or asked for, and not acknowledged
	Outstanding             uint32        // most messages open
	Credits                 int           // fewest that an answer of the interval granted
	CreditsKnown            bool          // one did
	CreditWait              time.Duration // waits for credits that ended in the interval, as in Budget.Credit
	Latency                 PointLatency
	RTT                     RTT // in nanoseconds; Max is not kept
}

// PointLatency is the latencies of the messages completed in an interval, in
// nanoseconds; percentiles are right within one part in four.
type PointLatency struct {
	Count         uint64
	P50, P99, Max int64
}

// series is what Series is made from.
type series struct {
	start  int64
	shift  uint8 // the interval is 1 << shift nanoseconds
	points []point
	open   [2]uint64 // payload bytes of open messages, by direction of the requests
}

type latencyCounts [coarseBuckets]uint16

type point struct {
	slot int64 // which interval it is, counted from start
	dir  [2]pointDir
}

type pointDir struct {
	packets, bytes, payload uint64
	messages                uint64
	inflight                uint64
	outstanding             uint32
	resent, ce, cnps        uint32
	rttCount, latCount      uint32
	rttMin, rttSum          int64
	latMax                  int64
	creditWait              int64
	granted                 int16         // as in budget.granted
	lat                     latencyCounts // of latCount latencies
}

// fewPoints is how many points a series has room for before it gets room for
// all: to grow step by step costs as much memory again.
const fewPoints = 16

// firstShift makes the first interval 1024 ns.
const firstShift = 10

func newSeries(start int64) *series { return &series{start: start, shift: firstShift} }

// packet takes a packet in direction d, of which h is the requester, once all
// else is done with it.
func (s *series) packet(h *half, d Direction, p *dissect.Packet, m *Mark) {
	at := &s.at(p.Time).dir[d]
	at.packets++
	at.bytes += uint64(p.WireLen)
	at.payload += uint64(p.PayloadLen())
	if m.Bits&(MarkRetransmission|MarkCE|MarkCNP) != 0 {
		at.mark(m)
	}
	if m.Bits&MarkRequest == 0 {
		if n := grantedBy(p); n != neverGranted {
			s.points[len(s.points)-1].dir[d.Reverse()].grant(n)
		}
		return
	}
	if m.Bits&markAgain == 0 {
		if p.Op().Family == dissect.Read {
			s.open[d] += uint64(p.DMALen)
		} else {
			s.open[d] += uint64(p.PayloadLen())
		}
	}
	at.outstanding = max(at.outstanding, uint32(h.openCount))
	at.inflight = max(at.inflight, s.inflight(h, d))
}

// at returns the point of a time. What comes late goes to the newest one.
func (s *series) at(ns int64) *point {
	slot := (ns - s.start) >> s.shift
	if n := len(s.points); n > 0 && s.points[n-1].slot >= slot {
		return &s.points[n-1]
	}
	return s.grow(ns)
}

func (s *series) grow(ns int64) *point {
	for len(s.points) >= MaxPoints {
		s.double()
	}
	slot := max(ns-s.start, 0) >> s.shift
	n := len(s.points)
	if n > 0 && s.points[n-1].slot >= slot {
		return &s.points[n-1]
	}
	if n == cap(s.points) && n >= fewPoints { // a busy connection: it will have them all
		s.points = slices.Grow(s.points, MaxPoints-n)
	}
	s.points = append(s.points, point{slot: slot})
	return &s.points[n]
}

// double doubles the interval, until a quarter of the points is free.
func (s *series) double() {
	for len(s.points) > MaxPoints*3/4 {
		s.shift++
		n := 0
		for i := range s.points {
			p := &s.points[i]
			p.slot >>= 1
			if n > 0 && s.points[n-1].slot == p.slot {
				for d := range p.dir {
					s.points[n-1].dir[d].merge(&p.dir[d])
				}
				continue
			}
			if n != i {
				s.points[n] = *p
			}
			n++
		}
		s.points = s.points[:n]
	}
}

// merge adds what o counts.
func (p *pointDir) merge(o *pointDir) {
	p.packets += o.packets
	p.bytes += o.bytes
	p.payload += o.payload
	p.messages += o.messages
	p.resent += o.resent
	p.ce += o.ce
	p.cnps += o.cnps
	p.inflight = max(p.inflight, o.inflight)
	p.outstanding = max(p.outstanding, o.outstanding)
	if o.rttCount > 0 && (p.rttCount == 0 || o.rttMin < p.rttMin) {
		p.rttMin = o.rttMin
	}
	p.creditWait += o.creditWait
	if o.granted != neverGranted {
		p.grant(o.granted)
	}
	p.rttCount += o.rttCount
	p.rttSum += o.rttSum
	p.latCount += o.latCount
	p.latMax = max(p.latMax, o.latMax)
	if o.latCount > 0 {
		for b, n := range o.lat {
			p.lat.add(b, n)
		}
	}
}

// add counts, halving all where one would run over: the shape is what counts.
func (l *latencyCounts) add(b int, n uint16) {
	for uint32(l[b])+uint32(n) > 0xFFFF {
		for i := range l {
			l[i] = (l[i] + 1) / 2
		}
		n = (n + 1) / 2
	}
	l[b] += n
}

// grant takes the credits that an answer granted.
func (p *pointDir) grant(n int16) {
	if p.granted == neverGranted || n < p.granted {
		p.granted = n
	}
}

func (p *pointDir) mark(m *Mark) {
	if m.Bits&MarkRetransmission != 0 {
		p.resent++
	}
	if m.Bits&MarkCE != 0 {
		p.ce++
	}
	if m.Bits&MarkCNP != 0 {
		p.cnps++
	}
}

// inflight is the payload bytes that are sent, or asked for, and not
// acknowledged: what the open messages hold, but no more than the packets
// between the oldest unacknowledged PSN and the newest can carry.
func (s *series) inflight(h *half, d Direction) uint64 {
	if mtu := h.mtuBytes(); mtu != 0 && h.flags&halfAckSeen != 0 {
		return min(s.open[d], uint64(max(h.next.Sub(h.acked), 0)*mtu))
	}
	return s.open[d]
}

// settled takes a message that has ended.
func (s *series) settled(c *conn, d Direction, f *inflight) {
	n := f.Seen
	if f.Op == OpRead {
		n = f.Bytes
	}
	s.open[d] -= min(n, s.open[d])
	if c.half[d].openCount <= 1 { // this one was the last
		s.open[d] = 0
	}
	if f.Status != StatusSuccess && f.Status != StatusSent {
		return
	}
	at := f.Completed
	if at == 0 {
		at = f.LastSent
	}
	p := &s.at(at).dir[d]
	p.messages++
	ns, ok := f.Latency()
	if !ok || ns < 0 {
		return
	}
	p.latCount++
	p.latMax = max(p.latMax, int64(ns))
	p.lat.add(bucketOf(int64(ns)), 1)
}

// waited takes a wait for credits that the newest packet ended.
func (s *series) waited(d Direction, ns int64) {
	if len(s.points) > 0 {
		s.points[len(s.points)-1].dir[d].creditWait += ns
	}
}

// roundTrip takes a round trip that the newest packet ended.
func (s *series) roundTrip(d Direction, ns int64) {
	if len(s.points) == 0 {
		return
	}
	p := &s.points[len(s.points)-1].dir[d]
	if p.rttCount == 0 || ns < p.rttMin {
		p.rttMin = ns
	}
	p.rttCount++
	p.rttSum += ns
}

func (s *series) record() Series {
	r := Series{Start: s.start, Interval: duration(1 << s.shift), Points: make([]Point, len(s.points))}
	for i := range s.points {
		p := &s.points[i]
		out := &r.Points[i]
		out.Time = s.start + p.slot<<s.shift
		for d := range p.dir {
			out.Streams[d] = p.dir[d].record()
		}
	}
	return r
}

func (p *pointDir) record() PointStream {
	r := PointStream{
		Packets: p.packets, Bytes: p.bytes, Payload: p.payload, Messages: p.messages,
		Retransmissions: uint64(p.resent), CE: uint64(p.ce), CNPs: uint64(p.cnps),
		InFlight: p.inflight, Outstanding: p.outstanding, CreditWait: duration(p.creditWait),
	}
	if p.granted != neverGranted {
		r.Credits, r.CreditsKnown = int(p.granted)-1, true
	}
	if p.rttCount > 0 {
		r.RTT = RTT{Count: uint64(p.rttCount), Min: p.rttMin, Mean: p.rttSum / int64(p.rttCount)}
	}
	if p.latCount > 0 {
		var n uint64
		for _, k := range p.lat {
			n += uint64(k)
		}
		buckets := (*[coarseBuckets]uint16)(&p.lat)
		r.Latency = PointLatency{
			Count: uint64(p.latCount), Max: p.latMax,
			P50: min(quantile(buckets, n, 0.50), p.latMax), P99: min(quantile(buckets, n, 0.99), p.latMax),
		}
	}
	return r
}
