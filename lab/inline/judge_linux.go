package inline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// judgeWire holds what wire says against the rule: it struck once, and nothing was lost by the way.
func (r *Result) judgeWire(text []byte) error {
	var d struct {
		Directions []struct {
			Missed   uint64 `json:"not_received"`
			TooLong  uint64 `json:"too_long"`
			Stuck    uint64 `json:"not_taken"`
			SendLost uint64 `json:"lost"`
		} `json:"directions"`
		Rules []struct{ Struck uint64 } `json:"rules"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("what rocescope wire said: %w", err)
	}
	for _, w := range d.Directions {
		if w.Missed+w.TooLong+w.Stuck+w.SendLost > 0 {
			return fmt.Errorf("wire lost packets of its own: %+v", w)
		}
	}
	var struck uint64
	for _, x := range d.Rules {
		struck += x.Struck
	}
	if r.Rule != "" && struck != 1 {
		return fmt.Errorf("the rule struck %d packets, not 1", struck)
	}
	return nil
}

// judgePackets compares what went in with what came out, packet by packet, both ways.
func (r *Result) judgePackets(taps [2]*tap) error {
	var gone, fresh []packet
	for from := range 2 {
		in, out := taps[from].packets[from], taps[1-from].packets[from]
		r.Packets += len(in)
		d := differ(in, out)
		r.Lost, r.Made, r.Late = r.Lost+len(d.gone), r.Made+len(d.fresh), r.Late+d.late
		r.Took = max(r.Took, d.took)
		gone, fresh = append(gone, d.gone...), append(fresh, d.fresh...)
	}
	if r.Effect != r.Row.Effect {
		return fmt.Errorf("of %d packets %d did not come out as they went in, %d came out that had not gone in, %d were overtaken; asked for were %d, %d and %d",
			r.Packets, r.Lost, r.Made, r.Late, r.Row.Lost, r.Row.Made, r.Row.Late)
	}
	if r.Packets == 0 {
		return errors.New("no packet was seen")
	}
	// A virtual machine's host has other work, too: a packet may take longer than it has to, but not by another order.
	if r.Delay > 0 && (r.Took < r.Delay || r.Took > 4*r.Delay) {
		return fmt.Errorf("the slowest packet took %v from tap to tap, where a delay of %v was asked for", r.Took, r.Delay)
	}
	if r.Alters != nil {
		return r.Alters(gone[0].data, fresh[0].data)
	}
	return nil
}

// difference is how two sequences of packets differ.
type difference struct {
	gone  []packet      // missing in the second
	fresh []packet      // that only the second has
	late  int           // that come later in the second than packets which they went in before
	took  time.Duration // the longest way of one that both have
}

// differ compares what went in with what came out.
func differ(in, out []packet) (d difference) {
	at := map[string][]int{}
	for i, p := range in {
		at[p.data] = append(at[p.data], i)
	}
	newest := -1
	for _, p := range out {
		left := at[p.data]
		if len(left) == 0 {
			d.fresh = append(d.fresh, p)
			continue
		}
		i := left[0]
		at[p.data] = left[1:]
		d.took = max(d.took, time.Duration(p.time-in[i].time))
		if i < newest {
			d.late++
		}
		newest = max(newest, i)
	}
	for _, left := range at {
		for _, i := range left {
			d.gone = append(d.gone, in[i])
		}
	}
	return d
}

// lowestBitOf holds that a packet differs from what it was by the lowest bit of one byte, and by nothing else.
func lowestBitOf(at int) func(was, is string) error {
	return func(was, is string) error {
		want := []byte(was)
		if at >= len(want) {
			return fmt.Errorf("the packet has %d bytes, and byte %d was to change", len(was), at)
		}
		want[at] ^= 1
		if is != string(want) {
			return fmt.Errorf("the packet was to come out with another lowest bit of byte %d, and came out with other changes", at)
		}
		return nil
	}
}

// onlyMarked holds that a packet differs from what it was by its ECN bits, which are CE now, and by the sum of its IP header.
func onlyMarked(was, is string) error {
	const tos, sum = 15, 24 // in a frame without tags
	if len(was) != len(is) || is[tos]&3 != 3 || was[tos]&^3 != is[tos]&^3 {
		return errors.New("the packet that came out is not the one that went in, with CE in its ECN bits")
	}
	for i := range len(was) {
		if was[i] != is[i] && i != tos && i != sum && i != sum+1 {
			return fmt.Errorf("byte %d of the packet was changed, too", i)
		}
	}
	return nil
}

// judgeFlows holds what flows makes of the two captures against what the row has.
func (r *Result) judgeFlows(taps [2]*tap) error {
	var all []error
	for i, want := range []map[string]int64{r.ClientSees, r.ServerSees} {
		r.Saw[i] = taps[i].saw
		if len(r.Saw[i])+len(want) > 0 && !maps.Equal(r.Saw[i], want) {
			all = append(all, fmt.Errorf("at the %s flows sees %v, and was to see %v", ends[i], r.Saw[i], want))
		}
	}
	return errors.Join(all...)
}

var ends = [2]string{"client", "server"}

// judgeCounters compares how the guests' counters moved.
func (r *Result) judgeCounters() error {
	for i, want := range []map[string]int64{r.ClientMoves, r.ServerMoves} {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got := r.Moved[i][name]; got != want[name] {
				return fmt.Errorf("%s of the %s moved by %d, not by %d", name, ends[i], got, want[name])
			}
		}
	}
	return nil
}
