// Package crash puts in order what a panic would leave behind. A screen leaves a terminal that shows nothing a person types,
// and where the panic comes up does not matter for that: whoever starts a goroutine that may run under a screen defers Guard
// in it, and whoever opens the screen says with Before what is to be done first.
//
// It does not keep the program alive: after a panic nobody can tell what is half done (Sound is for the few places that can). It knows
// nothing of screens; what is to be done belongs to who opens one.
package crash

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
)

var first struct {
	sync.Mutex
	hook *func()
}

// Before has f called before a panic of a guarded goroutine ends the program. The function it returns takes that back. There
// is one f at a time: the last.
func Before(f func()) (remove func()) {
	first.Lock()
	defer first.Unlock()
	hook := &f
	first.hook = hook
	return func() {
		first.Lock()
		defer first.Unlock()
		if first.hook == hook {
			first.hook = nil
		}
	}
}

// Guard is deferred in a goroutine, behind all else that is deferred there, so that it is the first to run: what Before asked for is done before a panic ends the program. A panic's trace
// is the one that it had, and so is the exit code.
func Guard() {
	first.Lock()
	hook := first.hook
	first.Unlock()
	if hook == nil {
		return
	}
	if r := recover(); r != nil {
		first.Lock() // for good: another goroutine's panic must not end the program meanwhile
		(*hook)()
		panic(r)
	}
}

// Error is a panic that somebody lives on after.
type Error struct {
	Value any
	Stack []byte
}

func (e *Error) Error() string {
	return strings.TrimRight(fmt.Sprintf("a mistake in rocescope: %v\n%s", e.Value, e.Stack), "\n")
}

// Sound runs f, and makes an *Error of a panic in it.
func Sound(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Error{r, debug.Stack()}
		}
	}()
	return f()
}
