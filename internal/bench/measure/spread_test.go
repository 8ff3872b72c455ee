package measure

import "testing"

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{4, 2}, Spread{2.5, 3, 3.5}},
		{[]float64{5, 1, 4, 2, 3}, Spread{2, 3, 4}},
		{[]float64{1, 2, 3, 10}, Spread{1.75, 2.5, 4.75}},
	} {
		if got := Of(c.values); got != c.want {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
		if got := Median(c.values); got != c.want.Median {
			t.Errorf("%v: median %v, want %v", c.values, got, c.want.Median)
		}
	}
	if got := Of([]float64{1, 2, 3}).String(); got != "2.00 [1.50–2.50]" {
		t.Errorf("got %s", got)
	}
}
