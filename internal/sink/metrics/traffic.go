package metrics

import (
	"math"
	"math/bits"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Traffic counts what a tracker says of packets. Give it every batch behind the tracker, and the tracker its Sink. Scrapes see
// what was counted up to the last batch.
type Traffic struct {
	now counts // of the tracker's goroutine

	mu    sync.Mutex
	shown counts
}

type counts struct {
	packets, bytes, payload [numTransports]uint64
	marks                   [32]uint64
	messages                [flows.NumOperations][flows.NumStatuses]uint64
	moved                   [flows.NumOperations]uint64 // bytes of messages
	latency                 [len(latencyBounds) + 1]uint64
	latencySum              float64
	findings                [maxChecks]uint64
}

const (
	numTransports = int(dissect.Manufacturer) + 1
	maxChecks     = 512
)

// latencyBounds are seconds.
var latencyBounds = [...]float64{1e-6, 4e-6, 16e-6, 64e-6, 256e-6, 1e-3, 4e-3, 16e-3, 64e-3, 256e-3, 1, 4}

// markNames are the labels of the marks that are counted.
var markNames = []struct {
	bit  flows.MarkBits
	name string
}{
	{flows.MarkRetransmission, "retransmission"},
	{flows.MarkDuplicate, "duplicate"},
	{flows.MarkAfterGap, "after_gap"},
	{flows.MarkReordered, "reordered"},
	{flows.MarkNAK, "nak"},
	{flows.MarkRNR, "rnr_nak"},
	{flows.MarkCE, "ecn_ce"},
	{flows.MarkCNP, "cnp"},
	{flows.MarkBadICRC, "bad_icrc"},
	{flows.MarkGhost, "ghost_ack"},
	{flows.MarkUnclear, "unclear"},
}

// Sink returns what the tracker calls.
func (t *Traffic) Sink() flows.Sink {
	return flows.Sink{Message: t.message, Finding: t.finding}
}

func (t *Traffic) message(m *flows.Message) {
	if m.Op >= flows.NumOperations || m.Status >= flows.NumStatuses {
		return
	}
	t.now.messages[m.Op][m.Status]++
	t.now.moved[m.Op] += m.Bytes
	if d, ok := m.Latency(); ok {
		s := d.Seconds()
		i := 0
		for i < len(latencyBounds) && s > latencyBounds[i] {
			i++
		}
		t.now.latency[i]++
		t.now.latencySum += math.Max(s, 0)
	}
}

func (t *Traffic) finding(f *flows.Finding) {
	if int(f.ID) < maxChecks {
		t.now.findings[f.ID] += max(f.Count, 1)
	}
}

// Batch takes a batch that the tracker has seen.
func (t *Traffic) Batch(b *flows.Batch) {
	for i := range b.Packets {
		p := &b.Packets[i]
		if !p.IsTransport() {
			continue
		}
		at := min(p.Opcode.Info().Transport, dissect.Manufacturer)
		t.now.packets[at]++
		t.now.bytes[at] += uint64(p.WireLen)
		t.now.payload[at] += uint64(max(p.PayloadLen(), 0))
		for m := uint32(b.Marks[i].Bits); m != 0; m &= m - 1 {
			t.now.marks[bits.TrailingZeros32(m)]++
		}
	}
	t.mu.Lock()
	t.shown = t.now
	t.mu.Unlock()
}

// Collect writes the counters.
func (t *Traffic) Collect(p *Page) {
	t.mu.Lock()
	c := t.shown
	t.mu.Unlock()
	for _, f := range []struct {
		name, help string
		of         *[numTransports]uint64
	}{
		{"rocescope_packets_total", "RoCE packets seen, by transport.", &c.packets},
		{"rocescope_bytes_total", "Bytes of these packets on the wire.", &c.bytes},
		{"rocescope_payload_bytes_total", "Bytes of their payload.", &c.payload},
	} {
		p.Counter(f.name, f.help)
		for i, n := range f.of {
			if n > 0 || dissect.Transport(i) == dissect.RC {
				p.Add(float64(n), "transport", dissect.Transport(i).String())
			}
		}
	}
	p.Counter("rocescope_marked_packets_total", "Packets by what they are to their connection: sent again, copied, behind a gap, a NAK and so on.")
	for _, m := range markNames {
		p.Add(float64(c.marks[bits.TrailingZeros32(uint32(m.bit))]), "mark", m.name)
	}
	p.Counter("rocescope_messages_total", "Work requests that ended, by operation and completion status.")
	for op := range c.messages {
		for status, n := range c.messages[op] {
			if n > 0 {
				p.Add(float64(n), "operation", flows.Operation(op).String(), "status", flows.Status(status).String())
			}
		}
	}
	p.Counter("rocescope_message_bytes_total", "Bytes that these work requests asked to move.")
	for op, n := range c.moved {
		if n > 0 {
			p.Add(float64(n), "operation", flows.Operation(op).String())
		}
	}
	p.Histogram("rocescope_message_latency_seconds", "From a message's first packet to the answer that settled it.", latencyBounds[:], c.latency[:], c.latencySum)
	p.Counter("rocescope_findings_total", "Occurrences of findings, by check.")
	checks := flows.Checks()
	for id := range min(len(checks), maxChecks) {
		if n := c.findings[id]; n > 0 {
			p.Add(float64(n), "finding", checks[id].ID, "severity", checks[id].Severity.String())
		}
	}
}
