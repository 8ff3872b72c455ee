package inline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/diff"
)

// differing is what a comparison of the captures at both taps finds.
type differing struct {
	packets map[string]int64 // that did not come through as they were sent: what became of how many of which
	slowest [2]time.Duration // the longest way of a packet from the client, and from the server
	clock   time.Duration    // by how much the times at the taps may be off each other
}

// compare compares the captures as `rocescope diff` does.
func compare(files [2]string) (*differing, error) {
	var sides [2]diff.Side
	for i, file := range files {
		sides[i] = diff.Side{Name: ends[i], Open: func() (captures.Source, error) { return captures.Open(file) }}
	}
	r, err := diff.Packets(context.Background(), sides[0], sides[1], diff.Options{})
	if err != nil {
		return nil, err
	}
	doc := r.Document()
	if doc.Clock == nil || !doc.Clock.Bounded {
		return nil, errors.New("the captures at the taps have no packets in common that went both ways")
	}
	d := &differing{packets: map[string]int64{}, clock: time.Duration(doc.Clock.OffsetErrorNS)}
	from := map[string]int{"a": 0, "b": 1} // a packet of the client's passes its own tap first
	for _, p := range doc.Listed {
		end, known := from[doc.Streams[p.Stream].First]
		if !known {
			return nil, fmt.Errorf("of a packet that is %s (%s) the comparison cannot tell which way it went", p.Kind, p.Opcode)
		}
		d.packets[fmt.Sprintf("%s %s from the %s", p.Kind, p.Opcode, ends[end])]++
	}
	for _, s := range doc.Streams {
		if end, known := from[s.First]; known && s.Delay != nil {
			d.slowest[end] = max(d.slowest[end], time.Duration(s.Delay.Max))
		}
	}
	return d, nil
}

// judgeDiff holds what the comparison finds against what the row has.
func (r *Result) judgeDiff(d *differing) error {
	r.Differed = d.packets
	if len(d.packets)+len(r.Differs) > 0 && !maps.Equal(d.packets, r.Differs) {
		return fmt.Errorf("the comparison of both captures finds %v, and was to find %v", d.packets, r.Differs)
	}
	if r.Delay == 0 {
		return nil
	}
	r.Slowest = d.slowest[r.Struck]
	if r.Slowest < r.Delay-d.clock || r.Slowest > 4*r.Delay {
		return fmt.Errorf("by the comparison of both captures the slowest packet from the %s took %v, where a delay of %v was asked for", ends[r.Struck], r.Slowest, r.Delay)
	}
	return nil
}
