package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilHangup is a context that ends with the terminal too: a screen is over then, where other commands go on if they were
// started so that they should (nohup).
func untilHangup(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		select {
		case <-gone:
			cancel(errInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(gone)
		close(done)
		cancel(nil)
	}
}
