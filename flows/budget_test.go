package flows

import (
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// near reports whether a time is another one, give or take some frames.
func near(got, want time.Duration) bool {
	return got > want-20*time.Microsecond && got < want+20*time.Microsecond
}

func TestBudget(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name  string
		opt   testkit.ExchangeOptions
		write func(x *testkit.Exchange)
		get   func(b *Budget) time.Duration
		want  time.Duration
		text  string // of the finding; "" = none
	}{
		{name: "the application", write: func(x *testkit.Exchange) {
			chat(x, 1)
			x.Wait(20 * ms)
			chat(x, 1)
		}, get: func(b *Budget) time.Duration { return b.Application }, want: 20 * ms},
		{name: "in flight", write: func(x *testkit.Exchange) {
			m := x.A.Write(1000)
			x.Wait(5 * ms)
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.InFlight }, want: 5 * ms},
		{name: "receives", write: func(x *testkit.Exchange) {
			m := x.A.Send(1000)
			x.B.RNR(m.First, 14)
			x.Wait(2 * ms)
			m.ResendFrom(0)
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.RNR }, want: 2 * ms, text: "receives at the responder"},
		{name: "time-outs", write: func(x *testkit.Exchange) {
			m := x.A.Write(1000)
			x.Wait(67 * ms)
			m.ResendFrom(0)
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.Timeout }, want: 67 * ms, text: "answers that never came"},
		{name: "sequence NAKs", write: func(x *testkit.Exchange) {
			m := x.A.Write(3000)
			m.Packets[1].Drop()
			x.B.NAK(m.First.Add(1), dissect.NAKSequence)
			x.Wait(3 * ms)
			m.ResendFrom(1)
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.Recovery }, want: 3 * ms, text: "sequence NAKs"},
		{name: "READ depth", opt: testkit.ExchangeOptions{ReadDepth: 1}, write: func(x *testkit.Exchange) {
			for range 4 {
				r := x.A.Read(1000)
				x.Wait(ms)
				x.B.Answer(r)
			}
		}, get: func(b *Budget) time.Duration { return b.ReadDepth }, want: 4 * ms, text: "READ depth"},
		{name: "credits", opt: testkit.ExchangeOptions{Credit: 1}, write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Send(10))
			m := x.A.Send(10)
			x.Wait(2 * ms)
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.Credit }, want: 2 * ms, text: "credits"},
		{name: "WRITEs take no credits", opt: testkit.ExchangeOptions{Credit: 1}, write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(10))
			m := x.A.Write(10)
			x.Wait(2 * ms)
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.Credit }, want: 0},
		{name: "CNPs", write: func(x *testkit.Exchange) {
			y := x.A.Write(50 * 1024)
			for i, p := range y.Packets[25:] {
				p.Delay(time.Duration(i+1) * 100 * time.Microsecond)
			}
			x.B.CNP().Delay(-20 * time.Microsecond)
			x.Wait(3 * ms)
			x.B.Answer(y)
		}, get: func(b *Budget) time.Duration { return b.Congestion }, want: 1500 * time.Microsecond},
		{name: "pauses", write: func(x *testkit.Exchange) {
			m := x.A.Write(1000)
			for range 10 {
				x.B.Pause(0xFFFF)
				x.Wait(300 * time.Microsecond)
			}
			x.B.Answer(m)
		}, get: func(b *Budget) time.Duration { return b.Paused }, want: 3010 * time.Microsecond, text: "pause frames"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := testkit.NewExchange(test.opt)
			x.Connect()
			test.write(x)
			s := look(x.Frames())
			c := s.only(t)
			b := &c.Detail.Budget[AToB]
			got := test.get(b)
			if test.name == "CNPs" { // an estimate
				if got < test.want/2 || got > test.want*3/2 {
					t.Errorf("%v of %v; %+v", got, test.want, b)
				}
				return
			}
			if !near(got, test.want) {
				t.Errorf("%v, want %v; %+v", got, test.want, b)
			}
			if sum := b.Application + b.InFlight + b.RNR + b.Timeout + b.Recovery + b.Credit + b.ReadDepth + b.Congestion + b.Paused; sum != b.Total {
				t.Errorf("the parts make %v of %v", sum, b.Total)
			}
			f := s.finding("waiting")
			switch {
			case test.text == "" && f != nil:
				t.Errorf("found: %s", f.Summary)
			case test.text != "" && (f == nil || !strings.Contains(f.Summary, test.text)):
				t.Errorf("%+v lacks %q", f, test.text)
			}
		})
	}
}
