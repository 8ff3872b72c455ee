package tui

import (
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/draw"
)

// drawRates draws what passed over time: bits, and what went wrong among it.
func drawRates(s *screen, c *cells.Canvas) {
	series := s.ses.rates.series()
	if len(series.points) == 0 {
		c.Text(1, 0, cells.Faint, "no packet has a time")
		return
	}
	ch := draw.Chart{Unit: bitsText, ASCII: s.ascii}
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
}

// connChart is one of the charts of a connection.
type connChart struct {
	title  string
	unit   func(float64) string
	curves []connCurve
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
	return strings.ReplaceAll(strings.TrimSuffix(report.BitRate(v), "it/s"), " ", "") + "/s"
}

func seconds(v float64) string { return dur(int64(v)) }
func bytesOf(v float64) string { return report.Bytes(uint64(max(v, 0))) }

// connCharts are the charts of a connection, for the directions that carry something.
func connCharts(k *flows.Connection) []connChart {
	var rate, flight, lat connChart
	rate = connChart{title: "Payload rate", unit: bitsText}
	flight = connChart{title: "Sent and not acknowledged (≤ what the requester had)", unit: bytesOf}
	lat = connChart{title: "Latency, ~p50 and ~p99", unit: seconds}
	styles := [2][2]cells.Style{{cells.Chart1, cells.Chart2}, {cells.Chart4, cells.Chart3}}
	for d := range flows.Direction(2) {
		name := map[flows.Direction]string{flows.AToB: "A→B", flows.BToA: "B→A"}[d]
		st := &k.Streams[d]
		if st.PayloadBytes > 0 {
			rate.curves = append(rate.curves, connCurve{name, styles[d][0], d, true, func(p *flows.PointStream, every time.Duration) (float64, bool) {
				return float64(p.Payload) * 8 * float64(time.Second) / float64(every), true
			}})
		}
		if st.Latency.Count > 0 {
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
	var all []connChart
	for _, ch := range []connChart{rate, flight, lat} {
		if len(ch.curves) > 0 {
			all = append(all, ch)
		}
	}
	return all
}

// drawConnCharts draws a connection's charts one below the other; cursor is a moment to read, 0 for none.
func drawConnCharts(s *screen, c *cells.Canvas, k *flows.Connection) {
	if k.Detail == nil || len(k.Detail.Series.Points) == 0 {
		c.Text(1, 0, cells.Faint, "Only the first connections of a capture are charted; this is not one of them.")
		return
	}
	charts := connCharts(k)
	if len(charts) == 0 {
		c.Text(1, 0, cells.Faint, "Nothing to chart: no payload passed.")
		return
	}
	n := max(1, min(len(charts), c.H/5))
	for i, ch := range charts[:n] {
		from, to := c.H*i/n, c.H*(i+1)/n
		drawSeries(s, c.Sub(0, from, c.W, to-from), k, &ch)
	}
}

func drawSeries(s *screen, c *cells.Canvas, k *flows.Connection, of *connChart) {
	series := &k.Detail.Series
	ch := draw.Chart{Title: of.title, Unit: of.unit, ASCII: s.ascii}
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
	ch.Draw(c)
}
