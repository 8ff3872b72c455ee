package diff

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// The page has the charts, complete in itself, and they show each extreme that the document has.
func TestCharts(t *testing.T) {
	for _, pair := range testkit.TwoTapManifest(t).Pairs {
		path := func(tap string) string { return filepath.Join(testkit.TwoTap(t), pair.Pair+"_tap_"+tap+".pcap") }
		r, err := Packets(context.Background(), side(path("a")), side(path("b")), Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := r.Document()
		lost, charted := uint64(0), map[string]bool{}
		for i := range r.Packets {
			if r.Packets[i].gone() {
				lost++
			}
		}
		for _, c := range r.charts() {
			charted[c.ID] = true
			var n, top int64
			for _, s := range c.Series {
				for _, m := range s.Marks {
					if m.At < c.From-(c.To-c.From)/100 || m.At > c.To {
						t.Errorf("%s, %s: %d is not from %d to %d", pair.Pair, c.ID, m.At, c.From, c.To)
					}
					n, top = n+m.High, max(top, m.High)
				}
			}
			var most int64
			for _, s := range d.Streams {
				if s.Delay != nil {
					most = max(most, s.Delay.Max)
				}
			}
			if c.ID == "losses" && uint64(n) != lost || c.ID == "delay" && top != most {
				t.Errorf("%s, %s: %d in all, %d at most; %d are lost, and the longest delay is %d", pair.Pair, c.ID, n, top, lost, most)
			}
		}
		if !charted["delay"] || !charted["clock"] || !charted["jitter"] || charted["losses"] != (lost > 0) {
			t.Errorf("%s has the charts %v, and %d lost", pair.Pair, charted, lost)
		}
		var page bytes.Buffer
		if err := d.WriteHTML(&page, "x"); err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(src|href)="[a-z]+:`).FindAllString(page.String(), -1); len(found) != 1 || !strings.Contains(page.String(), `id="delay"`) {
			t.Errorf("%s: %v", pair.Pair, found)
		}
	}
}
