package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// NewDocument makes the document of a snapshot.
func NewDocument(s *flows.Snapshot, c Capture) *Document {
	d := &Document{
		Schema: Schema,
		Capture: CaptureInfo{
			Files: list(c.Files), Packets: c.Packets, Matched: c.Matched, Bytes: c.Bytes, CapturedBytes: c.CapturedBytes,
			First: moment(c.First), Last: moment(c.Last), FirstNS: ns(c.First), LastNS: ns(c.Last),
			LinkTypes: list(c.LinkTypes), Truncated: c.Truncated, Malformed: c.Malformed, Dropped: c.Dropped,
			Errors: list(c.Errors), Interrupted: c.Interrupted, Limited: c.Limited,
		},
		Protocols:    Protocols(s.Protocols),
		Opcodes:      map[string]uint64{},
		Connections:  make([]Connection, 0, len(s.Connections)),
		Findings:     make([]Finding, 0, len(s.Findings)),
		HostPairs:    make([]HostPair, 0, len(s.HostPairs)),
		HostsLeft:    s.HostsLeft,
		Pauses:       make([]PauseSender, 0, len(s.Pauses)),
		IWARP:        newIWARP(s),
		Mirrored:     s.Mirrored,
		Evicted:      s.Evicted,
		FindingsLeft: s.FindingsLeft,
		ICRC: ICRC{
			Valid: s.ICRC[dissect.ICRCValid], Invalid: s.ICRC[dissect.ICRCInvalid],
			Unchecked:   s.ICRC[dissect.ICRCUnchecked] + s.ICRC[dissect.ICRCNotCaptured],
			NotCaptured: s.ICRC[dissect.ICRCNotCaptured], Off: c.ICRCOff,
		},
	}
	if c.Filter != "" {
		d.Filter = &c.Filter
	}
	for op, n := range s.Opcodes {
		if n > 0 {
			d.Opcodes[dissect.Opcode(op).Info().Token] += n
		}
	}
	peers := map[flows.QPName]int{}
	for i := range s.Connections {
		if f := &s.Connections[i]; f.Transport == dissect.UD {
			peers[f.A.QPName]++
		}
	}
	for i := range s.Connections {
		f := &s.Connections[i]
		n := newConnection(f)
		n.addDetails(f.Detail)
		if c.Series {
			n.addSeries(f)
		}
		d.Connections = append(d.Connections, n)
		if f.Transport == dissect.UD {
			n := peers[f.A.QPName]
			d.Connections[i].A.Peers = &n
		}
	}
	for i := range s.Findings {
		d.Findings = append(d.Findings, newFinding(&s.Findings[i]))
	}
	for i := range s.HostPairs {
		d.HostPairs = append(d.HostPairs, newHostPair(&s.HostPairs[i]))
	}
	for i := range s.Pauses {
		d.Pauses = append(d.Pauses, newPauseSender(&s.Pauses[i]))
	}
	if h := &s.Shadow; h.On {
		d.Shadow = &Shadow{Compared: h.Compared, Unknown: h.Unknown, Differing: h.Differing, Held: h.Bytes, Forgotten: h.Forgotten}
	}
	return d
}

// Only leaves the connections of some queue pairs, and what was found on them. It reports whether there are any.
func (d *Document) Only(qps []uint32) bool {
	kept := map[uint32]bool{}
	hosts := map[string]bool{}
	d.Connections = slices.DeleteFunc(d.Connections, func(c Connection) bool {
		for _, q := range []*QP{&c.A, &c.B} {
			if q.QPN != nil && slices.Contains(qps, *q.QPN) {
				kept[c.ID] = true
			}
		}
		if kept[c.ID] && c.A.Address != nil && c.B.Address != nil {
			hosts[*c.A.Address+" "+*c.B.Address], hosts[*c.B.Address+" "+*c.A.Address] = true, true
		}
		return !kept[c.ID]
	})
	d.Findings = slices.DeleteFunc(d.Findings, func(f Finding) bool { return f.Connection == nil || !kept[*f.Connection] })
	d.HostPairs = slices.DeleteFunc(d.HostPairs, func(h HostPair) bool { return !hosts[h.A+" "+h.B] })
	return len(kept) > 0
}

func newConnection(f *flows.Connection) Connection {
	c := Connection{
		ID: f.ID, Transport: f.Transport.String(), A: newQP(&f.A), B: newQP(&f.B),
		EstablishedBy: establishedBy(f.Evidence), Evidence: f.Why, Candidates: make([]QPName, 0, len(f.Candidates)),
		Tap: f.Tap.String(), Directions: "both",
		Established: moment(f.Established), First: moment(f.FirstSeen), Last: moment(f.LastSeen),
		FirstNS: ns(f.FirstSeen), LastNS: ns(f.LastSeen), FirstFrame: f.FirstFrame,
		StateHistory: make([]StateStep, 0, len(f.A.History)+len(f.B.History)),
		AToB:         newStream(&f.Streams[flows.AToB]), BToA: newStream(&f.Streams[flows.BToA]),
		Upper: newConnectionUpper(f.Upper),
	}
	if c.Evidence == "" && f.Evidence == flows.ByDETH {
		c.Evidence = "each datagram names its source QP (DETH)"
	}
	if f.Directions < 2 {
		c.Directions = "one"
	}
	if f.ServiceID != 0 {
		c.ServiceID = &f.ServiceID
	}
	for _, q := range f.Candidates {
		c.Candidates = append(c.Candidates, QPName{q.Addr.String(), vlan(q.VLAN), q.QPN})
	}
	for _, side := range []struct {
		name string
		qp   *flows.QP
	}{{"a", &f.A}, {"b", &f.B}} {
		for _, h := range side.qp.History {
			step := StateStep{QP: side.name, State: h.State.String(), Time: moment(h.Time), Why: h.Why, Presumed: h.Presumed}
			if h.Frame != 0 {
				step.Frame = &h.Frame
			}
			c.StateHistory = append(c.StateHistory, step)
		}
	}
	slices.SortStableFunc(c.StateHistory, func(x, y StateStep) int { return cmp.Compare(frameOf(x), frameOf(y)) })
	return c
}

func frameOf(s StateStep) uint64 {
	if s.Frame == nil {
		return 0
	}
	return *s.Frame
}

// establishedBy is the document's word. Several candidates are as good as none for a reader who wants to know the
// pair, and a DETH is read off the traffic itself; pairing_evidence tells which it was.
func establishedBy(e flows.Evidence) string {
	switch e {
	case flows.ByCM:
		return "cm"
	case flows.BySocket:
		return "socket"
	case flows.Inferred, flows.ByDETH:
		return "inferred"
	}
	return "unpaired"
}

func newQP(f *flows.QP) QP {
	q := QP{VLAN: vlan(f.VLAN), State: f.State.String(), InUse: InUse{
		SQSent: f.InUse.SQSent, SQAcked: f.InUse.SQAcked, RQConsumed: f.InUse.RQConsumed,
		Outstanding: f.InUse.Outstanding, OutstandingPackets: f.InUse.OutstandingPackets,
		ReadDepth: f.InUse.ReadDepth, CreditLimit: known(f.InUse.CreditLimit),
		PathMTU: f.InUse.PathMTU, Retries: f.InUse.Retries, Credits: f.InUse.Credits,
		TimeoutMinNS: f.InUse.TimeoutMin, TimeoutMaxNS: f.InUse.TimeoutMax, TimeoutCodes: ints(f.InUse.TimeoutCodes),
	}}
	if !f.Addr.IsZero() {
		text := f.Addr.String()
		q.Address = &text
	}
	if f.Known {
		q.QPN = &f.QPN
	}
	if f.HasPSN {
		psn := uint32(f.FirstPSN)
		q.FirstPSN = &psn
	}
	if f.PathMTU > 0 {
		q.PathMTU = &f.PathMTU
	}
	if n := &f.Negotiated; n.Set {
		psn := uint32(n.StartPSN)
		q.Negotiated = &Negotiated{
			StartPSN: &psn, RetryCount: known(n.RetryCount), RNRRetryCount: known(n.RNRRetryCount),
			ResponderResources: known(n.ResponderResources), InitiatorDepth: known(n.InitiatorDepth),
			AckTimeoutCode: known(n.AckTimeout), SRQ: n.SRQ,
		}
		if n.PathMTU > 0 {
			q.Negotiated.PathMTU = &n.PathMTU
		}
		if n.AckTimeout > 0 && n.AckTimeout < 32 {
			t := int64(dissect.AckTimeout(uint8(n.AckTimeout)))
			q.Negotiated.AckTimeoutNS = &t
		}
		if n.HasMemory {
			q.Negotiated.RKey, q.Negotiated.VA = &n.RKey, &n.VA
		}
	}
	return q
}

func newStream(f *flows.Stream) Stream {
	s := Stream{
		Packets: f.Packets, Bytes: f.Bytes, PayloadBytes: f.PayloadBytes, Messages: map[string]MessageCounts{},
		RetransmittedPackets: f.RetransmittedPackets, RetransmittedBytes: f.RetransmittedBytes,
		Retransmissions: Retransmissions{
			NAK: f.Retransmissions[flows.CauseNAK], RNR: f.Retransmissions[flows.CauseRNR],
			Timeout: f.Retransmissions[flows.CauseTimeout], Spurious: f.Retransmissions[flows.CauseSpurious],
		},
		Duplicates: f.Duplicates, OutOfOrder: f.OutOfOrder,
		LostBeforeTap: f.LostBeforeTap, LostBehindTap: f.LostBehindTap, CaptureLost: f.CaptureLost,
		GhostAcks: f.GhostAcks, Reordered: f.Reordered, NetworkDuplicates: f.NetworkDuplicates, Ambiguous: f.Ambiguous,
		Acks: f.Acks, NAKs: NAKs{
			PSNSequenceError: f.NAKs[dissect.NAKSequence], InvalidRequest: f.NAKs[dissect.NAKInvalidRequest],
			RemoteAccessError: f.NAKs[dissect.NAKRemoteAccess], RemoteOperationalError: f.NAKs[dissect.NAKRemoteOperational],
			InvalidRDRequest: f.NAKs[dissect.NAKInvalidRD],
		},
		ReservedSyndromes: f.ReservedSyndromes, RNRNAKs: f.RNRNAKs, RNRWaitNS: max(int64(f.RNRWait), 0),
		ECNCE: f.ECNCE, CNPs: f.CNPs, BadICRC: f.BadICRC, GoodputBPS: rate(f.Goodput),
		Latency:        Latency{Count: f.Latency.Count, Coalesced: f.Latency.Coalesced},
		RTT:            newRTT(f.RTT),
		DSCP:           ints(f.DSCP),
		Priorities:     ints(f.Priorities),
		MigReq:         f.MigReq,
		CNPDSCP:        ints(f.CNPDSCP),
		CNPIntervalNS:  ns(int64(f.CNPInterval)),
		UDPSourcePorts: f.SrcPorts,
		First:          moment(f.FirstSeen), Last: moment(f.LastSeen), FirstNS: ns(f.FirstSeen), LastNS: ns(f.LastSeen),
	}
	if f.PausedKnown {
		paused := int64(f.Paused)
		s.PausedNS = &paused
	}
	var atomic MessageCounts
	for op, m := range f.Messages {
		if m.Count == 0 && m.Completed == 0 && m.Failed == 0 {
			continue
		}
		n := MessageCounts{m.Count, m.Bytes, m.Completed, m.Failed, m.Imm, m.Inv}
		op := flows.Operation(op)
		s.Messages[op.String()] = n
		if op == flows.OpCompareSwap || op == flows.OpFetchAdd {
			atomic = atomic.plus(n)
			s.Messages["atomic"] = atomic
		}
	}
	if l := &f.Latency; l.Count > 0 {
		s.Latency.Min, s.Latency.P50, s.Latency.P99, s.Latency.Max = span(l.Min), span(l.P50), span(l.P99), span(l.Max)
	}
	if f.SrcPorts > 0 {
		s.UDPSourcePort = &f.SrcPort
	}
	return s
}

func newFinding(f *flows.Finding) Finding {
	check := f.Check()
	n := Finding{
		ID: f.ID.String(), Severity: f.Severity().String(), Title: check.Title, Summary: f.Summary, Explanation: check.Explain,
		Rule: check.Rule, Try: check.Try, Count: max(f.Count, 1), Time: moment(f.Time), TimeNS: ns(f.Time),
	}
	if f.Conn != 0 {
		n.Connection = &f.Conn
		if f.HasStream {
			stream := f.Direction.String()
			n.Stream = &stream
		}
	}
	if f.Frame != 0 {
		n.Frame = &f.Frame
	}
	return n
}

func moment(t int64) *Moment {
	if t == 0 {
		return nil
	}
	m := Moment(t)
	return &m
}

func ns(t int64) *int64 {
	if t == 0 {
		return nil
	}
	return &t
}

// span is a length of time. Clocks that jump back must not make it negative.
func span(t int64) *int64 {
	t = max(t, 0)
	return &t
}

func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func vlan(id int) *int { return known(id) }

func rate(bps float64) float64 {
	if math.IsNaN(bps) || math.IsInf(bps, 0) || bps < 0 {
		return 0
	}
	return math.Round(bps)
}

// list makes an empty list of a missing one: JSON shows it as [] and not as null.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// ints widens small numbers, which JSON would take for bytes.
func ints(codes []uint8) []int {
	out := make([]int, 0, len(codes))
	for _, c := range codes {
		out = append(out, int(c))
	}
	return out
}
