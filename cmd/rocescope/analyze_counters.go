package main

import (
	"errors"
	"net/netip"

	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
)

// counterOptions are --counters and --counters-host.
type counterOptions struct {
	readings []string
	host     []string
}

// counterJoin compares a device's counters with what the capture predicts. It is a sink of the pipeline, for what a
// snapshot does not count by host.
type counterJoin struct {
	before, after *report.CounterReading
	host          []netip.Addr
	traffic       *report.HostTraffic
}

// newCounterJoin reads the counters, before the capture: what is wrong with them is said at once. It is nil without any.
func newCounterJoin(o *counterOptions) (*counterJoin, error) {
	if len(o.readings) == 0 {
		if len(o.host) > 0 {
			return nil, errUsage("--counters-host says whose counters --counters gives, but there is no --counters")
		}
		return nil, nil
	}
	if len(o.readings) != 2 {
		return nil, errUsage("--counters wants two readings, one from before the capture and one from behind it: --counters before.txt,after.txt")
	}
	j := &counterJoin{traffic: report.NewHostTraffic()}
	for _, text := range o.host {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, errUsage("--counters-host %s: an IP address is wanted, as in the capture", text)
		}
		j.host = append(j.host, addr)
	}
	var err error
	if j.before, err = report.ReadCounters(o.readings[0]); err == nil {
		j.after, err = report.ReadCounters(o.readings[1])
	}
	if err != nil {
		return nil, errInput("--counters: %w", err)
	}
	return j, nil
}

// Batch implements engine.Sink.
func (j *counterJoin) Batch(b *engine.Batch) error {
	for i := range b.Packets {
		j.traffic.Packet(&b.Packets[i])
	}
	return nil
}

// join adds the comparison to the document. Where it cannot be told whose counters they are, the document goes without
// it, and the error asks.
func (j *counterJoin) join(d *report.Document, got *engine.Result) error {
	counters, err := report.NewCounters(j.before, j.after, got.Snapshot, j.traffic, j.host)
	if err == nil {
		d.Counters = counters
		return nil
	}
	if errors.Is(err, report.ErrWhoseCounters) {
		return errUsage("%w: say so with --counters-host ADDRESS", err)
	}
	return errUsage("--counters: %w", err)
}
