package flows

import "github.com/rocescope/rocescope/dissect"

// uncommon is what becomes of packet i of a batch before it is tracked, where
// it is none of the many or where the capture shows packets twice. It is true
// where that is all that becomes of it.
func (t *Tracker) uncommon(b *Batch, i int) bool {
	p, m := &b.Packets[i], &b.Marks[i]
	if p.Fragmented() {
		t.passed(p)
		if whole, frame := t.fragments.add(p, b.Data[i]); whole != nil {
			var l lookup
			t.prepare(whole, &l)
			if t.copies == nil || !t.copied(whole, m) {
				t.packets-- // it was counted with its last fragment
				t.packet(whole, frame, m, &l)
				return true
			}
		}
		t.protocols.Other++
		return true
	}
	if p.Has(dissect.LayerLLDP) {
		t.lldp(p, b.Data[i])
	}
	if t.copies == nil {
		if p.Depth() == 0 || !p.Has(dissect.LayerBTH) {
			return false
		}
		// The first packet in a tunnel. What came just before it may be the same
		// packet outside.
		t.copies = newCopies()
		for k := range b.Packets[:i] {
			if q := &b.Packets[k]; q.Has(dissect.LayerBTH) {
				t.copies.again(q)
			}
		}
	}
	if !t.copied(p, m) {
		return false
	}
	t.passed(p)
	return true
}

// passed counts a packet that is not tracked itself.
func (t *Tracker) passed(p *dissect.Packet) {
	t.packets++
	if p.Time > t.now {
		t.now = p.Time
	}
}

// copied reports whether the packet was seen before in another tunnel, or in
// none.
func (t *Tracker) copied(p *dissect.Packet, m *Mark) bool {
	if !p.Has(dissect.LayerBTH) || !t.copies.again(p) {
		return false
	}
	m.Bits |= MarkCopy
	t.mirrored++
	f := Finding{ID: findSeenTwice, Frame: p.Number, Time: p.Time, Count: 1, Where: p.Src.String() + " → " + p.Dst.String()}
	t.addFinding(&f)
	return true
}

// copies tells the packets that a capture shows twice, inside a tunnel and
// outside it or in two tunnels, from those that were sent twice. It remembers
// the newest packets by what no device on the way changes, and in which tunnels
// they were seen how many times: seen in one more often than in any other, it was
// sent once more.
type copies struct {
	seen map[uint64]views
	ring [rememberedCopies]uint64
	n    int
}

const rememberedCopies = 16 << 10

// views is how often a packet was seen, by tunnel.
type views [4]struct {
	tunnel uint32
	times  uint16
}

func newCopies() *copies { return &copies{seen: map[uint64]views{}} }

// again notes a packet, and reports whether it is a copy.
func (c *copies) again(p *dissect.Packet) bool {
	k := fingerprint(p)
	kind, id := p.Tunnel()
	tunnel := uint32(kind)<<24 ^ id<<1 | 1
	if p.Depth() == 0 {
		tunnel = 1 // MPLS and PPPoE have no inner packet of their own
	}
	v, known := c.seen[k]
	if !known {
		if c.n >= len(c.ring) {
			delete(c.seen, c.ring[c.n%len(c.ring)])
		}
		c.ring[c.n%len(c.ring)] = k
		c.n++
	}
	own, most := -1, uint16(0)
	for i := range v {
		switch {
		case v[i].tunnel == tunnel:
			own = i
		case v[i].tunnel == 0 && own < 0:
			v[i].tunnel, own = tunnel, i
		default:
			most = max(most, v[i].times)
		}
		if v[i].tunnel == tunnel {
			break
		}
	}
	for i := range v {
		if i != own {
			most = max(most, v[i].times)
		}
	}
	if own < 0 {
		return true // a fifth tunnel
	}
	v[own].times++
	c.seen[k] = v
	return v[own].times <= most
}

// fingerprint is made of what a packet has wherever it is captured: not its
// VLAN, its time to live, nor what congestion does to it.
func fingerprint(p *dissect.Packet) uint64 {
	h := mix(p.Src.Lo^p.Src.Hi<<1, p.Dst.Lo^p.Dst.Hi<<1)
	h = mix(h^uint64(p.DestQP)<<32^uint64(p.PSN), uint64(p.Opcode)<<48^uint64(p.IPID)<<32^uint64(p.PayloadLen()))
	if p.Has(dissect.LayerAETH) {
		h = mix(h^uint64(p.Syndrome)<<24^uint64(p.MSN), 1)
	}
	if p.Has(dissect.LayerDETH) {
		h = mix(h^uint64(p.SrcQP), 2)
	}
	if p.Has(dissect.LayerRETH) || p.Has(dissect.LayerAtomicETH) {
		h = mix(h^p.VA, uint64(p.RKey))
	}
	return h
}

var checkSeenTwice = Check{
	ID: "seen_twice", Severity: Note, Title: "The capture shows packets twice",
	Explain: "The same packets are in the capture inside a tunnel or a mirror's encapsulation and outside it, or in two of them. Each is counted once.",
	Rule:    "(none: this is about the capture)",
	Try:     "Nothing, or capture one of the two: a filter on the tunnel (for instance vxlan or erspan) shows which packets came that way.",
	text: func(f *Finding) string {
		return plural(int(f.Count), "packet was", "packets were") + " captured twice (" + f.Where + "): once inside a tunnel, once outside or in another"
	},
}
