package sink

import (
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
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
		Name: "messages", Doc: "The work requests, as the wire shows them; a row is written when the message has ended. The direction is that of its requester.",
		Key: []string{"run", "connection", "direction", "index"}, Time: "first_seen", Day: "first_seen", QPN: "dst_qpn", Once: true,
	},
		streamColumns[row](),
		[]column[row]{
			number("index", Uint32, "", "number of the message among its requester's, 0 and up", func(r *row) uint64 { return uint64(r.Index) }),
			word("operation", "send, write, read, compare_swap, fetch_add, flush or atomic_write", func(r *row) string { return r.Op.String() }),
			word("status", "in the words of a completion queue: IBV_WC_SUCCESS and so on; sent, open or incomplete where it would say nothing", func(r *row) string { return r.Status.String() }),
			yes("failed", "the work request ended with an error", func(r *row) bool { return r.Status.Failed() }),
			yes("presumed", "the status is concluded from silence", func(r *row) bool { return r.Presumed }),
			number("bytes", Uint64, "bytes", "payload that it asks to move", func(r *row) uint64 { return r.Message.Bytes }),
			number("bytes_seen", Uint64, "bytes", "of it: seen, each byte once", func(r *row) uint64 { return r.Seen }),
			number("segments", Uint32, "packets", "that it takes in its requester's direction, resends not counted", func(r *row) uint64 { return uint64(r.Segments) }),
			number("first_psn", Uint32, "", "its first PSN", func(r *row) uint64 { return uint64(r.FirstPSN) }),
			number("last_psn", Uint32, "", "its last PSN", func(r *row) uint64 { return uint64(r.LastPSN) }),
			maybe("va", Uint64, "", "virtual address; WRITEs, READs and atomics", func(r *row) (uint64, bool) { return r.VA, r.remote() }),
			maybe("rkey", Uint32, "", "rkey; WRITEs, READs and atomics", func(r *row) (uint64, bool) { return uint64(r.RKey), r.remote() }),
			maybe("immediate", Uint32, "", "immediate data", func(r *row) (uint64, bool) { return uint64(r.Imm), r.Flags&dissect.WithImm != 0 }),
			maybe("invalidated_rkey", Uint32, "", "rkey that it invalidates", func(r *row) (uint64, bool) {
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
			number("wire_bytes", Uint64, "bytes", "all its request packets, and READ responses, as on the wire", func(r *row) uint64 { return r.WireBytes }),
			frame("first_frame", "number of its first packet in the capture", func(r *row) uint64 { return r.FirstFrame }),
			frame("last_frame", "of its last request packet", func(r *row) uint64 { return r.LastFrame }),
			frame("answer_frame", "of the answer; 0 without", func(r *row) uint64 { return r.AnswerFrame }),
		},
	)
})

// remote says whether the message names remote memory, and the packet that does was seen.
func (r *messageRow) remote() bool { return r.Op != flows.OpSend && (r.VA != 0 || r.RKey != 0) }
