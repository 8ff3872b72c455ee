package flows

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// followIWARP gives a TCP packet to the follower of iWARP, which is made when
// the first sign of iWARP is seen. It reports whether the packet is iWARP's.
func (t *Tracker) followIWARP(p *dissect.Packet, frame []byte) bool {
	if t.iwarp == nil {
		if !p.Has(dissect.LayerFPDU) && !p.Has(dissect.LayerMPARequest) && !p.Has(dissect.LayerMPAReply) {
			return false
		}
		o := iwarp.Options{Sink: iwarp.Sink{Event: t.iwarpEvent}, NextID: t.nextID}
		if t.opt.Sink.IWARP != nil {
			o.Sink.Message = t.iwarpMessage
		}
		t.iwarp = iwarp.New(o)
	}
	if !t.iwarp.Packet(p, frame) {
		return false
	}
	t.protocols.IWARP++
	return true
}

// iwarpOperations are iWARP's operations in the words of queue pairs; which
// atomic it is, its operands tell.
var iwarpOperations = [iwarp.NumOps]Operation{
	iwarp.Send: OpSend, iwarp.Write: OpWrite, iwarp.Read: OpRead, iwarp.Atomic: NumOperations, iwarp.Immediate: OpImmediate, iwarp.Terminate: OpTerminate,
}

// iwarpStatuses are what a completion queue would say: TCP has all of a SEND or
// WRITE that it acknowledged.
var iwarpStatuses = [...]Status{iwarp.Open: StatusOpen, iwarp.Done: StatusSuccess, iwarp.Incomplete: StatusIncomplete}

// iwarpMessage hands a message of iWARP on, in the form of all messages.
func (t *Tracker) iwarpMessage(x *iwarp.Message) {
	kept := *x
	m := Message{
		Conn: x.Conn.ID, Index: x.Index, Direction: Direction(x.Direction), Op: iwarpOperations[x.Op], Status: iwarpStatuses[x.Status],
		Segments: uint32(x.Segments), Bytes: x.Length, Seen: x.Seen, VA: x.Offset, RKey: x.STag,
		FirstSeen: x.Begun, LastSent: x.Sent, Completed: x.Done, WireBytes: x.Wire, FirstFrame: x.First, LastFrame: x.Last, AnswerFrame: x.Answer,
		IWARP: &kept,
	}
	switch {
	case x.Invalidates():
		m.Flags, m.Imm = dissect.WithInv, x.Invalidate
	case x.Op == iwarp.Atomic && x.Atomic.Operation == 0:
		m.Op, m.Swap = OpFetchAdd, x.Atomic.Add
	case x.Op == iwarp.Atomic && x.Atomic.Operation == 2:
		m.Op, m.Swap, m.Compare = OpCompareSwap, x.Atomic.Swap, x.Atomic.Compare
	}
	if x.Op == iwarp.Send || x.Op == iwarp.Immediate {
		m.Flags |= dissect.ConsumesReceive
	}
	m.Orig, m.HasOrig = x.Atomic.Original, x.Atomic.Answered
	t.opt.Sink.IWARP(&m)
}

// iwarpFindings are the rows of the check table by iWARP's rules.
var iwarpFindings = [iwarp.NumRules]FindingID{
	iwarp.CRC: findIWARPCRC, iwarp.Marker: findIWARPMarker, iwarp.StartUp: findIWARPStartUp, iwarp.Depths: findIWARPDepths,
	iwarp.Header: findIWARPHeader, iwarp.MSN: findIWARPMSN, iwarp.Segment: findIWARPSegment, iwarp.ReadResponse: findIWARPResponse,
	iwarp.ReadOrder: findIWARPReadOrder, iwarp.ReadDepth: findIWARPReadDepth, iwarp.SpokeFirst: findIWARPFirst,
	iwarp.AfterTerminate: findIWARPAfter, iwarp.Terminated: findIWARPTerminated, iwarp.Rejected: findIWARPRejected, iwarp.Lost: findIWARPLost,
}

func (t *Tracker) iwarpEvent(e *iwarp.Event) {
	f := Finding{ID: iwarpFindings[e.Rule], Frame: e.Frame, Time: e.Time, Count: 1}
	copy(f.Args[:], e.Args[:])
	from, to := e.Conn.A, e.Conn.B
	if e.Direction == iwarp.BToA {
		from, to = to, from
	}
	f.Where = from.String() + " → " + to.String()
	t.addFinding(&f)
	if e.Rule == iwarp.Lost { // the sum over all holes
		if i, ok := t.findings.index[findingKey{id: f.ID, where: f.Where}]; ok && t.findings.list[i].Count > 1 {
			t.findings.list[i].Args[0] += e.Args[0]
		}
	}
}
