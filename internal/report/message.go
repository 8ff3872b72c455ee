package report

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// MessageSchema is the name of the form of a message record, one JSON object a line.
const MessageSchema = "rocescope.message/1"

// Message is one work request as the wire shows it. Of iWARP, rkey is the steering tag and va the tagged offset.
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
	FirstPSN    *uint32       `json:"first_psn"` // null: iWARP has none
	LastPSN     *uint32       `json:"last_psn"`
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
	IWARP       *MessageIWARP `json:"iwarp"` // null: not of iWARP
}

// MessageIWARP is what only messages of iWARP have.
type MessageIWARP struct {
	From       TCPEnd  `json:"from"`
	To         TCPEnd  `json:"to"`
	Opcode     string  `json:"opcode"`    // of RDMAP
	MSN        *uint32 `json:"msn"`       // of untagged messages
	SinkSTag   *uint32 `json:"sink_stag"` // READ: where the data goes
	SinkOffset *uint64 `json:"sink_offset"`
	Solicited  bool    `json:"solicited"`
	Immediate  *uint64 `json:"immediate"`
	Terminated *string `json:"terminated"` // the error that a Terminate tells
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
		Bytes: f.Bytes, BytesSeen: f.Seen, Segments: f.Segments,
		First: moment(f.FirstSeen), FirstNS: ns(f.FirstSeen), LastSentNS: ns(f.LastSent), CompletedNS: ns(f.Completed),
		Coalesced: f.Coalesced, Resends: f.Resends, WireBytes: f.WireBytes,
		FirstFrame: frame(f.FirstFrame), LastFrame: frame(f.LastFrame), AnswerFrame: frame(f.AnswerFrame),
		Consumes: Consumes{SQ: 1}, Upper: newMessageUpper(f.Upper), IWARP: newMessageIWARP(f.IWARP),
	}
	if f.Op == flows.OpTerminate { // nobody posted it
		m.Consumes.SQ = 0
	}
	if f.IWARP == nil {
		first, last := uint32(f.FirstPSN), uint32(f.LastPSN)
		m.FirstPSN, m.LastPSN = &first, &last
	}
	if n := known(receives(f)); n != nil {
		m.Consumes.RQ, m.Consumes.RQCQE = n, n
	}
	if f.Remote() {
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

func newMessageIWARP(x *iwarp.Message) *MessageIWARP {
	if x == nil {
		return nil
	}
	from, to := x.Ends()
	m := &MessageIWARP{
		From: TCPEnd{from.Addr.String(), from.Port}, To: TCPEnd{to.Addr.String(), to.Port}, Opcode: x.Opcode.String(), Solicited: x.Solicited(),
	}
	if x.MSN != 0 {
		m.MSN = &x.MSN
	}
	switch x.Op {
	case iwarp.Read:
		m.SinkSTag, m.SinkOffset = &x.SinkSTag, &x.SinkOffset
	case iwarp.Immediate:
		m.Immediate = &x.Immediate
	case iwarp.Terminate:
		if x.Conn.Terminated {
			why := x.Conn.Error.String()
			m.Terminated = &why
		}
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
