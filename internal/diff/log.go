package diff

import (
	"errors"
	"io"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/events"
)

// ReadLog makes a story of an event log.
func ReadLog(r io.Reader) (*Story, error) {
	s := &Story{}
	counts := map[uint32]map[Finding]int{} // findings of a log come one by one
	err := events.Read(r, func(e *events.Event) {
		back := e.Direction == flows.BToA.String()
		switch e.Type {
		case "message":
			if len(s.Messages) >= MaxMessages {
				s.Left++
				return
			}
			m := Message{
				Conn: e.Conn, BToA: back, Index: e.Index, Op: e.Operation, Status: e.Status, FirstPSN: dissect.PSN(e.FirstPSN),
				Bytes: e.Bytes, Resends: e.Resends, First: e.FirstNS, Latency: -1, Frame: e.Frame,
				Completed: e.Status == flows.StatusSuccess.String() || e.Status == flows.StatusSent.String(),
			}
			if e.LatencyNS != nil {
				m.Latency = *e.LatencyNS
			}
			s.Messages = append(s.Messages, m)
		case "finding":
			of := counts[e.Conn]
			if of == nil {
				of = map[Finding]int{}
				counts[e.Conn] = of
			}
			k := Finding{ID: e.ID, Conn: e.Conn, BToA: back}
			if at, ok := of[k]; ok {
				s.Findings[at].Count++
				return
			}
			of[k] = len(s.Findings)
			k.Severity, k.Summary, k.Frame, k.Count = e.Severity, e.Summary, e.Frame, 1
			s.Findings = append(s.Findings, k)
		case "connection":
			c := Conn{ID: e.Conn, A: QP{Addr: e.A}, B: QP{Addr: e.B}, Transport: e.Transport, FirstFrame: e.Frame}
			for _, q := range []struct {
				qp  *QP
				qpn *uint32
			}{{&c.A, e.AQP}, {&c.B, e.BQP}} {
				if q.qpn != nil {
					q.qp.QPN, q.qp.Known = *q.qpn, true
				}
			}
			s.Conns = append(s.Conns, c)
		case "end":
			s.stand(e)
		}
	})
	if errors.Is(err, io.ErrUnexpectedEOF) && len(s.Messages)+len(s.Findings) > 0 {
		return s, &DamageError{err}
	}
	return s, err
}

// stand leaves the findings that stand at the end.
func (s *Story) stand(e *events.Event) {
	kept := s.Findings[:0]
	for _, f := range s.Findings {
		if e.Standing[f.ID] > 0 {
			kept = append(kept, f)
		}
	}
	s.Findings = kept
}
