// Command rocescope shows what happens on RDMA-over-Ethernet queue pairs.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(int(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)))
}
