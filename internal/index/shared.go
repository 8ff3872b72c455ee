package index

import (
	"slices"
	"sync"
	"sync/atomic"
)

// paged is something for each connection's number: one goroutine makes, any number
// look up, without locks.
type paged[T any] struct {
	pages atomic.Pointer[[]*[pageOfConns]T]
}

const pageOfConns = 1024

// make returns the place for a number.
func (p *paged[T]) make(conn uint32) *T {
	var pages []*[pageOfConns]T
	if now := p.pages.Load(); now != nil {
		pages = *now
	}
	i := int(conn / pageOfConns)
	if i >= len(pages) || pages[i] == nil {
		pages = slices.Clone(pages)
		for len(pages) <= i {
			pages = append(pages, nil)
		}
		pages[i] = new([pageOfConns]T)
		p.pages.Store(&pages)
	}
	return &pages[i][conn%pageOfConns]
}

// get returns the place of a number; nil where none near it was made.
func (p *paged[T]) get(conn uint32) *T {
	now := p.pages.Load()
	if now == nil {
		return nil
	}
	if i := int(conn / pageOfConns); i < len(*now) && (*now)[i] != nil {
		return &(*now)[i][conn%pageOfConns]
	}
	return nil
}

// aliases are the connection numbers that became another's.
type aliases struct {
	into    paged[atomic.Uint32]
	version atomic.Uint64
}

func (a *aliases) set(gone, into uint32) {
	a.into.make(gone).Store(into)
	a.version.Add(1)
}

func (a *aliases) get(conn uint32) uint32 {
	for {
		at := a.into.get(conn)
		if at == nil {
			return conn
		}
		into := at.Load()
		if into == 0 {
			return conn
		}
		conn = into // always a smaller number
	}
}

// turns are the connection numbers whose marks, up to a packet, mean the other
// direction. They are set in front of the alias whose version tells of them.
type turns struct{ upTo paged[atomic.Uint64] }

func (t *turns) set(conn uint32, upTo uint64) { t.upTo.make(conn).Store(upTo) }

func (t *turns) has(conn uint32, n uint64) bool {
	at := t.upTo.get(conn)
	return at != nil && n <= at.Load()
}

// watchers are those who want to know that there is something new. Waking them
// waits for nobody.
type watchers struct {
	mu  sync.Mutex
	all atomic.Pointer[[]chan struct{}]
}

func (w *watchers) change(f func([]chan struct{}) []chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []chan struct{}
	if p := w.all.Load(); p != nil {
		all = slices.Clone(*p)
	}
	all = f(all)
	w.all.Store(&all)
}

func (w *watchers) add() chan struct{} {
	c := make(chan struct{}, 1)
	w.change(func(all []chan struct{}) []chan struct{} { return append(all, c) })
	return c
}

func (w *watchers) remove(c chan struct{}) {
	w.change(func(all []chan struct{}) []chan struct{} {
		return slices.DeleteFunc(all, func(o chan struct{}) bool { return o == c })
	})
}

func (w *watchers) wake() {
	p := w.all.Load()
	if p == nil {
		return
	}
	for _, c := range *p {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
