package report

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// MessageSchema is the name of the form of a message record, one JSON object a line.
const MessageSchema = "rocescope.message/1"

// Message is one work request as the wire shows it.
type Message struct {
	Schema      string        `json:"schema"`
	Connection  uint32        `json:"connection"`
	Stream      string        `json:"stream"` // of its requester
	Index       uint32        `json:"index"`  // among its requester's, 0 and up
	Operation   string        `json:"operation"`
	Status      string        `json:"status"`      // in the words of a completion queue
	StatusCode  *int          `json:"status_code"` // verbs' number; null where verbs has none
	Presumed    bool          `json:"presumed"`    // the status is concluded from silence
	Bytes       uint64        `json:"bytes"`
	BytesSeen   uint64        `json:"bytes_seen"`
	Segments    uint32        `json:"segments"`
	FirstPSN    uint32        `json:"first_psn"`
	LastPSN     uint32        `json:"last_psn"`
	VA          *uint64       `json:"va"`
	RKey        *uint32       `json:"rkey"`
	Immediate   *uint32       `json:"immediate"`
	Invalidated *uint32       `json:"invalidated_rkey"`
	Atomic      *Atomic       `json:"atomic"`
	First       *Moment       `json:"first_seen"`
	FirstNS     *int64        `json:"first_seen_ns"`
	LastSentNS  *int64        `json:"last_sent_ns"`
	CompletedNS *int64        `json:"completed_ns"`
	LatencyNS   *int64        `json:"latency_ns"`
	Coalesced   bool          `json:"coalesced"` // the latency is an upper bound
	Resends     uint32        `json:"resends"`
	WireBytes   uint64        `json:"wire_bytes"`
	FirstFrame  *uint64       `json:"first_frame"`
	LastFrame   *uint64       `json:"last_frame"`
	AnswerFrame *uint64       `json:"answer_frame"`
	Consumes    Consumes      `json:"consumes"`
	Upper       *MessageUpper `json:"upper"` // null: not known to carry an upper protocol
}

// Atomic are the operands of an atomic and the value that the memory held before.
type Atomic struct {
	Compare  *uint64 `json:"compare"`
	Swap     *uint64 `json:"swap"`
	Add      *uint64 `json:"add"`
	Original *uint64 `json:"original"`
}

// Consumes is what a message takes at each end: a WQE of the send queue always; a WQE of the receive queue, and so a CQE
// at the responder, for SEND and WRITE with immediate. What is one-sided takes nothing there. Of what failed it is not
// always known; UC and UD take it if they arrive.
type Consumes struct {
	SQ    int  `json:"sq_wqes"`
	RQ    *int `json:"rq_wqes"`
	RQCQE *int `json:"rq_cqes"`
}

// NewMessage makes the record of a message.
func NewMessage(f *flows.Message) Message {
	m := Message{
		Schema: MessageSchema, Connection: f.Conn, Stream: f.Direction.String(), Index: f.Index,
		Operation: f.Op.String(), Status: f.Status.String(), StatusCode: known(f.Status.Code()), Presumed: f.Presumed,
		Bytes: f.Bytes, BytesSeen: f.Seen, Segments: f.Segments, FirstPSN: uint32(f.FirstPSN), LastPSN: uint32(f.LastPSN),
		First: moment(f.FirstSeen), FirstNS: ns(f.FirstSeen), LastSentNS: ns(f.LastSent), CompletedNS: ns(f.Completed),
		Coalesced: f.Coalesced, Resends: f.Resends, WireBytes: f.WireBytes,
		FirstFrame: frame(f.FirstFrame), LastFrame: frame(f.LastFrame), AnswerFrame: frame(f.AnswerFrame),
		Consumes: Consumes{SQ: 1}, Upper: newMessageUpper(f.Upper),
	}
	if n := known(receives(f)); n != nil {
		m.Consumes.RQ, m.Consumes.RQCQE = n, n
	}
	if f.Op != flows.OpSend && (f.VA != 0 || f.RKey != 0) { // both 0: the packet with the RETH was not seen
		va, rkey := f.VA, f.RKey
		m.VA, m.RKey = &va, &rkey
	}
	imm := f.Imm
	switch {
	case f.Flags&dissect.WithImm != 0:
		m.Immediate = &imm
	case f.Flags&dissect.WithInv != 0:
		m.Invalidated = &imm
	}
	swap, compare, orig := f.Swap, f.Compare, f.Orig
	switch f.Op {
	case flows.OpCompareSwap:
		m.Atomic = &Atomic{Compare: &compare, Swap: &swap}
	case flows.OpFetchAdd:
		m.Atomic = &Atomic{Add: &swap}
	}
	if m.Atomic != nil && f.HasOrig {
		m.Atomic.Original = &orig
	}
	if d, ok := f.Latency(); ok {
		m.LatencyNS = span(int64(d))
	}
	return m
}

// receives is how many receive WQEs a message consumed, -1 where that is not known.
func receives(f *flows.Message) int {
	if f.Flags&dissect.ConsumesReceive == 0 {
		return 0
	}
	switch f.Status {
	case flows.StatusSuccess, flows.StatusSent:
		return 1
	case flows.StatusRNRRetry, flows.StatusFlushed: // there was none, or nobody to take it
		return 0
	}
	return -1
}

func frame(n uint64) *uint64 {
	if n == 0 {
		return nil
	}
	return &n
}
