package dissect

import (
	"testing"

	"pgregory.net/rapid"
)

const psnRange = 1 << 24

var genPSN = rapid.Custom(func(t *rapid.T) PSN {
	return PSN(rapid.OneOf(
		rapid.Uint32Range(0, psnRange-1),
		rapid.SampledFrom([]uint32{0, 1, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFE, 0xFFFFFF}),
	).Draw(t, "psn"))
})

func TestPSNCases(t *testing.T) {
	for _, c := range []struct {
		name string
		p, q PSN
		sub  int
	}{
		{"the same", 7, 7, 0},
		{"one later", 8, 7, 1},
		{"one earlier", 7, 8, -1},
		{"one later, over the wrap", 0, 0xFFFFFF, 1},
		{"one earlier, over the wrap", 0xFFFFFF, 0, -1},
		{"ten later, over the wrap", 4, 0xFFFFFA, 10},
		{"the farthest that is later", 0x7FFFFF, 0, 1<<23 - 1},
		{"half the range counts as earlier", 0x800000, 0, -1 << 23},
		{"half the range, over the wrap", 0, 0x800000, -1 << 23},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.p.Sub(c.q); got != c.sub {
				t.Errorf("Sub is %d, want %d", got, c.sub)
			}
			if got := MSN(c.p).Sub(MSN(c.q)); got != c.sub {
				t.Errorf("MSN.Sub is %d, want %d", got, c.sub)
			}
			if c.p.After(c.q) != (c.sub > 0) || c.p.Before(c.q) != (c.sub < 0) {
				t.Errorf("After %v, Before %v", c.p.After(c.q), c.p.Before(c.q))
			}
			if got := c.q.Add(c.sub); got != c.p {
				t.Errorf("Add(%d) is %#x, want %#x", c.sub, got, c.p)
			}
			if got := MSN(c.q).Add(c.sub); got != MSN(c.p) {
				t.Errorf("MSN.Add(%d) is %#x, want %#x", c.sub, got, c.p)
			}
		})
	}
}

func TestPSNProperties(t *testing.T) {
	t.Run("adding and subtracting undo each other", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p, n := genPSN.Draw(t, "p"), rapid.IntRange(-1<<23, 1<<23-1).Draw(t, "n")
			q := p.Add(n)
			if q >= psnRange || q.Sub(p) != n || q.Add(-n) != p {
				t.Fatalf("%#x + %d = %#x, back %d", p, n, q, q.Sub(p))
			}
			if m := MSN(p).Add(n); m != MSN(q) || m.Sub(MSN(p)) != n {
				t.Fatalf("MSN %#x + %d = %#x", p, n, m)
			}
		})
	})
	t.Run("one of earlier, same and later", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p, q := genPSN.Draw(t, "p"), genPSN.Draw(t, "q")
			n := 0
			for _, is := range []bool{p.Before(q), p == q, p.After(q)} {
				if is {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%d of three", n)
			}
			if p.Sub(q) != -1<<23 && p.Before(q) != q.After(p) {
				t.Fatal("Before and After disagree")
			}
		})
	})
	t.Run("addition is that of a number cut to 24 bits", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p, n := genPSN.Draw(t, "p"), rapid.IntRange(-3*psnRange, 3*psnRange).Draw(t, "n")
			if got, want := p.Add(n), PSN(((int64(p)+int64(n))%psnRange+psnRange)%psnRange); got != want {
				t.Fatalf("%#x, want %#x", got, want)
			}
		})
	})
	t.Run("order holds when both move", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p, q, n := genPSN.Draw(t, "p"), genPSN.Draw(t, "q"), rapid.Int().Draw(t, "n")
			if p.Add(n).Sub(q.Add(n)) != p.Sub(q) {
				t.Fatal("the distance changed")
			}
		})
	})
	t.Run("a range holds its n numbers and no other", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			start, n := genPSN.Draw(t, "start"), rapid.IntRange(0, psnRange-1).Draw(t, "n")
			at := rapid.IntRange(0, psnRange-1).Draw(t, "at")
			if got := start.Add(at).In(start, n); got != (at < n) {
				t.Fatalf("number %d of %d: In is %v", at, n, got)
			}
		})
	})
}
