package index

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
)

// messages remembers the newest messages that ended.
type messages struct {
	pages     []*messagePage
	n         int // in all
	published atomic.Pointer[saying]
	looking   sync.RWMutex // held by readers of pages, for as long as they look
}

type messagePage [512]flows.Message

// saying is what readers see.
type saying struct {
	pages []*messagePage
	gone  int // messages of pages that are gone
	n     int
}

// maxMessagePages bounds them to 32 Ki messages, some 7 MB.
const maxMessagePages = 64

func (s *messages) add(m *flows.Message) {
	at := s.n % len(messagePage{})
	if at == 0 {
		s.pages = append(s.pages, s.page())
	}
	s.pages[len(s.pages)-1][at] = *m
	s.n++
}

// page is a new one, or the oldest once more: new memory costs more than all that is
// written to it. Who looks at pages keeps them as they are.
func (s *messages) page() *messagePage {
	if len(s.pages) < maxMessagePages {
		return new(messagePage)
	}
	oldest := s.pages[0]
	s.pages = slices.Clone(s.pages[1:])
	s.show() // from now on nobody finds it
	if !s.looking.TryLock() {
		return new(messagePage)
	}
	s.looking.Unlock()
	return oldest
}

// publish shows readers what was added so far.
func (s *messages) publish() {
	if p := s.published.Load(); p == nil || p.n != s.n {
		s.show()
	}
}

func (s *messages) show() {
	pages := (s.n + len(messagePage{}) - 1) / len(messagePage{})
	s.published.Store(&saying{s.pages, (pages - len(s.pages)) * len(messagePage{}), s.n})
}

// each calls f with all that are remembered, and says whether there were others before.
func (s *messages) each(f func(*flows.Message)) (more bool) {
	s.looking.RLock()
	defer s.looking.RUnlock()
	now := s.published.Load()
	for i := range now.n - now.gone {
		f(&now.pages[i/len(messagePage{})][i%len(messagePage{})])
	}
	return now.gone > 0
}

// Messages are those of a connection, by their first frame, at most so many.
type Messages struct {
	List []flows.Message
	// Total is how many there are: more than in List where that was too many. The
	// first ones that ended are kept then.
	Total int
	// Partial says that there were earlier ones, which are not remembered: while a
	// large capture is being read, and of live ones.
	Partial bool
}

// MessagesOf returns a connection's messages that have ended. Of a capture with
// more of them than are remembered it reads the capture again, if that is possible,
// which takes as long as the first time.
func (x *Index) MessagesOf(ctx context.Context, conn uint32, most int) (Messages, error) {
	conn = x.Connection(conn)
	var got Messages
	take := func(m *flows.Message) {
		if x.Connection(m.Conn) != conn {
			return
		}
		got.Total++
		if len(got.List) < most {
			got.List = append(got.List, *m)
		}
	}
	now := x.said.published.Load()
	if now == nil {
		return got, nil
	}
	var err error
	if now.gone > 0 && x.o.Again && x.finished() {
		err = x.again(ctx, engine.Options{}, take)
	} else {
		got.Partial = x.said.each(take)
	}
	slices.SortStableFunc(got.List, func(a, b flows.Message) int { return cmp.Compare(a.FirstFrame, b.FirstFrame) })
	return got, err
}

func (x *Index) finished() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// again puts as much of the capture as was read through another pipeline, which
// tracks as the first one did.
func (x *Index) again(ctx context.Context, o engine.Options, message func(*flows.Message)) error {
	src, err := x.o.Open(ctx)
	if err != nil {
		return err
	}
	o.Track, o.CheckICRC, o.Tracker, o.MaxFrames = true, x.o.Engine.CheckICRC, x.o.Engine.Tracker, x.o.Engine.MaxFrames
	o.Tracker.Sink = flows.Sink{Message: message}
	o.Reopen = func() (captures.Source, error) { return x.o.Open(ctx) }
	if o.MaxFrames == 0 && x.finished() {
		o.MaxFrames = x.Last()
	}
	_, err = engine.New(o).Run(ctx, src)
	var damage *engine.SourceError
	if x.finished() && x.err != nil && errors.As(err, &damage) && ctx.Err() == nil {
		return nil // as the first time
	}
	return err
}
