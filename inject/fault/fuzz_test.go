package fault

import (
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// FuzzRule reads rules in words. Those that are rules may do what they say to a packet: nothing panics, and no frame is longer
// than the port takes.
func FuzzRule(f *testing.F) {
	for _, seed := range []string{
		"drop nth=3", "delay by=10us when infiniband.bth.opcode == RC_SEND_ONLY", "set infiniband.bth.psn=0xffffff then corrupt", "duplicate count=2",
		"drop probability=0.01", "reorder by=2 every=3 when flow.retransmission", "truncate to=20", "ecn way=out", "drop after=1s before=2s",
		"set infiniband.reth.dmalen=4294967295 when infiniband.reth", "corrupt bits=9999999", "replay", "nak",
	} {
		f.Add(seed)
	}
	for _, row := range catalogue {
		f.Add(row.ID)
	}
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.Answer(x.A.Write(100))
	x.B.Answer(x.A.Read(2000))
	frames := x.Frames()
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := Parse(text)
		if err != nil {
			return
		}
		now := int64(1e18)
		near, far := port.Pair(port.MemoryOptions{Slots: 256, Clock: func() int64 { return now }})
		p, err := Wrap(near, &Set{Seed: 1, Rules: []*Rule{rule}})
		if err != nil {
			return
		}
		var got [64]port.In
		for range 3 {
			for _, frame := range frames {
				var slot [1]uint32
				if p.Take(slot[:]) != 1 {
					break
				}
				n := copy(p.Room(slot[0]), frame.Data)
				_ = p.Send([]port.Out{{Slot: slot[0], Len: int32(n)}})
				now += int64(time.Millisecond)
			}
			n, _ := far.Receive(got[:])
			for _, in := range got[:n] {
				if len(in.Data) > near.Info().MaxFrame {
					t.Fatalf("a frame of %d bytes where %d is the most", len(in.Data), near.Info().MaxFrame)
				}
				var d dissect.Decoder
				var packet dissect.Packet
				d.Decode(dissect.LinkEthernet, in.Data, len(in.Data), &packet)
			}
		}
	})
}

// FuzzRulesFile reads files of rules, as --faults does.
func FuzzRulesFile(f *testing.F) {
	for _, seed := range []string{
		"rules:\n  - do: drop\n    nth: 3\n", "seed: 7\nrules:\n  - fault: icrc_wrong\n    when: infiniband.bth\n    every: 2\n",
		"rules: []\n", "rules:\n  - {do: drop, nth: 99999999999999999999}\n", "seed: -1\nrules:\n  - {}\n", "rules: &a\n  - *a\n", "seed: [",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseFile("rules.yaml", data)
		if err == nil && len(s.Rules) == 0 {
			t.Error("a file without rules is none")
		}
	})
}
