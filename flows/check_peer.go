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
		Explain: "A connected queue pair has one peer, at one address. Packets that name the queue pair but come from elsewhere, between those of its peer, are dropped without an answer by receivers that check this, and the message looks lost behind the tap. Somebody forges them, or the sender puts a wrong source address into some of its packets.",
		Rule:    "IBA Annex A17.4.4.2; IBA Vol 1, 9.6.1.2.3",
		Try:     "Compare the packets' source MAC address and IPv4 identification with those of the peer's own packets: if they are the peer's, look at where its packet builder takes the source address from, and at which GID index each queue pair uses.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s from %v, while others come from %v: a connected queue pair has one peer", plural(int(f.Count), "packet", "packets"),
				dissect.Addr{Hi: f.Args[0], Lo: f.Args[1]}, dissect.Addr{Hi: f.Args[2], Lo: f.Args[3]})
		},
	}
	checkPKey = Check{
		ID: "p_key", Severity: Error, Title: "Partition key that does not match",
		Explain: "A packet's P_Key must match that of the queue pair it goes to: the same low 15 bits, which may not be 0, and at least one of the two a full member (bit 15). Receivers that check this drop others without an answer, and the message looks lost behind the tap. A queue pair that was made anew under the same number, with another P_Key and unseen by this capture, looks the same.",
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

// strangers are packets of a stream that came from another address than those before, since one came from there last.
type strangers struct {
	src   dissect.Addr // of the first
	count uint64
	frame uint64
	time  int64
}

// source follows where a stream's packets come from. Another address than before may be a new queue pair's peer, whose number was
// another's: only when the old one goes on do both talk to one queue pair. A peer that migrates to its alternate path may be elsewhere then;
// local identifiers have path bits that may differ.
func (t *Tracker) source(c *conn, d Direction, p *dissect.Packet) {
	x, s, peer := t.rare(c), &c.stream[d], c.end[d].addr
	f := &x.foreign[d]
	switch {
	case x.migrates || c.transport == dissect.UD || p.Proto == dissect.ProtoInfiniBand:
	case p.Src != peer && f.count > 0:
		f.count++
	case p.Src != peer:
		*f = strangers{p.Src, 1, p.Number, p.Time}
		s.flags |= streamForeign
	case f.count > 0:
		if c.flags&connProvisional == 0 {
			t.addFinding(&Finding{
				ID: findForeignSource, Conn: c.id, Direction: d, HasStream: true, Frame: f.frame, Time: f.time, Count: f.count,
				Args: [4]uint64{f.src.Hi, f.src.Lo, peer.Hi, peer.Lo},
			})
		}
		*f = strangers{}
		s.flags &^= streamForeign
	}
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
