package main

import (
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		elapsed     time.Duration
		want        string
	}{
		{0, 1 << 30, 0, "[........................]   0%  0 B of 1.0 GiB, 0 B/s, ? left"},
		{256 << 20, 1 << 30, 2 * time.Second, "[######..................]  25%  256 MiB of 1.0 GiB, 128 MiB/s, 6s left"},
		{1 << 30, 1 << 30, 4 * time.Second, "[########################] 100%  1.0 GiB of 1.0 GiB, 256 MiB/s, 0s left"},
		{100 << 20, 0, time.Second, "100 MiB read, 100 MiB/s"},
	} {
		if got := progressLine(c.done, c.total, c.elapsed); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
