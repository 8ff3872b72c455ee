package index

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
)

// entries are packets of a file, more or less likely ones.
func entries(t *rapid.T) []Entry {
	number := rapid.Uint32()
	near := rapid.Uint32Range(0, 3000)
	var all []Entry
	var offset, time int64
	gap := int64(rapid.IntRange(16, 32).Draw(t, "gap"))
	padded := rapid.Bool().Draw(t, "padded")
	for i := range rapid.IntRange(0, 3*blockLen).Draw(t, "n") {
		e := Entry{Number: uint64(i) + 1, Prev: time, CapLen: near.Draw(t, "length")}
		odd := rapid.IntRange(0, 20).Draw(t, "odd") == 0
		offset += gap
		if padded {
			offset = (offset + 3) &^ 3
		}
		e.Offset = offset
		time += int64(near.Draw(t, "time"))
		e.WireLen = e.CapLen
		e.Mark = flows.Mark{Conn: near.Draw(t, "conn") % 8, Direction: flows.Direction(i % 2), Bits: flows.MarkRequest | flows.MarkPSN, PSNOffset: uint32(i)}
		if odd {
			e.Offset = rapid.Int64Range(0, 1<<50).Draw(t, "offset")
			time = rapid.Int64().Draw(t, "far time")
			e.WireLen = number.Draw(t, "wire")
			e.CapLen = number.Draw(t, "cap")
			e.Iface = uint16(number.Draw(t, "iface"))
			e.NoTime = rapid.Bool().Draw(t, "no time")
			e.Direction = captures.Direction(number.Draw(t, "direction") % 3)
			e.Mark = flows.Mark{
				Bits: flows.MarkBits(number.Draw(t, "bits")), Conn: number.Draw(t, "any conn"), Message: number.Draw(t, "message"),
				PSNOffset: number.Draw(t, "psn"), Round: uint16(number.Draw(t, "round")), Direction: flows.Direction(i / 3 % 2),
			}
			tidy(&e.Mark)
		}
		e.Time = time
		if i == 0 {
			e.Prev = time
		}
		offset = e.Offset + int64(e.CapLen)
		all = append(all, e)
	}
	return all
}

func TestEntriesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := entries(t)
		x := &Index{}
		w := newWhole()
		x.store = w
		for i := range all {
			w.seg.table.append(&all[i])
			if i%100 == 37 { // readers come at any time
				w.seg.table.publish()
				check(t, x, w, all[:i+1])
			}
		}
		w.seg.table.publish()
		check(t, x, w, all)
	})
}

func check(t *rapid.T, x *Index, w *whole, all []Entry) {
	first, last := w.bounds()
	x.first.Store(first)
	x.frames.Store(last)
	r := x.NewReader()
	for i := len(all) - 1; i >= 0; i-- {
		e, err := r.Entry(uint64(i) + 1)
		if err != nil {
			t.Fatal(err)
		}
		if *e != all[i] {
			t.Fatalf("entry %d is\n%+v, should be\n%+v", i, *e, all[i])
		}
	}
}

func TestBitsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBitset()
		var all []uint64
		var last uint64
		for range rapid.IntRange(0, 20).Draw(t, "calls") {
			end := last + rapid.Uint64Range(1, 2000).Draw(t, "more")
			step := rapid.Uint64Range(1, 400).Draw(t, "step")
			var list []uint64
			for n := last + 1 + step/2; n <= end; n += step {
				list = append(list, n)
			}
			b.extend(list, end)
			all, last = append(all, list...), end
		}
		var below uint64
		for n := uint64(1); n <= last+600; n++ {
			if got := b.rank(n); got != below {
				t.Fatalf("%d lie below %d, not %d", below, n, got)
			}
			in := below < uint64(len(all)) && all[below] == n
			if b.has(n) != in {
				t.Fatalf("%d is in it: %v", n, b.has(n))
			}
			if in {
				below++
			}
		}
		for i, n := range all {
			if got, ok := b.at(uint64(i)); !ok || got != n {
				t.Fatalf("number %d is %d, not %d", i, n, got)
			}
		}
		if _, ok := b.at(uint64(len(all))); ok {
			t.Fatal("there is one too many")
		}
	})
}

func TestBitsetTrims(t *testing.T) {
	b := newBitset()
	const n = 3 * trimFrom
	for i := uint64(1); i < n; i += 4096 {
		b.extend([]uint64{i, i + 7}, i+4095)
	}
	whole := *b
	b.trim(2*trimFrom + 100)
	if len(b.words) >= len(whole.words)/2 {
		t.Errorf("%d words are left of %d", len(b.words), len(whole.words))
	}
	for i := b.origin; i < n; i += 511 {
		if b.rank(i) != whole.rank(i) || b.has(i) != whole.has(i) {
			t.Fatalf("number %d changed", i)
		}
	}
	for i := b.rank(b.origin); i < b.count; i++ {
		got, ok := b.at(i)
		want, _ := whole.at(i)
		if !ok || got != want {
			t.Fatalf("number %d is %d, should be %d", i, got, want)
		}
	}
}
