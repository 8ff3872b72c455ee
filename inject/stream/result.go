package stream

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// Answers is what came back.
type Answers struct {
	Packets     uint64 // for the stream's QPs
	ACKs        uint64
	NAKs        [32]uint64 // by code
	RNRs        uint64
	RNRTimers   [32]uint64 // by timer code
	ReadPackets uint64
	ReadBytes   uint64
	Atomics     uint64
	CNPs        uint64
	Answered    uint64 // messages
	Old         uint64 // acknowledgements of what was acknowledged before
	Ghosts      uint64 // acknowledgements of what was never sent
	Timeouts    uint64 // of QPs whose window was closed
	BadICRC     uint64 // and not looked at further
	Requests    uint64 // from the other end
	Reserved    uint64 // acknowledgements whose syndrome means nothing
	Other       uint64 // frames that are for no QP of the stream
}

// StopReason is why a QP was stopped.
type StopReason struct {
	What string
	PSN  dissect.PSN
}

// OpResult is what became of a part of the mix.
type OpResult struct {
	Operation string
	Transport dissect.Transport
	Messages  uint64 // whose last packet was sent
	Packets   uint64 // those of messages that were cut, and sent again, included
	Bytes     uint64 // of frames
	Payload   uint64
	Resent    uint64 // packets that were sent before
	Expects   bool
	Answered  uint64 // messages
}

// QPResult is what became of a QP.
type QPResult struct {
	Transport dissect.Transport
	Local     uint32
	Dest      uint32
	FirstPSN  dissect.PSN
	Messages  uint64 // sent whole
	PSNs      uint64 // sent
	Acked     uint64 // of them
	NAKs      uint64 // and RNR NAKs
	Stopped   *StopReason
}

// Result is what became of a stream. Its figures add up:
//
//	Asked = Messages + Cut + NotSent
//	Packets = Port.Sent + Port.SendLost (of which Port.Outstanding may not have left)
//	Messages that expect an answer = Answered + Unanswered
type Result struct {
	Seed     uint64
	Took     time.Duration
	Threads  int
	Asked    uint64 // messages; without a count those that were begun
	Messages uint64
	Cut      uint64 // messages that were begun, and not sent whole
	NotSent  uint64 // messages that were not begun
	Packets  uint64
	Bytes    uint64
	Payload  uint64
	Resent   uint64 // packets
	Port     port.Stats
	PerPort  []PortResult

	Looked     bool // whether anything could come back
	Expecting  uint64
	Answered   uint64
	Unanswered uint64
	Answers    Answers
	Latency    Latency

	Ops     []OpResult
	QPs     []QPResult
	Stopped int // QPs
}

// PortResult is a port at the end.
type PortResult struct {
	Info  port.Info
	Stats port.Stats
}

// Latency is the time from a PSN to the acknowledgement that names it, in nanoseconds.
type Latency struct {
	Count                         int64
	Min, P50, P90, P99, P999, Max int64
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	return Latency{
		Count: h.TotalCount(), Min: h.Min(), P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90),
		P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9), Max: h.Max(),
	}
}

// result is made when nothing runs any more.
func (s *Stream) result() *Result {
	c := &s.plan.config
	r := &Result{Seed: c.Seed, Took: s.took, Threads: len(s.senders), Looked: s.looking, Ops: make([]OpResult, len(c.Mix))}
	for i := range c.Mix {
		op := &c.Mix[i]
		r.Ops[i] = OpResult{
			Operation: op.Operation.Name, Transport: op.Transport, Expects: op.Transport == dissect.RC && op.Operation.Request(),
		}
	}
	for _, w := range s.senders {
		for i, t := range w.byOp {
			op := &r.Ops[i]
			op.Messages += t.messages
			op.Packets += t.packets
			op.Bytes += t.bytes
			op.Payload += t.payload
			op.Resent += t.resent
		}
	}
	for _, p := range s.ports {
		of := PortResult{p.Info(), p.Stats()}
		r.PerPort = append(r.PerPort, of)
		r.Port.Add(of.Stats)
	}
	if s.answers != nil {
		r.Answers, r.Latency = s.answers.n, latencyOf(s.answers.latency)
		for i, n := range s.answers.byOp {
			r.Ops[i].Answered = n
		}
	}
	for i := range r.Ops {
		op := &r.Ops[i]
		r.Messages += op.Messages
		r.Packets += op.Packets
		r.Bytes += op.Bytes
		r.Payload += op.Payload
		r.Resent += op.Resent
		if op.Expects {
			r.Expecting += op.Messages
			r.Answered += op.Answered
		}
	}
	r.Unanswered = r.Expecting - min(r.Expecting, r.Answered)
	for i, q := range s.qps {
		r.QPs = append(r.QPs, s.qpResult(i, q))
		if r.QPs[i].Stopped != nil {
			r.Stopped++
		}
		if q.begun() {
			r.Cut++
		}
	}
	r.Asked = c.Count * uint64(len(s.qps))
	if c.Count == 0 {
		r.Asked = r.Messages + r.Cut
	}
	r.NotSent = r.Asked - r.Messages - r.Cut
	return r
}

func (s *Stream) qpResult(i int, q *qp) QPResult {
	r := QPResult{
		Transport: q.mix.transport, Local: q.local, Dest: q.values[qpDestQP], FirstPSN: q.psn, Messages: q.fresh, PSNs: q.sent,
	}
	if s.answers != nil {
		a := &s.answers.qps[i]
		r.Acked, r.NAKs = a.acked, a.naks
		if a.stopped {
			r.Stopped = &a.stop
		}
	}
	if q.lost {
		r.Stopped = &StopReason{What: "asked to go back further than is remembered", PSN: q.at(q.sh.acked.Load())}
	}
	return r
}

// Progress is how a stream is going. It may be asked from anywhere while it runs.
type Progress struct {
	Elapsed                                   time.Duration
	Messages, Packets, Bytes, Payload, Resent uint64
	Stalled                                   uint64 // bursts that a window or an RNR timer held up
	Port                                      port.Stats
	Slots                                     int // of all ports
	Answers, ACKs, NAKs, RNRs, CNPs           uint64
	ReadBytes, Answered                       uint64
}

// Progress tells it.
func (s *Stream) Progress() Progress {
	p := Progress{Elapsed: time.Duration(s.plan.config.Clock.Now() - s.start.Load())}
	for _, w := range s.senders {
		p.Messages += w.published.messages.Load()
		p.Packets += w.published.packets.Load()
		p.Bytes += w.published.bytes.Load()
		p.Payload += w.published.payload.Load()
		p.Resent += w.published.resent.Load()
		p.Stalled += w.published.stalled.Load()
		p.Slots += len(w.rooms)
	}
	for _, of := range s.ports {
		st := of.Stats()
		p.Port.Add(st)
	}
	if s.answers != nil {
		n := &s.answers.seen
		p.Answers, p.ACKs, p.NAKs, p.RNRs, p.CNPs = n.packets.Load(), n.acks.Load(), n.naks.Load(), n.rnrs.Load(), n.cnps.Load()
		p.ReadBytes, p.Answered = n.readBytes.Load(), n.answered.Load()
	}
	return p
}
