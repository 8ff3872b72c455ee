// Command rocescope shows what happens on RDMA-over-Ethernet queue pairs.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
)

func main() {
	collectLater()
	ownProcess = true
	os.Exit(int(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)))
}

// collectLater lets the heap grow to 16 MB, not 4, before garbage is collected for the first time: most runs are over by then.
// From there on, all is as usual.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(400)
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}
