package suite_test

import (
	"fmt"

	"github.com/rocescope/rocescope/inject/suite"
)

// bench stands for a *testing.T.
type bench struct{}

func (bench) Helper()                     {}
func (bench) Errorf(f string, a ...any)   { fmt.Printf(f+"\n", a...) }
func (b bench) Fatalf(f string, a ...any) { b.Errorf(f, a...) }
func (bench) Logf(string, ...any)         {}

// A core's own test runs the built-in suite against it: here our RNIC in memory; a core in a simulation is a suite.Piped.
func ExampleRun() {
	var t bench // a *testing.T
	result := suite.Run(t, &suite.InMemory{}, "conformance/quick", suite.Options{Only: []string{"BTH-0[13]", "D6"}})
	fmt.Println(result.Totals[suite.Passed], "passed; failed:", result.Failed())
	// Output: 4 passed; failed: false
}
