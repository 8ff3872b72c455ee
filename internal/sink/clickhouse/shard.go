package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/rocescope/rocescope/internal/sink"
)

// shard sends blocks to one server, on a goroutine of its own.
type shard struct {
	addr     string
	database string
	conn     driver.Conn
	spill    *sink.Spill // nil: nothing may wait on disk
	room     room
	queue    chan *sink.Parcel // to the goroutine
	free     chan *sink.Parcel // back, to be used again
	quit     chan struct{}     // nothing more comes
	done     chan struct{}
	stop     context.CancelFunc // ends a request under way
	ctx      context.Context
	tried    bool // the oldest block in the spill file may have been sent

	mu     sync.Mutex
	away   bool  // blocks go to the spill file
	err    error // the server refuses what is sent: nothing goes on
	lost   uint64
	reason error // why it is away

	inserted atomic.Uint64 // rows
	skipped  atomic.Uint64 // rows that the server had already
}

// retryEvery is how often a server that is away is tried.
const retryEvery = time.Second

var errBusy = errors.New("it is slower than the capture")

// requestTime bounds a request.
const requestTime = 2 * time.Minute

// passing are errors of a server that may be gone later: too many queries or parts, out of memory, read-only, a time-out,
// a shutdown.
var passing = map[int32]bool{159: true, 202: true, 203: true, 209: true, 210: true, 241: true, 242: true, 243: true, 252: true, 319: true, 394: true}

// refused says whether the server answered, and will say the same again.
func refused(err error) bool {
	var e *clickhouse.Exception
	return errors.As(err, &e) && !passing[e.Code]
}

// run is the goroutine.
func (s *shard) run() {
	defer close(s.done)
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-s.queue:
			s.send(b)
		case <-tick.C:
			s.drain()
		case <-s.quit:
			for len(s.queue) > 0 {
				s.send(<-s.queue)
			}
			return
		}
	}
}

// send sends a block, or puts it aside.
func (s *shard) send(b *sink.Parcel) {
	if err := s.insert(b); err != nil {
		b.Unsure = !refused(err)
		s.putAside(b, err)
	}
	s.recycle(b)
}

func (s *shard) insert(b *sink.Parcel) error {
	ctx, cancel := context.WithTimeout(s.ctx, requestTime)
	defer cancel()
	if b.Unsure {
		there, err := has(ctx, s.conn, s.database, b)
		if err != nil {
			return err
		}
		if there {
			s.skipped.Add(uint64(b.Rows))
			return nil
		}
	}
	if err := s.room.insert(ctx, s.conn, s.database, b); err != nil {
		return err
	}
	s.inserted.Add(uint64(b.Rows))
	return nil
}

// putAside keeps a block that was not sent.
func (s *shard) putAside(b *sink.Parcel, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused(why) && s.err == nil {
		s.err = fmt.Errorf("ClickHouse at %s refuses the rows: %w", s.addr, why)
	}
	s.away, s.reason = true, why
	if s.spill == nil {
		s.lost += uint64(b.Rows)
		return
	}
	if err := s.spill.Put(b); err != nil {
		s.lost += uint64(b.Rows)
		if s.err == nil && !errors.Is(err, sink.ErrSpillFull) {
			s.err = err
		}
	}
}

// drain sends what is in the spill file, until it is empty or the server fails again.
func (s *shard) drain() {
	if s.spill == nil {
		s.back()
		return
	}
	for s.ctx.Err() == nil {
		b, err := s.spill.Oldest()
		switch {
		case err != nil:
			s.fail(err)
			return
		case b == nil:
			if s.back() {
				return
			}
			continue // one came meanwhile
		}
		b.Unsure = b.Unsure || s.tried // the oldest may have been under way when something ended that
		s.tried = true
		if err := s.insert(b); err != nil {
			s.mu.Lock()
			s.away, s.reason = true, err
			s.mu.Unlock()
			if refused(err) {
				s.fail(fmt.Errorf("ClickHouse at %s refuses the rows: %w", s.addr, err))
			}
			return
		}
		if err := s.spill.Drop(); err != nil {
			s.fail(err)
			return
		}
		s.tried = false
	}
}

// back ends the time of putting aside, if nothing waits any more.
func (s *shard) back() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spill != nil {
		if n, _ := s.spill.Waiting(); n > 0 {
			return false
		}
	}
	s.away = false
	return true
}

func (s *shard) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// take takes a block from the writer. One that may wait does so while the server is busy or the spill file full; one that may
// not (a live capture) is spilled, or lost and counted.
func (s *shard) take(b *sink.Parcel, wait bool) error {
	for {
		s.mu.Lock()
		if s.err != nil {
			s.mu.Unlock()
			return s.err
		}
		if s.away {
			if s.spill == nil {
				s.mu.Unlock()
				return fmt.Errorf("ClickHouse at %s is away, and there is no spill file: %w", s.addr, s.reason)
			}
			err := s.spill.Put(b)
			full := errors.Is(err, sink.ErrSpillFull)
			if full && !wait {
				s.lost += uint64(b.Rows)
				err = nil
			}
			s.mu.Unlock()
			if full && wait {
				select {
				case <-time.After(retryEvery):
					continue
				case <-s.ctx.Done():
					return s.ctx.Err()
				}
			}
			s.recycle(b)
			return err
		}
		s.mu.Unlock()
		if wait {
			select {
			case s.queue <- b:
				return nil
			case <-s.ctx.Done():
				return s.ctx.Err()
			}
		}
		select {
		case s.queue <- b:
			return nil
		default:
		}
		if s.spill == nil {
			s.queue <- b
			return nil
		}
		s.mu.Lock()
		s.away, s.reason = true, errBusy // what follows goes to the file, too, until the goroutine has emptied it
		s.mu.Unlock()
	}
}

func (s *shard) recycle(b *sink.Parcel) {
	b.Reset()
	b.Unsure = false
	select {
	case s.free <- b:
	default:
	}
}

// close waits until everything is sent, for at most so long when the server is away.
func (s *shard) close(patience time.Duration) error {
	close(s.quit)
	<-s.done
	until := time.Now().Add(patience)
	for {
		s.drain()
		s.mu.Lock()
		away, err := s.away, s.err
		s.mu.Unlock()
		if !away || err != nil || time.Now().After(until) || s.ctx.Err() != nil {
			break
		}
		time.Sleep(min(retryEvery, time.Until(until)+time.Millisecond))
	}
	s.stop()
	s.mu.Lock()
	err := s.err
	if s.lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d rows for ClickHouse at %s are lost: it was away (%w), and the spill file was full", s.lost, s.addr, s.reason))
	}
	s.mu.Unlock()
	if s.spill != nil {
		if _, rows := s.spill.Waiting(); rows > 0 {
			err = errors.Join(err, &LeftError{Addr: s.addr, Rows: rows, Reason: s.reason})
		}
		err = errors.Join(err, s.spill.Close())
	}
	return errors.Join(err, s.conn.Close())
}

// LeftError says that rows are left in a spill file.
type LeftError struct {
	Addr   string
	Rows   uint64
	Reason error
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("ClickHouse at %s is away (%v): %d rows wait in its spill file", e.Addr, e.Reason, e.Rows)
}

func (e *LeftError) Unwrap() error { return e.Reason }
