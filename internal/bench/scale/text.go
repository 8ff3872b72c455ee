//go:build unix

package main

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// whole is docs/scale.md.
var whole = page.Page{
	Title: "Scale", Command: "make bench-scale", Source: "internal/bench/scale", Method: method, Ours: "rocescope", Ratio: "ratio",
}

// method stands above the table.
const method = `What a tracker costs when there is very much of everything. Packets are made in memory by internal/bench/traffic and go
through decoder and tracker in batches, as the engine does it, on one goroutine: no link and no disk is in the figures. Times are
processor time (user and system, the garbage collector's threads included), and packets that lie ready in memory, so that making
them does not count, where a row does not say otherwise. Where sizes are compared, they run in turn, round by round, and the
ratio is the median of the rounds'. Short versions of all of it are tests (` + "`go test ./internal/bench/scale`" + `), which hold the counters to what was sent.

    make bench-scale
`

func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// fabric is an example of what is to be watched.
type fabric struct {
	name  string
	ports int     // of hosts
	gbit  float64 // of a port
	load  float64 // of each direction, on average
	mtu   int
	peers int // connections of a port
}

var fabrics = []fabric{
	{"a rack: 16 storage servers", 16, 100, 0.3, 4096, 2_000},
	{"128 GPU servers of 8 ports", 1024, 400, 0.5, 4096, 512},
	{"2 000 hosts of mixed use", 2000, 100, 0.1, 1024, 1_000},
}

// Bytes on the wire of a packet in the middle of a message beside its payload, and of an ACK: preamble, FCS, gap and ICRC
// included. An ACK comes for each so many packets.
const (
	aroundPayload = 20 + 14 + 20 + 8 + 12 + 4 + 4
	ackEvery      = 8
)

// packets is what all ports send, per second. Each port's sending is another one's receiving, and is counted once.
func (f *fabric) packets() float64 {
	full := f.gbit * 1e9 / 8 * f.load / float64(f.mtu+aroundPayload)
	return float64(f.ports) * full * (1 + 1.0/ackEvery)
}

// connections counts each once, too.
func (f *fabric) connections() float64 { return float64(f.ports) * float64(f.peers) / 2 }

func ceil(a, b float64) int {
	n := int(a / b)
	if float64(n)*b < a {
		n++
	}
	return n
}

// mostConnections is what a tracker names at once, whatever the memory.
const mostConnections = 7 << 20

// probes is what stands below the table: what one probe carries by the figures above, and how many a fabric needs.
func (b *bench) probes() string {
	var s strings.Builder
	packets := 1e9 / b.packetCost
	perGB := 1e9 / b.idle
	fmt.Fprintf(&s, `
## What one probe carries

By the rows above, on one core of this machine, with a million connections of which any sends next:

- %.2f million packets/s: 10⁹ ns / %.0f ns of a packet, ICRC checked. One core tracks; a second one takes over reading and decoding
  ([performance.md](performance.md)). Capturing costs the kernel's share on top, which is a matter of card and driver:
  [performance-wire.md](performance-wire.md), [line-rate.md](line-rate.md). Take the smaller of the two.
- %.2f million messages/s of the mix that was measured, %.2f packets each. Of messages of one packet of which each eighth is
  acknowledged it would be %.2f million: packets are what counts, not messages.
- %.1f million connections in each GB of memory: 10⁹ / %.0f bytes of a resting connection; %s at most in one tracker, %s unless
  MaxConnections says otherwise. Beyond that the longest idle ones make room, and their final records go to the sink.
`, packets/1e6, b.packetCost, packets/b.perMessage/1e6, b.perMessage, packets/(1+1.0/ackEvery)/1e6, perGB/1e6, b.idle, count(mostConnections), count(4<<20))
	fmt.Fprintf(&s, `
## How many probes a fabric needs

A packet need be seen once: at the port of one of the two hosts, mirrored by the switch or tapped. So with N ports of a rate R that are busy to
a share L of each direction, path MTU M, and an ACK for each %d packets:

    packets/s   = N × R × L / 8 / (M + %d) × (1 + 1/%d)        %d bytes: headers, ICRC, FCS, preamble, gap
    connections = N × connections of a port / 2
    probes      = the larger of packets/s ÷ what a probe carries, and connections ÷ what it holds, rounded up

With %.2f million packets/s and 4 GB for connections (%.1f million) in each probe, one core each:

| fabric | packets/s | connections | probes by packets | by connections | probes |
|---|---|---|---|---|---|
`, ackEvery, aroundPayload, ackEvery, aroundPayload, packets/1e6, 4*perGB/1e6)
	for _, f := range fabrics {
		byPackets, byConnections := ceil(f.packets(), packets), ceil(f.connections(), min(4*perGB, mostConnections))
		fmt.Fprintf(&s, "| %s: %s ports of %.0f Gbit/s, busy to %.0f %%, MTU %d, %s connections each | %.1f M | %s | %d | %d | %d |\n",
			f.name, count(f.ports), f.gbit, 100*f.load, f.mtu, count(f.peers), f.packets()/1e6, count(int(f.connections())), byPackets, byConnections, max(byPackets, byConnections))
	}
	s.WriteString(`
These are cores, not machines, and averages: a burst above them fills the ring, and what does not fit is counted as lost. Where that is too
many, watch the ports in turn, or only the control packets: CM, NAKs, CNPs and the first packet of each message tell most of what
goes wrong (` + "`capture -s 128`" + ` keeps headers only, which saves the disk and not the core). How probes send to one store:
[fleet.md](fleet.md).

## What was not reached

Findings are results, and kept, at some 600 bytes each: 65 536 unless MaxFindings says otherwise. The soak has room for few, which is full
long before the end; with room for all, their list would be what grows, and nothing else (heap profiles after the ninth and the last hour: 5.2 of 5.5 MB).

All of it is in memory and simulated: no link with a million queue pairs was at hand, and a day took less than a minute. What a live capture
adds, the kernel and the card, is measured with fewer connections, in [performance-wire.md](performance-wire.md).
`)
	return s.String()
}
