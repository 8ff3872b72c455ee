package flows

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
	"pgregory.net/rapid"
)

func TestMemoryMap(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	do := func(m *testkit.Message) { x.B.Answer(m) }
	do(x.A.Write(1000, testkit.At(0x1000, 7)))
	do(x.A.Write(1000, testkit.At(0x1000+1000, 7)))
	do(x.A.Write(16, testkit.At(0x9000, 7)))
	do(x.A.Read(4096, testkit.At(0x2000, 7)))
	do(x.A.FetchAdd(1, testkit.At(0x3008, 8)))
	do(x.A.Write(0, testkit.At(0, 0)))
	do(x.A.Send(100))
	m := x.A.Write(64, testkit.At(0xBAD000, 9))
	x.B.NAK(m.First, dissect.NAKRemoteAccess)
	s := look(x.Frames())
	mem := s.only(t).Detail.Memory[AToB]
	if len(mem.Regions) != 2 || mem.More || mem.Overlaps != 0 {
		t.Fatalf("%+v", mem)
	}
	a, b := mem.Regions[0], mem.Regions[1]
	if a.RKey != 7 || !slices.Equal(a.Written, []AddressRange{{0x1000, 0x1000 + 2000}, {0x9000, 0x9010}}) || !slices.Equal(a.Read, []AddressRange{{0x2000, 0x3000}}) || a.Atomic != nil || a.Writes != 3 || a.Reads != 1 || a.Merged {
		t.Errorf("%+v", a)
	}
	if b.RKey != 8 || !slices.Equal(b.Atomic, []AddressRange{{0x3008, 0x3010}}) || b.Atomics != 1 {
		t.Errorf("%+v", b)
	}
	if r := mem.Refused; len(r) != 1 || r[0] != (Refusal{Op: OpWrite, VA: 0xBAD000, RKey: 9, Bytes: 64, Status: StatusRemAccess, Frame: uint64(len(x.Frames()))}) {
		t.Errorf("%+v", r)
	}
}

// TestRanges: whatever is added, ranges stay ascending, apart and few, and
// cover what was added; without merging, no more than that.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var m memoryRegion
		n := rapid.IntRange(1, 300).Draw(r, "n")
		added := map[uint64]bool{}
		span := uint64(rapid.SampledFrom([]int{50, 2000}).Draw(r, "span"))
		for range n {
			from := rapid.Uint64Range(0, span).Draw(r, "from")
			to := from + rapid.Uint64Range(1, 8).Draw(r, "size")
			m.add(accessWrite, from, to)
			for a := from; a < to; a++ {
				added[a] = true
			}
			list := m.ranges[accessWrite]
			if len(list) > maxRanges {
				r.Fatalf("%d ranges", len(list))
			}
			for i := range list {
				if list[i].From >= list[i].To || i > 0 && list[i].From <= list[i-1].To {
					r.Fatalf("%v", list)
				}
			}
		}
		covered := uint64(0)
		for _, a := range m.ranges[accessWrite] {
			covered += a.To - a.From
		}
		for a := range added {
			if !slices.ContainsFunc(m.ranges[accessWrite], func(g AddressRange) bool { return g.From <= a && a < g.To }) {
				r.Fatalf("%d is not covered by %v", a, m.ranges[accessWrite])
			}
		}
		if !m.merged && covered != uint64(len(added)) {
			r.Fatalf("%d covered of %d", covered, len(added))
		}
	})
}

func TestRangeAtTheEnd(t *testing.T) {
	if endOf(math.MaxUint64-3, 100) != math.MaxUint64 || endOf(5, 3) != 8 {
		t.Error("an end that wraps")
	}
}

func TestManyKeys(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	for i := range maxRegions + 3 {
		x.B.Answer(x.A.Write(8, testkit.At(0x1000, uint32(i+1))))
	}
	if mem := look(x.Frames()).only(t).Detail.Memory[AToB]; len(mem.Regions) != maxRegions || !mem.More {
		t.Errorf("%d regions, more: %v", len(mem.Regions), mem.More)
	}
}

func TestWriteOverlap(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	x.B.Answer(x.A.Write(1000, testkit.At(0x1000, 7)))
	x.B.Answer(x.A.Write(1000, testkit.At(0x1000, 7))) // the one before is done
	x.A.Write(1000, testkit.At(0x2000, 7))
	x.A.Write(1000, testkit.At(0x2000, 8)) // another key
	x.A.Write(8, testkit.At(0x23E8, 7))    // right behind it
	last := x.A.Write(3000, testkit.At(0x1FFF, 7))
	last.ResendFrom(0) // no other message
	x.B.Answer(last)
	s := look(x.Frames())
	f := s.finding("write_overlap")
	if f == nil || f.Count != 1 || !strings.Contains(f.Summary, "0x2000 to 0x23e8 under R_Key 0x7") || f.Severity() != Note {
		t.Errorf("%+v", f)
	}
	if n := s.only(t).Detail.Memory[AToB].Overlaps; n != 1 {
		t.Errorf("%d overlaps", n)
	}
}
