// Lab builds the laboratory's guest, runs programs in it, and runs the interoperability table.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/rocescope/rocescope/lab"
)

func main() {
	if err := lab.Enter(); err != nil {
		panic(err)
	}
	image, err := lab.Build(func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) })
	if err != nil {
		panic(err)
	}
	g, err := lab.Boot(image, "tap0")
	if err != nil {
		panic(err)
	}
	defer g.Close()
	fmt.Println(g.Kernel, g.Boot)
	fmt.Println(g.Console())
	for _, c := range os.Args[1:] {
		t := time.Now()
		out, err := g.Run(time.Minute, "sh", "-c", c)
		fmt.Println(c, "\n", out, err, time.Since(t))
	}
}
