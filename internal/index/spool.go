package index

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/rocescope/rocescope/internal/crash"
)

// spool keeps segments of a live capture in a temporary file, in slots of one
// segment each. Writing is a goroutine of its own: a segment that it does not get to
// in time is not kept.
type spool struct {
	file  *os.File
	room  int
	queue chan *segment
	done  chan struct{}

	mu      sync.Mutex
	slots   []int64 // free ones
	written int64
	err     error
	closed  bool
}

func newSpool(file *os.File, size int64, room, queue int) *spool {
	s := &spool{file: file, room: room, queue: make(chan *segment, max(queue, 1)), done: make(chan struct{})}
	for i := max(size/int64(room), 2) - 1; i >= 0; i-- {
		s.slots = append(s.slots, i*int64(room))
	}
	go s.run()
	return s
}

// offer has a segment written that nothing is added to any more, if there is time
// for that.
func (s *spool) offer(seg *segment) {
	if seg.live.used > s.room || !seg.live.grip() {
		return
	}
	select {
	case s.queue <- seg:
	default:
		seg.live.release()
	}
}

func (s *spool) run() {
	defer close(s.done)
	defer crash.Guard()
	for seg := range s.queue {
		s.write(seg.live)
		seg.live.release()
	}
}

func (s *spool) write(h *held) {
	s.mu.Lock()
	if s.err != nil || len(s.slots) == 0 {
		s.mu.Unlock()
		return
	}
	at := s.slots[len(s.slots)-1]
	s.slots = s.slots[:len(s.slots)-1]
	s.mu.Unlock()
	_, err := s.file.WriteAt(h.memory[:h.used], at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = fmt.Errorf("index: no more packets are kept on disk (TMPDIR names another folder for that): %w", err)
		s.slots = append(s.slots, at)
		return
	}
	s.written += int64(s.room)
	h.file = s.file
	h.at.Store(at + 1)
}

// full says that a segment has to go before another finds a slot.
func (s *spool) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots) < 2 && s.err == nil
}

// free gives back the slot of a segment that nobody finds any more.
func (s *spool) free(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots = append(s.slots, h.at.Load()-1)
	s.written -= int64(s.room)
}

func (s *spool) state() (bytes int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.err
}

// close ends writing. It is called when nothing is offered any more.
func (s *spool) close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	close(s.queue)
	<-s.done
	return errors.Join(s.file.Close())
}
