package main

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/report"
)

// injectStatus says once a second how a stream is going.
type injectStatus struct {
	line
	i    *injection
	last stream.Progress
}

func newInjectStatus(i *injection) *injectStatus {
	return &injectStatus{line: i.a.newLine(), i: i}
}

func (l *injectStatus) print() { l.show(l.text(l.i.stream.Progress())) }

// text is the line: what the second before gave.
func (l *injectStatus) text(p stream.Progress) string {
	past := max((p.Elapsed - l.last.Elapsed).Seconds(), 1e-3)
	rate := func(now, before uint64) float64 { return float64(now-before) / past }
	parts := []string{
		fmt.Sprintf("%ds", int(p.Elapsed.Seconds()+0.5)),
		report.Plural(p.Packets, "packet"),
	}
	achieved := fmt.Sprintf("%s packets/s, %s", report.Count(uint64(rate(p.Packets, l.last.Packets))), report.BitRate(rate(p.Bytes, l.last.Bytes)*8))
	if asked := l.i.o.config.Rate; asked != (stream.Rate{}) {
		achieved += " of " + rateText(asked)
	}
	parts = append(parts, achieved)
	if p.Slots > 0 {
		parts = append(parts, fmt.Sprintf("ring %d%%", p.Port.Outstanding*100/p.Slots))
	}
	if p.Resent > 0 {
		parts = append(parts, report.Count(p.Resent)+" sent again")
	}
	if lost := p.Port.SendLost + p.Port.LinkDropped; lost > 0 {
		parts = append(parts, report.Count(lost)+" lost on sending")
	}
	if l.i.stream.Looks() {
		parts = append(parts, fmt.Sprintf("%s answered, NAK %s, RNR %s, CNP %s", report.Count(p.Answered), report.Count(p.NAKs), report.Count(p.RNRs), report.Count(p.CNPs)))
		if p.ReadBytes > 0 {
			parts = append(parts, "READ "+report.BitRate(rate(p.ReadBytes, l.last.ReadBytes)*8))
		}
		if p.Port.RecvLost > 0 {
			parts = append(parts, report.Count(p.Port.RecvLost)+" answers not seen")
		}
	}
	l.last = p
	return strings.Join(parts, "  ")
}

func rateText(r stream.Rate) string {
	if r.Packets > 0 {
		return report.Count(uint64(r.Packets)) + " packets/s"
	}
	return report.BitRate(r.Bits)
}
