package flows

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// The checks on whether packets come from the queue pair that their receiver is connected to. Receivers that follow the
// specification drop them without a word, others take them: so they are reported, and tracked as any other.
var (
	checkForeignSource = Check{
		ID: "foreign_source", Severity: Error, Title: "Packets for a queue pair from two addresses",
		Explain: "A connected queue pair has one peer, at one address. Packets that name the queue pair but come from elsewhere are dropped without an answer by receivers that check this, and the message looks lost behind the tap. Somebody forges them, or the sender puts a wrong source address into some of its packets.",
		Rule:    "IBA Annex A17.4.4.2; IBA Vol 1, 9.6.1.2.3",
		Try:     "Compare the packets' source MAC address and IPv4 identification with those of the peer's own packets: if they are the peer's, look at where its packet builder takes the source address from, and at which GID index each queue pair uses.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s from %v, while others come from %v: a connected queue pair has one peer", plural(int(f.Count), "packet", "packets"),
				dissect.Addr{Hi: f.Args[0], Lo: f.Args[1]}, dissect.Addr{Hi: f.Args[2], Lo: f.Args[3]})
		},
	}
	checkPKey = Check{
		ID: "p_key", Severity: Error, Title: "Partition key that does not match",
		Explain: "A packet's P_Key must match that of the queue pair it goes to: the same low 15 bits, which may not be 0, and at least one of the two a full member (bit 15). Receivers that check this drop others without an answer, and the message looks lost behind the tap.",
		Rule:    "IBA Vol 1, 10.9 (partitions)",
		Try:     "Look at the P_Key table of both ports and the index that each queue pair uses. Without partitions it is 0xffff everywhere.",
		text: func(f *Finding) string {
			of := "while the other way it is 0x%04x"
			if f.Args[2] != 0 {
				of = "behind 0x%04x: no queue pair takes both"
			}
			return fmt.Sprintf("P_Key 0x%04x, "+of+" (%s)", f.Args[0], f.Args[1], plural(int(f.Count), "packet", "packets"))
		},
	}
)

// fromPeer takes a packet that does not come from where its queue pair's peer is, or else the first packet came from. A peer that migrates to its alternate path may
// be elsewhere then; local identifiers have path bits that may differ.
func (t *Tracker) fromPeer(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	if c.transport == dissect.UD || p.Proto == dissect.ProtoInfiniBand || p.Op().Family == dissect.Congestion {
		return
	}
	if x := t.extrasOf(c); x != nil && x.migrates {
		return
	}
	peer := c.end[d].addr
	t.report(findForeignSource, c, d, p, m, p.Src.Hi, p.Src.Lo, peer.Hi, peer.Lo)
}

// partition compares a packet's P_Key with what the other side sends, which is its queue pair's, or else with what this side sent before.
func (t *Tracker) partition(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	const key, full = 0x7FFF, 0x8000
	other := &c.stream[d.Reverse()]
	switch own := c.stream[d].pkey; {
	case c.paired() && other.class != 0 && c.transport != dissect.UD:
		if (p.PKey^other.pkey)&key != 0 || (p.PKey|other.pkey)&full == 0 || p.PKey&key == 0 {
			t.report(findPKey, c, d, p, m, uint64(p.PKey), uint64(other.pkey))
		}
	case (p.PKey^own)&key != 0:
		t.report(findPKey, c, d, p, m, uint64(p.PKey), uint64(own), 1)
	}
}
