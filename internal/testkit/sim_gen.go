package testkit

import (
	"time"

	"pgregory.net/rapid"

	"github.com/rocescope/rocescope/dissect"
)

// SimGen draws healthy conversations: operations, sizes, path MTUs, starting PSNs around the wrap, policies of
// acknowledging, latencies and places of the tap. Without rapid's shrinking, SimGen().Example(seed) is one of them.
func SimGen() *rapid.Generator[SimOptions] {
	return rapid.Custom(func(t *rapid.T) SimOptions {
		o := SimOptions{
			ExchangeOptions: ExchangeOptions{
				MTU:         256 << rapid.IntRange(0, 4).Draw(t, "mtu code"),
				PSNA:        psnGen().Draw(t, "psn of a"),
				PSNB:        psnGen().Draw(t, "psn of b"),
				IPv6:        rapid.Bool().Draw(t, "ipv6"),
				FixedIPID:   rapid.Bool().Draw(t, "fixed ip id"),
				AckReqEvery: rapid.SampledFrom([]int{0, 0, 2, 5, 16}).Draw(t, "ack req every"),
			},
			Window:      rapid.SampledFrom([]int{1, 4, 16, 64, 256}).Draw(t, "window"),
			Depth:       rapid.SampledFrom([]int{1, 2, 16}).Draw(t, "depth"),
			AckMessages: rapid.IntRange(1, 4).Draw(t, "ack messages"),
			Coalesce:    time.Duration(rapid.SampledFrom([]int{0, 0, 1000, 5000}).Draw(t, "coalesce")),
			DupAckAll:   rapid.Bool().Draw(t, "duplicates all acknowledged"),
		}
		for i := range o.Latency {
			o.Latency[i] = time.Duration(rapid.IntRange(100, 5000).Draw(t, "latency"))
		}
		ops := rapid.SliceOfN(opGen(o.MTU), 0, 12)
		o.Ops[A] = ops.Draw(t, "operations of a")
		o.Ops[B] = ops.Draw(t, "operations of b")
		return o
	})
}

func psnGen() *rapid.Generator[dissect.PSN] {
	return rapid.Custom(func(t *rapid.T) dissect.PSN {
		return dissect.PSN(0).Add(rapid.OneOf(rapid.IntRange(-40, 0), rapid.IntRange(0, 1<<24-1)).Draw(t, "psn"))
	})
}

func opGen(mtu int) *rapid.Generator[SimOp] {
	families := []dissect.Family{dissect.Send, dissect.Write, dissect.Write, dissect.Read, dissect.CompareSwap, dissect.FetchAdd}
	return rapid.Custom(func(t *rapid.T) SimOp {
		op := SimOp{Family: rapid.SampledFrom(families).Draw(t, "family")}
		op.Size = rapid.OneOf(rapid.IntRange(0, 8*mtu), rapid.SampledFrom([]int{0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu})).Draw(t, "size")
		op.Imm = op.Family == dissect.Send || op.Family == dissect.Write && rapid.Bool().Draw(t, "immediate")
		op.Post = time.Duration(rapid.SampledFrom([]int{0, 0, 1000, 50_000}).Draw(t, "posted"))
		return op
	})
}

// FaultGen draws up to n faults of the given kinds against a conversation.
func FaultGen(o SimOptions, n int, kinds ...SimFaultKind) *rapid.Generator[[]SimFault] {
	healthy := Simulate(o)
	var sent [2]int
	for i := range healthy.Packets {
		sent[healthy.Packets[i].From]++
	}
	return rapid.Custom(func(t *rapid.T) (faults []SimFault) {
		taken := map[[2]int]bool{}
		for range rapid.IntRange(0, n).Draw(t, "faults") {
			f := SimFault{
				From:   Side(rapid.IntRange(0, 1).Draw(t, "from")),
				Kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
				Behind: rapid.Bool().Draw(t, "behind"),
				By:     rapid.IntRange(1, 5).Draw(t, "by"),
			}
			f.Nth = rapid.IntRange(0, sent[f.From]+2).Draw(t, "nth")
			if taken[[2]int{int(f.From), f.Nth}] {
				continue
			}
			taken[[2]int{int(f.From), f.Nth}] = true
			faults = append(faults, f)
		}
		return faults
	})
}
