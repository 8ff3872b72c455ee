package events

import (
	"slices"

	"github.com/rocescope/rocescope/flows"
)

// known is what was written of a connection before its end.
type known struct {
	peers peers
	steps [2][]step // by queue pair
	firm  [2]bool   // the last of them is not presumed
}

// peers is what a line of that type says.
type peers struct {
	transport, evidence string
	a, b                flows.QPName
	knownA, knownB      bool
}

// step is a state and the frame that proves it.
type step struct {
	state flows.State
	frame uint64
}

// maxTold bounds the steps remembered of a queue pair.
const maxTold = 16

func (k *known) told(end flows.Direction, s flows.StateStep) bool {
	return slices.Contains(k.steps[end&1], step{s.State, s.Frame})
}

// joined takes a stream's number that another has from now on.
func (w *Writer) joined(before func(gone, into uint32)) func(gone, into uint32) {
	return func(gone, into uint32) {
		if before != nil {
			before(gone, into)
		}
		delete(w.known, gone)
	}
}

// step writes a state as soon as a packet proves it, and in front of it the queue pairs, where more is known of them than before.
func (w *Writer) step(before func(*flows.Connection, flows.Direction, flows.StateStep)) func(*flows.Connection, flows.Direction, flows.StateStep) {
	return func(c *flows.Connection, end flows.Direction, s flows.StateStep) {
		if before != nil {
			before(c, end, s)
		}
		defer w.hold(len(w.buf), s.Frame)
		k := w.known[c.ID]
		if k == nil {
			k = &known{}
			w.known[c.ID] = k
		}
		if p := (peers{c.Transport.String(), c.Evidence.String(), c.A.QPName, c.B.QPName, c.A.Known, c.B.Known}); p != k.peers {
			k.peers = p
			w.begin(typePeers)
			w.at(s.Frame, s.Time)
			w.peers(c)
			w.end()
		}
		// As in a connection's history: a weaker state proves nothing new, and proof of what was presumed does.
		told := k.steps[end&1]
		if n := len(told); n >= maxTold || n > 0 && (s.State < told[n-1].state || s.State == told[n-1].state && (k.firm[end&1] || s.Presumed)) {
			return
		}
		k.steps[end&1], k.firm[end&1] = append(told, step{s.State, s.Frame}), !s.Presumed
		w.state(c.ID, end, s)
	}
}

// peers writes a connection's queue pairs and how they are known.
func (w *Writer) peers(c *flows.Connection) {
	w.number("connection", uint64(c.ID))
	w.text("transport", c.Transport.String())
	w.text("evidence", c.Evidence.String())
	w.qp("a", &c.A)
	w.qp("b", &c.B)
}

func (w *Writer) state(conn uint32, end flows.Direction, s flows.StateStep) {
	w.begin(typeState)
	w.at(s.Frame, s.Time)
	w.number("connection", uint64(conn))
	w.text("qp", [...]string{flows.AToB: "a", flows.BToA: "b"}[end&1])
	w.text("state", s.State.String())
	w.value("why", s.Why)
	w.value("presumed", s.Presumed)
	w.end()
}
