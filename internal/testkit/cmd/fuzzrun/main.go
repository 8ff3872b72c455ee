// Command fuzzrun finds every fuzz target of the module and runs each for a while.
//
//	go run ./internal/testkit/cmd/fuzzrun -time 20s ./...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

func main() {
	each := flag.Duration("time", 10*time.Minute, "how long to run each target")
	only := flag.String("only", "", "run only targets whose name contains this")
	workers := flag.Int("parallel", min(2, runtime.NumCPU()), "fuzz workers of a target")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	targets, err := discover(packages)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzrun:", err)
		os.Exit(1)
	}
	ran, failed := 0, 0
	for _, target := range targets {
		if !strings.Contains(target.name, *only) {
			continue
		}
		fmt.Printf("--- %s %s\n", target.pkg, target.name)
		ran++
		if !target.run(*each, *workers) {
			failed++
		}
	}
	fmt.Printf("%d fuzz targets ran for %s each, %d failed\n", ran, *each, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

type target struct{ pkg, name string }

// discover asks the test binaries themselves. Packages that have no tests say nothing.
func discover(packages []string) ([]target, error) {
	cmd := exec.Command("go", append([]string{"test", "-list", "^Fuzz"}, packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the fuzz targets: %w", err)
	}
	return parseList(string(out)), nil
}

// parseList reads names, each group followed by the "ok PACKAGE time" line of the package that has them.
func parseList(text string) []target {
	var found []target
	var names []string
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && strings.HasPrefix(fields[0], "Fuzz"):
			names = append(names, fields[0])
		case len(fields) >= 2 && fields[0] == "ok":
			for _, name := range names {
				found = append(found, target{fields[1], name})
			}
			names = nil
		}
	}
	return found
}

// run fuzzes one target. The fuzzing engine now and then reports its own deadline as a failure, without any input that
// fails; that is tried once more.
func (t target) run(each time.Duration, workers int) bool {
	for attempt := 1; ; attempt++ {
		var said bytes.Buffer
		cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(),
			"-parallel", fmt.Sprint(workers), t.pkg)
		cmd.Stdout = io.MultiWriter(os.Stdout, &said)
		cmd.Stderr = os.Stderr
		if cmd.Run() == nil {
			return true
		}
		spurious := strings.Contains(said.String(), "context deadline exceeded") &&
			!strings.Contains(said.String(), "Failing input written")
		if !spurious || attempt == 2 {
			return false
		}
	}
}
