// Package noquery keeps Bubble Tea 1 from asking the terminal for its colours whenever a program that contains it starts: a
// round trip to the terminal, for commands too that never show a screen. It knows nothing else of terminals.
//
// Bubble Tea asks in an init function, and does not where CI is set. Packages are initialised by import path as soon as what they
// import is; this one imports nothing that comes later than the terminal library, so that it is first.
package noquery

import "os"

var was, had = os.LookupEnv("CI")

func init() {
	if was == "" {
		os.Setenv("CI", "1")
	}
}

// Over brings the environment back to what it was: to be called when the terminal library has been initialised.
func Over() {
	switch {
	case !had:
		os.Unsetenv("CI")
	case was == "":
		os.Setenv("CI", was)
	}
}
