package engine

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// ending is what a first pass leaves for the second one: what became of each
// message, what was found about each frame, how each connection was
// established. It holds about 250 bytes per message, and nothing per packet.
type ending struct {
	messages []flows.Message
	byKey    map[messageKey]int32 // index in messages
	findings map[uint64][]flows.FindingID
	evidence map[uint32]flows.Evidence
}

// messageKey names a message as marks do.
type messageKey struct {
	conn, index uint32
	direction   flows.Direction // of its requester
}

func newEnding() *ending {
	return &ending{
		byKey:    map[messageKey]int32{},
		findings: map[uint64][]flows.FindingID{},
		evidence: map[uint32]flows.Evidence{},
	}
}

// sink collects what the first pass's tracker finishes.
func (e *ending) sink() flows.Sink {
	return flows.Sink{
		Message: func(m *flows.Message) {
			e.byKey[messageKey{m.Conn, m.Index, m.Direction}] = int32(len(e.messages))
			e.messages = append(e.messages, *m)
		},
		Finding: func(f *flows.Finding) {
			e.findings[f.Frame] = append(e.findings[f.Frame], f.ID)
		},
		Connection: func(c *flows.Connection) { e.evidence[c.ID] = c.Evidence },
	}
}

// close adds what only the snapshot at the end tells.
func (e *ending) close(s *flows.Snapshot) {
	for i := range s.Connections {
		c := &s.Connections[i]
		e.evidence[c.ID] = c.Evidence
	}
}

// outcome fills o for one packet of the second pass.
func (e *ending) outcome(p *dissect.Packet, m *flows.Mark, o *flows.Outcome) {
	*o = flows.Outcome{EstablishedBy: e.evidence[m.Conn], Findings: e.findings[p.Number]}
	if m.Has(flows.MarkMessage) {
		requester := m.Direction
		if m.Has(flows.MarkResponse) {
			requester = requester.Reverse()
		}
		if i, ok := e.byKey[messageKey{m.Conn, m.Message, requester}]; ok {
			o.Message = &e.messages[i]
		}
	}
	for _, id := range o.Findings {
		o.Severity = max(o.Severity, flows.Checks()[id].Severity)
	}
}
