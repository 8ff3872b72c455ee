package flows

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestGuessedMTU: where no handshake tells the path MTU, the PSN behind a READ suggests one. A packet that the capture missed
// there makes the guess wrong, and what shows that is no fault of the device's.
func TestGuessedMTU(t *testing.T) {
	for _, c := range []struct {
		name string
		mtu  int // as far as it shows
		then func(x *testkit.Exchange, read *testkit.Message)
	}{
		{"by the size of the answer", 0, func(x *testkit.Exchange, read *testkit.Message) { x.B.Answer(read) }},
		{"by a full packet in front of the answer", 1024, func(x *testkit.Exchange, read *testkit.Message) {
			write := x.A.Write(3000)
			x.B.Answer(read)
			x.B.Answer(write)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{MTU: 1024})
			x.A.Answer(x.B.Send(8)) // so that it is known which two talk
			x.B.Answer(x.A.Send(8))
			read := x.A.Read(300)
			lost := x.A.Send(8)
			lost.Packets[0].Drop()
			behind := x.A.Send(8)
			c.then(x, read)
			x.B.NAK(lost.First, dissect.NAKSequence)
			lost.ResendFrom(0)
			behind.ResendFrom(0)
			x.B.Answer(lost)
			x.B.Answer(behind)
			s := look(x.Frames())
			for _, f := range s.Findings {
				if f.Severity() >= Error {
					t.Errorf("%s: %s", f.Check().ID, f.Summary)
				}
			}
			if got := s.Connections[0].A.PathMTU; got != c.mtu {
				t.Errorf("path MTU is %d, want %d", got, c.mtu)
			}
		})
	}
}
