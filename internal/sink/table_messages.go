package sink

import (
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/flows/iwarp"
)

type messageRow struct {
	where
	*flows.Message
}

var messages = sync.OnceValue(func() *table[messageRow] {
	type row = messageRow
	frame := func(name, doc string, get func(r *row) uint64) column[row] { return number(name, Uint64, "", doc, get) }
	atomic := func(name, doc string, get func(r *row) (uint64, bool)) column[row] {
		return maybe(name, Uint64, "", doc, get)
	}
	return newTable(Table{
		Name: "messages", Doc: "The work requests, as the wire shows them; a row is written when the message has ended. The direction is that of its requester. Those of iWARP have ports in place of QPNs, and no PSNs; their connections are in this table only.",
		Key: []string{"run", "connection", "direction", "index"}, Time: "first_seen", Day: "first_seen", QPN: "dst_qpn", Once: true,
	},
		streamColumns[row](),
		[]column[row]{
			number("index", Uint32, "", "number of the message among its requester's, 0 and up", func(r *row) uint64 { return uint64(r.Index) }),
			word("operation", "send, write, read, compare_swap, fetch_add, flush or atomic_write; of iWARP also immediate and terminate", func(r *row) string { return r.Op.String() }),
			word("status", "in the words of a completion queue: IBV_WC_SUCCESS and so on; sent, open or incomplete where it would say nothing", func(r *row) string { return r.Status.String() }),
			yes("failed", "the work request ended with an error", func(r *row) bool { return r.Status.Failed() }),
			yes("presumed", "the status is concluded from silence", func(r *row) bool { return r.Presumed }),
			number("bytes", Uint64, "bytes", "payload that it asks to move", func(r *row) uint64 { return r.Message.Bytes }),
			number("bytes_seen", Uint64, "bytes", "of it: seen, each byte once", func(r *row) uint64 { return r.Seen }),
			number("segments", Uint32, "packets", "that it takes in its requester's direction, resends not counted", func(r *row) uint64 { return uint64(r.Segments) }),
			maybe("first_psn", Uint32, "", "its first PSN; iWARP has none", func(r *row) (uint64, bool) { return uint64(r.FirstPSN), r.IWARP == nil }),
			maybe("last_psn", Uint32, "", "its last PSN", func(r *row) (uint64, bool) { return uint64(r.LastPSN), r.IWARP == nil }),
			maybe("va", Uint64, "", "virtual address, of iWARP the tagged offset; WRITEs, READs and atomics", func(r *row) (uint64, bool) { return r.VA, r.Remote() }),
			maybe("rkey", Uint32, "", "rkey, of iWARP the steering tag; WRITEs, READs and atomics", func(r *row) (uint64, bool) { return uint64(r.RKey), r.Remote() }),
			maybe("immediate", Uint32, "", "immediate data", func(r *row) (uint64, bool) { return uint64(r.Imm), r.Flags&dissect.WithImm != 0 }),
			maybe("invalidated_rkey", Uint32, "", "rkey or steering tag that it invalidates", func(r *row) (uint64, bool) {
				return uint64(r.Imm), r.Flags&dissect.WithInv != 0 && r.Flags&dissect.WithImm == 0
			}),
			atomic("atomic_compare", "compare and swap: the value compared with", func(r *row) (uint64, bool) { return r.Compare, r.Op == flows.OpCompareSwap }),
			atomic("atomic_swap_or_add", "the value swapped in, or added", func(r *row) (uint64, bool) { return r.Swap, r.Op == flows.OpCompareSwap || r.Op == flows.OpFetchAdd }),
			atomic("atomic_original", "the value that the memory held before", func(r *row) (uint64, bool) {
				return r.Orig, r.HasOrig && (r.Op == flows.OpCompareSwap || r.Op == flows.OpFetchAdd)
			}),
			number("first_seen", Time, "", "time of its first packet", func(r *row) uint64 { return uint64(r.FirstSeen) }),
			number("last_sent", Time, "", "time of its last request packet, resends counted", func(r *row) uint64 { return uint64(r.LastSent) }),
			maybe("completed", Time, "", "time of the answer that settled it", func(r *row) (uint64, bool) { return uint64(r.Completed), r.Completed != 0 }),
			maybe("latency_ns", Int64, "ns", "from its first packet to that answer", func(r *row) (uint64, bool) { d, ok := r.Latency(); return span(int64(d)), ok }),
			yes("coalesced", "the answer covered later messages too, so that the latency is an upper bound", func(r *row) bool { return r.Coalesced }),
			number("resends", Uint32, "packets", "request packets sent again", func(r *row) uint64 { return uint64(r.Resends) }),
			number("wire_bytes", Uint64, "bytes", "all its request packets, and READ responses, as on the wire; of iWARP the FPDUs", func(r *row) uint64 { return r.WireBytes }),
			frame("first_frame", "number of its first packet in the capture", func(r *row) uint64 { return r.FirstFrame }),
			frame("last_frame", "of its last request packet", func(r *row) uint64 { return r.LastFrame }),
			frame("answer_frame", "of the answer; 0 without", func(r *row) uint64 { return r.AnswerFrame }),
		},
		upperColumns(), iwarpColumns(),
	)
})

// upperColumns are what the protocol that runs over the connection says of a message.
func upperColumns() []column[messageRow] {
	type row = messageRow
	say := func(name, doc string, get func(u *flows.Upper) string) column[row] {
		return word(name, doc, func(r *row) string {
			if r.Upper == nil {
				return ""
			}
			return get(r.Upper)
		})
	}
	return []column[row]{
		say("upper_protocol", "what the connection carries: nvme, rpcrdma, iser, smbdirect; empty where that is not known, or the message is none of its", func(u *flows.Upper) string { return u.Protocol.Key() }),
		say("upper_kind", "what the message is in that protocol; data where it moves a request's data", func(u *flows.Upper) string { return u.Says() }),
		say("upper_summary", "the same in a line", func(u *flows.Upper) string { return u.Summary }),
		maybe("upper_request_frame", Uint64, "", "number of the first packet of the request that it answers, or whose data it moves", func(r *row) (uint64, bool) {
			if r.Upper == nil {
				return 0, false
			}
			return r.Upper.Request, r.Upper.Request != 0
		}),
		maybe("upper_latency_ns", Int64, "ns", "of an answer: since the first packet of its request", func(r *row) (uint64, bool) {
			if r.Upper == nil || !r.Upper.Answers() {
				return 0, false
			}
			return span(r.Upper.Latency), true
		}),
		yes("upper_failed", "an answer that tells an error", func(r *row) bool { return r.Upper != nil && r.Upper.Failed }),
	}
}

// iwarpColumns are what only messages of iWARP have.
func iwarpColumns() []column[messageRow] {
	type row = messageRow
	maybe := func(name string, t Type, doc string, get func(x *iwarp.Message) (uint64, bool)) column[row] {
		return maybe(name, t, "", doc, func(r *row) (uint64, bool) {
			if r.IWARP == nil {
				return 0, false
			}
			return get(r.IWARP)
		})
	}
	return []column[row]{
		maybe("src_port", Uint16, "iWARP: TCP port of who sends in this direction", func(x *iwarp.Message) (uint64, bool) { from, _ := x.Ends(); return uint64(from.Port), true }),
		maybe("dst_port", Uint16, "iWARP: TCP port of the other side", func(x *iwarp.Message) (uint64, bool) { _, to := x.Ends(); return uint64(to.Port), true }),
		word("rdmap_opcode", "iWARP: RDMAP's opcode; empty of others", func(r *row) string {
			if r.IWARP == nil {
				return ""
			}
			return r.IWARP.Opcode.String()
		}),
		maybe("ddp_msn", Uint32, "iWARP: DDP's message sequence number, of untagged messages", func(x *iwarp.Message) (uint64, bool) { return uint64(x.MSN), x.MSN != 0 }),
		maybe("sink_stag", Uint32, "iWARP: steering tag of the buffer that a READ's data goes to", func(x *iwarp.Message) (uint64, bool) { return uint64(x.SinkSTag), x.Op == iwarp.Read }),
		maybe("sink_offset", Uint64, "iWARP: offset in that buffer", func(x *iwarp.Message) (uint64, bool) { return x.SinkOffset, x.Op == iwarp.Read }),
		maybe("rdmap_immediate", Uint64, "iWARP: immediate data, of eight bytes", func(x *iwarp.Message) (uint64, bool) { return x.Immediate, x.Op == iwarp.Immediate }),
		yes("solicited", "iWARP: the receiver is to wake its program", func(r *row) bool { return r.IWARP != nil && r.IWARP.Solicited() }),
	}
}
