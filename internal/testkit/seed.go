package testkit

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // declares the flag
)

// In CI the property tests start from one seed, so that a change is judged by
// itself and not by luck. `make properties` searches with fresh ones.
func init() {
	if os.Getenv("ROCESCOPE_CI") != "" {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
}
