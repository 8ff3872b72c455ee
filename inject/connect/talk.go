package connect

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Stream is what a conversation by socket needs: a TCP connection, or SENDs over a queue pair, of which each Read returns one
// message and each Write sends one.
type Stream interface {
	io.ReadWriter
	SetDeadline(t time.Time) error
}

// defaultPatience is how long the next message of a conversation may take to come whole.
const defaultPatience = 10 * time.Second

// talk reads and writes whole messages, each within a time: a peer that sends byte by byte gains nothing.
type talk struct {
	s        Stream
	patience time.Duration
	ahead    []byte // read already
}

func newTalk(s Stream, patience time.Duration) *talk {
	setDefault(&patience, defaultPatience)
	return &talk{s: s, patience: patience}
}

// allow sets the time for what follows; none if wait is negative.
func (t *talk) allow(wait time.Duration) error {
	var until time.Time
	if wait >= 0 {
		until = time.Now().Add(wait)
	}
	return t.s.SetDeadline(until)
}

// read fills b; what says what was to come.
func (t *talk) read(b []byte, what string) error { return t.readWithin(t.patience, b, what) }

func (t *talk) readWithin(wait time.Duration, b []byte, what string) error {
	n := copy(b, t.ahead)
	t.ahead = t.ahead[n:]
	if n == len(b) {
		return nil
	}
	if err := t.allow(wait); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	m, err := io.ReadFull(t.s, b[n:])
	return failed(err, n+m, what, wait)
}

// peek reads on without taking anything.
func (t *talk) peek(n int, what string) ([]byte, error) {
	b := make([]byte, n)
	if err := t.read(b, what); err != nil {
		return nil, err
	}
	t.ahead = append(b, t.ahead...)
	return b, nil
}

// Errors of conversations by socket. They come wrapped in what was due.
var (
	ErrSilent  = errors.New("the other side did not say it in time")
	ErrHungUp  = errors.New("the other side closed the connection")
	ErrGarbage = errors.New("the other side says something else")
)

func failed(err error, got int, what string, wait time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s: %d bytes within %v: %w", what, got, wait, ErrSilent)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: after %d bytes: %w", what, got, ErrHungUp)
	}
	var op *net.OpError
	if errors.As(err, &op) && !op.Temporary() {
		return fmt.Errorf("%s: after %d bytes: %w (%v)", what, got, ErrHungUp, op.Err)
	}
	return fmt.Errorf("%s: after %d bytes: %w", what, got, err)
}

// garbage says what came instead of what was due, as far as that is fit to print.
func garbage(b []byte, what string) error {
	const most = 32
	more := ""
	if len(b) > most {
		b, more = b[:most], "…"
	}
	return fmt.Errorf("%s: %q%s: %w", what, b, more, ErrGarbage)
}

func (t *talk) write(b []byte, what string) error {
	if err := t.allow(t.patience); err != nil {
		return fmt.Errorf("send %s: %w", what, err)
	}
	if _, err := t.s.Write(b); err != nil {
		return fmt.Errorf("send %w", failed(err, 0, what, t.patience))
	}
	return nil
}
