package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// app is what every command gets: the three streams and how to write on them. Results go to stdout, everything
// else (progress, notes, errors) to stderr.
type app struct {
	stdin  *os.File
	stdout *output
	stderr *os.File
	color  colorMode
}

// output is standard output, buffered. The first failed write sticks; when its reader has gone away it also ends the
// run, through the context. Commands that trickle (a pipe as input, a live source) call Flush at each pause.
type output struct {
	mu         sync.Mutex
	buf        *bufio.Writer
	file       *os.File
	isTerminal bool
	err        error
	end        context.CancelCauseFunc
}

func newOutput(file *os.File, end context.CancelCauseFunc) *output {
	return &output{
		buf:        bufio.NewWriterSize(file, 64<<10),
		file:       file,
		isTerminal: term.IsTerminal(int(file.Fd())),
		end:        end,
	}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.buf.Write(p)
	if err == nil && o.isTerminal {
		err = o.buf.Flush()
	}
	return n, o.keep(err)
}

// Flush hands over what is buffered, and returns the first error that any write met.
func (o *output) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	return o.keep(o.buf.Flush())
}

func (o *output) keep(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		err = errStdoutClosed
		o.end(err)
	}
	if err != nil {
		o.err = err
	}
	return err
}

// withSignals ends the context at the first SIGINT or SIGTERM, or SIGHUP when the terminal is gone (but under nohup), so
// that a command can report what it has; the second one kills in the ordinary way. A closed standard output must fail a write, not kill the process: SIGPIPE is caught
// and dropped (and not ignored, which child processes would inherit).
func withSignals(ctx context.Context) (context.Context, context.CancelCauseFunc, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	asked := make(chan os.Signal, 1)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(asked, ends...)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		select {
		case <-asked:
			signal.Reset(ends...)
			cancel(errInterrupted)
		case <-done:
		}
	}()
	return ctx, cancel, func() {
		close(done)
		signal.Stop(asked)
		signal.Stop(pipe)
		cancel(nil)
	}
}

// colorMode is the value of --color.
type colorMode string

const (
	colorAuto   colorMode = "auto"
	colorAlways colorMode = "always"
	colorNever  colorMode = "never"
)

func (c *colorMode) String() string { return string(*c) }
func (c *colorMode) Type() string   { return "when" }

func (c *colorMode) Set(value string) error {
	switch mode := colorMode(value); mode {
	case colorAuto, colorAlways, colorNever:
		*c = mode
		return nil
	}
	return errors.New("must be auto, always or never")
}

// styles says whether results may be coloured: --color decides, else a terminal without NO_COLOR.
func (a *app) styles() styles {
	switch a.color {
	case colorAlways:
		return styles{on: true}
	case colorNever:
		return styles{}
	}
	return styles{on: a.stdout.isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// styles puts meaning into colour, or leaves text alone. Colour never carries a meaning that the text does not.
type styles struct{ on bool }

func (s styles) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s styles) bold(text string) string    { return s.paint("1", text) }
func (s styles) dim(text string) string     { return s.paint("2", text) }
func (s styles) bad(text string) string     { return s.paint("31", text) }
func (s styles) warning(text string) string { return s.paint("33", text) }
func (s styles) note(text string) string    { return s.paint("36", text) }

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
