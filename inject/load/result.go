package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Result is what became of a plan.
type Result struct {
	Size, QPs, MTU int
	Messages       uint64                  // completed
	Took           time.Duration           // of the traffic alone
	Peak           float64                 // messages per second, of the best time
	Histogram      *hdrhistogram.Histogram // of latencies, nanoseconds
	Flushed        uint64                  // given up because their queue pair failed
	Failure        error                   // the first
	Failures       int

	Verified    bool
	Checked     uint64 // messages whose data was checked
	Wrong, Lost uint64
	FirstWrong  string

	Counters rnic.Counters           // of the device, meanwhile
	Resent   uint64                  // request packets that were sent again
	Theirs   connect.PerftestResults // the other side's, where it tells
}

// CompletionError is a completion with an error.
type CompletionError struct {
	QPN, Peer uint32
	Message   uint64
	Op        rnic.Op
	Status    rnic.Status
	Receive   bool
}

func (e *CompletionError) Error() string {
	what := fmt.Sprintf("%v %d", e.Op, e.Message)
	if e.Receive {
		what = fmt.Sprintf("receive %d", e.Message)
	}
	return fmt.Sprintf("QP 0x%06x to QP 0x%06x: %s failed: %s (%v)", e.QPN, e.Peer, what, e.Status.Text(), e.Status)
}

func (r *Result) fail(err error) {
	r.Failures++
	if r.Failure == nil {
		r.Failure = err
	}
}

func (r *Result) wrong(what string) {
	r.Wrong++
	if r.FirstWrong == "" {
		r.FirstWrong = what
	}
}

func newResult() Result { return Result{Histogram: hdrhistogram.New(1, int64(time.Hour), 3)} }

// take moves what a strand found in a round into the whole, but for its latencies.
func (r *Result) take(s *Result) {
	r.Messages += s.Messages
	r.Peak = max(r.Peak, s.Peak)
	r.Flushed += s.Flushed
	if s.Failures > 0 {
		r.Failures += s.Failures - 1
		r.fail(s.Failure)
	}
	r.Lost += s.Lost
	if s.Wrong > 0 {
		r.Wrong += s.Wrong - 1
		r.wrong(s.FirstWrong)
	}
	*s = Result{Histogram: s.Histogram}
}

// takeReport adds what the other side found: its numbers are of all until now.
func (r *Result) takeReport(t *connect.Report) {
	r.Checked, r.Wrong, r.Lost = t.Messages, max(t.Wrong, r.Wrong), max(t.Lost, r.Lost)
	if r.FirstWrong == "" {
		r.FirstWrong = t.First
	}
}

// finish calculates what follows from the rest.
func (r *Result) finish(p *Plan) {
	if r.Verified && (p.Op == rnic.OpRead || isAtomic(p.Op)) {
		r.Checked = r.Messages
	}
	packets := uint64(1)
	if p.Op != rnic.OpRead && r.MTU > 0 {
		packets = max(1, uint64((p.Size+r.MTU-1)/r.MTU))
	}
	if sent, need := r.Counters.TxRequests, r.Messages*packets; r.Failure == nil && sent > need && p.Rally == OneWay {
		r.Resent = sent - need
	}
	if r.Took > 0 && r.Peak < r.MessageRate() {
		r.Peak = r.MessageRate()
	}
}

// MessageRate is messages per second.
func (r *Result) MessageRate() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Messages) / r.Took.Seconds()
}

// window finds the best rate over a while.
type window struct {
	at       int64
	messages uint64
}

// windowTime is the while.
const windowTime = int64(100 * time.Millisecond)

func (w *window) begin(now int64) { *w = window{at: now} }

func (w *window) look(now int64, messages uint64, r *Result) {
	if now-w.at < windowTime {
		return
	}
	r.Peak = max(r.Peak, float64(messages-w.messages)/time.Duration(now-w.at).Seconds())
	w.at, w.messages = now, messages
}

// Perftest is the result as perftest's programs swap it.
func (r *Result) Perftest() connect.PerftestResults {
	const mib = 1 << 20
	size := float64(r.Size) / mib
	return connect.PerftestResults{
		Size: uint64(r.Size), Iterations: r.Messages, Peak: r.Peak * size, Average: r.MessageRate() * size, MessageRateM: r.MessageRate() / 1e6,
	}
}
