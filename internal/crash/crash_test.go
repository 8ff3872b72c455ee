package crash

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// up is what panics up from f, with Guard deferred in it.
func up(f func()) (r any) {
	defer func() { r = recover() }()
	func() {
		defer Guard()
		f()
	}()
	return nil
}

// TestGuard: what is to be done is done once, before the panic goes on; not without a panic, and not when it was taken back.
func TestGuard(t *testing.T) {
	if r := up(func() { panic("first") }); r != "first" {
		t.Fatalf("without anything to be done: %v", r)
	}
	done := 0
	remove := Before(func() { done++ })
	if r := up(func() {}); r != nil || done != 0 {
		t.Fatalf("without a panic: %v, done %d times", r, done)
	}
	later := 0
	newer := Before(func() { later++ })
	remove() // not the newer one's
	if r := up(func() { panic(io.EOF) }); r != io.EOF || done != 0 || later != 1 {
		t.Fatalf("%v, done %d and %d times", r, done, later)
	}
	first.Unlock() // which the end of the program would have done
	newer()
	if r := up(func() { panic("last") }); r != "last" || later != 1 {
		t.Fatalf("when it was taken back: %v, done %d times", r, later)
	}
}

func TestSound(t *testing.T) {
	if err := Sound(func() error { return io.EOF }); err != io.EOF {
		t.Error(err)
	}
	err := Sound(func() error { panic("a word") })
	var mistake *Error
	if !errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), "a mistake in rocescope: a word\ngoroutine ") {
		t.Error(err)
	}
}
