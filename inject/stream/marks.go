package stream

import (
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
)

// marked is a port that wants to know what frames are to their connections: one whose rules ask for it.
type marked interface {
	WantsMarks() bool
	SendMarked(frames []port.Out, marks []flows.Mark) error
}

// marker says it, for the frames of a burst. It knows better than anybody who watches them.
type marker struct {
	to     marked
	marks  []flows.Mark
	rounds [][]uint8 // by QP: how often each of the last PSNs was sent
}

// leastRounds is of how many PSNs of a QP it is known at least how often they were sent.
const leastRounds = 4096

// newMarker makes one, nil for a port that does not ask.
func newMarker(p port.Port, qps int) *marker {
	to, ok := p.(marked)
	if !ok || !to.WantsMarks() {
		return nil
	}
	m := &marker{to: to, rounds: make([][]uint8, qps)}
	for i := range m.rounds {
		m.rounds[i] = make([]uint8, atLeast(64<<20, qps, leastRounds, 1<<20))
	}
	return m
}

// note takes note of the packet that is sent next.
func (k *marker) note(q *qp, number int) {
	m := &q.msg
	mark := flows.Mark{Bits: flows.MarkResponse, Conn: uint32(number) + 1, Message: uint32(m.index)}
	if m.psns > 0 {
		pos := m.pos + uint64(q.packet)
		rounds := k.rounds[number]
		round := &rounds[pos%uint64(len(rounds))]
		mark.Bits = flows.MarkRequest | flows.MarkPSN | flows.MarkMessage
		if q.end() > q.sent {
			*round = 0
		} else {
			mark.Bits |= flows.MarkRetransmission
			*round = min(*round, 254) + 1
		}
		mark.PSNOffset, mark.Round = uint32(pos&most24), uint16(*round)
	}
	k.marks = append(k.marks, mark)
}

// send hands the burst over.
func (k *marker) send(frames []port.Out) error {
	err := k.to.SendMarked(frames, k.marks)
	k.marks = k.marks[:0]
	return err
}
