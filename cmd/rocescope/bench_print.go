package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/internal/report"
)

// benchPrinter prints results, as perftest's table or as one document.
type benchPrinter struct {
	a       *app
	o       *benchOptions
	h       *peer.Host
	results []*load.Result
	wrong   uint64
	first   string
}

func newBenchPrinter(a *app, o *benchOptions, h *peer.Host) *benchPrinter {
	return &benchPrinter{a: a, o: o, h: h}
}

const (
	benchRule   = "---------------------------------------------------------------------------------------"
	bwHeader    = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]"
	latHeader   = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
	mib         = 1 << 20
	nanoseconds = 1e3 // in a microsecond
)

// row prints a line of the table.
func (p *benchPrinter) row(r *load.Result) {
	p.results = append(p.results, r)
	if p.wrong += r.Wrong; p.first == "" {
		p.first = r.FirstWrong
	}
	if p.o.json {
		return
	}
	out := p.a.stdout
	if len(p.results) == 1 {
		header := bwHeader
		if p.o.lat {
			header = latHeader
		}
		fmt.Fprintln(out, benchRule)
		fmt.Fprintln(out, header)
	}
	h := r.Histogram
	us := func(ns int64) float64 { return float64(ns) / nanoseconds }
	if p.o.lat {
		fmt.Fprintf(out, " %-7d %-10d      %-7.2f        %-7.2f      %-7.2f             %-7.2f        %-7.2f         %-7.2f                %-7.2f\n", r.Size, r.Messages,
			us(h.Min()), us(h.Max()), us(h.ValueAtQuantile(50)), h.Mean()/nanoseconds, h.StdDev()/nanoseconds, us(h.ValueAtQuantile(99)), us(h.ValueAtQuantile(99.9)))
	} else {
		size := float64(r.Size) / mib
		fmt.Fprintf(out, " %-7d    %-10d       %-7.2f            %-7.2f               %-7.6f\n", r.Size, r.Messages, r.Peak*size, r.MessageRate()*size, r.MessageRate()/1e6)
	}
	_ = out.Flush() // its error sticks
}

// end prints what stands below the table.
func (p *benchPrinter) end(failed error) error {
	if p.o.json {
		return p.document(failed)
	}
	counts, full := p.h.Faults()
	lines := ruled(p.o.host.Rules, counts)
	if full > 0 {
		lines += fmt.Sprintf("%14s  packets met no fate, because too many were held\n", report.Count(full))
	}
	if len(p.results) == 0 {
		fmt.Fprint(p.a.stdout, lines)
		return nil
	}
	out := p.a.stdout
	fmt.Fprintln(out, benchRule)
	last := p.results[len(p.results)-1]
	h := last.Histogram
	if !p.o.lat && h.TotalCount() > 0 {
		fmt.Fprintf(out, "latency of %s: p50 %s  p90 %s  p99 %s  p99.9 %s  p99.99 %s  max %s\n", report.Bytes(uint64(last.Size)),
			nsText(h.ValueAtQuantile(50)), nsText(h.ValueAtQuantile(90)), nsText(h.ValueAtQuantile(99)), nsText(h.ValueAtQuantile(99.9)), nsText(h.ValueAtQuantile(99.99)), nsText(h.Max()))
	}
	fmt.Fprintln(out, "sent again: "+p.resent())
	fmt.Fprint(out, lines)
	_, err := fmt.Fprintln(out, "verdict: "+p.verdict(failed))
	return err
}

func nsText(ns int64) string {
	if ns < 10e6 {
		return fmt.Sprintf("%.2f us", float64(ns)/nanoseconds)
	}
	return fmt.Sprintf("%.2f ms", float64(ns)/1e6)
}

// resent says what had to be sent again, over all results.
func (p *benchPrinter) resent() string {
	var packets uint64
	var parts []string
	total := map[string]uint64{}
	for _, r := range p.results {
		packets += r.Resent
		for _, c := range resendCounts(r) {
			total[c.what] += c.n
		}
	}
	for _, c := range resendCounts(p.results[0]) {
		if n := total[c.what]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", report.Count(n), c.what))
		}
	}
	text := report.Plural(packets, "packet")
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// resendCounts are the counters that say why.
func resendCounts(r *load.Result) []namedCount {
	c := &r.Counters
	return []namedCount{
		{"packet_seq_err", "sequence NAKs", c.PacketSeqErr},
		{"implied_nak_seq_err", "gaps in answers", c.ImpliedNakSeqErr},
		{"local_ack_timeout_err", "time-outs", c.LocalAckTimeoutErr},
		{"rnr_nak_retry_err", "RNR NAKs", c.RnrNakRetryErr},
	}
}

// verdict is what became of it all in one line.
func (p *benchPrinter) verdict(failed error) string {
	var messages, checked, lost, flushed uint64
	verified := false
	for _, r := range p.results {
		messages += r.Messages
		checked += r.Checked
		lost += r.Lost
		flushed += r.Flushed
		verified = verified || r.Verified
	}
	switch {
	case p.wrong > 0:
		return fmt.Sprintf("WRONG DATA: %s of %s checked", report.Count(p.wrong), report.Count(checked))
	case failed != nil:
		text := fmt.Sprintf("FAILED after %s", report.Plural(messages, "message"))
		if flushed > 0 {
			text += fmt.Sprintf(", %s given up", report.Count(flushed))
		}
		return text
	}
	text := fmt.Sprintf("good: %s completed", report.Plural(messages, "message"))
	switch {
	case verified:
		text += fmt.Sprintf(", the data of %s checked and right", report.Count(checked))
		if lost > 0 {
			text += fmt.Sprintf(", %s lost on the way, as %v may", report.Count(lost), p.o.transport)
		}
	default:
		text += ", their data not checked"
	}
	return text
}

// benchSchema names the document of --json.
const benchSchema = "rocescope.bench/1"

type benchDocument struct {
	Schema    string        `json:"schema"`
	Operation string        `json:"operation"`
	Transport string        `json:"transport"`
	Way       string        `json:"way"`
	Peer      string        `json:"peer"`
	Interface string        `json:"interface"`
	Latency   bool          `json:"latency_test"`
	Results   []benchResult `json:"results"`
	Faults    []faultCount  `json:"faults,omitempty"`
	Seed      uint64        `json:"seed,omitempty"`
	Verdict   string        `json:"verdict"`
	Error     string        `json:"error,omitempty"`
}

type benchResult struct {
	Size        int               `json:"size"`
	QPs         int               `json:"qps"`
	MTU         int               `json:"mtu"`
	Messages    uint64            `json:"messages"`
	Seconds     float64           `json:"seconds"`
	Goodput     float64           `json:"goodput_bps"`
	PeakGoodput float64           `json:"peak_goodput_bps"`
	MessageRate float64           `json:"messages_per_second"`
	Latency     map[string]any    `json:"latency_ns"`
	Resent      uint64            `json:"packets_sent_again"`
	Verified    bool              `json:"verified"`
	Checked     uint64            `json:"checked"`
	Wrong       uint64            `json:"wrong"`
	Lost        uint64            `json:"lost"`
	FirstWrong  string            `json:"first_wrong,omitempty"`
	Flushed     uint64            `json:"flushed"`
	Counters    map[string]uint64 `json:"counters"`
}

func (p *benchPrinter) document(failed error) error {
	d := benchDocument{
		Schema: benchSchema, Operation: load.OperationName(p.o.plan.Op), Transport: p.o.transport.String(), Way: p.o.way.String(), Peer: p.o.to.String(),
		Interface: p.o.iface, Latency: p.o.lat, Results: []benchResult{}, Verdict: "failed",
	}
	if len(p.results) > 0 {
		d.Verdict = p.verdict(failed)
	}
	if counts, _ := p.h.Faults(); counts != nil {
		d.Faults, d.Seed = faultCounts(counts), p.o.host.Rules.Seed
	}
	if failed != nil {
		d.Error = failed.Error()
	}
	for _, r := range p.results {
		h := r.Histogram
		latency := map[string]any{"min": h.Min(), "max": h.Max(), "mean": math.Round(h.Mean()), "stddev": math.Round(h.StdDev()), "count": h.TotalCount()}
		for _, q := range []struct {
			name string
			at   float64
		}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99_9", 99.9}, {"p99_99", 99.99}} {
			latency[q.name] = h.ValueAtQuantile(q.at)
		}
		bits := float64(r.Size) * 8
		one := benchResult{
			Size: r.Size, QPs: r.QPs, MTU: r.MTU, Messages: r.Messages, Seconds: r.Took.Seconds(), Goodput: r.MessageRate() * bits, PeakGoodput: r.Peak * bits,
			MessageRate: r.MessageRate(), Latency: latency, Resent: r.Resent, Verified: r.Verified, Checked: r.Checked, Wrong: r.Wrong, Lost: r.Lost,
			FirstWrong: r.FirstWrong, Flushed: r.Flushed, Counters: map[string]uint64{},
		}
		for _, c := range resendCounts(r) {
			one.Counters[c.name] = c.n
		}
		d.Results = append(d.Results, one)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	_, err = p.a.stdout.Write(append(text, '\n'))
	return err
}

// refusedConnection and timedOut look into errors of sockets.
func refusedConnection(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func timedOut(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && (op.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, context.DeadlineExceeded))
}
