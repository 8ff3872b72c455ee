package main

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/flows/iwarp"
	"github.com/rocescope/rocescope/internal/engine"
)

// selection is what -Y leaves of a capture. It counts the selected packets, and remembers which connections, messages
// and findings have one among theirs. It is a sink of the pipeline.
type selection struct {
	protocols flows.ProtocolCounts
	opcodes   [256]uint64
	icrc      [4]uint64
	matched   uint64

	frames   bitset                  // selected, by number
	tcp      map[[2]iwarp.End]uint64 // selected packets of TCP that are no exchange's, by source and destination
	conns    map[uint32]flows.QPName // with a selected packet; where the first of them went
	messages map[messageID]struct{}  // with a selected packet, and not ended yet
	findings map[foundAs]struct{}    // that name a selected packet
	pending  []flows.Finding         // found in the batch whose packets are not judged yet
}

// messageID names a message as marks do.
type messageID struct {
	conn, index uint32
	direction   flows.Direction // of its requester
}

// foundAs is what occurrences of a finding are folded by.
type foundAs struct {
	id        flows.FindingID
	conn      uint32
	direction flows.Direction
}

func newSelection() *selection {
	return &selection{
		tcp:      map[[2]iwarp.End]uint64{},
		conns:    map[uint32]flows.QPName{},
		messages: map[messageID]struct{}{},
		findings: map[foundAs]struct{}{},
	}
}

// finding is called by the tracker, before Batch.
func (s *selection) finding(f *flows.Finding) { s.pending = append(s.pending, *f) }

// Batch implements engine.Sink.
func (s *selection) Batch(b *engine.Batch) error {
	for i := range b.Packets {
		if b.Matched[i] {
			s.packet(&b.Packets[i], &b.Marks[i], b.Data[i])
		}
	}
	s.settle()
	return nil
}

// settle looks at the findings that came since the last time: their frames have been judged now.
func (s *selection) settle() {
	for i := range s.pending {
		if f := &s.pending[i]; s.frames.has(f.Frame) {
			s.findings[foundAs{f.ID, f.Conn, f.Direction}] = struct{}{}
		}
	}
	s.pending = s.pending[:0]
}

func (s *selection) packet(p *dissect.Packet, m *flows.Mark, frame []byte) {
	s.matched++
	s.frames.set(p.Number)
	if m.Conn != 0 {
		if _, ok := s.conns[m.Conn]; !ok {
			s.conns[m.Conn] = flows.QPName{Addr: p.Dst, VLAN: p.VLAN(), QPN: p.DestQP}
		}
		if m.Has(flows.MarkMessage) {
			requester := m.Direction
			if m.Has(flows.MarkResponse) {
				requester = requester.Reverse()
			}
			s.messages[messageID{m.Conn, m.Message, requester}] = struct{}{}
		}
	}
	switch p.Proto {
	case dissect.ProtoRoCEv2:
		s.protocols.RoCEv2++
	case dissect.ProtoRoCEv1:
		s.protocols.RoCEv1++
	case dissect.ProtoInfiniBand:
		s.protocols.InfiniBand++
	case dissect.ProtoPause:
		s.protocols.PFC++
	case dissect.ProtoTCP:
		if m.Conn != 0 {
			s.protocols.SocketExchange++
		} else {
			s.protocols.Other++
			s.tcp[[2]iwarp.End{{Addr: p.Src, Port: p.SrcPort}, {Addr: p.Dst, Port: p.DstPort}}]++
		}
	default:
		s.protocols.Other++
	}
	if !p.Has(dissect.LayerBTH) {
		return
	}
	s.opcodes[p.Opcode]++
	if p.Has(dissect.LayerICRC) {
		s.icrc[p.ICRC]++
	}
	switch {
	case p.ICRC == dissect.ICRCInvalid:
	case p.Has(dissect.LayerMAD):
		if p.MAD(frame).Class() == dissect.ClassCM {
			s.protocols.CM++
		}
	case p.Op().Family == dissect.Congestion:
		s.protocols.CNP++
	}
}

// takes reports whether a message that has just ended has a selected packet. A message whose first packets were held
// back until its connection was known went by another name then, so its frames count too.
func (s *selection) takes(m *flows.Message) bool {
	id := messageID{m.Conn, m.Index, m.Direction}
	_, ok := s.messages[id]
	delete(s.messages, id)
	return ok || s.frames.has(m.FirstFrame) || s.frames.has(m.LastFrame) || s.frames.has(m.AnswerFrame)
}

// of is what the selection leaves of the snapshot at the end.
func (s *selection) of(all *flows.Snapshot) *flows.Snapshot {
	s.settle()
	left := *all
	left.IWARP = s.iwarp(all.IWARP)
	left.Packets, left.Protocols, left.Opcodes, left.ICRC = s.matched, s.protocols, s.opcodes, s.icrc
	left.Connections, left.Findings, left.Evicted, left.FindingsLeft = nil, nil, 0, 0
	left.HostPairs, left.HostsLeft = nil, 0
	if s.protocols.PFC == 0 {
		left.Pauses = nil
	}

	// Two one-way streams that turned out to belong together live on under one of their numbers.
	gone := map[flows.QPName]bool{}
	for _, to := range s.conns {
		gone[to] = true
	}
	for i := range all.Connections {
		delete(gone, s.conns[all.Connections[i].ID])
	}
	kept := map[uint32]bool{0: true}
	hosts := map[[2]dissect.Addr]bool{}
	for i := range all.Connections {
		c := &all.Connections[i]
		if _, ok := s.conns[c.ID]; ok || gone[c.A.QPName] || gone[c.B.QPName] {
			left.Connections = append(left.Connections, *c)
			kept[c.ID] = true
			hosts[[2]dissect.Addr{c.A.Addr, c.B.Addr}], hosts[[2]dissect.Addr{c.B.Addr, c.A.Addr}] = true, true
		}
	}
	for i := range all.HostPairs {
		if h := &all.HostPairs[i]; hosts[[2]dissect.Addr{h.A, h.B}] {
			left.HostPairs = append(left.HostPairs, *h)
		}
	}
	for i := range all.Findings {
		f := &all.Findings[i]
		_, named := s.findings[foundAs{f.ID, f.Conn, f.Direction}]
		if named || s.frames.has(f.Frame) || f.Frame == 0 && kept[f.Conn] {
			left.Findings = append(left.Findings, *f)
		}
	}
	return &left
}

// iwarp are the iWARP connections with a selected packet, which are no longer counted among the other packets.
func (s *selection) iwarp(all []iwarp.Connection) (left []iwarp.Connection) {
	for i := range all {
		c := &all[i]
		there, back := [2]iwarp.End{c.A, c.B}, [2]iwarp.End{c.B, c.A}
		_, asks := s.tcp[there]
		_, answers := s.tcp[back]
		if !asks && !answers {
			continue
		}
		left = append(left, *c)
		n := s.tcp[there] + s.tcp[back]
		if asks { // a later connection of the same ports has none left to count
			s.tcp[there] = 0
		}
		if answers {
			s.tcp[back] = 0
		}
		s.protocols.IWARP += n
		s.protocols.Other -= n
	}
	return left
}

// bitset is a set of frame numbers: an eighth of a byte each.
type bitset []uint64

func (b *bitset) set(n uint64) {
	for uint64(len(*b)) <= n/64 {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bitset) has(n uint64) bool { return n/64 < uint64(len(b)) && b[n/64]&(1<<(n%64)) != 0 }
