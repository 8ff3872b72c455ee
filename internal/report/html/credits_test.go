package html

import (
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/flows"
)

// TestCreditPlot: a stroke for the fewest credits of each bin, also where that is none; no plot where no answer told of credits.
func TestCreditPlot(t *testing.T) {
	point := func(at int64, n int, known bool) flows.Point {
		p := flows.Point{Time: at}
		p.Streams[flows.AToB] = flows.PointStream{Packets: 1, Credits: n, CreditsKnown: known}
		return p
	}
	trailOf := func(points ...flows.Point) *trail {
		conn := &flows.Connection{ID: 3, Detail: &flows.Detail{Series: flows.Series{Interval: 10, Points: points}}}
		return &trail{conn: conn, span: timespan{0, 1000 * loadBins}, load: [2][]load{make([]load, loadBins), make([]load, loadBins)}}
	}
	of := func(points ...flows.Point) *plot { return trailOf(points...).creditPlot(0) }
	if p := of(point(0, 0, false)); p != nil {
		t.Errorf("nobody told: %+v", p)
	}
	p := of(point(0, 8, true), point(10, 4, true), point(20, 0, false), point(500_000/loadBins*loadBins, 0, true))
	if p == nil || p.ID != "credits-3" || !slices.Equal(p.Legend, []legend{{Class: "dir0", Text: "to requests of " + directionNames[0]}}) {
		t.Fatalf("%+v", p)
	}
	if n := strings.Count(string(p.SVG), "h0"); n != 2 {
		t.Errorf("%d strokes\n%s", n, p.SVG)
	}
	// From -16/64 on, in 64ths: 4 and 0 lie where the axis has them.
	for _, want := range []string{`data-y="count -0.25 4.25 0.015625 0"`, ` 272h0`, ` 16h0`} {
		if !strings.Contains(string(p.SVG), want) {
			t.Errorf("no %s\n%s", want, p.SVG)
		}
	}
	if p = of(point(0, 0, true)); p == nil || !strings.Contains(string(p.SVG), `>0</text>`) || strings.Contains(string(p.SVG), `.5</text>`) {
		t.Errorf("none at all: %+v", p)
	}

	// The same in numbers, with what was in flight.
	few, none := point(0, 8, true), point(3000, 0, true)
	few.Streams[flows.AToB].InFlight = 2048
	rows := strings.Split(strings.TrimSpace(trailOf(few, point(1000, 0, false), none).numbers(0)), "\n")
	for i, want := range []string{"0 ns a → b 0 bit/s 2.0 KiB 8", "3.00 us a → b 0 bit/s 0"} {
		if got := strings.Join(strings.Fields(rows[min(i+1, len(rows)-1)]), " "); got != want || len(rows) != 3 {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
