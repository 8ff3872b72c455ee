package stream

// slots are the free slots of a port, by the template whose frame they hold. Which is free longest is given to another
// template when that one has none.
type slots struct {
	holds []int32 // template by slot; none = nothing yet
	// Links by slot: among those of its template (the last freed first), and among all, in the order in which they became free.
	prevSame, nextSame []int32
	prevAll, nextAll   []int32
	first              []int32 // by template
	oldest, newest     int32
	free               int      // in the lists
	queue              []uint32 // free too, and not in the lists yet: mostly a slot is wanted again for what it holds
	next               int      // the first of the queue that is still there
	misses             int      // slots that held something else
}

const none = -1

func newSlots(n, templates int) *slots {
	links := make([]int32, 5*n)
	s := &slots{
		holds: links[:n], prevSame: links[n : 2*n], nextSame: links[2*n : 3*n], prevAll: links[3*n : 4*n], nextAll: links[4*n:],
		first: make([]int32, templates+1), oldest: none, newest: none,
	}
	for i := range s.holds {
		s.holds[i] = int32(templates) // a template of its own: nothing
	}
	for i := range s.first {
		s.first[i] = none
	}
	return s
}

// put takes a slot in, which has become free.
func (s *slots) put(slot uint32) {
	i, t := int32(slot), s.holds[slot]
	s.prevSame[i], s.nextSame[i] = none, s.first[t]
	if f := s.first[t]; f != none {
		s.prevSame[f] = i
	}
	s.first[t] = i
	s.prevAll[i], s.nextAll[i] = s.newest, none
	if s.newest != none {
		s.nextAll[s.newest] = i
	} else {
		s.oldest = i
	}
	s.newest = i
	s.free++
}

// left is how many slots are free.
func (s *slots) left() int { return s.free + s.waiting() }

// waiting is how many of them wait in the queue.
func (s *slots) waiting() int { return len(s.queue) - s.next }

// file puts those of the queue into the lists.
func (s *slots) file() {
	for _, slot := range s.queue[s.next:] {
		s.put(slot)
	}
	s.queue, s.next = nil, 0
}

// same gives the next slot of the queue, if it holds a frame of the template.
func (s *slots) same(template int) (slot uint32, ok bool) {
	if i := s.next; i < len(s.queue) {
		if slot = s.queue[i]; s.holds[slot] == int32(template) {
			s.next = i + 1
			return slot, true
		}
	}
	return 0, false
}

// get gives a slot for a template; fresh says that it holds something else, and has to be written. There must be a free one.
func (s *slots) get(template int) (slot uint32, fresh bool) {
	for s.next < len(s.queue) {
		if slot, ok := s.same(template); ok {
			return slot, false
		}
		s.next++
		if s.put(s.queue[s.next-1]); s.first[template] != none {
			break
		}
	}
	i := s.first[template]
	if i == none {
		i, fresh = s.oldest, true
		s.misses++
	}
	s.remove(i)
	s.holds[i] = int32(template)
	return uint32(i), fresh
}

func (s *slots) remove(i int32) {
	if p := s.prevSame[i]; p != none {
		s.nextSame[p] = s.nextSame[i]
	} else {
		s.first[s.holds[i]] = s.nextSame[i]
	}
	if n := s.nextSame[i]; n != none {
		s.prevSame[n] = s.prevSame[i]
	}
	if p := s.prevAll[i]; p != none {
		s.nextAll[p] = s.nextAll[i]
	} else {
		s.oldest = s.nextAll[i]
	}
	if n := s.nextAll[i]; n != none {
		s.prevAll[n] = s.prevAll[i]
	} else {
		s.newest = s.prevAll[i]
	}
	s.free--
}
