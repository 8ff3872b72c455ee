package diff

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/bits"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// whole is a frame that was read again, for its bytes.
type whole struct {
	p    dissect.Packet
	data []byte
}

// network is where the part of a frame begins that both captures should have.
func (w *whole) network() int {
	for _, l := range [...]dissect.Layer{dissect.LayerIPv4, dissect.LayerIPv6, dissect.LayerLRH, dissect.LayerGRH, dissect.LayerBTH} {
		if w.p.Has(l) {
			return w.p.Offset(l)
		}
	}
	return 0
}

// fetch reads frames of a capture again, given by number in ascending order.
func (c *comparison) fetch(ctx context.Context, side int, frames []uint64) (map[uint64]*whole, error) {
	got := make(map[uint64]*whole, len(frames))
	if len(frames) == 0 {
		return got, nil
	}
	f, err := open(c.sides[side], true)
	if err != nil {
		return nil, err
	}
	defer f.close()
	for len(frames) > 0 {
		err := f.next(ctx, func(p *dissect.Packet, frame []byte) {
			if len(frames) > 0 && p.Number == frames[0] {
				frames = frames[1:]
				got[p.Number] = &whole{*p, slices.Clone(frame)}
			}
		})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

// remains compares the bytes of packets that changed, and looks for the twins of
// damaged packets among those that have none.
func (c *comparison) remains(ctx context.Context) error {
	var want [2][]uint64
	for i := range c.changed {
		for side, frame := range c.changed[i].Frame {
			want[side] = append(want[side], frame)
		}
	}
	if len(c.alone[0]) > 0 && len(c.alone[1]) > 0 {
		for side := range c.alone {
			for i := range c.alone[side] {
				want[side] = append(want[side], c.alone[side][i].frame)
			}
		}
	}
	var got [2]map[uint64]*whole
	for side := range want {
		slices.Sort(want[side])
		var err error
		if got[side], err = c.fetch(ctx, side, want[side]); err != nil {
			return err
		}
	}
	for i := range c.changed {
		p := &c.changed[i]
		if a, b := got[0][p.Frame[0]], got[1][p.Frame[1]]; a != nil && b != nil {
			compareBytes(p, a, b)
			c.turn(p)
		}
		c.list(*p)
	}
	c.reunite(got)
	return nil
}

// near is how many packets around the right time are looked at.
const near = 256

// reunite pairs damaged packets with what they once were.
func (c *comparison) reunite(got [2]map[uint64]*whole) {
	var taken [2][]bool
	for side := range taken {
		slices.SortFunc(c.alone[side], func(x, y record) int { return cmp.Compare(x.when, y.when) })
		taken[side] = make([]bool, len(c.alone[side]))
	}
	for side := range c.alone {
		for i := range c.alone[side] {
			r := &c.alone[side][i]
			x := got[side][r.frame]
			if x == nil || taken[side][i] || x.p.ICRC == dissect.ICRCValid {
				continue
			}
			at, _ := slices.BinarySearchFunc(c.alone[1-side], r.when, func(o record, t int64) int { return cmp.Compare(o.when, t) })
			best, least := none, maxDamagedBits+1
			for j := max(at-near, 0); j < min(at+near, len(c.alone[1-side])); j++ {
				y := got[1-side][c.alone[1-side][j].frame]
				if taken[1-side][j] || y == nil || y.p.ICRC == dissect.ICRCInvalid {
					continue
				}
				n := unlike(x, y)
				if n > maxDamagedBits && keyOf(&x.p) == keyOf(&y.p) && x.p.PSN == y.p.PSN && x.p.Opcode == y.p.Opcode && x.p.IPID == y.p.IPID {
					n = maxDamagedBits // its name survived, its body did not
				}
				if n < least {
					best, least = j, n
				}
			}
			if best == none {
				continue
			}
			taken[side][i], taken[1-side][best] = true, true
			pair := [2]*record{r, &c.alone[1-side][best]}
			if side == 1 {
				pair[0], pair[1] = pair[1], pair[0]
			}
			p := of(Packet{Kind: Changed}, pair[0], pair[1])
			sent := pair[1-side] // the sound one
			if sent == r {
				sent = pair[side]
			}
			p.Stream, p.Opcode, p.PSN = int(sent.stream), sent.op, sent.psn
			compareBytes(&p, got[0][pair[0].frame], got[1][pair[1].frame])
			c.turn(&p)
			c.r.Matched++
			s := &c.streams.list[sent.stream]
			s.Matched++
			s.Changed++
			c.list(p)
		}
	}
	for side := range c.alone {
		for i := range c.alone[side] {
			if !taken[side][i] {
				c.judge(side, &c.alone[side][i])
			}
		}
	}
}

// maxDamagedBits is in how many bits two packets may differ and be one.
const maxDamagedBits = 64

// unlike counts the bits in which two frames differ.
func unlike(x, y *whole) int {
	n := 0
	each(x, y, func(_ int, diff byte) { n += bits.OnesCount8(diff) })
	return n
}

// each visits the bytes that differ of those that paths leave alone, by their
// offset in x.
func each(x, y *whole, visit func(at int, diff byte)) {
	from, other := x.network(), y.network()
	end := min(len(x.data), int(frameEnd(&x.p)))
	for i := from; i < end && i-from+other < len(y.data); i++ {
		if d := x.data[i] ^ y.data[i-from+other]; d != 0 {
			if d &= ^altered(&x.p, i); d != 0 {
				visit(i, d)
			}
		}
	}
}

// frameEnd is where a frame's last byte of the network layer is.
func frameEnd(p *dissect.Packet) int {
	if p.Has(dissect.LayerICRC) {
		return p.Offset(dissect.LayerICRC) + dissect.ICRCSize
	}
	return int(p.WireLen)
}

// altered are the bits of a byte that paths change by right: the ICRC leaves
// them out.
func altered(p *dissect.Packet, at int) byte {
	switch {
	case p.Has(dissect.LayerBTH) && at == p.Offset(dissect.LayerBTH)+4: // FECN, BECN
		return 0xFF
	case p.Has(dissect.LayerUDP) && (at == p.Offset(dissect.LayerUDP)+6 || at == p.Offset(dissect.LayerUDP)+7): // checksum
		return 0xFF
	case p.Has(dissect.LayerIPv4):
		switch at - p.Offset(dissect.LayerIPv4) {
		case 1, 8, 10, 11: // DSCP and ECN, TTL, checksum
			return 0xFF
		}
	case p.Has(dissect.LayerIPv6) || p.Has(dissect.LayerGRH):
		l := dissect.LayerIPv6
		if !p.Has(l) {
			l = dissect.LayerGRH
		}
		switch at - p.Offset(l) {
		case 0:
			return 0x0F
		case 1, 2, 3, 7: // traffic class, flow label, hop limit
			return 0xFF
		}
	}
	return 0
}

// compareBytes says which fields and bits differ.
func compareBytes(p *Packet, a, b *whole) {
	p.BadA, p.BadB = a.p.ICRC == dissect.ICRCInvalid, b.p.ICRC == dissect.ICRCInvalid
	p.Missing = max((int(a.p.WireLen)-a.network())-(int(b.p.WireLen)-b.network()), (int(b.p.WireLen)-b.network())-(int(a.p.WireLen)-a.network()))
	sound := a
	if p.BadA && !p.BadB || len(a.data)-a.network() < len(b.data)-b.network() {
		sound = b // only where the layers are right can one tell what lies where
	}
	x, y := a, b
	aligned := make([]byte, 0, len(a.data))
	if sound == b {
		x, y = b, a
	}
	aligned = append(append(aligned, x.data[:x.network()]...), y.data[y.network():]...)
	shift := a.network() - x.network()
	each(x, y, func(at int, diff byte) {
		for bit := 7; bit >= 0; bit-- {
			if diff>>bit&1 == 0 {
				continue
			}
			name, f := fieldAt(&x.p, x.data, at, bit)
			n := len(p.Changes)
			if n == 0 || p.Changes[n-1].Field != name {
				c := Change{Field: name, Offset: at + shift, Before: uint64(x.data[at]), After: uint64(aligned[at])}
				if f != nil {
					c.Before, _ = f.Uint(&x.p, x.data)
					c.After, _ = f.Uint(&x.p, aligned)
				}
				if sound == b {
					c.Before, c.After = c.After, c.Before
				}
				p.Changes = append(p.Changes, c)
				n++
			}
			if c := &p.Changes[n-1]; len(c.Bits) < maxDamagedBits {
				c.Bits = append(c.Bits, Bit{at + shift, bit})
			}
		}
	})
}

// turn makes Before what was sent.
func (c *comparison) turn(p *Packet) {
	if c.streams.list[p.Stream].First != 'b' {
		return
	}
	for i := range p.Changes {
		x := &p.Changes[i]
		x.Before, x.After = x.After, x.Before
	}
}

// fieldAt names what a bit belongs to, and the field where there is one.
func fieldAt(p *dissect.Packet, frame []byte, at, bit int) (name string, best *dissect.Field) {
	if p.Has(dissect.LayerICRC) {
		if i := p.Offset(dissect.LayerICRC); at >= i && at < i+dissect.ICRCSize {
			return "infiniband.invariant.crc", nil
		}
	}
	where := at*8 + 7 - bit
	fields := dissect.Fields()
	for i := range fields {
		f := &fields[i]
		from, ok := f.Place(p, frame)
		if !ok || f.Width == 0 {
			continue
		}
		if where >= from && where < from+int(f.Width) && (best == nil || f.Width < best.Width) {
			best = f
		}
	}
	if best != nil {
		return best.Name, best
	}
	return "payload", nil
}
