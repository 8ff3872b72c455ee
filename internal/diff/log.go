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
		case "verdict":
			s.Findings = append(s.Findings, Finding{
				ID: e.ID, Severity: e.Severity, Summary: e.Summary, Conn: e.Conn, BToA: back, Frame: e.Frame, Count: e.Count,
			})
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
		}
	})
	if errors.Is(err, io.ErrUnexpectedEOF) && len(s.Messages) > 0 {
		return s, &DamageError{err}
	}
	return s, err
}
