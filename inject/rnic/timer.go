package rnic

// timerHeap is a binary heap of the queue pairs that wait for a time, the earliest first. A queue pair has one place in it, for the
// earliest of all that it waits for. A time that moves on does not move the place: when it is due, expire looks, and puts the queue
// pair back where it belongs. So a packet that restarts a timer costs a store. The times stand in the heap itself, lest each
// comparison fetch two queue pairs from memory.
type timerHeap []timerPlace

type timerPlace struct {
	at int64
	q  *QP
}

// notTimed is the place of a queue pair that is not in the heap.
const notTimed = -1

// setTimer makes sure that the queue pair is looked at when its earliest time is due.
func (q *QP) setTimer() {
	at := q.due()
	if at == 0 {
		return
	}
	h := &q.dev.timers
	switch {
	case q.timerPos == notTimed:
		h.push(q, at)
	case at < (*h)[q.timerPos].at:
		(*h)[q.timerPos].at = at
		h.up(q.timerPos)
	}
}

// expire looks at the queue pairs whose time has come.
func (d *Device) expire() {
	for len(d.timers) > 0 && d.timers[0].at <= d.now {
		q := d.timers[0].q
		d.timers.remove(0)
		q.timeout()
		q.setTimer()
	}
}

func (h *timerHeap) push(q *QP, at int64) {
	q.timerPos = len(*h)
	*h = append(*h, timerPlace{at, q})
	h.up(q.timerPos)
}

func (h *timerHeap) remove(i int) {
	list := *h
	list[i].q.timerPos = notTimed
	last := len(list) - 1
	if i != last {
		list[i] = list[last]
		list[i].q.timerPos = i
	}
	list[last].q = nil
	*h = list[:last]
	if i != last {
		h.down(i)
		h.up(i)
	}
}

func (h timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
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
			if child < len(h) && h[child].at < h[least].at {
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
	h[i].q.timerPos, h[j].q.timerPos = i, j
}
