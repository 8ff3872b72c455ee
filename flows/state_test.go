package flows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// states writes a queue pair's history: "INIT@1? RTS@4", with a question mark
// on what is presumed.
func states(q *QP) string {
	var list []string
	for _, step := range q.History {
		text := fmt.Sprintf("%v@%d", step.State, step.Frame)
		if step.Presumed {
			text += "?"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		name    string
		options testkit.ExchangeOptions
		write   func(x *testkit.Exchange)
		a, b    string
	}{
		{
			name: "CM, and one side that asks",
			write: func(x *testkit.Exchange) {
				x.Connect()
				sendAll(x, 10, 10)
			},
			a: "INIT@2? RTS@4", b: "RTR@2? RTR@5",
		},
		{
			name: "CM, and both sides that ask, until the end",
			write: func(x *testkit.Exchange) {
				begun(x)
				x.Disconnect()
			},
			a: "INIT@2? RTS@4 ERROR@12?", b: "RTR@2? RTR@5 RTS@8 ERROR@13?",
		},
		{
			name: "nothing but traffic",
			write: func(x *testkit.Exchange) {
				sendAll(x, 10, 10, 10, 10)
			},
			a: "RTS@1", b: "RTR@2",
		},
		{
			name: "a fatal NAK",
			write: func(x *testkit.Exchange) {
				x.Connect()
				sendAll(x, 10)
				x.B.NAK(x.A.Write(10).First, dissect.NAKRemoteAccess)
			},
			a: "INIT@2? RTS@4 ERROR@7", b: "RTR@2? RTR@5 ERROR@7",
		},
		{
			name: "retries used up", options: testkit.ExchangeOptions{RetryCount: 2},
			write: func(x *testkit.Exchange) {
				x.Connect()
				sendAll(x, 10)
				m := x.A.Write(10)
				for range 2 {
					x.Wait(50 * time.Millisecond)
					m.ResendFrom(0)
				}
				later(x, time.Second)
			},
			a: "INIT@2? RTS@4 ERROR@8?", b: "RTR@2? RTR@5",
		},
		{
			name: "an unreliable connection", options: testkit.ExchangeOptions{Transport: dissect.UC},
			write: func(x *testkit.Exchange) { x.Connect(); x.A.Write(10) },
			a:     "INIT@2? RTS@4", b: "RTR@2?",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := follow(c.options, c.write)
			conn := &s.Connections[0]
			want(t, s, "states of a", states(&conn.A), c.a)
			want(t, s, "states of b", states(&conn.B), c.b)
			for _, q := range []*QP{&conn.A, &conn.B} {
				for i := range q.History {
					if q.History[i].Why == "" || q.History[i].State != q.State && i == len(q.History)-1 {
						t.Errorf("step %+v of a queue pair in %v", q.History[i], q.State)
					}
				}
			}
		})
	}
}

func TestNamesOfStatesAndSuch(t *testing.T) {
	for got, want := range map[string]string{
		StateSQE.String(): "SQE", StateReset.String(): "RESET", TapNearB.String(): "near b", CauseSpurious.String(): "spurious",
		Error.String(): "error", Ambiguous.String(): "ambiguous", OpAtomicWrite.String(): "atomic_write", NumOperations.String(): "unknown",
		StatusRNRRetry.String(): "IBV_WC_RNR_RETRY_EXC_ERR", NumStatuses.String(): "unknown", FindingID(60000).String(): "unknown", BToA.String(): "b_to_a",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for s, code := range map[Status]int{StatusSuccess: 0, StatusFlushed: 5, StatusRetryExc: 12, StatusOpen: -1, StatusSent: -1} {
		if s.Code() != code {
			t.Errorf("%v has code %d, want %d", s, s.Code(), code)
		}
	}
	for _, s := range []Severity{Note, Warning, Error} {
		if got, ok := ParseSeverity(s.String()); !ok || got != s {
			t.Errorf("%v is not read back", s)
		}
	}
	if _, ok := ParseSeverity("fatal"); ok {
		t.Error("there is no severity fatal")
	}
}
