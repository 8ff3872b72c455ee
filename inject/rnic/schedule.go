package rnic

import (
	"errors"

	"github.com/rocescope/rocescope/inject/port"
)

// qpList is a queue of the queue pairs that have something to send. A queue pair stands in it once.
type qpList struct {
	first, last *QP
	len         int
}

// activate puts a queue pair at the end of the list, if it is not there.
func (q *QP) activate() {
	if q.listed || q.destroyed {
		return
	}
	l := &q.dev.active
	q.listed, q.nextActive = true, nil
	if l.last == nil {
		l.first = q
	} else {
		l.last.nextActive = q
	}
	l.last = q
	l.len++
}

func (l *qpList) pop() *QP {
	q := l.first
	if l.first = q.nextActive; l.first == nil {
		l.last = nil
	}
	q.listed, q.nextActive = false, nil
	l.len--
	return q
}

// turn is how many packets a queue pair may send before it is the next one's turn.
const turn = 16

// transmit serves the list round robin while there is room, and returns how many frames were sent.
func (d *Device) transmit() int {
	d.out.fill()
	d.sendCrafted()
	for d.active.len > 0 && d.out.ready() {
		q := d.active.pop()
		if !q.destroyed && q.send(turn) {
			q.activate()
		}
	}
	return d.out.hand()
}

// send sends up to n packets and reports whether there is more to be sent at once: answers before requests, so that a peer that waits
// is not kept waiting by what this side wants.
func (q *QP) send(n int) (more bool) {
	for range n {
		if !q.dev.out.ready() {
			return true
		}
		if !q.answer() && !q.request() {
			q.setTimer()
			return false
		}
	}
	q.setTimer()
	return true
}

// sender gathers the frames of a batch.
type sender struct {
	port   port.Port
	slots  []uint32 // free ones
	batch  []port.Out
	err    error
	unsent bool
}

func (s *sender) init(p port.Port) {
	s.port = p
	s.slots, s.batch = make([]uint32, 0, sendBatch), make([]port.Out, 0, sendBatch)
}

// fill sees to it that there are free slots.
func (s *sender) fill() {
	have := len(s.slots)
	if have < sendBatch {
		n := s.port.Take(s.slots[have:sendBatch])
		s.slots = s.slots[:have+n]
	}
}

// ready reports whether a frame can be written.
func (s *sender) ready() bool { return len(s.slots) > 0 && len(s.batch) < sendBatch }

// room returns where the next frame is written, nil where there is no room.
func (s *sender) room() []byte {
	if !s.ready() {
		return nil
	}
	return s.port.Room(s.slots[len(s.slots)-1])
}

// commit takes the frame of n bytes in the newest room.
func (s *sender) commit(n int) {
	last := len(s.slots) - 1
	s.batch = append(s.batch, port.Out{Slot: s.slots[last], Len: int32(n)})
	s.slots = s.slots[:last]
}

// hand gives the batch to the port.
func (s *sender) hand() int {
	n := len(s.batch)
	if n > 0 {
		s.err = s.port.Send(s.batch)
		s.batch, s.unsent = s.batch[:0], true
	}
	return n
}

// push returns what went wrong with the last batch, and if the port is behind, or idle, sees to it that what was handed over leaves.
// An interface that is down is no error: frames wait, or are lost and sent again, until it is up.
func (s *sender) push(now bool) error {
	err := s.err
	s.err = nil
	if err == nil && now && s.unsent {
		err = s.port.Flush()
		s.unsent = s.port.Stats().Outstanding > 0
	}
	if errors.Is(err, port.ErrDown) {
		return nil
	}
	return err
}
