package rnic

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// mailbox is where other goroutines leave word for the device: queue pairs with new work, and crafted frames. The device empties
// it once per batch, and looks at a flag where nothing is there.
type mailbox struct {
	full   atomic.Bool
	mu     sync.Mutex
	rung   []*QP
	frames []byte // one behind the other
	sizes  []int

	// What the device took out.
	takenQPs    []*QP
	takenFrames []byte
	takenSizes  []int
}

// maxMail is how many crafted frames may wait.
const maxMail = 1024

// ring tells the device of new work of q.
func (q *QP) ring() {
	if q.rung.Swap(true) {
		return
	}
	m := &q.dev.mail
	m.mu.Lock()
	m.rung = append(m.rung, q)
	m.full.Store(true)
	m.mu.Unlock()
}

func (m *mailbox) putFrame(frame []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sizes) >= maxMail {
		return fmt.Errorf("rnic: send a frame: %d frames wait already; the device must be stepped, or the port is behind", maxMail)
	}
	m.frames = append(m.frames, frame...)
	m.sizes = append(m.sizes, len(frame))
	m.full.Store(true)
	return nil
}

func (m *mailbox) pending() bool { return m.full.Load() || len(m.takenSizes) > 0 }

// takeMail empties the mailbox.
func (d *Device) takeMail() {
	m := &d.mail
	if !m.full.Load() {
		return
	}
	m.mu.Lock()
	m.rung, m.takenQPs = m.takenQPs[:0], m.rung
	if len(m.takenSizes) == 0 {
		m.frames, m.takenFrames = m.takenFrames[:0], m.frames
		m.sizes, m.takenSizes = m.takenSizes[:0], m.sizes
	}
	m.full.Store(len(m.sizes) > 0)
	m.mu.Unlock()
	d.touchAll(m.takenQPs)
	for _, q := range m.takenQPs {
		q.rung.Store(false) // before looking: what is posted from here on rings again
		q.look()
	}
}

// sendCrafted sends the frames of SendFrame, as far as there is room.
func (d *Device) sendCrafted() {
	m := &d.mail
	sent, at := 0, 0
	for _, n := range m.takenSizes {
		room := d.out.room()
		if room == nil {
			break
		}
		copy(room, m.takenFrames[at:at+n])
		d.out.commit(n)
		at += n
		sent++
	}
	if sent == len(m.takenSizes) {
		m.takenFrames, m.takenSizes = m.takenFrames[:0], m.takenSizes[:0]
		return
	}
	m.takenFrames = m.takenFrames[:copy(m.takenFrames, m.takenFrames[at:])]
	m.takenSizes = m.takenSizes[:copy(m.takenSizes, m.takenSizes[sent:])]
}
