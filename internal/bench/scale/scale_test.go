//go:build unix

package main

import (
	"testing"
)

// TestManyMessages holds the counters to what was sent: the short version of docs/scale.md's first rows.
func TestManyMessages(t *testing.T) {
	r, err := countMessages(3_000, 12)
	if err != nil {
		t.Fatal(err)
	}
	f := r.feed
	if r.messages != 300_000 || f.messages != r.messages || f.done != r.messages || r.counted != r.messages {
		t.Errorf("%d messages were sent; %d told of, %d done, %d by the counters", r.messages, f.messages, f.done, r.counted)
	}
	if r.byStreams != f.packets || r.payload != r.sentPayload {
		t.Errorf("%d packets of %d, %d bytes of payload of %d", r.byStreams, f.packets, r.payload, r.sentPayload)
	}
	if f.findings > 0 {
		t.Errorf("%d findings where nothing is wrong, as %q", f.findings, f.first)
	}
}

// TestSoak holds a simulated day to its counters.
func TestSoak(t *testing.T) {
	d := day{hours: 24, connections: 64, packets: 8_000, room: 256, damage: 503}
	d.run()
	f := d.feed
	if hours := float64(d.last-d.first) / 3.6e12; hours < 23.9 || hours > 24 {
		t.Errorf("the day has %.2f hours", hours)
	}
	if all := uint64(d.hours * d.connections); d.live+f.evicted != all || d.live > uint64(d.room) || f.evicted == 0 {
		t.Errorf("%d connections are kept and %d made room, of %d", d.live, f.evicted, all)
	}
	if got := d.livePackets + f.evictedPackets + d.invalid; got != f.packets || f.packets != uint64(d.hours*d.packets) {
		t.Errorf("%d packets are accounted for, of %d", got, f.packets)
	}
	if d.damaged == 0 || d.invalid != d.damaged || d.told != d.damaged {
		t.Errorf("%d packets were damaged; %d have a wrong ICRC, %d are in findings", d.damaged, d.invalid, d.told)
	}
}

// TestFloods holds healthy connections to their messages while a flood goes through the same tracker, and the table to its room.
func TestFloods(t *testing.T) {
	for i := range allFloods {
		fl := &allFloods[i]
		t.Run(fl.name, func(t *testing.T) {
			const room = 3_000 // more than come between two packets of a healthy connection
			r := fl.run(5_000, room)
			if r.live > room || r.feed.evicted == 0 {
				t.Errorf("%d connections where there is room for %d, %d made room", r.live, room, r.feed.evicted)
			}
			if r.healthyFound != r.healthy {
				t.Errorf("%d messages of healthy connections, of %d", r.healthyFound, r.healthy)
			}
		})
	}
}
