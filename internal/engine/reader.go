package engine

import (
	"fmt"
	"runtime/debug"

	"github.com/rocescope/rocescope/captures"
)

// reader calls a source that may block from a goroutine of its own. A read that
// nobody waits for any more cannot be ended from outside: whenever it returns,
// the goroutine closes the source and is gone.
type reader struct {
	asked  chan []captures.Frame
	got    chan answer
	gone   chan struct{}
	busy   bool // a read is under way
	source captures.Source
	faces  []captures.Interface // as known before the read under way
}

type answer struct {
	n     int
	err   error
	fault any // the source panicked; whoever called Run shall have it
}

func newReader(src captures.Source) *reader {
	r := &reader{
		asked:  make(chan []captures.Frame),
		got:    make(chan answer, 1),
		gone:   make(chan struct{}),
		source: src,
	}
	go func() {
		defer close(r.gone)
		defer src.Close()
		for dst := range r.asked {
			r.got <- r.read(dst)
		}
	}()
	return r
}

func (r *reader) read(dst []captures.Frame) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a.fault = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		}
	}()
	a.n, a.err = r.source.ReadBatch(dst)
	return a
}

// ask begins a read. Its answer comes on got; whoever takes it calls answered.
func (r *reader) ask(dst []captures.Frame) {
	r.faces = append(r.faces[:0], r.source.Interfaces()...)
	r.busy = true
	r.asked <- dst
}

func (r *reader) answered() { r.busy = false }

// stop ends the goroutine, and waits for that unless it is stuck in a read. It
// returns what is known of the interfaces.
func (r *reader) stop() []captures.Interface {
	faces := r.faces
	if !r.busy {
		faces = append(faces[:0], r.source.Interfaces()...)
	}
	close(r.asked)
	if !r.busy {
		<-r.gone
	}
	return faces
}
