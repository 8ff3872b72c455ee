package flows

import (
	"math/rand/v2"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// TestIndexAgainstAMap inserts, finds and removes many streams in random order
// and compares with a map at every step.
func TestIndexAgainstAMap(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	tr := New(Options{})
	type entry struct {
		key  streamKey
		slot uint32
	}
	var there []entry
	known := map[streamKey]streamRef{}
	for step := range 20_000 {
		if len(there) == 0 || rng.IntN(5) < 3 {
			slot, c := tr.newConn()
			c.transport = dissect.RC
			// Few addresses, QPNs and VLANs, so that keys differ in one part only.
			c.end[1] = endpoint{addr: dissect.Addr{Lo: uint64(rng.IntN(4))}, qpn: uint32(rng.IntN(1 << 13)), vlan: int16(rng.IntN(3)) - 1}
			c.end[0].qpn = noSource
			if rng.IntN(4) == 0 {
				c.transport = dissect.UD
				c.end[0] = endpoint{addr: dissect.Addr{Hi: uint64(rng.IntN(3))}, qpn: uint32(rng.IntN(3)), vlan: c.end[1].vlan}
			}
			k := c.key(AToB)
			if _, ok := known[k]; ok {
				tr.release(slot)
				continue
			}
			tr.enter(slot, AToB)
			known[k] = refOf(slot, AToB)
			there = append(there, entry{k, slot})
		} else {
			i := rng.IntN(len(there))
			e := there[i]
			there[i] = there[len(there)-1]
			there = there[:len(there)-1]
			tr.leave(e.slot, AToB)
			delete(known, e.key)
			tr.release(e.slot)
			if r := tr.idx.find(tr, &e.key, tr.idx.hash(&e.key)); r != 0 {
				t.Fatalf("step %d: a stream that was taken out is found", step)
			}
		}
		if tr.idx.live != len(known) {
			t.Fatalf("step %d: %d entries, want %d", step, tr.idx.live, len(known))
		}
		if load := float64(tr.idx.used) / float64(len(tr.idx.slots)); load > 0.7 {
			t.Fatalf("step %d: %.0f %% of the slots are used", step, 100*load)
		}
	}
	for k, want := range known {
		if r := tr.idx.find(tr, &k, tr.idx.hash(&k)); r != want {
			t.Errorf("%+v is found as %d, want %d", k, r, want)
		}
	}
	if len(known) < 3000 || len(tr.idx.slots) < 4096 {
		t.Errorf("only %d entries in %d slots: this test does not make the index grow", len(known), len(tr.idx.slots))
	}
}

// TestIndexDoesNotGrowByTombstones keeps the number of entries and changes
// which they are.
func TestIndexDoesNotGrowByTombstones(t *testing.T) {
	tr := New(Options{})
	for i := range 100_000 {
		slot, c := tr.newConn()
		c.end[1].qpn = uint32(i)
		c.end[0].qpn = noSource
		tr.enter(slot, AToB)
		tr.leave(slot, AToB)
		tr.release(slot)
	}
	if n := len(tr.idx.slots); n > 64 {
		t.Errorf("%d slots for no entry", n)
	}
}

func TestIndexHashIsSeeded(t *testing.T) {
	k := streamKey{dst: dissect.Addr{Lo: 1}, dstQPN: 2, vlan: -1, srcQPN: noSource}
	a, b := newIndex(), newIndex()
	if a.hash(&k) == b.hash(&k) {
		t.Error("two indexes have the same hash: chosen keys could pile up")
	}
	other := k
	for name, change := range map[string]func(){
		"address": func() { other.dst.Hi = 1 }, "QPN": func() { other.dstQPN++ }, "VLAN": func() { other.vlan++ },
		"source": func() { other.srcQPN, other.src.Lo = 1, 9 },
	} {
		other = k
		change()
		if a.hash(&k) == a.hash(&other) {
			t.Errorf("the hash leaves the %s out", name)
		}
	}
}
