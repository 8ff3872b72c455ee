package testkit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// QPAddr names a queue pair: its host's address and its number.
type QPAddr struct {
	Addr dissect.Addr
	QPN  uint32
}

func (q QPAddr) String() string { return fmt.Sprintf("%v QP %#x", q.Addr, q.QPN) }

// QPPair is a connection as those know it who made it.
type QPPair struct{ A, B QPAddr }

// DisguisePSN says what becomes of starting PSNs.
type DisguisePSN uint8

// The choices: each requester gets its own, all the same one, all 0.
const (
	RandomPSNs DisguisePSN = iota
	EqualPSNs
	ZeroPSNs
)

// Disguised is a capture that has lost what gives a connection away.
type Disguised struct {
	Frames []Frame
	QPs    map[QPAddr]QPAddr // from the old name to the new one
	Pairs  []QPPair          // the true pairs, in new names and in the order given
	Origin []int             // for each frame, its index in the capture before
}

// Disguise takes away what makes pairing too easy in captures of soft-RoCE. QPNs are dealt anew among each host's queue
// pairs (one that is alone gets any number), UDP source ports are random for each direction of each, starting PSNs are as
// told, and CM and TCP are gone. ICRCs are right again where they were right. The same seed gives the same disguise.
//
// pairs is the truth. Every RC queue pair that packets are sent to has to be in it: without, the PSNs of its answers
// could not move along with their requests.
func Disguise(frames []Frame, pairs []QPPair, psn DisguisePSN, seed uint64) (*Disguised, error) {
	d := &disguise{
		r: rand.New(rand.NewPCG(seed, 0xD156)), peer: map[QPAddr]QPAddr{}, first: map[QPAddr]dissect.PSN{},
		shift: map[QPAddr]int{}, ports: map[[2]QPAddr]uint16{}, out: &Disguised{QPs: map[QPAddr]QPAddr{}},
	}
	for _, p := range pairs {
		d.peer[p.A], d.peer[p.B] = p.B, p.A
	}
	packets, _ := Decode(frames)
	for i := range packets {
		if err := d.learn(&packets[i]); err != nil {
			return nil, fmt.Errorf("frame %d: %w", i+1, err)
		}
	}
	d.deal(pairs)
	d.choosePSNs(psn)
	for i := range packets {
		p := &packets[i]
		if p.Proto == dissect.ProtoTCP || isGSI(p) {
			continue
		}
		f := frames[i]
		f.Data = slices.Clone(f.Data)
		if p.IsTransport() {
			d.rewrite(p, &f)
		}
		d.out.Frames = append(d.out.Frames, f)
		d.out.Origin = append(d.out.Origin, i)
	}
	for _, p := range pairs {
		d.out.Pairs = append(d.out.Pairs, QPPair{d.rename(p.A), d.rename(p.B)})
	}
	return d.out, nil
}

type disguise struct {
	r     *rand.Rand
	peer  map[QPAddr]QPAddr
	first map[QPAddr]dissect.PSN // first request PSN that was seen, by who sends
	shift map[QPAddr]int         // of the PSNs of a requester
	ports map[[2]QPAddr]uint16   // by sender and destination
	craft dissect.Crafter
	out   *Disguised
}

func isGSI(p *dissect.Packet) bool { return p.IsTransport() && p.DestQP <= 1 }

const multicastQP = 0xFFFFFF

// ends returns who sent a packet and whom it is for. The sender of a UC packet to an unknown queue pair is unknown; it
// is named after its destination, with QPN 0.
func (d *disguise) ends(p *dissect.Packet) (from, to QPAddr) {
	to = QPAddr{p.Dst, p.DestQP}
	if p.Has(dissect.LayerDETH) {
		return QPAddr{p.Src, p.SrcQP}, to
	}
	return d.peer[to], to
}

// requester returns whose PSNs a packet carries.
func (d *disguise) requester(p *dissect.Packet) QPAddr {
	from, to := d.ends(p)
	if p.Op().Role == dissect.Response {
		return to
	}
	if from == (QPAddr{}) {
		return QPAddr{Addr: to.Addr, QPN: to.QPN | 1<<31} // whoever sends to it
	}
	return from
}

// learn notes a packet's queue pairs and starting PSN.
func (d *disguise) learn(p *dissect.Packet) error {
	if !p.IsTransport() || isGSI(p) {
		return nil
	}
	from, to := d.ends(p)
	if from == (QPAddr{}) && p.Op().Transport != dissect.UC && p.Op().Family != dissect.Congestion && p.ICRC != dissect.ICRCInvalid {
		return fmt.Errorf("the truth has no pair for %v", to)
	}
	for _, q := range []QPAddr{from, to} {
		if q != (QPAddr{}) && q.QPN != multicastQP {
			d.out.QPs[q] = q
		}
	}
	if q := d.requester(p); p.Op().Role == dissect.Request && p.ICRC != dissect.ICRCInvalid {
		if _, ok := d.first[q]; !ok {
			d.first[q] = p.PSN
		}
	}
	return nil
}

func (d *disguise) rename(q QPAddr) QPAddr {
	if n, ok := d.out.QPs[q]; ok {
		return n
	}
	return q
}

// deal gives each host's queue pairs their new numbers. Pairs that have equal ones are no disguise: where it can be
// helped, none has.
func (d *disguise) deal(pairs []QPPair) {
	for _, p := range pairs {
		d.out.QPs[p.A], d.out.QPs[p.B] = p.A, p.B
	}
	hosts := map[dissect.Addr][]uint32{}
	for q := range d.out.QPs {
		hosts[q.Addr] = append(hosts[q.Addr], q.QPN)
	}
	equal := func(p QPPair) bool { return d.rename(p.A).QPN == d.rename(p.B).QPN }
	for range 100 {
		for _, addr := range d.sorted(hosts) {
			old := hosts[addr]
			slices.Sort(old)
			dealt := slices.Clone(old)
			d.r.Shuffle(len(dealt), func(i, j int) { dealt[i], dealt[j] = dealt[j], dealt[i] })
			if len(dealt) == 1 {
				dealt[0] = 2 + d.r.Uint32N(1<<24-3)
			}
			for i, n := range old {
				d.out.QPs[QPAddr{addr, n}] = QPAddr{addr, dealt[i]}
			}
		}
		if !slices.ContainsFunc(pairs, equal) {
			return
		}
	}
}

func (d *disguise) sorted(hosts map[dissect.Addr][]uint32) []dissect.Addr {
	return slices.SortedFunc(maps.Keys(hosts), func(a, b dissect.Addr) int { return a.Netip().Compare(b.Netip()) })
}

func (d *disguise) choosePSNs(how DisguisePSN) {
	who := slices.SortedFunc(maps.Keys(d.first), func(a, b QPAddr) int {
		if c := a.Addr.Netip().Compare(b.Addr.Netip()); c != 0 {
			return c
		}
		return cmp.Compare(a.QPN, b.QPN)
	})
	equal := d.r.Uint32N(1 << 24)
	for _, q := range who {
		start := equal
		switch how {
		case RandomPSNs:
			start = d.r.Uint32N(1 << 24)
		case ZeroPSNs:
			start = 0
		}
		d.shift[q] = dissect.PSN(start).Sub(d.first[q])
	}
}

// rewrite puts the disguise on one packet.
func (d *disguise) rewrite(p *dissect.Packet, f *Frame) {
	var icrc dissect.ICRC
	right, known := icrc.Compute(p, f.Data)
	at := p.Offset(dissect.LayerICRC)
	var wrong uint32 // what a damaged ICRC differs by
	if known = known && at+dissect.ICRCSize <= len(f.Data); known {
		wrong = right ^ binary.LittleEndian.Uint32(f.Data[at:])
	}

	from, to := d.ends(p)
	h := p.BTH(f.Data)
	h.SetDestQP(d.rename(to).QPN)
	if p.Op().Family != dissect.Congestion {
		h.SetPSN(p.PSN.Add(d.shift[d.requester(p)]))
	}
	if deth := p.View(f.Data, dissect.LayerDETH); deth != nil {
		dissect.DETH(deth).SetSrcQP(d.rename(from).QPN)
	}
	if udp := p.UDP(f.Data); udp != nil {
		if from == (QPAddr{}) {
			from.Addr = p.Src
		}
		key := [2]QPAddr{from, to}
		if d.ports[key] == 0 {
			d.ports[key] = 0xC000 | uint16(d.r.Uint32N(1<<14))
		}
		udp.SetSrcPort(d.ports[key])
	}
	if err := d.craft.Reseal(f.Link, f.Data); err == nil && known {
		binary.LittleEndian.PutUint32(f.Data[at:], binary.LittleEndian.Uint32(f.Data[at:])^wrong)
	}
}

// Pair is the truth about an exchange's connection.
func (x *Exchange) Pair() QPPair {
	return QPPair{QPAddr{dissect.AddrFrom(x.A.Addr), x.QPNA}, QPAddr{dissect.AddrFrom(x.B.Addr), x.QPNB}}
}
