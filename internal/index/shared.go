package index

import (
	"slices"
	"sync"
	"sync/atomic"
)

// aliases are the connection numbers that became another's: one goroutine sets,
// any number look up, without locks.
type aliases struct {
	pages   atomic.Pointer[[]*aliasPage]
	version atomic.Uint64
}

type aliasPage [1024]atomic.Uint32

func (a *aliases) set(gone, into uint32) {
	var pages []*aliasPage
	if p := a.pages.Load(); p != nil {
		pages = *p
	}
	i := int(gone / uint32(len(aliasPage{})))
	if i >= len(pages) || pages[i] == nil {
		pages = slices.Clone(pages)
		for len(pages) <= i {
			pages = append(pages, nil)
		}
		pages[i] = new(aliasPage)
		a.pages.Store(&pages)
	}
	pages[i][gone%uint32(len(aliasPage{}))].Store(into)
	a.version.Add(1)
}

func (a *aliases) get(conn uint32) uint32 {
	p := a.pages.Load()
	if p == nil {
		return conn
	}
	for {
		i := int(conn / uint32(len(aliasPage{})))
		if i >= len(*p) || (*p)[i] == nil {
			return conn
		}
		into := (*p)[i][conn%uint32(len(aliasPage{}))].Load()
		if into == 0 {
			return conn
		}
		conn = into // always a smaller number
	}
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
