package flows

import (
	"slices"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
	"pgregory.net/rapid"
)

func TestCoarseBuckets(t *testing.T) {
	for b := range coarseBuckets {
		if got := bucketOf(bucketFrom(b)); got != b {
			t.Errorf("bucket %d begins at %d, which is of bucket %d", b, bucketFrom(b), got)
		}
		if b > 0 && bucketOf(bucketFrom(b)-1) != b-1 {
			t.Errorf("bucket %d: what lies before it is of bucket %d", b, bucketOf(bucketFrom(b)-1))
		}
	}
	if bucketOf(-5) != 0 || bucketOf(1<<62) != coarseBuckets-1 {
		t.Error("the ends")
	}
}

// TestPercentiles compares fine and coarse percentiles with the values.
func TestPercentiles(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(96, 1<<36), 1, 300).Draw(r, "values")
		coarse, fine := &latency{}, &latency{fine: newFine()}
		for _, v := range values {
			coarse.add(v, false)
			fine.add(v, false)
		}
		q := rapid.Float64Range(0.01, 0.999).Draw(r, "q")
		want := exact(values, q)
		within := func(name string, got int64, part float64) {
			for _, w := range want {
				if float64(got) >= float64(w)*(1-part) && float64(got) <= float64(w)*(1+part) {
					return
				}
			}
			r.Fatalf("%s: %d, want %v within %g", name, got, want, part)
		}
		within("coarse", coarse.percentiles(100 * q)[0], 0.25)
		within("fine", fine.percentiles(100 * q)[0], 0.01)
	})
}

// exact lists the values beside the q-th part: libraries differ in which.
func exact(values []int64, q float64) []int64 {
	s := sortedCopy(values)
	at := int(q * float64(len(s)))
	return s[max(at-1, 0):min(at+2, len(s))]
}

func TestLatencySummary(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	chat(x, 100)
	s := look(x.Frames())
	st := &s.only(t).Streams[AToB]
	l := st.Latency
	if l.Count != 100 || l.Coarse || l.Min != 1000 || l.Max != 1000 || l.Mean != 1000 || l.P50 != 1000 || l.P999 != 1000 {
		t.Errorf("%+v", l)
	}
	if st.RTT.Count != 100 || st.RTT.Min != 1000 || st.RTT.Mean != 1000 || st.RTT.Max != 1000 {
		t.Errorf("%+v", st.RTT)
	}
	if h := st.Latencies; len(h) != 1 || h[0].Count != 100 || h[0].From > 1000 || h[0].To <= 1000 {
		t.Errorf("%+v", h)
	}
}

func sortedCopy(v []int64) []int64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s
}
