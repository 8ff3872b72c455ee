package sink

import (
	"testing"

	"github.com/rocescope/rocescope/flows"
)

// TestCreditsOfSeries: none left is a value, and not what it is where no answer told, or nobody looked.
func TestCreditsOfSeries(t *testing.T) {
	b := NewBlock(series().Table)
	for _, p := range []struct {
		flows.PointStream
		live bool
	}{
		{flows.PointStream{Credits: 6, CreditsKnown: true}, false},
		{flows.PointStream{CreditsKnown: true}, false},
		{flows.PointStream{}, false},
		{flows.PointStream{}, true},
	} {
		series().add(b, &seriesRow{where: where{run: &Run{}}, PointStream: &p.PointStream, live: p.live})
	}
	c := &b.Cells[b.Table.Column("credits")]
	if c.Bits[0] != 6 || c.Null(0) || c.Bits[1] != 0 || c.Null(1) || !c.Null(2) || !c.Null(3) {
		t.Errorf("values %v, missing %v", c.Bits, c.Nulls)
	}
}
