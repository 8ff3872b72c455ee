package flows

import (
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// fuzzFrames are what FuzzTracker's scripts play with: conversations with and
// without handshakes, faults in them, other transports, and real packets.
func fuzzFrames(f testing.TB) [][]testkit.Frame {
	var all [][]testkit.Frame
	for seed := range 12 {
		o := testkit.SimGen().Example(seed)
		if seed%2 == 0 {
			announced(&o)
		}
		o.Faults = testkit.FaultGen(o, 4, testkit.Lose, testkit.Duplicate, testkit.Reorder, testkit.Corrupt, testkit.Miss).Example(seed)
		if frames := testkit.Simulate(o).Frames; len(frames) > 0 {
			all = append(all, frames)
		}
	}
	for _, tr := range []dissect.Transport{dissect.UC, dissect.UD, dissect.XRC} {
		x := testkit.NewExchange(testkit.ExchangeOptions{Transport: tr, MTU: 256})
		for n := range 10 {
			x.A.Send(n * 10)
			x.B.Send(200)
		}
		all = append(all, x.Frames())
	}
	for _, name := range []string{"atomics", "cm_rping_ipv6", "rule_breaker", "peer_gone", "rnr_wait"} {
		data, err := samples.Open(name)
		if err != nil {
			f.Fatal(err)
		}
		frames, err := testkit.ParseCapture(data)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, frames)
	}
	return all
}

// FuzzTracker plays packets to a small tracker as a script says: which, changed
// how, and when. Whatever comes, its books stay in order and its memory within
// bounds.
func FuzzTracker(f *testing.F) {
	all := fuzzFrames(f)
	for i := range all {
		plain := []byte{byte(i), 7}
		for range min(len(all[i]), 200) {
			plain = append(plain, 0)
		}
		f.Add(plain)
		f.Add([]byte{byte(i), 0, 0, 1, 0, 2, 9, 0, 3, 200, 0, 4, 1, 255, 5, 5, 7, 0, 0, 6, 1, 0x11, 7, 40, 0, 8, 3, 9, 0x33, 0, 0, 10})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4096 {
			return
		}
		p := &player{t: t, script: script, all: all}
		p.play()
	})
}

// player runs a script: a byte is what to do, and what it takes follows.
type player struct {
	t       *testing.T
	script  []byte
	all     [][]testkit.Frame
	frames  []testkit.Frame
	at      int
	now     int64
	tr      *Tracker
	books   fuzzBooks
	decode  dissect.Decoder
	packets uint64
	batch   Batch

	provisional int // connections, at most
}

// fuzzBooks are what a tracker handed out.
type fuzzBooks struct {
	messages, completed, failed uint64
	evicted                     MessageCounts
}

func (p *player) next() byte {
	if len(p.script) == 0 {
		return 0
	}
	b := p.script[0]
	p.script = p.script[1:]
	return b
}

func (p *player) play() {
	p.frames = p.all[int(p.next())%len(p.all)]
	p.tr = New(Options{MaxConnections: 1 + int(p.next())%8, MaxFindings: 16, Series: true, Sink: Sink{
		Message: func(m *Message) {
			p.books.messages++
			switch {
			case m.Status.Failed():
				p.books.failed++
			case m.Status == StatusSuccess || m.Status == StatusSent:
				p.books.completed++
			}
		},
		Connection: func(c *Connection) { p.books.evicted.addAll(c) },
	}})
	for len(p.script) > 0 {
		f := p.frames[p.at%len(p.frames)]
		f.Data = append([]byte(nil), f.Data...)
		switch p.next() % 12 {
		case 0: // as it is
			p.at++
		case 1: // not at all
			p.at++
			continue
		case 2: // again, or an earlier one
			p.at = max(0, p.at-int(p.next()%8))
		case 3: // a byte is another
			f.Data[int(p.next())%len(f.Data)] ^= p.next()
		case 4: // another PSN
			p.edit(&f, func(q *dissect.Packet, h dissect.BTH) { h.SetPSN(q.PSN.Add(int(int8(p.next())) << (p.next() % 18))) })
		case 5: // another opcode
			p.edit(&f, func(_ *dissect.Packet, h dissect.BTH) { h[0] = p.next() })
		case 6: // another queue pair
			p.edit(&f, func(_ *dissect.Packet, h dissect.BTH) { h.SetDestQP(uint32(p.next())) })
		case 7: // later, or earlier
			p.now += int64(int8(p.next())) << (p.next() % 32)
		case 8: // another capture
			p.frames, p.at = p.all[int(p.next())%len(p.all)], int(p.next())
		case 9: // the syndrome
			p.edit(&f, func(q *dissect.Packet, _ dissect.BTH) {
				if h := q.View(f.Data, dissect.LayerAETH); h != nil {
					dissect.AETH(h).SetSyndrome(dissect.Syndrome(p.next()))
				}
			})
		case 10: // cut
			f.Data = f.Data[:len(f.Data)-int(p.next())%len(f.Data)]
		case 11:
			p.flush()
			p.check()
		}
		p.feed(f)
	}
	p.flush()
	p.check()
	p.tr.Finish()
	p.check()
	if n := len(p.tr.seekers) + len(p.tr.groups) + p.tr.held + p.tr.testimony; n != 0 {
		p.t.Errorf("%d things are left of looking for partners", n)
	}
	if p.tr.openLive != 0 {
		p.t.Errorf("%d messages are open after the end", p.tr.openLive)
	}
}

// edit changes a packet's BTH and makes its ICRC right again.
func (p *player) edit(f *testkit.Frame, change func(*dissect.Packet, dissect.BTH)) {
	var q dissect.Packet
	p.decode.Decode(f.Link, f.Data, f.WireLen, &q)
	if h := q.BTH(f.Data); h != nil {
		change(&q, h)
		var craft dissect.Crafter
		_ = craft.Reseal(f.Link, f.Data)
	}
}

func (p *player) feed(f testkit.Frame) {
	p.decode.CheckICRC = true
	p.batch.Packets = append(p.batch.Packets, dissect.Packet{})
	q := &p.batch.Packets[len(p.batch.Packets)-1]
	p.decode.Decode(f.Link, f.Data, f.WireLen, q)
	p.packets++
	p.now += 1000
	q.Number, q.Time = p.packets, p.now
	p.batch.Data = append(p.batch.Data, f.Data)
	p.batch.Marks = append(p.batch.Marks, Mark{})
	if len(p.batch.Packets) == 40 {
		p.flush()
	}
}

func (p *player) flush() {
	for len(p.batch.Packets) > 0 { // one by one: what is provisional in between counts
		p.tr.Track(&Batch{Packets: p.batch.Packets[:1], Data: p.batch.Data[:1], Marks: p.batch.Marks[:1]})
		p.batch = Batch{Packets: p.batch.Packets[1:], Data: p.batch.Data[1:], Marks: p.batch.Marks[1:]}
		n := 0
		p.tr.eachConn(func(c *conn) {
			if c.flags&connProvisional != 0 {
				n++
			}
		})
		p.provisional = max(p.provisional, n)
	}
	p.batch = Batch{}
}

func (c *MessageCounts) addAll(r *Connection) {
	for d := range r.Streams {
		for _, m := range r.Streams[d].Messages {
			c.Count += m.Count
			c.Completed += m.Completed
			c.Failed += m.Failed
		}
	}
}

// check audits the books.
func (p *player) check() {
	t, tr := p.t, p.tr
	s := tr.Snapshot()
	if s.Packets != p.packets {
		t.Errorf("%d packets, want %d", s.Packets, p.packets)
	}
	if len(s.Findings) > 16+64 || len(tr.findings.list) > 16 { // some are made for a snapshot
		t.Errorf("%d findings kept", len(tr.findings.list))
	}
	counted := p.books.evicted
	for i := range s.Connections {
		c := &s.Connections[i]
		for d := range c.Streams {
			for op, m := range c.Streams[d].Messages {
				if m.Completed+m.Failed > m.Count {
					t.Errorf("%v: %d completed and %d failed of %d", Operation(op), m.Completed, m.Failed, m.Count)
				}
			}
		}
	}
	var open uint32
	provisional := 0
	tr.eachConn(func(c *conn) {
		if c.flags&connProvisional != 0 {
			provisional++
		} else {
			r := tr.record(c)
			counted.addAll(&r)
		}
		for d := range c.half {
			h := &c.half[d]
			n := uint16(0)
			for i := h.head; i != 0 && n <= h.openCount; i = tr.open[i].next {
				n++
			}
			if n != h.openCount || int(n) > maxOpen+1 {
				t.Errorf("connection %d: %d messages in the list, %d counted", c.id, n, h.openCount)
			}
			open += uint32(n)
			if c.flags&connProvisional == 0 {
				counted.Count -= uint64(n)
			}
			if x := tr.extrasOf(c); x != nil && len(x.gaps[d]) > maxGaps {
				t.Errorf("connection %d: %d gaps", c.id, len(x.gaps[d]))
			}
		}
		if (c.flags&connSeeking != 0) != (tr.seekers[slotOf(tr, c)] != nil) {
			t.Errorf("connection %d: looking for its partner %v", c.id, c.flags&connSeeking != 0)
		}
	})
	if open != tr.openLive || int(open) > len(tr.open) {
		t.Errorf("%d messages open, %d counted", open, tr.openLive)
	}
	p.provisional = max(p.provisional, provisional)
	if tr.live > tr.opt.MaxConnections+p.provisional {
		t.Errorf("%d connections of at most %d, and at most %d were provisional", tr.live, tr.opt.MaxConnections, p.provisional)
	}
	if counted.Count != p.books.messages || counted.Completed != p.books.completed || counted.Failed != p.books.failed {
		t.Errorf("%d messages settled, %d completed, %d failed in the counters; %d, %d, %d were told", counted.Count, counted.Completed, counted.Failed, p.books.messages, p.books.completed, p.books.failed)
	}
	held, testimony := 0, 0
	for slot, s := range tr.seekers {
		held += len(s.hold)
		testimony += s.testimony()
		if c := tr.conn(slot); c.flags&connLive == 0 || s.slot != slot || tr.groupOf(c) == nil || tr.groupOf(c).lone[s.at] != s {
			t.Errorf("seeker of slot %d is not in order", slot)
		}
		for _, o := range s.candidates {
			if tr.seekers[o] == nil {
				t.Errorf("a candidate is gone")
			}
		}
	}
	if held != tr.held || testimony != tr.testimony {
		t.Errorf("%d packets held, %d counted; %d notes, %d counted", held, tr.held, testimony, tr.testimony)
	}
}

func slotOf(tr *Tracker, c *conn) uint32 {
	for n, chunk := range tr.slab {
		for i := range chunk {
			if &chunk[i] == c {
				return uint32(n<<chunkBits + i)
			}
		}
	}
	return ^uint32(0)
}
