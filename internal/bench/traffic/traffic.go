// Package traffic makes big captures for benchmarks: healthy reliable
// connections, every packet as a good stack sends it, ICRC included. The same
// Config always makes the same packets, at a few hundred nanoseconds each. What
// is measured with them belongs to the commands of internal/bench.
package traffic

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// Config says what to make.
type Config struct {
	Connections int
	HostPairs   int // that the connections are spread over; 0 = one for each 64 of them
	// Payload is how much a full packet carries. A path MTU (256 … 4096) makes a
	// mix of WRITEs of eight segments, READs of four responses and SENDs. Less
	// makes messages of one packet each.
	Payload int
	// Random takes the next packet from any connection, uniformly; else they
	// take turns, packet by packet.
	Random bool
	// WritesOnly leaves out READs and SENDs.
	WritesOnly bool
	Seed       uint64
	// First is how many connections other generators made, which these are to
	// differ from. HostPairs counts over all of them.
	First int
	// Start is the time before the first packet, in nanoseconds since the Unix
	// epoch, and Every from each packet to the next; 0 = some day in 2023, and one
	// behind the other at 100 Gb/s.
	Start, Every int64
}

// Generator makes one packet after the other. Each connection goes round its
// script; between two of its packets lie those of others.
type Generator struct {
	cfg    Config
	rnd    *rand.Rand
	conns  []conn
	turn   int
	opened int // connections that Establish is done with
	now    int64
	script script
	opener script
	shapes map[shape]*template
	icrc   dissect.ICRC
}

// conn is where a connection stands. It is small, for there may be a million.
type conn struct {
	psn, msn uint32 // at the beginning of its script
	ipid     [2]uint16
	step     uint8
}

// script is what a connection does over and over.
type script struct {
	steps []step
	psns  uint32 // how far it moves the PSN
	msgs  uint32 // and the MSN
}

// step is one packet of a script.
type step struct {
	shape
	back bool   // from the responder
	psn  uint32 // from the beginning of the script
	msn  uint32 // messages complete by then
}

// shape is what packets have in common that one template serves.
type shape struct {
	op      dissect.Opcode
	ask     bool   // AckReq
	payload int    // bytes
	dmaLen  uint32 // RETH
}

// New returns a generator.
func New(c Config) *Generator {
	if c.HostPairs == 0 {
		c.HostPairs = (c.Connections + 63) / 64
	}
	g := &Generator{
		cfg: c, rnd: rand.New(rand.NewPCG(c.Seed, 0x726F6365)), conns: make([]conn, c.Connections),
		now:    cmp.Or(c.Start, 1_700_000_000_000_000_000),
		shapes: map[shape]*template{},
	}
	for i := range g.conns {
		k := &g.conns[i]
		k.psn, k.msn = g.rnd.Uint32(), 0
		k.ipid = [2]uint16{uint16(g.rnd.Uint32()), uint16(g.rnd.Uint32())}
	}
	if c.Payload < 256 {
		for range 8 {
			g.script.request(dissect.OpRCWriteOnly, 1, c.Payload, c.Payload)
		}
		g.script.acknowledge()
		if !c.WritesOnly {
			for range 4 {
				g.script.read(1, c.Payload)
			}
		}
	} else {
		g.script.request(dissect.OpRCWriteFirst, 8, c.Payload, 8*c.Payload)
		g.script.acknowledge()
		if !c.WritesOnly {
			g.script.read(4, c.Payload)
		}
	}
	g.opener.request(dissect.OpRCWriteOnly, 1, 64, 64)
	g.opener.acknowledge()
	if c.WritesOnly { // until it is known which two talk
		for range 3 {
			g.opener.request(dissect.OpRCWriteOnly, 1, 64, 64)
			g.opener.acknowledge()
		}
	} else {
		g.script.request(dissect.OpRCSendOnly, 1, c.Payload, 0)
		g.script.acknowledge()
		g.opener.read(1, 64)
		g.opener.request(dissect.OpRCSendOnly, 1, 64, 0)
		g.opener.acknowledge()
	}
	for _, s := range [...]*script{&g.script, &g.opener} {
		for _, st := range s.steps {
			if g.shapes[st.shape] == nil {
				g.shapes[st.shape] = newTemplate(st.shape, g.rnd)
			}
		}
	}
	return g
}

// request adds a message of n packets; first is the opcode of its first one.
func (s *script) request(first dissect.Opcode, n, payload, length int) {
	for i := range n {
		op := first
		switch {
		case n == 1:
		case i == n-1:
			op = dissect.OpRCWriteLast
		case i > 0:
			op = dissect.OpRCWriteMiddle
		}
		st := step{shape: shape{op: op, payload: payload}, psn: s.psns}
		if op.Info().Has(dissect.LayerRETH) {
			st.dmaLen = uint32(length)
		}
		s.steps = append(s.steps, st)
		s.psns++
	}
	s.msgs++
}

// acknowledge adds the answer that the request before it asks for.
func (s *script) acknowledge() {
	s.steps[len(s.steps)-1].ask = true
	s.steps = append(s.steps, step{shape: shape{op: dissect.OpRCAcknowledge}, back: true, psn: s.psns - 1, msn: s.msgs})
}

// read adds a READ that n packets answer.
func (s *script) read(n, payload int) {
	s.steps = append(s.steps, step{shape: shape{op: dissect.OpRCReadRequest, dmaLen: uint32(n * payload)}, psn: s.psns})
	s.msgs++
	for i := range n {
		op := dissect.OpRCReadResponseMid
		switch {
		case n == 1:
			op = dissect.OpRCReadResponseOnly
		case i == 0:
			op = dissect.OpRCReadResponseFirst
		case i == n-1:
			op = dissect.OpRCReadResponseLast
		}
		s.steps = append(s.steps, step{shape: shape{op: op, payload: payload}, back: true, psn: s.psns, msn: s.msgs})
		s.psns++
	}
}

// Opening is how many packets Establish makes of a connection.
func (g *Generator) Opening() int { return len(g.opener.steps) }

// Cycle is how many packets a connection's script has.
func (g *Generator) Cycle() int { return len(g.script.steps) }

// Messages is how many messages Establish makes of a connection, and how many a
// cycle of its script has.
func (g *Generator) Messages() (opening, cycle int) {
	return int(g.opener.msgs), int(g.script.msgs)
}

// Establish makes the first packets of each connection, a small message of each
// kind, one connection after the other, so that a tracker finds out which two
// queue pairs talk. It returns
// nil when all are done. The frame is valid until the next one is made.
func (g *Generator) Establish() (frame []byte, at int64) {
	if g.opened == len(g.conns) {
		return nil, 0
	}
	i := g.opened
	f := g.packet(i, &g.opener)
	if g.conns[i].step == 0 {
		g.opened++
	}
	return f, g.now
}

// Next makes a packet, and its time in nanoseconds since the Unix epoch. The
// frame is valid until the next one is made.
func (g *Generator) Next() (frame []byte, at int64) {
	i := g.turn
	if g.cfg.Random {
		i = g.rnd.IntN(len(g.conns))
	} else if g.turn++; g.turn == len(g.conns) {
		g.turn = 0
	}
	f := g.packet(i, &g.script)
	return f, g.now
}

// packet makes the next one of connection i.
func (g *Generator) packet(i int, s *script) []byte {
	k := &g.conns[i]
	st := &s.steps[k.step]
	t := g.shapes[st.shape]
	f := t.frame
	if g.now += g.cfg.Every; g.cfg.Every == 0 {
		g.now += int64(len(f)+24)*8/100 + 1 // at 100 Gb/s: preamble, FCS and gap are 24 bytes
	}
	i += g.cfg.First
	pair, d := uint32(i%g.cfg.HostPairs), 0
	src, dst := 0x0A000000|pair, 0x0A800000|pair // 10.0.0.0/9 to 10.128.0.0/9
	qpn := uint32(i/g.cfg.HostPairs)*2 + 0x200
	if st.back {
		src, dst, d = dst, src, 1
	} else {
		qpn++ // the responder's
	}
	be := binary.BigEndian
	be.PutUint32(f[8:], src)
	be.PutUint32(f[2:], dst)
	ip := dissect.IPv4(f[14:34])
	be.PutUint32(ip[12:], src)
	be.PutUint32(ip[16:], dst)
	be.PutUint16(ip[4:], k.ipid[d])
	k.ipid[d]++
	ip.UpdateChecksum()
	be.PutUint16(f[34:], 0xC000|uint16(uint32(i)*2654435761>>18)) // source port: the path's entropy
	bth := dissect.BTH(f[bthAt:])
	bth.SetDestQP(qpn)
	bth.SetPSN(dissect.PSN((k.psn + st.psn) & 0xFFFFFF))
	if t.reth != nil {
		// Memory is gone round, a packet's worth for each PSN.
		t.reth.SetVA(1<<46 | uint64(i)<<20 | uint64(k.psn+st.psn)*uint64(g.cfg.Payload)&(1<<20-1))
		t.reth.SetRKey(uint32(i) | 0x100)
	}
	if t.aeth != nil {
		t.aeth.SetMSN(dissect.MSN((k.msn + st.msn) & 0xFFFFFF))
	}
	at := len(f) - dissect.ICRCSize
	binary.LittleEndian.PutUint32(f[at:], g.icrc.Sum(f[14:at], dissect.LayerIPv4, bthAt-14))

	if k.step++; int(k.step) == len(s.steps) {
		k.step, k.psn, k.msn = 0, k.psn+s.psns, k.msn+s.msgs
	}
	return f
}

// bthAt is where the BTH begins behind Ethernet, IPv4 and UDP.
const bthAt = 42

// template is a frame that packets of one shape are patched into.
type template struct {
	frame []byte
	reth  dissect.RETH
	aeth  dissect.AETH
}

func newTemplate(s shape, rnd *rand.Rand) *template {
	o := dissect.Outer{
		DstMAC: [6]byte{2}, SrcMAC: [6]byte{2}, TrafficClass: 26<<2 | 2, SrcPort: 0xC000,
		Src: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 2}),
	}
	f := dissect.AppendTransport(o.AppendTo(nil), s.op)
	for range s.payload {
		f = append(f, byte(rnd.Uint32()))
	}
	var c dissect.Crafter
	f, err := c.Seal(&o, f)
	if err != nil {
		panic(err) // the shapes are our own
	}
	info := s.op.Info()
	bth := f[bthAt:]
	dissect.BTH(bth).SetAckReq(s.ask)
	t := &template{frame: f, reth: info.View(bth, dissect.LayerRETH), aeth: info.View(bth, dissect.LayerAETH)}
	if t.reth != nil {
		t.reth.SetDMALen(s.dmaLen)
	}
	if t.aeth != nil {
		t.aeth.SetSyndrome(0x1F) // ACK, credits unlimited
	}
	return t
}
