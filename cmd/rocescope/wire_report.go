package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/wire"
	"github.com/rocescope/rocescope/internal/report"
)

// print writes what the last second gave: on a terminal over what it wrote before.
func (c *cable) print() {
	now := time.Now()
	stats := c.wire.Stats()
	past := max(now.Sub(c.at).Seconds(), 1e-3)
	var b strings.Builder
	for i, s := range stats {
		before := c.last[i]
		fmt.Fprintf(&b, "%ds  %s → %s  %s packets/s, %s, %s in all", int(now.Sub(c.began).Seconds()+0.5), s.From, s.To,
			report.Count(uint64(float64(s.Received-before.Received)/past)), report.BitRate(float64(s.Bytes-before.Bytes)*8/past), report.Plural(s.Received, "packet"))
		if s.Struck > 0 {
			fmt.Fprintf(&b, ", %s struck", report.Count(s.Struck))
		}
		if s.Held > 0 {
			fmt.Fprintf(&b, ", %s held", report.Count(uint64(s.Held)))
		}
		if lost := s.Missed + s.TooLong + s.Stuck + s.SendLost; lost > 0 {
			fmt.Fprintf(&b, ", %s lost", report.Count(lost))
		}
		b.WriteString("\n")
	}
	c.last, c.at = stats, now
	c.clear()
	terminal := isTerminal(c.a.stderr)
	if terminal {
		b.WriteString(faultLines(c.wire.Counts(), c.ways()))
		c.drawn = strings.Count(b.String(), "\n")
	}
	io.WriteString(c.a.stderr, b.String())
}

// clear takes the lines away.
func (c *cable) clear() {
	if c.drawn > 0 {
		fmt.Fprintf(c.a.stderr, "\x1b[%dA\x1b[J", c.drawn)
		c.drawn = 0
	}
}

// ways are the directions as people say them.
func (c *cable) ways() [2]string {
	return [2]string{"to " + c.o.interfaces[1], "to " + c.o.interfaces[0]}
}

// table is what became of everything.
func (c *cable) table(stats [2]wire.Stats, counts []fault.Count) string {
	var b strings.Builder
	row := func(n uint64, what string, always bool) {
		if n > 0 || always {
			fmt.Fprintf(&b, "%14s  %s\n", report.Count(n), what)
		}
	}
	for _, s := range stats {
		fmt.Fprintf(&b, "%s → %s\n", s.From, s.To)
		row(s.Received, "packets came in, "+report.Bytes(s.Bytes), true)
		row(s.Forwarded, "went on as they were", true)
		row(s.Struck, "were struck by a rule", false)
		row(s.Made, "went out because of rules: changed, copied, made, or held before", false)
		row(uint64(s.Held), "were held to the end", false)
		row(s.Missed, "came in and found no room", false)
		row(s.TooLong, "were too long for "+s.To, false)
		row(s.Stuck, "were not taken by "+s.To, false)
		row(s.SendLost, "were lost by "+s.To, false)
	}
	if len(counts) > 0 {
		b.WriteString("rules\n" + faultLines(counts, c.ways()))
		row(c.wire.Full(), "packets met no fate, because too many were held", false)
	}
	if c.rec != nil {
		r := c.rec.Stats()
		fmt.Fprintf(&b, "%s\n", c.o.write)
		row(r.Accepted, "packets were written", true)
		row(r.Dropped+r.Failed, "were not: the disk was too slow, or full", false)
	}
	return b.String()
}

// wireDocument is the result as JSON, schema rocescope.wire/1.
type wireDocument struct {
	Schema     string          `json:"schema"`
	Via        string          `json:"via"`
	Seconds    float64         `json:"seconds"`
	Seed       uint64          `json:"seed,omitempty"`
	Directions []wireDirection `json:"directions"`
	Rules      []faultCount    `json:"rules"`
	NoRoom     uint64          `json:"faults_without_room"`
	Written    uint64          `json:"packets_written"`
	NotWritten uint64          `json:"packets_not_written"`
}

type wireDirection struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Received  uint64 `json:"packets"`
	Bytes     uint64 `json:"bytes"`
	Forwarded uint64 `json:"forwarded"`
	Struck    uint64 `json:"struck"`
	Made      uint64 `json:"made"`
	Held      int    `json:"held"`
	Missed    uint64 `json:"not_received"`
	TooLong   uint64 `json:"too_long"`
	Stuck     uint64 `json:"not_taken"`
	SendLost  uint64 `json:"lost"`
}

func (c *cable) document(took time.Duration, stats [2]wire.Stats, counts []fault.Count) *wireDocument {
	info, _ := c.wire.Via()
	d := &wireDocument{Schema: "rocescope.wire/1", Via: info.Via, Seconds: took.Seconds(), Rules: []faultCount{}, NoRoom: c.wire.Full()}
	if c.rules != nil {
		d.Seed = c.rules.Seed
		d.Rules = faultCounts(counts)
	}
	for _, s := range stats {
		d.Directions = append(d.Directions, wireDirection{
			s.From, s.To, s.Received, s.Bytes, s.Forwarded, s.Struck, s.Made, s.Held, s.Missed, s.TooLong, s.Stuck, s.SendLost,
		})
	}
	if c.rec != nil {
		r := c.rec.Stats()
		d.Written, d.NotWritten = r.Accepted, r.Dropped+r.Failed
	}
	return d
}
