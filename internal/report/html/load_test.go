package html

import (
	"os"
	"slices"
	"testing"
)

// taskTime is for how long the page's thread was at work since its beginning, in milliseconds: parsing, styles, layout, script and
// painting. What other processes do to the machine does not count.
func (p *tab) taskTime() float64 {
	var got struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	p.do("Performance.getMetrics", nil, &got)
	for _, m := range got.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value * 1e3
		}
	}
	p.t.Fatal("the browser does not tell how long it worked")
	return 0
}

// BenchmarkOpening opens the report of a million packets, with its plots and without.
func BenchmarkOpening(b *testing.B) {
	a := million(b)
	whole := write(b, a)
	a.Collector = nil
	plain := write(b, a)
	chromium := startBrowser(b)
	for _, page := range []struct{ name, file string }{{"plots", whole}, {"no-plots", plain}} {
		b.Run(page.name, func(b *testing.B) {
			chromium.t = b
			var took []float64
			for range b.N {
				p := chromium.open(page.file, func(p *tab) {
					p.do("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
				})
				took = append(took, p.taskTime())
			}
			info, err := os.Stat(page.file)
			if err != nil {
				b.Fatal(err)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "task-ms")
			b.ReportMetric(float64(info.Size()), "page-bytes")
		})
		chromium.t = b
	}
}
