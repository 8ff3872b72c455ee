package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Counters is what a device's counters say beside what the capture predicts for its host.
type Counters struct {
	Before  string    `json:"before"` // the two readings, as the user named them
	After   string    `json:"after"`
	Device  string    `json:"device"` // and port, where the readings name them
	Host    []string  `json:"host"`   // its addresses
	Chosen  bool      `json:"host_chosen"`
	Missing uint64    `json:"not_in_capture"` // packets that the device counted and the capture lacks
	Unmoved int       `json:"unknown_unmoved"`
	List    []Counter `json:"list"`
}

// Counter is one of them.
type Counter struct {
	Name       string  `json:"name"`
	About      string  `json:"about"`
	Before     *uint64 `json:"before"`
	After      *uint64 `json:"after"`
	Delta      *uint64 `json:"delta"`
	Predicted  *uint64 `json:"predicted"`
	Difference *int64  `json:"difference"` // delta - predicted
	Verdict    string  `json:"verdict"`
	Why        string  `json:"why"` // of a difference: what explains it, or what it may mean
}

// The verdicts on a counter.
const (
	counterAgrees    = "agrees"
	counterExplained = "explained" // it differs, by what the capture itself explains
	counterDiffers   = "differs"
	counterReset     = "reset"    // it went down between the readings
	counterMissing   = "missing"  // it is in one of the readings only
	counterInternal  = "internal" // the wire does not show what it counts
	counterUnknown   = "unknown"  // the table does not have it
)

// ErrWhoseCounters says that the counters fit no host clearly best.
var ErrWhoseCounters = errors.New("the counters do not tell whose they are")

// NewCounters compares two readings of a device's counters with what the capture predicts for a host. Without addresses,
// it is the host that the counters fit clearly best, else ErrWhoseCounters.
func NewCounters(before, after *CounterReading, s *flows.Snapshot, t *HostTraffic, host []netip.Addr) (*Counters, error) {
	port, err := before.port(after)
	if err != nil {
		return nil, err
	}
	c := &Counters{Before: before.Source, After: after.Source, Device: port, Host: []string{}, List: []Counter{}}
	compare := func(addrs []dissect.Addr) *Counters {
		n := *c
		n.List = []Counter{}
		n.compare(before.Ports[port], after.Ports[port], t.view(s, addrs))
		for _, a := range addrs {
			n.Host = append(n.Host, a.String())
		}
		return &n
	}
	if len(host) > 0 {
		var addrs []dissect.Addr
		for _, a := range host {
			addrs = append(addrs, dissect.AddrFrom(a.Unmap()))
			if !slices.Contains(t.order, addrs[len(addrs)-1]) {
				return nil, fmt.Errorf("no RoCE packet of %s is in the capture; those that have some are %s", a, t.names())
			}
		}
		return compare(addrs), nil
	}
	var best *Counters
	least, second := 0, 0
	for _, a := range t.order {
		if a.Netip().IsMulticast() {
			continue
		}
		n := compare([]dissect.Addr{a})
		switch cost := n.cost(); {
		case best == nil:
			best, least, second = n, cost, cost+clearly
		case cost < least:
			best, least, second = n, cost, least
		case cost < second:
			second = cost
		}
	}
	if best == nil {
		return nil, errors.New("no RoCE packet is in the capture to compare them with")
	}
	if second-least < clearly || !best.fits() {
		return nil, fmt.Errorf("%w, %s", ErrWhoseCounters, t.names())
	}
	best.Chosen = true
	return best, nil
}

// A counter that differs costs a host's claim more than one that needs explaining. The best claim must be clearly better
// than the second: by one counter that differs, or two that need explaining.
const (
	costDiffers   = 2
	costExplained = 1
	clearly       = 2
)

func (c *Counters) cost() (n int) {
	for i := range c.List {
		switch c.List[i].Verdict {
		case counterDiffers:
			n += costDiffers
		case counterExplained:
			n += costExplained
		}
	}
	return n
}

// fits reports whether something that moved is as predicted, and more so than not.
func (c *Counters) fits() bool {
	agree, differ := 0, 0
	for i := range c.List {
		switch n := &c.List[i]; {
		case n.Verdict == counterDiffers:
			differ++
		case n.Verdict == counterAgrees && *n.Delta > 0:
			agree++
		}
	}
	return agree > 0 && agree >= differ
}

func (t *HostTraffic) names() string {
	var names []string
	for _, a := range t.order {
		if !a.Netip().IsMulticast() {
			names = append(names, a.String())
		}
	}
	if len(names) > 8 {
		names = append(names[:8], fmt.Sprintf("%d more", len(names)-8))
	}
	return strings.Join(names, ", ")
}

// delta is how far a counter moved. One that went down wrapped, if it was near the end of its 64 or 32 bits; else it was
// reset, and ok is false.
func delta(before, after uint64) (d uint64, ok bool) {
	switch {
	case after >= before || before >= 1<<63:
		return after - before, true
	case before >= 1<<31 && before < 1<<32:
		return after + 1<<32 - before, true
	}
	return 0, false
}

func (c *Counters) compare(before, after map[string]uint64, v *hostView) {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	// Counters of packets come first: they tell how much of the traffic the capture has at all.
	var order []string
	for i := range predictorTable {
		for _, name := range predictorTable[i].names {
			if names[name] {
				order = append(order, name)
				delete(names, name)
			}
		}
	}
	order = append(order, slices.Sorted(maps.Keys(names))...)
	for _, name := range order {
		p := predictors()[name]
		n := Counter{Name: name}
		if p != nil {
			n.About = p.about
		}
		b, inBefore := before[name]
		a, inAfter := after[name]
		if inBefore {
			n.Before = &b
		}
		if inAfter {
			n.After = &a
		}
		switch d, ok := delta(b, a); {
		case !inBefore || !inAfter:
			n.Verdict, n.Why = counterMissing, "Only one of the two readings has it."
		case !ok:
			n.Verdict, n.Why = counterReset, "It went down: the device, its driver or somebody set it back."
		default:
			n.Delta = &d
			switch {
			case p == nil && d == 0:
				c.Unmoved++
				continue
			case p == nil:
				n.Verdict = counterUnknown
			case p.predict == nil:
				n.Verdict = counterInternal
			default:
				n.judge(p, v)
			}
		}
		c.List = append(c.List, n)
		if slices.Contains(packetCounters, p) && n.Verdict == counterDiffers && *n.Difference > 0 {
			c.Missing += uint64(*n.Difference)
			v.missing = c.Missing
		}
	}
}

// packetCounters are the rows that count all packets.
var packetCounters = []*predictor{&predictorTable[0], &predictorTable[1]}

// judge compares a counter with its prediction. Of the reasons for a difference that the capture shows, the fewest that
// suffice are told, in the order of the table.
func (n *Counter) judge(p *predictor, v *hostView) {
	predicted := p.predict(v)
	difference := int64(*n.Delta - predicted)
	n.Predicted, n.Difference = &predicted, &difference
	if difference == 0 {
		n.Verdict = counterAgrees
		return
	}
	left := uint64(max(difference, -difference))
	var reasons []slack
	if p.slack != nil {
		reasons = p.slack(v)
	}
	if !slices.Contains(packetCounters, p) {
		reasons = append(reasons, slack{more: v.missing, why: fmt.Sprintf("the capture lacks %s that the device counted", Plural(v.missing, "packet"))})
	}
	size := func(r *slack) uint64 {
		if difference > 0 {
			return r.more
		}
		return r.fewer
	}
	for _, fits := range []func(uint64) bool{ // one that fits exactly is the likeliest, then one that suffices alone
		func(k uint64) bool { return k == left },
		func(k uint64) bool { return k > left },
	} {
		for i := range reasons {
			if fits(size(&reasons[i])) {
				n.Verdict, n.Why = counterExplained, sentence(reasons[i].why)
				return
			}
		}
	}
	var why []string
	for i := range reasons {
		if k := size(&reasons[i]); k > 0 && left > 0 {
			why = append(why, reasons[i].why)
			left -= min(left, k)
		}
	}
	if left == 0 {
		n.Verdict, n.Why = counterExplained, sentence(strings.Join(why, "; and "))
		return
	}
	n.Verdict, n.Why = counterDiffers, cmp.Or(p.ifFewer, usuallyFewer)
	if difference > 0 {
		n.Why = cmp.Or(p.ifMore, usuallyMore)
	}
}

// sentence makes one of a clause.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
