package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/report"
)

// report prints the result; beside a capture on standard output, on standard error.
func (i *injection) report(r *stream.Result) error {
	var out io.Writer = i.a.stdout
	if i.o.write == "-" {
		out = i.a.stderr
	}
	if i.o.json {
		text, err := json.MarshalIndent(injectDocumentOf(i, r), "", "  ")
		if err != nil {
			return err
		}
		_, err = out.Write(append(text, '\n'))
		return err
	}
	text := injectTable(r, i.o.write == "")
	if counts := i.faultCounts(); counts != nil {
		text += fmt.Sprintf("\nrules, from seed %d; what was sent, above, is what they let out\n", i.o.rules.Seed) + faultLines(counts, [2]string{"sent", "received"})
	}
	_, err := io.WriteString(out, text)
	return err
}

// injectTable is what became of everything. Rows add up to the row above them that stands further out.
func injectTable(r *stream.Result, timed bool) string {
	var b strings.Builder
	row := func(indent int, n uint64, what string, args ...any) {
		fmt.Fprintf(&b, "%s%*s  %s\n", strings.Repeat(" ", indent), 14, report.Count(n), fmt.Sprintf(what, args...))
	}
	some := func(n uint64, what string, args ...any) {
		if n > 0 {
			row(2, n, what, args...)
		}
	}
	row(0, r.Asked, "messages asked for")
	row(2, r.Messages, "sent")
	some(r.Cut, "cut off")
	row(2, r.NotSent, "not sent")
	row(0, r.Packets, "packets, %s, %s of payload", report.Bytes(r.Bytes), report.Bytes(r.Payload))
	row(2, r.Port.Sent-min(r.Port.Sent, uint64(r.Port.Outstanding)), "sent")
	some(uint64(r.Port.Outstanding), "not known to have left")
	row(2, r.Port.SendLost, "lost: the kernel dropped them")
	if r.Port.LinkDropped > 0 {
		row(0, r.Port.LinkDropped, "frames the interface says it dropped; some may be counted as sent")
	}
	if r.Resent > 0 {
		row(0, r.Resent, "packets of these were sent again")
	}
	if r.Looked {
		injectAnswers(&b, r, row, some)
	} else if r.Expecting > 0 {
		row(0, r.Expecting, "messages are owed an answer, which was not looked for")
	}
	if seconds := r.Took.Seconds(); timed && seconds > 0 {
		fmt.Fprintf(&b, "%14s  %s packets/s, %s, %s of payload\n", report.Duration(r.Took), report.Count(uint64(float64(r.Packets)/seconds)),
			report.BitRate(float64(r.Bytes)*8/seconds), report.BitRate(float64(r.Payload)*8/seconds))
	}
	if len(r.Ops) > 1 {
		b.WriteString("\n")
		for i := range r.Ops {
			op := &r.Ops[i]
			text := fmt.Sprintf("%s@%s, %s", op.Operation, strings.ToLower(op.Transport.String()), report.Plural(op.Packets, "packet"))
			if r.Looked && op.Expects {
				text += fmt.Sprintf(", %s answered", report.Count(op.Answered))
			}
			row(0, op.Messages, "%s", text)
		}
	}
	return b.String()
}

// injectAnswers is what came back.
func injectAnswers(b *strings.Builder, r *stream.Result, row func(int, uint64, string, ...any), some func(uint64, string, ...any)) {
	a := &r.Answers
	if r.Expecting > 0 {
		row(0, r.Expecting, "messages that are owed an answer")
		row(2, r.Expecting-r.Unanswered, "answered")
		row(2, r.Unanswered, "not answered")
	}
	row(0, a.Packets, "packets came back")
	some(a.ACKs, "acknowledgements")
	for code, n := range a.NAKs {
		some(n, "NAK: %s", dissect.NAKCode(code))
	}
	for timer, n := range a.RNRTimers {
		some(n, "RNR NAK, wait %v", dissect.RNRTimer(uint8(timer)))
	}
	some(a.ReadPackets, "READ responses, %s", readText(r))
	some(a.Atomics, "answers of atomics")
	some(a.CNPs, "CNPs")
	some(a.BadICRC, "with a wrong ICRC, and not looked at further")
	some(a.Requests, "requests from the other end")
	some(a.Reserved, "with a reserved syndrome")
	if a.Ghosts > 0 {
		row(0, a.Ghosts, "of these acknowledge what was never sent")
	}
	if a.Timeouts > 0 {
		row(0, a.Timeouts, "times nothing came, and the window was closed")
	}
	if r.Port.RecvLost > 0 {
		row(0, r.Port.RecvLost, "packets came back and found no room: they were not looked at")
	}
	if l := &r.Latency; l.Count > 0 {
		d := func(ns int64) string { return report.Duration(time.Duration(ns)) }
		fmt.Fprintf(b, "%14s  from PSN to ACK (median); least %s, 90%% %s, 99%% %s, 99.9%% %s, most %s\n",
			d(l.P50), d(l.Min), d(l.P90), d(l.P99), d(l.P999), d(l.Max))
	}
	if r.Stopped > 0 {
		row(0, uint64(r.Stopped), "QPs had to stop")
		for i, shown := 0, 0; i < len(r.QPs) && shown < 8; i++ {
			if q := &r.QPs[i]; q.Stopped != nil {
				fmt.Fprintf(b, "%16s  QP 0x%06x: %s at PSN 0x%06x\n", "", q.Dest, q.Stopped.What, q.Stopped.PSN)
				shown++
			}
		}
	}
}

func readText(r *stream.Result) string {
	text := report.Bytes(r.Answers.ReadBytes)
	if seconds := r.Took.Seconds(); seconds > 0 {
		text += ", " + report.BitRate(float64(r.Answers.ReadBytes)*8/seconds)
	}
	return text
}

// The document of --json, schema rocescope.inject/1.
type injectDocument struct {
	Schema     string            `json:"schema"`
	Seed       uint64            `json:"seed"`
	Via        string            `json:"via"`
	Interface  string            `json:"interface,omitempty"`
	Threads    int               `json:"threads"`
	Seconds    float64           `json:"seconds"`
	Asked      injectAsked       `json:"asked"`
	Sent       injectSent        `json:"sent"`
	Answers    *injectCameBack   `json:"answers"` // null if nobody looked
	Operations []injectOperation `json:"operations"`
	QPs        []injectQP        `json:"qps"`
	Rules      []faultCount      `json:"rules,omitempty"`
}

type injectAsked struct {
	Messages         uint64  `json:"messages"`
	PacketsPerSecond float64 `json:"packets_per_second,omitempty"`
	BitsPerSecond    float64 `json:"bits_per_second,omitempty"`
}

type injectSent struct {
	Messages         uint64  `json:"messages"`
	MessagesCut      uint64  `json:"messages_cut"`
	MessagesNotSent  uint64  `json:"messages_not_sent"`
	Packets          uint64  `json:"packets"`
	Bytes            uint64  `json:"bytes"`
	PayloadBytes     uint64  `json:"payload_bytes"`
	PacketsAgain     uint64  `json:"packets_again"`
	PacketsSent      uint64  `json:"packets_sent"`
	PacketsLost      uint64  `json:"packets_lost"`
	PacketsUnsure    int     `json:"packets_unsure"`
	LinkDropped      uint64  `json:"link_dropped"`
	PacketsPerSecond float64 `json:"packets_per_second"`
	BitsPerSecond    float64 `json:"bits_per_second"`
	Goodput          float64 `json:"goodput_bps"`
}

type injectCameBack struct {
	Expected   uint64            `json:"expected"`
	Answered   uint64            `json:"answered"`
	Unanswered uint64            `json:"unanswered"`
	Packets    uint64            `json:"packets"`
	ACKs       uint64            `json:"acks"`
	NAKs       map[string]uint64 `json:"naks"`
	RNRNAKs    uint64            `json:"rnr_naks"`
	RNRTimers  map[string]uint64 `json:"rnr_timers"` // by nanoseconds
	ReadBytes  uint64            `json:"read_bytes"`
	Reads      uint64            `json:"read_packets"`
	Goodput    float64           `json:"read_goodput_bps"`
	Atomics    uint64            `json:"atomic_acks"`
	CNPs       uint64            `json:"cnps"`
	Old        uint64            `json:"old_acks"`
	Ghosts     uint64            `json:"ghost_acks"`
	Timeouts   uint64            `json:"timeouts"`
	BadICRC    uint64            `json:"bad_icrc"`
	Requests   uint64            `json:"requests"`
	Reserved   uint64            `json:"reserved_syndromes"`
	Lost       uint64            `json:"not_seen"`
	Latency    injectLatency     `json:"latency_ns"`
}

type injectLatency struct {
	Count int64 `json:"count"`
	Min   int64 `json:"min"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p999"`
	Max   int64 `json:"max"`
}

type injectOperation struct {
	Operation string `json:"operation"`
	Transport string `json:"transport"`
	Messages  uint64 `json:"messages"`
	Packets   uint64 `json:"packets"`
	Bytes     uint64 `json:"bytes"`
	Payload   uint64 `json:"payload_bytes"`
	Again     uint64 `json:"packets_again"`
	Answered  uint64 `json:"answered"`
}

type injectQP struct {
	Transport string `json:"transport"`
	QPN       uint32 `json:"qpn"`
	LocalQPN  uint32 `json:"local_qpn"`
	FirstPSN  uint32 `json:"first_psn"`
	Messages  uint64 `json:"messages"`
	PSNs      uint64 `json:"psns"`
	Acked     uint64 `json:"acked"`
	NAKs      uint64 `json:"naks"`
	Stopped   string `json:"stopped,omitempty"`
	StopPSN   uint32 `json:"stopped_at_psn,omitempty"`
}

func injectDocumentOf(i *injection, r *stream.Result) *injectDocument {
	rate := func(n uint64) float64 {
		if r.Took <= 0 {
			return 0
		}
		return float64(n) / r.Took.Seconds()
	}
	info, asked := &r.PerPort[0].Info, i.o.config.Rate
	d := &injectDocument{
		Schema: "rocescope.inject/1", Seed: r.Seed, Via: info.Via, Interface: info.Interface, Threads: r.Threads, Seconds: r.Took.Seconds(),
		Asked: injectAsked{r.Asked, asked.Packets, asked.Bits},
		Sent: injectSent{
			Messages: r.Messages, MessagesCut: r.Cut, MessagesNotSent: r.NotSent, Packets: r.Packets, Bytes: r.Bytes, PayloadBytes: r.Payload,
			PacketsAgain: r.Resent, PacketsSent: r.Port.Sent, PacketsLost: r.Port.SendLost, PacketsUnsure: r.Port.Outstanding,
			LinkDropped: r.Port.LinkDropped, PacketsPerSecond: rate(r.Packets), BitsPerSecond: rate(r.Bytes) * 8, Goodput: rate(r.Payload) * 8,
		},
		Operations: []injectOperation{}, QPs: []injectQP{}, Rules: faultCounts(i.faultCounts()),
	}
	if a := &r.Answers; r.Looked {
		l := &r.Latency
		d.Answers = &injectCameBack{
			Expected: r.Expecting, Answered: r.Expecting - r.Unanswered, Unanswered: r.Unanswered, Packets: a.Packets, ACKs: a.ACKs,
			NAKs: map[string]uint64{}, RNRNAKs: a.RNRs, RNRTimers: map[string]uint64{}, ReadBytes: a.ReadBytes, Reads: a.ReadPackets,
			Goodput: rate(a.ReadBytes) * 8, Atomics: a.Atomics, CNPs: a.CNPs, Old: a.Old, Ghosts: a.Ghosts, Timeouts: a.Timeouts,
			BadICRC: a.BadICRC, Requests: a.Requests, Reserved: a.Reserved, Lost: r.Port.RecvLost,
			Latency: injectLatency{l.Count, l.Min, l.P50, l.P90, l.P99, l.P999, l.Max},
		}
		for code, n := range a.NAKs {
			if n > 0 {
				d.Answers.NAKs[strings.ReplaceAll(strings.ToLower(dissect.NAKCode(code).String()), " ", "_")] += n
			}
		}
		for timer, n := range a.RNRTimers {
			if n > 0 {
				d.Answers.RNRTimers[fmt.Sprint(int64(dissect.RNRTimer(uint8(timer))))] = n
			}
		}
	}
	for k := range r.Ops {
		op := &r.Ops[k]
		d.Operations = append(d.Operations, injectOperation{
			op.Operation, op.Transport.String(), op.Messages, op.Packets, op.Bytes, op.Payload, op.Resent, op.Answered,
		})
	}
	for k := range r.QPs {
		q := &r.QPs[k]
		out := injectQP{
			Transport: q.Transport.String(), QPN: q.Dest, LocalQPN: q.Local, FirstPSN: uint32(q.FirstPSN), Messages: q.Messages,
			PSNs: q.PSNs, Acked: q.Acked, NAKs: q.NAKs,
		}
		if q.Stopped != nil {
			out.Stopped, out.StopPSN = q.Stopped.What, uint32(q.Stopped.PSN)
		}
		d.QPs = append(d.QPs, out)
	}
	return d
}
