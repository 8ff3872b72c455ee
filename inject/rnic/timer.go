package rnic

// timerHeap is a binary heap of the queue pairs that wait for a time, the earliest first. A queue pair has one place in it, for the
// earliest of all that it waits for. A time that moves on does not move the place: when it is due, expire looks, and puts the queue
// pair back where it belongs. So a packet that restarts a timer costs a store.
type timerHeap []*QP

// notTimed is the place of a queue pair that is not in the heap.
const notTimed = -1

// setTimer makes sure that the queue pair is looked at when its earliest time is due.
func (q *QP) setTimer() {
	at := q.due()
	switch {
	case at == 0:
	case q.timerPos == notTimed:
		q.timerAt = at
		q.dev.timers.push(q)
	case at < q.timerAt:
		q.timerAt = at
		q.dev.timers.up(q.timerPos)
	}
}

// expire looks at the queue pairs whose time has come.
func (d *Device) expire() {
	for len(d.timers) > 0 && d.timers[0].timerAt <= d.now {
		q := d.timers[0]
		d.timers.remove(0)
		q.timeout()
		q.setTimer()
	}
}

func (h *timerHeap) push(q *QP) {
	q.timerPos = len(*h)
	*h = append(*h, q)
	h.up(q.timerPos)
}

func (h *timerHeap) remove(i int) {
	list := *h
	list[i].timerPos = notTimed
	last := len(list) - 1
	if i != last {
		list[i] = list[last]
		list[i].timerPos = i
	}
	list[last] = nil
	*h = list[:last]
	if i != last {
		h.down(i)
		h.up(i)
	}
}

func (h timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].timerAt <= h[i].timerAt {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h timerHeap) down(i int) {
	for {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(h) && h[child].timerAt < h[least].timerAt {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timerPos, h[j].timerPos = i, j
}
