package testkit

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // declares the flag
)

// In CI the property tests start from one seed, unless they have their own, so that a change is judged by itself and not by luck.
// `make properties` searches with fresh ones.
func init() {
	if os.Getenv("ROCESCOPE_CI") == "" {
		return
	}
	seed := flag.Lookup("rapid.seed")
	seed.DefValue = "1"
	if err := seed.Value.Set(seed.DefValue); err != nil {
		panic(err)
	}
}
