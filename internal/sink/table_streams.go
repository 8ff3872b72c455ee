package sink

import (
	"math"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

type streamRow struct {
	where
	*flows.Stream
	all flows.MessageCounts // of all operations
}

var streams = sync.OnceValue(func() *table[streamRow] {
	type row = streamRow
	count := func(name, doc string, get func(r *row) uint64) column[row] { return number(name, Uint64, "", doc, get) }
	bytes := func(name, doc string, get func(r *row) uint64) column[row] {
		return number(name, Uint64, "bytes", doc, get)
	}
	latency := func(name, doc string, get func(l *flows.Latency) int64) column[row] {
		return maybe(name, Int64, "ns", doc, func(r *row) (uint64, bool) { return span(get(&r.Latency)), r.Latency.Count > 0 })
	}
	rtt := func(name, doc string, get func(l *flows.RTT) int64) column[row] {
		return maybe(name, Int64, "ns", doc, func(r *row) (uint64, bool) { return span(get(&r.RTT)), r.RTT.Count > 0 })
	}
	return newTable(Table{
		Name: "streams", Doc: "What each direction of each connection carried. Counts of requests are those of the requester that sends in the direction, counts of answers (acks, naks) those of the responder that sends in it.",
		Key: []string{"run", "connection", "direction"}, Time: "first_seen", Day: "run_start", QPN: "dst_qpn",
	},
		streamColumns[row](),
		[]column[row]{
			count("packets", "packets", func(r *row) uint64 { return r.Packets }),
			bytes("bytes", "as on the wire", func(r *row) uint64 { return r.Bytes }),
			bytes("payload_bytes", "of them payload", func(r *row) uint64 { return r.PayloadBytes }),
			count("messages", "messages that the requester began", func(r *row) uint64 { return r.all.Count }),
			bytes("message_bytes", "payload that they ask to move", func(r *row) uint64 { return r.all.Bytes }),
			count("messages_completed", "of them: completed", func(r *row) uint64 { return r.all.Completed }),
			count("messages_failed", "of them: failed", func(r *row) uint64 { return r.all.Failed }),
		},
		operationColumns(),
		[]column[row]{
			count("retransmitted_packets", "packets sent again", func(r *row) uint64 { return r.RetransmittedPackets }),
			bytes("retransmitted_bytes", "of them", func(r *row) uint64 { return r.RetransmittedBytes }),
			count("retransmissions_nak", "runs of packets sent again behind a sequence NAK", func(r *row) uint64 { return r.Retransmissions[flows.CauseNAK] }),
			count("retransmissions_rnr", "behind an RNR NAK", func(r *row) uint64 { return r.Retransmissions[flows.CauseRNR] }),
			count("retransmissions_timeout", "behind silence", func(r *row) uint64 { return r.Retransmissions[flows.CauseTimeout] }),
			count("retransmissions_spurious", "although the ACK had passed the tap", func(r *row) uint64 { return r.Retransmissions[flows.CauseSpurious] }),
			count("duplicates", "requests below the expected PSN", func(r *row) uint64 { return r.Duplicates }),
			count("out_of_order", "packets that were not the expected next", func(r *row) uint64 { return r.OutOfOrder }),
			count("lost_before_tap", "packets lost between their sender and the tap", func(r *row) uint64 { return r.LostBeforeTap }),
			count("lost_behind_tap", "packets lost between the tap and their receiver", func(r *row) uint64 { return r.LostBehindTap }),
			count("capture_lost", "packets that only the capture lost", func(r *row) uint64 { return r.CaptureLost }),
			count("ghost_acks", "answers to requests that were never seen", func(r *row) uint64 { return r.GhostAcks }),
			count("reordered", "packets that came late", func(r *row) uint64 { return r.Reordered }),
			count("network_duplicates", "copies that the network or the capture made", func(r *row) uint64 { return r.NetworkDuplicates }),
			count("ambiguous", "packets missing or repeated whose cause the wire does not tell", func(r *row) uint64 { return r.Ambiguous }),
			count("acks", "ACKs", func(r *row) uint64 { return r.Acks }),
			count("naks_psn_sequence_error", "NAKs: PSN sequence error", func(r *row) uint64 { return r.NAKs[dissect.NAKSequence] }),
			count("naks_invalid_request", "NAKs: invalid request", func(r *row) uint64 { return r.NAKs[dissect.NAKInvalidRequest] }),
			count("naks_remote_access_error", "NAKs: remote access error", func(r *row) uint64 { return r.NAKs[dissect.NAKRemoteAccess] }),
			count("naks_remote_operational_error", "NAKs: remote operational error", func(r *row) uint64 { return r.NAKs[dissect.NAKRemoteOperational] }),
			count("naks_invalid_rd_request", "NAKs: invalid RD request", func(r *row) uint64 { return r.NAKs[dissect.NAKInvalidRD] }),
			count("rnr_naks", "NAKs: receiver not ready", func(r *row) uint64 { return r.RNRNAKs }),
			number("rnr_wait_ns", Int64, "ns", "time that the requester waited behind them", func(r *row) uint64 { return span(int64(r.RNRWait)) }),
			count("reserved_syndromes", "AETHs whose syndrome has no meaning", func(r *row) uint64 { return r.ReservedSyndromes }),
			count("ecn_ce", "packets marked congestion experienced", func(r *row) uint64 { return r.ECNCE }),
			count("cnps", "congestion notification packets", func(r *row) uint64 { return r.CNPs }),
			count("bad_icrc", "packets with a wrong ICRC", func(r *row) uint64 { return r.BadICRC }),
			float("goodput_bps", "bit/s", "payload from the direction's first to its last packet of it; 0 where there is too little to tell", func(r *row) float64 { return rounded(r.Goodput) }),
			count("latency_count", "messages whose latency was measured: from the first packet to the covering answer", func(r *row) uint64 { return r.Latency.Count }),
			count("latency_coalesced", "of them: upper bounds, because the ACK covered later messages too", func(r *row) uint64 { return r.Latency.Coalesced }),
			latency("latency_min_ns", "shortest latency", func(l *flows.Latency) int64 { return l.Min }),
			latency("latency_p50_ns", "median", func(l *flows.Latency) int64 { return l.P50 }),
			latency("latency_p99_ns", "99th percentile", func(l *flows.Latency) int64 { return l.P99 }),
			latency("latency_max_ns", "longest", func(l *flows.Latency) int64 { return l.Max }),
			count("rtt_count", "round trips measured", func(r *row) uint64 { return r.RTT.Count }),
			rtt("rtt_min_ns", "shortest round trip", func(t *flows.RTT) int64 { return t.Min }),
			rtt("rtt_mean_ns", "mean", func(t *flows.RTT) int64 { return t.Mean }),
			rtt("rtt_max_ns", "longest", func(t *flows.RTT) int64 { return t.Max }),
			maybe("udp_source_port", Uint16, "", "the first UDP source port", func(r *row) (uint64, bool) { return uint64(r.SrcPort), r.SrcPorts > 0 }),
			number("udp_source_ports", Uint32, "", "how many UDP source ports, as far as counted", func(r *row) uint64 { return uint64(r.SrcPorts) }),
			maybe("dscp", Uint16, "", "the first DSCP", func(r *row) (uint64, bool) { return first(r.DSCP) }),
			maybe("priority", Uint16, "", "the first 802.1p priority, of tagged packets", func(r *row) (uint64, bool) { return first(r.Priorities) }),
			number("first_seen", Time, "", "time of the first packet; 0 where there was none", func(r *row) uint64 { return uint64(r.FirstSeen) }),
			number("last_seen", Time, "", "time of the last packet", func(r *row) uint64 { return uint64(r.LastSeen) }),
		},
	)
})

// operationColumns count the messages of each operation.
func operationColumns() []column[streamRow] {
	var all []column[streamRow]
	for op := range flows.NumOperations {
		all = append(all, number("messages_"+op.String(), Uint64, "", "of the messages: operation "+op.String(),
			func(r *streamRow) uint64 { return r.Messages[op].Count }))
	}
	return all
}

func sum(of *[flows.NumOperations]flows.MessageCounts) (all flows.MessageCounts) {
	for i := range of {
		all.Count += of[i].Count
		all.Bytes += of[i].Bytes
		all.Completed += of[i].Completed
		all.Failed += of[i].Failed
	}
	return all
}

// span is a length of time. Clocks that jump back must not make it negative.
func span(ns int64) uint64 { return uint64(max(ns, 0)) }

func first(list []uint8) (uint64, bool) {
	if len(list) == 0 {
		return 0, false
	}
	return uint64(list[0]), true
}

// rounded is a rate as the analysis document has it.
func rounded(rate float64) float64 {
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		return 0
	}
	return math.Round(rate)
}
