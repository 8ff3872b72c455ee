//go:build !race

package testkit

// RaceEnabled tells whether the tests run under the race detector.
const RaceEnabled = false
