package flows

import (
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// An acknowledgement of what was sent before a leap of the PSNs is an old one, not one of what was never sent; behind a leap as
// before it, PSNs that nobody sent are ghosts.
func TestAnswersBehindALeap(t *testing.T) {
	for _, c := range []struct {
		what string
		off  int // of the PSN that is acknowledged, from the last one before the leap
		want int
	}{
		{"what was acknowledged before", 0, 0},
		{"the packet before that", -1, 0},
		{"what would have come next", 1, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			begun(x)
			sendAll(x, 10, 10)
			old := x.A.Next.Add(-1)
			x.A.Next = old.Add(1<<23 + 2) // so far that the old ones seem to lie ahead
			x.A.Write(10)
			x.B.Ack(old.Add(c.off), 3)
			x.Wait(20 * ms)
			x.A.Next = old.Add(1)
			sendAll(x, 10)
			got := look(x.Frames())
			n := 0
			for i := range got.occurrences {
				if got.occurrences[i].ID == findGhostAck {
					n++
				}
			}
			if n != c.want {
				t.Errorf("%d ghosts, want %d", n, c.want)
			}
		})
	}
}
