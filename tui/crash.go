package tui

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/rocescope/rocescope/internal/crash"
)

// wholeTerminal ends what the screen has switched on: bracketed paste, the kinds of mouse events, attributes; then the cursor
// is back, and what stood on the terminal before.
const wholeTerminal = "\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[0m\x1b[?25h\x1b[?1049l"

// screenFile is a terminal until a panic ends the program: then nothing of a screen is written any more.
type screenFile struct {
	*os.File
	over atomic.Bool
}

// Write implements io.Writer.
func (f *screenFile) Write(p []byte) (int, error) {
	if f.over.Load() {
		return len(p), nil
	}
	return f.File.Write(p)
}

// WriteString implements io.StringWriter.
func (f *screenFile) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// ReadFrom implements io.ReaderFrom: os.File's would go past Write.
func (f *screenFile) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// wholeAgain has a panic on any guarded goroutine leave the terminal as it is now, until the function it returns is called.
// Panics of the event loop and of effects are Bubble Tea's to recover.
func wholeAgain(o *Options) func() {
	file, ok := o.Output.(*os.File)
	if !ok {
		return func() {}
	}
	keys := os.Stdin
	if f, ok := o.Input.(*os.File); ok {
		keys = f
	}
	if !term.IsTerminal(int(keys.Fd())) { // Bubble Tea reads the controlling terminal then
		keys = file
	}
	before, err := term.GetState(int(keys.Fd()))
	out := &screenFile{File: file}
	o.Output = out
	return crash.Before(func() {
		out.over.Store(true)
		io.WriteString(file, wholeTerminal) //nolint:errcheck // there is nobody to tell
		if err == nil {
			_ = term.Restore(int(keys.Fd()), before)
		}
	})
}
