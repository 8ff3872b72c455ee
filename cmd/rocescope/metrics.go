package main

import (
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/internal/sink/clickhouse"
	"github.com/rocescope/rocescope/internal/sink/metrics"
	"github.com/rocescope/rocescope/internal/version"
)

// addMetricsFlag adds --metrics, in every command that counts while it runs.
func addMetricsFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "metrics", "", "serve counters to Prometheus at this `address`, such as :9478 (docs/fleet.md)")
}

// startMetrics serves counters; it does nothing for "". The returned function ends it.
func startMetrics(addr string, parts ...func(*metrics.Page)) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	s, err := metrics.Listen(addr)
	if err != nil {
		return nil, err
	}
	serveMetrics(s, parts...)
	return func() { _ = s.Close() }, nil
}

func serveMetrics(s *metrics.Server, parts ...func(*metrics.Page)) {
	s.Collect(buildMetrics)
	for _, p := range parts {
		s.Collect(p)
	}
	s.Start()
}

func buildMetrics(p *metrics.Page) {
	p.Gauge("rocescope_build_info", "Which rocescope this is; always 1.")
	p.Add(1, "version", version.Get().Version)
}

// collect writes the counters of capturing itself.
func (s *session) collect(p *metrics.Page) {
	l := s.live.Stats()
	p.Counter("rocescope_captured_packets_total", "Packets that passed the capture filter, lost ones included.")
	p.Add(float64(l.Seen))
	p.Counter("rocescope_dropped_packets_total", "Packets lost, by where: the card, the kernel's ring, the queue to the disk, the queue to the analysis.")
	p.Add(float64(l.CardDropped), "stage", "card")
	p.Add(float64(l.RingDropped), "stage", "ring")
	if s.rec != nil {
		r := s.rec.Stats()
		p.Add(float64(r.Dropped+r.Failed), "stage", "disk")
	}
	if s.look != nil {
		p.Add(float64(s.look.queue.Dropped()), "stage", "analysis")
	}
	if s.rec != nil {
		p.Counter("rocescope_written_bytes_total", "Bytes written to capture files.")
		p.Add(float64(s.rec.Stats().Bytes))
	}
	if s.rows == nil {
		return
	}
	if w, ok := s.rows.writer.(*clickhouse.Writer); ok {
		c := w.Counts()
		p.Counter("rocescope_sink_rows_total", "Rows for ClickHouse, by what became of them.")
		p.Add(float64(c.Inserted), "result", "inserted")
		p.Add(float64(c.Lost), "result", "lost")
		p.Gauge("rocescope_sink_waiting_rows", "Rows in spill files.")
		p.Add(float64(c.Waiting))
		p.Gauge("rocescope_sink_shards_away", "Shards of ClickHouse that are away.")
		p.Add(float64(c.Away))
	}
}

// metricsOf writes the counters of a software RNIC.
func metricsOf(h *peer.Host) func(*metrics.Page) {
	return func(p *metrics.Page) {
		c := countersOf(h)
		p.Counter("rocescope_frames_total", "Frames through the port.")
		p.Add(float64(c.Port.Received), "direction", "in")
		p.Add(float64(c.Port.Sent), "direction", "out")
		p.Counter("rocescope_frame_bytes_total", "Bytes of these frames.")
		p.Add(float64(c.Port.RecvBytes), "direction", "in")
		p.Add(float64(c.Port.SentBytes), "direction", "out")
		p.Counter("rocescope_rnic_events_total", "Counters of the software RNIC, by the names of serve --json.")
		for _, n := range c.notable() {
			p.Add(float64(n.n), "counter", n.name)
		}
	}
}

// metrics writes the counters of a stream under way.
func (i *injection) metrics(p *metrics.Page) {
	s := i.stream.Progress()
	p.Counter("rocescope_sent_packets_total", "Packets sent.")
	p.Add(float64(s.Packets))
	p.Counter("rocescope_sent_bytes_total", "Bytes of them.")
	p.Add(float64(s.Bytes))
	p.Counter("rocescope_sent_again_packets_total", "Packets of these that were sent again.")
	p.Add(float64(s.Resent))
	p.Counter("rocescope_dropped_packets_total", "Packets lost, by where.")
	p.Add(float64(s.Port.SendLost), "stage", "send")
	p.Add(float64(s.Port.LinkDropped), "stage", "link")
	p.Add(float64(s.Port.RecvLost), "stage", "receive")
	p.Counter("rocescope_answers_total", "What came back.")
	for _, a := range []struct {
		kind string
		n    uint64
	}{{"answered", s.Answered}, {"nak", s.NAKs}, {"rnr_nak", s.RNRs}, {"cnp", s.CNPs}} {
		p.Add(float64(a.n), "kind", a.kind)
	}
	p.Counter("rocescope_read_bytes_total", "Payload of READ responses.")
	p.Add(float64(s.ReadBytes))
}
