package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/report"
)

// counted is how many packets and bytes went by.
type counted struct{ packets, bytes atomic.Uint64 }

func (c *counted) add(frames []captures.Frame) {
	n := uint64(0)
	for i := range frames {
		n += uint64(frames[i].WireLen)
	}
	c.packets.Add(uint64(len(frames)))
	c.bytes.Add(n)
}

// statusLine says once a second how a capture is going.
type statusLine struct {
	line
	s       *session
	at      time.Time
	packets uint64
	bytes   uint64
}

func newStatusLine(s *session) *statusLine {
	return &statusLine{line: s.a.newLine(), s: s, at: s.began}
}

// print writes the line as it is now.
func (l *statusLine) print() { l.show(l.text(time.Now())) }

func (l *statusLine) text(now time.Time) string {
	s := l.s
	packets, bytes := s.bytes.packets.Load(), s.bytes.bytes.Load()
	past := max(now.Sub(l.at).Seconds(), 1e-3)
	rate, bits := float64(packets-l.packets)/past, float64(bytes-l.bytes)*8/past
	l.at, l.packets, l.bytes = now, packets, bytes
	parts := []string{
		fmt.Sprintf("%ds", int(now.Sub(s.began).Seconds())),
		report.Plural(packets, "packet"),
		fmt.Sprintf("%s/s, %s", report.Count(uint64(rate)), report.BitRate(bits)),
		report.Bytes(bytes),
	}
	live := s.live.Stats()
	lost := fmt.Sprintf("lost: ring %s", report.Count(live.RingDropped))
	if s.rec != nil {
		r := s.rec.Stats()
		lost += fmt.Sprintf(", disk %s", report.Count(r.Dropped))
		if r.Queued > chunkWorthSaying {
			parts = append(parts, report.Bytes(uint64(r.Queued))+" waiting")
		}
	}
	if live.CardDropped > 0 {
		lost += fmt.Sprintf(", card %s", report.Count(live.CardDropped))
	}
	parts = append(parts, lost)
	if s.look != nil && s.o.summary {
		parts = append(parts, s.look.line())
	}
	return strings.Join(parts, "  ")
}

// chunkWorthSaying is how much may wait for the disk without being mentioned.
const chunkWorthSaying = 1 << 20
