package inline

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCompare: what two captures of a path with known faults differ by is found, as much of each kind as was done.
func TestCompare(t *testing.T) {
	dir := testkit.TwoTap(t)
	kinds := map[string]string{"drop": "lost", "duplicate": "duplicated", "delay": "reordered", "corrupt": "changed", "truncate": "changed", "ce": "marked"}
	for _, pair := range testkit.TwoTapManifest(t).Pairs {
		d, err := compare([2]string{filepath.Join(dir, pair.Pair+"_tap_a.pcap"), filepath.Join(dir, pair.Pair+"_tap_b.pcap")})
		if err != nil {
			t.Fatal(err)
		}
		want, got := moves{}, moves{}
		for i := range pair.Faults.Log {
			want[kinds[pair.Faults.Log[i].Done]]++
		}
		for what, n := range d.packets {
			kind, _, _ := strings.Cut(what, " ")
			got[kind] += n
			if !strings.HasSuffix(what, " from the client") && !strings.HasSuffix(what, " from the server") {
				t.Errorf("%s does not say which way", what)
			}
		}
		for kind, n := range want {
			if got[kind] != n {
				t.Errorf("%s: %d packets are %s, want %d", pair.Pair, got[kind], kind, n)
			}
		}
		if max(d.slowest[0], d.slowest[1]) <= 0 { // some have packets one way only
			t.Errorf("%s: the ways took %v", pair.Pair, d.slowest)
		}
	}
}

// TestJudgeDiff: what is found has to be what the row has, and a delay as long as it was asked for.
func TestJudgeDiff(t *testing.T) {
	lost := moves{"lost " + theACK: 1}
	late := Row{Delay: 100 * time.Millisecond, Struck: 1}
	ms := func(client, server time.Duration) [2]time.Duration {
		return [2]time.Duration{client * time.Millisecond, server * time.Millisecond}
	}
	for _, x := range []struct {
		row  Row
		d    differing
		want string
	}{
		{Row{Differs: lost}, differing{packets: lost}, ""},
		{Row{}, differing{packets: moves{}}, ""},
		{Row{Differs: lost}, differing{packets: moves{}}, "finds map[], and was to find map[lost RC_ACKNOWLEDGE from the server:1]"},
		{Row{}, differing{packets: lost}, "and was to find map[]"},
		{Row{Differs: lost}, differing{packets: moves{"lost " + theMiddle: 1}}, "lost RC_RDMA_WRITE_MIDDLE from the client:1"},
		{late, differing{slowest: ms(1, 101)}, ""},
		{late, differing{slowest: ms(1, 99), clock: 2 * time.Millisecond}, ""},
		{late, differing{slowest: ms(1, 99)}, "from the server took 99ms"},
		{late, differing{slowest: ms(101, 1)}, "from the server took 1ms"},
		{late, differing{slowest: ms(1, 500)}, "from the server took 500ms"},
	} {
		r := &Result{Row: x.row}
		if err := r.judgeDiff(&x.d); x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%+v: %v; want %q", x.d, err, x.want)
		}
	}
}
