package stream

import (
	"sync/atomic"
	"time"
)

// tickClock goes on by a little with each look, and by what is waited.
type tickClock struct{ t atomic.Int64 }

func (c *tickClock) Now() int64           { return c.t.Add(100) }
func (c *tickClock) Wait(d time.Duration) { c.t.Add(int64(d)) }
