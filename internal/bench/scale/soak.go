//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// day is a soak: every hour other connections, of which all work for their hour, and one packet in some thousands arrives
// damaged. The tracker has room for the connections of a few hours, so that from then on each new one takes an old one's place,
// and for the findings of a few: what was found is a result, and kept, so that until its room is full it would be all that grows.
type day struct {
	hours, connections, packets, room int // connections and packets an hour; connections that the tracker keeps, eight times the findings
	damage                            int // one packet in so many

	feed              *feed
	damaged           uint64
	heaps             []uint64 // after each hour
	live, livePackets uint64
	invalid, told     uint64 // packets with a wrong ICRC, by the snapshot and by findings
	first, last       int64
}

func (d *day) run() {
	d.feed = newFeed(flows.Options{MaxConnections: d.room, MaxFindings: d.room / 8, Series: true})
	d.feed.dec.CheckICRC = true
	at := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	every := time.Hour.Nanoseconds() / int64(d.packets)
	n := 0
	for hour := range d.hours {
		g := traffic.New(traffic.Config{
			Connections: d.connections, HostPairs: 64, First: hour * d.connections, Payload: 256, Random: true, Seed: uint64(hour),
			Start: at + int64(hour)*time.Hour.Nanoseconds(), Every: every,
		})
		opening := g.Opening() * d.connections
		for i := range d.packets {
			next := g.Next
			if i < opening {
				next = g.Establish
			}
			frame, now := next()
			if n++; i > opening && n%d.damage == 0 {
				frame = slices.Clone(frame)
				frame[len(frame)-1] ^= 0x55
				d.damaged++
			}
			d.feed.put(frame, now)
			if d.last = now; d.first == 0 {
				d.first = now
			}
		}
		d.feed.flush()
		d.heaps = append(d.heaps, heap())
	}
	d.feed.tracker.Finish()
	s := d.feed.tracker.Snapshot()
	d.live, d.invalid, d.told = uint64(len(s.Connections)), s.ICRC[dissect.ICRCInvalid], d.feed.found["bad_icrc"]
	for i := range s.Connections {
		d.livePackets += s.Connections[i].Streams[0].Packets + s.Connections[i].Streams[1].Packets
	}
}

// growth is how much more memory is in use after the last hour than after the one in which the tracker's room was full for the
// second time.
func (d *day) growth() float64 {
	full := min(2*(d.room+d.connections-1)/d.connections, d.hours-1)
	return float64(d.heaps[d.hours-1])/float64(d.heaps[full]) - 1
}

func soak(b *bench) ([]page.Row, error) {
	d := day{hours: 24, connections: 2_000 / b.shrink, packets: 1_000_000 / b.shrink, room: 8_000 / b.shrink, damage: 5_003}
	began := measure.Spent()
	d.run()
	cpu := measure.Spent() - began
	f := d.feed
	growth := d.growth()
	all := uint64(d.hours * d.connections)
	return []page.Row{
		{
			What: fmt.Sprintf("%v of simulated time, %s packets, %s other connections each hour, room for %s, and for %s findings: memory in use after the last hour",
				time.Duration(d.last-d.first).Round(time.Minute), count(int(f.packets)), count(d.connections), count(d.room), count(d.room/8)),
			Ours: megabytes(d.heaps[d.hours-1]), Other: "after the hour in which the room had been filled twice", Ratio: fmt.Sprintf("%+.1f %%", 100*growth), Goal: "≤ +5 %", Met: page.Judge(growth <= 0.05),
		},
		{What: "… connections kept and those that made room", Ours: count(int(d.live + f.evicted)), Other: "that there were: " + count(int(all)), Goal: "the same", Met: page.Judge(d.live+f.evicted == all)},
		{What: "… packets by the connections kept, those that made room, and with a wrong ICRC", Ours: count(int(d.livePackets + f.evictedPackets + d.invalid)), Other: "sent: " + count(int(f.packets)), Goal: "the same", Met: page.Judge(d.livePackets+f.evictedPackets+d.invalid == f.packets)},
		{What: "… packets found damaged", Ours: count(int(d.invalid)), Other: "damaged: " + count(int(d.damaged)), Goal: "the same", Met: page.Judge(d.invalid == d.damaged && d.told == d.damaged)},
		{What: "… processor time, making the packets included", Ours: fmt.Sprintf("%.0f s", cpu.Seconds()), Met: page.NoGoal},
	}, nil
}
