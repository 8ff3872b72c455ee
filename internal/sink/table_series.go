package sink

import (
	"sync"

	"github.com/rocescope/rocescope/flows"
)

type seriesRow struct {
	where
	time, interval int64
	*flows.PointStream
	live bool // from the difference of two snapshots: what only the tracker sees between them is not known
}

var series = sync.OnceValue(func() *table[seriesRow] {
	type row = seriesRow
	count := func(name, unit, doc string, get func(p *flows.PointStream) uint64) column[row] {
		return number(name, Uint64, unit, doc, func(r *row) uint64 { return get(r.PointStream) })
	}
	latency := func(name, doc string, get func(l *flows.PointLatency) int64) column[row] {
		return maybe(name, Int64, "ns", doc, func(r *row) (uint64, bool) {
			return span(get(&r.PointStream.Latency)), r.PointStream.Latency.Count > 0
		})
	}
	return newTable(Table{
		Name: "series", Doc: "How each direction went over time: a row for each interval in which it had a packet. Files: of the first connections only (--details), 128 intervals at most. Live captures: of all, an interval is --sink-interval.",
		Key: []string{"run", "connection", "direction", "time"}, Time: "time", Day: "time", QPN: "dst_qpn", Once: true,
	},
		streamColumns[row](),
		[]column[row]{
			number("time", Time, "", "when the interval begins", func(r *row) uint64 { return uint64(r.time) }),
			number("interval_ns", Int64, "ns", "its length", func(r *row) uint64 { return span(r.interval) }),
			count("packets", "", "packets", func(p *flows.PointStream) uint64 { return p.Packets }),
			count("bytes", "bytes", "as on the wire", func(p *flows.PointStream) uint64 { return p.Bytes }),
			count("payload_bytes", "bytes", "of them payload", func(p *flows.PointStream) uint64 { return p.Payload }),
			float("goodput_bps", "bit/s", "payload by the interval", func(r *row) float64 {
				return rounded(float64(r.Payload) * 8e9 / float64(max(r.interval, 1)))
			}),
			count("messages", "", "messages completed", func(p *flows.PointStream) uint64 { return p.Messages }),
			count("retransmitted_packets", "", "packets sent again", func(p *flows.PointStream) uint64 { return p.Retransmissions }),
			count("ecn_ce", "", "packets marked congestion experienced", func(p *flows.PointStream) uint64 { return p.CE }),
			count("cnps", "", "congestion notification packets", func(p *flows.PointStream) uint64 { return p.CNPs }),
			maybe("in_flight_bytes", Uint64, "bytes", "most payload sent, or asked for, and not acknowledged; missing in live captures", func(r *row) (uint64, bool) { return r.InFlight, !r.live }),
			maybe("outstanding", Uint32, "messages", "most messages open; missing in live captures", func(r *row) (uint64, bool) { return uint64(r.Outstanding), !r.live }),
			maybe("credits", Uint32, "messages", "fewest credits that an answer granted to who asks in this direction; missing where no answer told, and in live captures", func(r *row) (uint64, bool) {
				return uint64(max(0, r.Credits)), r.CreditsKnown && !r.live
			}),
			number("latency_count", Uint64, "", "messages whose latency was measured", func(r *row) uint64 { return r.PointStream.Latency.Count }),
			latency("latency_p50_ns", "median, right within one part in four", func(l *flows.PointLatency) int64 { return l.P50 }),
			latency("latency_p99_ns", "99th percentile, right within one part in four", func(l *flows.PointLatency) int64 { return l.P99 }),
			latency("latency_max_ns", "longest", func(l *flows.PointLatency) int64 { return l.Max }),
			number("rtt_count", Uint64, "", "round trips measured", func(r *row) uint64 { return r.RTT.Count }),
			maybe("rtt_min_ns", Int64, "ns", "shortest round trip; missing in live captures", func(r *row) (uint64, bool) { return span(r.RTT.Min), r.RTT.Count > 0 && !r.live }),
			maybe("rtt_mean_ns", Int64, "ns", "mean", func(r *row) (uint64, bool) { return span(r.RTT.Mean), r.RTT.Count > 0 }),
		},
	)
})
