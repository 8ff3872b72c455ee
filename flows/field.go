package flows

import "github.com/rocescope/rocescope/dissect"

// Field is a field of the display filter that comes from tracking and not from
// the packet's bytes.
type Field struct {
	Name   string // "flow.retransmission"
	Text   string
	Kind   dissect.Kind
	Values func(v uint64) string // names of an enumeration's values; nil for numbers
	// AtEnd marks what is known only when the whole capture was seen: such a
	// field needs a second pass, and does not work on a live source.
	AtEnd bool
	// Get returns the value for a packet; o is nil unless AtEnd.
	Get func(m *Mark, o *Outcome) (v uint64, ok bool)
}

// Outcome is what the end of the capture says of a packet's connection and
// message, for fields that are known only then.
type Outcome struct {
	Message       *Message // nil where the packet belongs to none
	EstablishedBy Evidence
	Findings      []FindingID // that name this packet
	Severity      Severity    // of the gravest of them
}

func bit(b MarkBits) func(*Mark, *Outcome) (uint64, bool) {
	return func(m *Mark, _ *Outcome) (uint64, bool) {
		if m.Bits&b != 0 {
			return 1, true
		}
		return 0, m.Conn != 0 || m.Bits != 0
	}
}

func ofMessage(get func(*Message) (uint64, bool)) func(*Mark, *Outcome) (uint64, bool) {
	return func(_ *Mark, o *Outcome) (uint64, bool) {
		if o == nil || o.Message == nil {
			return 0, false
		}
		return get(o.Message)
	}
}

// fields is the table of what tracking adds to the filter's names.
var fields = []Field{
	{Name: "flow.id", Text: "Connection (may change until both QPs are known)", Kind: dissect.Dec, Get: func(m *Mark, _ *Outcome) (uint64, bool) { return uint64(m.Conn), m.Conn != 0 }},
	{Name: "flow.direction", Text: "Direction within the connection", Kind: dissect.Text, Values: func(v uint64) string { return Direction(v & 1).String() }, Get: func(m *Mark, _ *Outcome) (uint64, bool) { return uint64(m.Direction), m.Conn != 0 }},
	{Name: "flow.request", Text: "Sent by a requester", Kind: dissect.Bool, Get: bit(MarkRequest)},
	{Name: "flow.response", Text: "Sent by a responder", Kind: dissect.Bool, Get: bit(MarkResponse)},
	{Name: "flow.retransmission", Text: "Sent again by its sender", Kind: dissect.Bool, Get: bit(MarkRetransmission)},
	{Name: "flow.round", Text: "Times that this PSN was sent before", Kind: dissect.Dec, Get: func(m *Mark, _ *Outcome) (uint64, bool) { return uint64(m.Round), m.Bits&MarkPSN != 0 }},
	{Name: "flow.duplicate", Text: "Copy made by the network", Kind: dissect.Bool, Get: bit(MarkDuplicate)},
	{Name: "flow.copy", Text: "Seen before in another tunnel, or outside one", Kind: dissect.Bool, Get: bit(MarkCopy)},
	{Name: "flow.gap", Text: "PSNs before it are missing", Kind: dissect.Bool, Get: bit(MarkAfterGap)},
	{Name: "flow.reordered", Text: "Late: fills an earlier gap", Kind: dissect.Bool, Get: bit(MarkReordered)},
	{Name: "flow.nak", Text: "NAK", Kind: dissect.Bool, Get: bit(MarkNAK)},
	{Name: "flow.rnr", Text: "RNR NAK", Kind: dissect.Bool, Get: bit(MarkRNR)},
	{Name: "flow.ce", Text: "Congestion experienced", Kind: dissect.Bool, Get: bit(MarkCE)},
	{Name: "flow.cnp", Text: "Congestion notification", Kind: dissect.Bool, Get: bit(MarkCNP)},
	{Name: "flow.ghost", Text: "Answers a request never seen", Kind: dissect.Bool, Get: bit(MarkGhost)},
	{Name: "flow.bad_icrc", Text: "Damaged packet", Kind: dissect.Bool, Get: bit(MarkBadICRC)},
	{Name: "flow.psn_offset", Text: "PSN counted from the requester's first", Kind: dissect.Dec, Get: func(m *Mark, _ *Outcome) (uint64, bool) { return uint64(m.PSNOffset), m.Bits&MarkPSN != 0 }},
	{Name: "flow.established_by", Text: "How the connection's two QPs were found", Kind: dissect.Text, AtEnd: true, Values: func(v uint64) string { return Evidence(v).String() }, Get: func(m *Mark, o *Outcome) (uint64, bool) {
		if o == nil || m.Conn == 0 {
			return 0, false
		}
		return uint64(o.EstablishedBy), true
	}},
	{Name: "flow.upper", Text: "Payload of an upper protocol", Kind: dissect.Text, Values: func(v uint64) string { return dissect.Upper(v).String() }, Get: func(m *Mark, _ *Outcome) (uint64, bool) { return uint64(m.Upper()), m.Upper() != dissect.UpperNone }},
	{Name: "msg.index", Text: "Message number within its stream", Kind: dissect.Dec, Get: func(m *Mark, _ *Outcome) (uint64, bool) { return uint64(m.Message), m.Bits&MarkMessage != 0 }},
	{Name: "msg.op", Text: "Operation of the message", Kind: dissect.Text, AtEnd: true, Values: func(v uint64) string { return Operation(v).String() }, Get: ofMessage(func(m *Message) (uint64, bool) { return uint64(m.Op), true })},
	{Name: "msg.status", Text: "Completion status of the message", Kind: dissect.Text, AtEnd: true, Values: func(v uint64) string { return Status(v).String() }, Get: ofMessage(func(m *Message) (uint64, bool) { return uint64(m.Status), true })},
	{Name: "msg.size", Text: "Bytes of the message", Kind: dissect.Dec, AtEnd: true, Get: ofMessage(func(m *Message) (uint64, bool) { return m.Bytes, true })},
	{Name: "msg.resends", Text: "Packets of the message sent again", Kind: dissect.Dec, AtEnd: true, Get: ofMessage(func(m *Message) (uint64, bool) { return uint64(m.Resends), true })},
	{Name: "msg.latency", Text: "From first packet to answer, in seconds", Kind: dissect.Interval, AtEnd: true, Get: ofMessage(func(m *Message) (uint64, bool) {
		d, ok := m.Latency()
		return uint64(d), ok
	})},
	{Name: "msg.upper_request", Text: "Frame of the upper protocol's request that the message answers, or whose data it moves", Kind: dissect.Dec, AtEnd: true, Get: ofMessage(func(m *Message) (uint64, bool) {
		if m.Upper == nil || m.Upper.Request == 0 {
			return 0, false
		}
		return m.Upper.Request, true
	})},
	{Name: "msg.upper_latency", Text: "From the upper protocol's request to this answer, in seconds", Kind: dissect.Interval, AtEnd: true, Get: ofMessage(func(m *Message) (uint64, bool) {
		if m.Upper == nil || m.Upper.Request == 0 || m.Upper.Kind == dissect.UpperNone {
			return 0, false
		}
		return uint64(m.Upper.Latency), true
	})},
	{Name: "finding.id", Text: "Findings that name the packet", Kind: dissect.Text, AtEnd: true, Values: func(v uint64) string { return FindingID(v).String() }, Get: func(_ *Mark, o *Outcome) (uint64, bool) {
		if o == nil || len(o.Findings) == 0 {
			return 0, false
		}
		return uint64(o.Findings[0]), true
	}},
	{Name: "finding.severity", Text: "Gravest finding that names the packet", Kind: dissect.Text, AtEnd: true, Values: func(v uint64) string { return Severity(v).String() }, Get: func(_ *Mark, o *Outcome) (uint64, bool) {
		if o == nil || len(o.Findings) == 0 {
			return 0, false
		}
		return uint64(o.Severity), true
	}},
}

// Fields returns the table. The slice is not to be changed.
func Fields() []Field { return fields }
