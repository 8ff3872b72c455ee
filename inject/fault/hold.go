package fault

import "slices"

// meet lets a packet meet its fate; it tells whether the frame goes on unchanged.
func (l *Lane) meet(w *work) bool {
	r, f := w.rule, w.rule.fate
	switch f.kind {
	case fateDrop:
		return false
	case fateDuplicate:
		for range f.n {
			if h := l.get(w.bytes()); h != nil {
				h.rule = r
				l.Behind = l.front(h)
			}
		}
		if w.copy != nil {
			l.Behind = l.front(w.copy)
		}
		return w.copy == nil
	}
	h := w.copy
	if h == nil {
		if h = l.get(w.frame); h == nil { // no memory: it goes on at once
			return true
		}
		h.rule = r
	}
	if f.time > 0 {
		h.due = w.now + f.time
	}
	switch f.kind {
	case fateDelay:
		l.delayed.push(h)
	case fateReorder:
		h.left = f.n + 1 // its own turn is not over yet
		l.waiting = append(l.waiting, h)
	case fateSwap:
		if len(r.bucket) > 0 {
			l.exchange(r, h)
			return false
		}
		r.bucket, r.bucketDue = append(r.bucket, h), h.due
	case fateHold:
		if f.last && len(r.bucket) > 0 {
			l.drop(r.bucket[0])
			r.bucket[0] = h
		} else {
			r.bucket = append(r.bucket, h)
		}
		if r.bucketDue == 0 {
			r.bucketDue = h.due
		}
		r.keptSoFar++
		l.holding++
		if f.n > 0 && r.keptSoFar >= f.n {
			l.empty(r)
		}
		return false
	}
	l.holding++
	return false
}

// drop frees a frame that was held and does not go on.
func (l *Lane) drop(h *Held) {
	l.holding--
	l.free(h)
}

// empty lets all that a rule holds go.
func (l *Lane) empty(r *laneRule) {
	if r.fate.turned {
		slices.Reverse(r.bucket)
	}
	l.Behind = append(l.Behind, r.bucket...)
	l.holding -= len(r.bucket)
	r.bucket, r.bucketDue, r.keptSoFar = r.bucket[:0], 0, 0
}

// exchange lets h go in the place of the packet that waits for it, then what came in between, and the packet last.
func (l *Lane) exchange(r *laneRule, h *Held) {
	l.Behind = append(l.Behind, h)
	l.Behind = append(l.Behind, r.bucket[1:]...)
	l.Behind = append(l.Behind, r.bucket[0])
	l.holding -= len(r.bucket)
	r.bucket, r.bucketDue = r.bucket[:0], 0
}

// queue keeps a frame, and what goes out around it, behind a packet that waits to change places, if there is one.
func (l *Lane) queue(frame []byte, passes bool) bool {
	for _, r := range l.rules {
		if r.fate == nil || r.fate.kind != fateSwap || len(r.bucket) == 0 || l.Struck == r.Rule {
			continue
		}
		keep := func(h *Held) {
			r.bucket = append(r.bucket, h)
			l.holding++
		}
		for _, h := range l.Before {
			keep(h)
		}
		if passes {
			h := l.get(frame)
			if h == nil { // no memory: all of them go, in their order
				l.Before = append(l.Before[:0], r.bucket...)
				l.holding -= len(r.bucket)
				r.bucket, r.bucketDue = r.bucket[:0], 0
				return true
			}
			h.rule = r
			keep(h)
		}
		for _, h := range l.Behind {
			keep(h)
		}
		l.Before, l.Behind = l.Before[:0], l.Behind[:0]
		return false
	}
	return passes
}

// tick lets packets go for which enough others have gone: a frame went by, if anything did.
func (l *Lane) tick(now int64, frame []byte, passes bool) {
	went := passes || len(l.Before)+len(l.Behind) > 0
	for i := 0; i < len(l.waiting); {
		h := l.waiting[i]
		f := h.rule.fate
		own := h.left > f.n // it was put here just now
		goes := false
		switch {
		case own:
			h.left--
		case f.until != nil:
			if !l.decoded {
				l.decode(now, frame, false)
			}
			goes = passes && f.until.Match(&l.p, frame, nil)
		case went:
			h.left--
			goes = h.left <= 0
		}
		if goes {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			l.holding--
			l.Behind = append(l.Behind, h)
			continue
		}
		i++
	}
	l.overdue(now)
}

// overdue lets go what has waited long enough.
func (l *Lane) overdue(now int64) {
	for len(l.delayed) > 0 && l.delayed[0].due <= now {
		l.Behind = append(l.Behind, l.delayed.pop())
		l.holding--
	}
	for i := 0; i < len(l.waiting); {
		if h := l.waiting[i]; h.due > 0 && h.due <= now {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			l.holding--
			l.Behind = append(l.Behind, h)
			continue
		}
		i++
	}
	for _, r := range l.rules {
		if len(r.bucket) > 0 && r.bucketDue > 0 && r.bucketDue <= now {
			l.empty(r)
		}
	}
}

// Due gives out, as Behind, what has waited long enough and what came from the other lane. It tells when there will be more, on
// the clock that now is from; 0 means that only further frames can tell.
func (l *Lane) Due(now int64) (next int64) {
	l.release()
	l.Struck = nil
	if l.posts.Load() > 0 {
		l.collect()
	}
	if l.holding > 0 {
		l.overdue(now)
		next = l.next()
	}
	l.out = append(l.out, l.Behind...)
	return next
}

// next is when something is due; 0 = nothing is.
func (l *Lane) next() (at int64) {
	sooner := func(t int64) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	if len(l.delayed) > 0 {
		sooner(l.delayed[0].due)
	}
	for _, h := range l.waiting {
		sooner(h.due)
	}
	for _, r := range l.rules {
		if len(r.bucket) > 0 {
			sooner(r.bucketDue)
		}
	}
	return at
}

// End gives out everything that is held, as Behind, in the order in which it came.
func (l *Lane) End() {
	l.release()
	l.collect()
	all := append([]*Held(nil), l.delayed...)
	all = append(all, l.waiting...)
	for _, r := range l.rules {
		all = append(all, r.bucket...)
		r.bucket, r.bucketDue, r.keptSoFar = nil, 0, 0
	}
	slices.SortFunc(all, func(a, b *Held) int { return int(a.seq) - int(b.seq) })
	l.delayed, l.waiting, l.holding = l.delayed[:0], l.waiting[:0], 0
	l.Behind = append(l.Behind, all...)
	l.out = append(l.out, l.Behind...)
}

// post sends a frame the other way: the other lane gives it out.
func (l *Lane) post(h *Held) {
	o := l.other
	o.mail.Lock()
	if len(o.mailbox) < mostHeld {
		o.mailbox = append(o.mailbox, &Held{buf: append([]byte(nil), h.Bytes()...), n: h.n, rule: h.rule})
		o.posts.Add(1)
	} else {
		l.counts.full.Add(1)
	}
	o.mail.Unlock()
	l.free(h)
}

// collect takes what the other lane posted.
func (l *Lane) collect() {
	l.mail.Lock()
	posted := l.mailbox
	l.mailbox = nil
	l.posts.Store(0)
	l.mail.Unlock()
	for _, m := range posted {
		if h := l.get(m.Bytes()); h != nil {
			h.rule = m.rule
			l.Behind = append(l.Behind, h)
		}
	}
}

// heap has delayed frames, the one that is due first in front.
type heap []*Held

func (h heap) less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].seq < h[j].seq
}

func (h *heap) push(x *Held) {
	*h = append(*h, x)
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			return
		}
		(*h)[i], (*h)[up] = (*h)[up], (*h)[i]
		i = up
	}
}

func (h *heap) pop() *Held {
	old := *h
	first, last := old[0], len(old)-1
	old[0] = old[last]
	*h = old[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return first
		}
		if c+1 < last && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return first
		}
		old[i], old[c] = old[c], old[i]
		i = c
	}
}
