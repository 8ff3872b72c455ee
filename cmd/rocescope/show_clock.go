package main

import (
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// clock prints a packet's time as -t asks for it.
type clock struct {
	kind   string
	digits int // decimals: 6, or 9 where the capture has them
	width  int
	where  *time.Location
}

// clockKinds are the values of -t.
var clockKinds = []struct{ name, about string }{
	{"r", "since the first packet"},
	{"d", "since the packet before"},
	{"e", "since 1970"},
	{"a", "local time of day"},
	{"ad", "local date and time of day"},
	{"u", "UTC time of day"},
	{"ud", "UTC date and time of day"},
}

func newClock(kind string) (*clock, error) {
	c := &clock{kind: kind, digits: 6, where: time.Local}
	for _, k := range clockKinds {
		if k.name == kind {
			if kind[0] == 'u' {
				c.where = time.UTC
			}
			c.resolution(nil)
			return c, nil
		}
	}
	return nil, errUsage("-t cannot be %q; it is r, d, e, a, ad, u or ud", kind)
}

// resolution chooses the number of decimals.
func (c *clock) resolution(faces []captures.Interface) {
	for _, f := range faces {
		if f.UnitsPerSecond > 1e6 {
			c.digits = 9
		}
	}
	c.width = map[string]int{"r": 5, "d": 5, "e": 11, "a": 9, "u": 9, "ad": 20, "ud": 20}[c.kind] + c.digits
}

func (c *clock) append(dst []byte, p *dissect.Packet) []byte {
	if p.NoTime {
		return append(dst, '-')
	}
	switch c.kind {
	case "r":
		return c.seconds(dst, p.Time-p.Base)
	case "d":
		return c.seconds(dst, p.Time-p.Prev)
	case "e":
		return c.seconds(dst, p.Time)
	}
	t := time.Unix(0, p.Time).In(c.where)
	if len(c.kind) == 2 {
		dst = t.AppendFormat(dst, "2006-01-02 ")
	}
	if c.digits == 9 {
		return t.AppendFormat(dst, "15:04:05.000000000")
	}
	return t.AppendFormat(dst, "15:04:05.000000")
}

func (c *clock) seconds(dst []byte, ns int64) []byte {
	f := dissect.Field{Kind: dissect.Interval}
	dst = f.AppendUint(dst, uint64(ns))
	return dst[:len(dst)-(9-c.digits)]
}
