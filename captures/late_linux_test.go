package captures

import (
	"testing"
	"time"
)

// TestLateOrClockSetBack: rings hand frames over late by milliseconds; by hours only a clock does that was set back.
func TestLateOrClockSetBack(t *testing.T) {
	const now = 1_700_000_000_000_000_000
	for before, want := range map[time.Duration]bool{
		-time.Second: false, 0: false, time.Nanosecond: true, 10 * time.Millisecond: true, 999 * time.Millisecond: true, time.Second: false, 2 * time.Hour: false,
	} {
		if got := isLate(now-int64(before), now); got != want {
			t.Errorf("%v before the newest: late %v", before, got)
		}
	}
}
