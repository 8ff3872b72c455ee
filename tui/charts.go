package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/draw"
)

// reader is a moment of charts at which values are read; the zero value reads nothing.
type reader struct {
	at       int64 // ns since the Unix epoch; 0 = none
	step     int64 // that a column is
	from, to int64 // what the charts span
	chart    *draw.Chart
	w        int
}

// drawn notes how a chart lies on the screen.
func (r *reader) drawn(ch *draw.Chart, w int) {
	r.chart, r.w = ch, w
	_, r.step = ch.Moment(w, 0)
	r.from, r.to = ch.Span()
}

// act moves the moment with left and right; esc takes it away.
func (r *reader) act(a action) bool {
	switch {
	case r.chart == nil:
		return false
	case a == doBack && r.at != 0:
		r.at = 0
	case a == doLeft && r.at == 0:
		r.at = r.to - r.step/2
	case a == doRight && r.at == 0:
		r.at = r.from + r.step/2
	case a == doLeft:
		r.at -= r.step
	case a == doRight:
		r.at += r.step
	case a == doPageUp && r.at != 0:
		r.at -= 10 * r.step
	case a == doPageDown && r.at != 0:
		r.at += 10 * r.step
	default:
		return false
	}
	if r.at != 0 {
		r.at = max(r.from+r.step/2, min(r.at, r.to-r.step/2))
	}
	return true
}

// click reads at a column of the chart.
func (r *reader) click(x int) {
	if r.chart != nil {
		r.at, _ = r.chart.Moment(r.w, x)
	}
}

// drawRates draws what passed over time: bits, and what went wrong among it. What it says of itself, and of the moment to read,
// is returned.
func drawRates(s *screen, c *cells.Canvas, read *reader) (says string) {
	series := s.ses.rates.series()
	if len(series.points) == 0 {
		c.Text(1, 0, cells.Faint, "no packet has a time")
		return ""
	}
	if len(series.points) == 1 {
		c.Fit(1, 0, c.W-2, cells.Faint, "all that has a time came at once: there is no rate to tell")
		return ""
	}
	// A column shows the mean over the time that it stands for: a packet alone would look like the wire's rate.
	series.widen(max(1, c.W-10))
	ch := draw.Chart{Unit: bitsText, ASCII: s.ascii, Cursor: read.at}
	bits := draw.Curve{Name: "on the wire", Style: cells.Chart1, Interval: series.every, Zero: true, Bars: true}
	second := float64(time.Second) / float64(series.every)
	for _, p := range series.points {
		bits.Samples = append(bits.Samples, draw.Sample{Time: p.at, Value: float64(p.bytes) * 8 * second})
		switch {
		case p.naks > 0:
			ch.Events = append(ch.Events, draw.Event{Time: p.at, Rune: 'N', Style: cells.Bad})
		case p.bad > 0:
			ch.Events = append(ch.Events, draw.Event{Time: p.at, Rune: 'I', Style: cells.Bad})
		case p.resent > 0:
			ch.Events = append(ch.Events, draw.Event{Time: p.at, Rune: 'r', Style: cells.Warn})
		case p.cnps > 0:
			ch.Events = append(ch.Events, draw.Event{Time: p.at, Rune: 'c', Style: cells.Congestion})
		}
	}
	ch.Curves = []draw.Curve{bits}
	h := c.H
	if len(ch.Events) > 0 && h > 6 {
		h--
		c.Fit(1, h, c.W-2, cells.Faint, "N NAK or RNR   I wrong ICRC   r sent again   c CE or CNP")
	}
	ch.Draw(c.Sub(0, 0, c.W, h))
	read.drawn(&ch, c.W)
	says = ", each " + dur(int64(series.every))
	if read.at == 0 {
		return says
	}
	sum := ratePoint{}
	from := read.at - read.at%int64(series.every)
	for _, p := range series.points {
		if p.at == from {
			sum = p
		}
	}
	says += fmt.Sprintf("; from %s on: %s, %s", s.moment(from), report.Plural(sum.packets, "packet"), report.Bytes(sum.bytes))
	for _, e := range []struct {
		n    uint64
		what string
	}{{sum.naks, "NAK or RNR"}, {sum.bad, "wrong ICRC"}, {sum.resent, "sent again"}, {sum.cnps, "CE or CNP"}} {
		if e.n > 0 {
			says += fmt.Sprintf(", %s %s", report.Count(e.n), e.what)
		}
	}
	return says
}

// connChart is one of the charts of a connection.
type connChart struct {
	title  string
	unit   func(float64) string
	curves []connCurve
	events func(*flows.Series) []draw.Event // its own, over those that all charts have; nil without
}

type connCurve struct {
	name  string
	style cells.Style
	dir   flows.Direction
	zero  bool
	value func(p *flows.PointStream, every time.Duration) (float64, bool)
}

// bitsText is a rate in few characters, for the axis of a chart.
func bitsText(v float64) string {
	number, unit, _ := strings.Cut(strings.TrimSuffix(report.BitRate(v), "it/s"), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + unit + "/s"
}

func seconds(v float64) string { return dur(int64(v)) }
func bytesOf(v float64) string { return report.Bytes(uint64(max(v, 0))) }

// connCharts are the charts of a connection, for the directions that carry something.
func connCharts(k *flows.Connection) []connChart {
	var rate, done, flight, lat, credit connChart
	rate = connChart{title: "Payload rate", unit: bitsText}
	done = connChart{title: "Messages completed", unit: func(v float64) string { return draw.Short(v) + "/s" }}
	flight = connChart{title: "Sent and not acknowledged (≤ what the requester had)", unit: bytesOf}
	lat = connChart{title: "Latency, ~p50 and ~p99", unit: seconds}
	credit = connChart{title: "Credits granted (fewest), messages open (most, ≤)", unit: draw.Short, events: creditEvents}
	styles := [2][2]cells.Style{{cells.Chart1, cells.Chart2}, {cells.Chart4, cells.Chart3}}
	for d := range flows.Direction(2) {
		name := way(d)
		st := &k.Streams[d]
		if st.PayloadBytes > 0 {
			rate.curves = append(rate.curves, connCurve{name, styles[d][0], d, true, func(p *flows.PointStream, every time.Duration) (float64, bool) {
				return float64(p.Payload) * 8 * float64(time.Second) / float64(every), true
			}})
		}
		if st.Latency.Count > 0 {
			done.curves = append(done.curves, connCurve{name, styles[d][0], d, true, func(p *flows.PointStream, every time.Duration) (float64, bool) {
				return float64(p.Messages) * float64(time.Second) / float64(every), true
			}})
			flight.curves = append(flight.curves, connCurve{name, styles[d][0], d, true, func(p *flows.PointStream, _ time.Duration) (float64, bool) { return float64(p.InFlight), true }})
			lat.curves = append(lat.curves,
				connCurve{name + " p50", styles[d][0], d, false, func(p *flows.PointStream, _ time.Duration) (float64, bool) {
					return float64(p.Latency.P50), p.Latency.Count > 0
				}},
				connCurve{name + " p99", styles[d][1], d, false, func(p *flows.PointStream, _ time.Duration) (float64, bool) {
					return float64(p.Latency.P99), p.Latency.Count > 0
				}})
		}
	}
	for d := range flows.Direction(2) {
		if name := way(d); grants(k, d) {
			credit.curves = append(credit.curves,
				connCurve{name + " granted", styles[d][0], d, false, func(p *flows.PointStream, _ time.Duration) (float64, bool) {
					return float64(p.Credits), p.CreditsKnown
				}},
				connCurve{name + " open", styles[d][1], d, false, func(p *flows.PointStream, _ time.Duration) (float64, bool) {
					return float64(p.Outstanding), p.Outstanding > 0
				}})
		}
	}
	var all []connChart
	for _, ch := range []connChart{rate, flight, lat, done, credit} {
		if len(ch.curves) > 0 {
			all = append(all, ch)
		}
	}
	return all
}

// grants says whether answers told the requester of a direction how many credits it has. Most do not: code 31 says nothing of them.
func grants(k *flows.Connection, d flows.Direction) bool {
	return k.Detail != nil && slices.ContainsFunc(k.Detail.Series.Points, func(p flows.Point) bool { return p.Streams[d].CreditsKnown })
}

// creditEvents are the moments at which a wait for credits ended.
func creditEvents(series *flows.Series) (all []draw.Event) {
	for i := range series.Points {
		if p := &series.Points[i]; p.Streams[0].CreditWait+p.Streams[1].CreditWait > 0 {
			all = append(all, draw.Event{Time: p.Time, Rune: 'w', Style: cells.Warn})
		}
	}
	return all
}

// drawConnCharts draws a connection's charts one below the other, from the one at top on. It returns which that can be.
func drawConnCharts(s *screen, c *cells.Canvas, k *flows.Connection, top int, read *reader, psn *psnPoints) int {
	if k.Detail == nil || len(k.Detail.Series.Points) == 0 {
		c.Text(1, 0, cells.Faint, "Only the first connections of a capture are charted; this is not one of them.")
		return 0
	}
	charts := connCharts(k)
	if len(charts) == 0 {
		c.Text(1, 0, cells.Faint, "Nothing to chart: no payload passed.")
		return 0
	}
	n := max(1, min(len(charts), c.H/5))
	top = max(0, min(top, len(charts)-n))
	for i, ch := range charts[top : top+n] {
		from, to := c.H*i/n, c.H*(i+1)/n
		drawSeries(s, c.Sub(0, from, c.W, to-from), k, &ch, read, psn)
	}
	return top
}

// readSeries is how long the intervals of a connection's charts are, and what its events come to around a moment.
func readSeries(s *screen, k *flows.Connection, read *reader) string {
	if k.Detail == nil || len(k.Detail.Series.Points) == 0 {
		return ""
	}
	series := &k.Detail.Series
	text := ", each " + dur(int64(series.Interval))
	if read.at == 0 {
		legend := "N NAK or RNR, ! PSNs missing, r sent again, c CE or CNP"
		if grants(k, flows.AToB) || grants(k, flows.BToA) {
			legend += ", w waited for credits"
		}
		return text + " (" + legend + ")"
	}
	var again, congested uint64
	var waited time.Duration
	half := max(read.step, int64(series.Interval)) / 2
	for i := range series.Points {
		if p := &series.Points[i]; p.Time+int64(series.Interval) > read.at-half && p.Time <= read.at+half {
			for d := range p.Streams {
				again += p.Streams[d].Retransmissions
				congested += p.Streams[d].CE + p.Streams[d].CNPs
				waited += p.Streams[d].CreditWait
			}
		}
	}
	text += ", at " + s.moment(read.at)
	if again > 0 {
		text += ", " + report.Count(again) + " sent again"
	}
	if congested > 0 {
		text += ", " + report.Count(congested) + " CE or CNP"
	}
	if waited > 0 {
		text += ", " + dur(int64(waited)) + " without credits"
	}
	return text
}

func drawSeries(s *screen, c *cells.Canvas, k *flows.Connection, of *connChart, read *reader, psn *psnPoints) {
	series := &k.Detail.Series
	ch := draw.Chart{Title: of.title, Unit: of.unit, ASCII: s.ascii, Cursor: read.at}
	last := series.Points[len(series.Points)-1]
	ch.From, ch.To = series.Start, last.Time+int64(series.Interval)
	for _, cu := range of.curves {
		d := draw.Curve{Name: cu.name, Style: cu.style, Interval: series.Interval, Zero: cu.zero}
		for i := range series.Points {
			p := &series.Points[i]
			if v, ok := cu.value(&p.Streams[cu.dir], series.Interval); ok {
				d.Samples = append(d.Samples, draw.Sample{Time: p.Time, Value: v})
			}
		}
		ch.Curves = append(ch.Curves, d)
	}
	for i := range series.Points {
		p := &series.Points[i]
		switch {
		case p.Streams[0].Retransmissions+p.Streams[1].Retransmissions > 0:
			ch.Events = append(ch.Events, draw.Event{Time: p.Time, Rune: 'r', Style: cells.Warn})
		case p.Streams[0].CE+p.Streams[1].CE+p.Streams[0].CNPs+p.Streams[1].CNPs > 0:
			ch.Events = append(ch.Events, draw.Event{Time: p.Time, Rune: 'c', Style: cells.Congestion})
		}
	}
	for _, p := range psn.plots {
		if p != nil {
			ch.Events = append(ch.Events, p.Events()...)
		}
	}
	if of.events != nil {
		ch.Events = append(ch.Events, of.events(series)...)
	}
	ch.Draw(c)
	read.drawn(&ch, c.W)
}
