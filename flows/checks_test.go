package flows

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// checkCase is a capture that proves one check, and a healthy one that is as
// like it as can be.
type checkCase struct {
	id      string
	options testkit.ExchangeOptions
	// broken writes the capture, and returns the frame that the finding must
	// name; nil: it names none in particular.
	broken func(x *testkit.Exchange) *testkit.Packet
	fine   func(x *testkit.Exchange)

	stream  string   // "a_to_b", "b_to_a"; "" = of no stream
	count   uint64   // 0 = 1
	summary string   // the whole sentence
	besides []string // findings above note that come with it
	atEnd   bool     // it is found later than its frame, which is not marked then
}

// awaited are checks whose tests are being written.
var awaited = []string{}

// testedElsewhere looks for a check's name in the other test files of this
// package.
func testedElsewhere(t *testing.T, c *Check) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == "checks_test.go" || file == "accuracy_test.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), strconv.Quote(c.ID)) {
			return true
		}
	}
	return false
}

const ms = time.Millisecond

// done sends a message of each kind both ways and answers it: a connection
// that is in its stride.
func done(x *testkit.Exchange) {
	for _, e := range []*testkit.End{x.A, x.B} {
		e.Peer().Answer(e.Write(100))
		e.Peer().Answer(e.Send(100))
	}
}

// begun sets a connection up and exchanges some messages.
func begun(x *testkit.Exchange) {
	x.Connect()
	done(x)
}

// later lets time pass while other queue pairs of the two hosts go on.
func later(x *testkit.Exchange, d time.Duration) {
	o := x.Beside(func(o *testkit.ExchangeOptions) { o.CommIDA, o.CommIDB, o.TransactionID = 0xA9, 0xB9, 9 })
	o.Connect()
	done(o)
	x.Wait(d)
	done(o)
}

// sendAll sends requests and answers each.
func sendAll(x *testkit.Exchange, sizes ...int) {
	for _, n := range sizes {
		x.B.Answer(x.A.Write(n))
	}
}

// raw sends a request packet of A that takes one PSN.
func raw(x *testkit.Exchange, op dissect.Opcode, payload int, dmaLen uint32) *testkit.Packet {
	p := x.A.Packet(op, func(b *testkit.Build) {
		b.Payload = make([]byte, payload)
		if h := b.RETH(); h != nil {
			h.SetVA(x.VA)
			h.SetRKey(x.RKey)
			h.SetDMALen(dmaLen)
		}
	})
	x.A.Next = x.A.Next.Add(1)
	return p
}

// fromElsewhere gives a packet another source address.
func fromElsewhere(q *dissect.Packet, data []byte) {
	q.IPv4(data).SetSrc(dissect.Addr{Lo: 0xFFFF_0A00_004D})
}

var checkCases = []checkCase{
	{
		id: "bad_icrc", stream: "a_to_b", summary: "1 packet with a wrong invariant CRC (first: PSN 0x000002)",
		broken: func(x *testkit.Exchange) *testkit.Packet { begun(x); return x.A.Write(10).Packets[0].BreakICRC() },
		fine:   func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "icrc_mistake", summary: "3 packets from 10.0.0.1 have a wrong invariant CRC because its bytes are in the wrong order",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			var first *testkit.Packet
			for range 3 {
				p := x.A.Write(10).Packets[0]
				slices.Reverse(p.Data[len(p.Data)-4:])
				if first == nil {
					first = p
				}
			}
			return first
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			for _, n := range []int{10, 100, 200} {
				x.A.Write(n).Packets[0].BreakICRC()
			}
		},
		besides: []string{"bad_icrc"},
	},
	{
		id: "reserved_opcode", stream: "a_to_b", summary: "opcode 0x1F is reserved (1 packet)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			return x.A.Write(10).Packets[0].Edit(func(q *dissect.Packet, data []byte) { data[q.Offset(dissect.LayerBTH)] = 0x1F })
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "transport_version", stream: "a_to_b", summary: "transport header version 3 (1 packet)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			return x.A.Write(10).Packets[0].Edit(func(q *dissect.Packet, data []byte) { data[q.Offset(dissect.LayerBTH)+1] |= 3 })
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "foreign_source", atEnd: true, stream: "a_to_b", summary: "2 packets from 10.0.0.77, while others come from 10.0.0.1: a connected queue pair has one peer", count: 2,
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(3000)
			m.Packets[0].Edit(fromElsewhere)
			m.Packets[1].Edit(fromElsewhere)
			x.B.Answer(m)
			sendAll(x, 10)
			return m.Packets[0]
		},
		// What migrates to an alternate path says so by its MigReq bit, and whoever gets the number of a queue pair that is gone does
		// not hear of the old one's peer any more.
		fine: func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Write(3000)
			m.Packets[0].Edit(func(q *dissect.Packet, data []byte) { b := q.BTH(data); b.SetMigReq(!b.MigReq()) })
			m.Packets[1].Edit(fromElsewhere)
			x.B.Answer(m)
			o := x.Beside(func(o *testkit.ExchangeOptions) { o.CommIDA, o.CommIDB, o.TransactionID = 0xA9, 0xB9, 9 })
			begun(o)
			for range 3 {
				m := o.A.Write(10)
				m.Packets[0].Edit(fromElsewhere)
				o.B.Answer(m)
			}
		},
	},
	{
		id: "p_key", stream: "a_to_b", summary: "P_Key 0x8001, while the other way it is 0xffff (1 packet)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			return x.A.Write(10).Packets[0].Edit(func(q *dissect.Packet, data []byte) { q.BTH(data).SetPKey(0x8001) })
		},
		// A limited member and a full one may talk.
		fine: func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Write(10)
			m.Packets[0].Edit(func(q *dissect.Packet, data []byte) { q.BTH(data).SetPKey(0x7FFF) })
			x.B.Answer(m)
		},
	},
	{
		id: "pad_count", stream: "a_to_b", summary: "pad count 2 does not fit the packet of 0 payload bytes (1 packet)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			return x.A.Write(0).Packets[0].Edit(func(q *dissect.Packet, data []byte) { data[q.Offset(dissect.LayerBTH)+1] |= 2 << 4 })
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 0, 1, 2, 3) },
	},
	{
		id: "payload_mtu", stream: "a_to_b", summary: "payload of 2000 bytes with a path MTU of 1024 (1 packet)",
		broken: func(x *testkit.Exchange) *testkit.Packet { begun(x); return raw(x, dissect.OpRCWriteOnly, 2000, 2000) },
		fine:   func(x *testkit.Exchange) { begun(x); sendAll(x, 1024, 2000, 2048) },
	},
	{
		id: "payload_length", stream: "a_to_b", summary: "RC RDMA READ Request carries 8 bytes (1 packet)",
		broken: func(x *testkit.Exchange) *testkit.Packet { begun(x); return raw(x, dissect.OpRCReadRequest, 8, 8) },
		fine:   func(x *testkit.Exchange) { begun(x); x.B.Answer(x.A.Read(8)) },
	},
	{
		id: "opcode_order", stream: "a_to_b", summary: "RC SEND Only behind RC RDMA WRITE First (PSN 0x000003)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			raw(x, dissect.OpRCWriteFirst, 1024, 1500)
			return raw(x, dissect.OpRCSendOnly, 10, 0)
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			raw(x, dissect.OpRCWriteFirst, 1024, 1500)
			raw(x, dissect.OpRCWriteLast, 476, 0)
			x.B.Ack(x.A.Next.Add(-1), 3)
		},
	},
	{
		id: "opcode_order", stream: "a_to_b", summary: "RC RDMA WRITE Middle although no message had begun (PSN 0x000002)",
		broken: func(x *testkit.Exchange) *testkit.Packet { begun(x); return raw(x, dissect.OpRCWriteMiddle, 1024, 0) },
		fine:   func(x *testkit.Exchange) { begun(x); sendAll(x, 3000) },
	},
	{
		id: "message_length", stream: "a_to_b", summary: "a WRITE of 1500 bytes by its RETH carried 1424 (message at PSN 0x000002)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			raw(x, dissect.OpRCWriteFirst, 1024, 1500)
			return raw(x, dissect.OpRCWriteLast, 400, 0)
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 1500) },
	},
	{
		id: "psn_gap", stream: "a_to_b", summary: "1 gap in the request PSNs; the first is of 2 packets at PSN 0x000003",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(4000)
			m.Packets[1].Drop()
			m.Packets[2].Drop()
			return m.Packets[3]
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 4000) },
	},
	{
		id: "psn_jump", stream: "a_to_b", summary: "request PSN 0x400000 where 0x000002 was expected",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			x.A.Next = 0x400000
			m := x.A.Write(10)
			x.B.Answer(m)
			return m.Packets[0]
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "psn_start", stream: "a_to_b", summary: "first request has PSN 0x400000, but the handshake said 0x000100",
		options: testkit.ExchangeOptions{PSNA: 0x100},
		broken: func(x *testkit.Exchange) *testkit.Packet {
			x.Connect()
			x.A.Next = 0x400000
			m := x.A.Write(10)
			x.B.Answer(m)
			return m.Packets[0]
		},
		fine: begun,
	},
	{
		id: "network_duplicate", stream: "a_to_b", summary: "1 copy of a request (first: PSN 0x000004)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			sendAll(x, 10, 10)
			m := x.A.Write(10)
			c := m.Packets[0].Duplicate(500 * time.Nanosecond)
			x.B.Answer(m)
			return c
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10, 10, 10) },
	},
	{
		id: "reordered", stream: "a_to_b", summary: "1 request was overtaken (first: PSN 0x000004, 2 packets late)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			sendAll(x, 10, 10)
			m := x.A.Write(3000)
			p := m.Packets[0].Delay(1500 * time.Nanosecond)
			x.Wait(ms)
			x.B.Answer(m)
			return p
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10, 10, 3000) },
	},
	{
		id: "lost_before_tap", stream: "a_to_b",
		summary: "1 gap was answered by a sequence NAK (first: 1 packet at PSN 0x000003, missing since frame 13); 3 packets (3150 bytes) sent again, recovered after 6µs",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(4000)
			m.Packets[1].Drop()
			nak := x.B.NAK(m.First.Add(1), dissect.NAKSequence)
			m.ResendFrom(1)
			x.B.Answer(m)
			return nak
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 4000) },
	},
	{
		id: "lost_behind_tap", stream: "a_to_b",
		summary: "1 sequence NAK for a PSN that is in this capture (first: 0x000003); 3 packets (3150 bytes) sent again, recovered after 4µs",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(4000)
			nak := x.B.NAK(m.First.Add(1), dissect.NAKSequence)
			m.ResendFrom(1)
			x.B.Answer(m)
			return nak
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 4000) },
	},
	{
		id: "retransmission", stream: "a_to_b", summary: "1 run of requests was sent again behind a sequence NAK (first: from PSN 0x000003)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(4000)
			x.B.NAK(m.First.Add(1), dissect.NAKSequence)
			again := m.ResendFrom(1)
			x.B.Answer(m)
			return again[0]
		},
		fine:    func(x *testkit.Exchange) { begun(x); sendAll(x, 4000) },
		besides: []string{"lost_behind_tap"},
	},
	{
		id: "lost_unnoticed", stream: "a_to_b", options: testkit.ExchangeOptions{Transport: dissect.UC},
		summary: "2 packets were lost before this tap in 2 gaps (first at PSN 0x000001); nothing sends them again", count: 2,
		broken: func(x *testkit.Exchange) *testkit.Packet {
			x.Connect()
			m := x.A.Write(4000)
			m.Packets[1].Drop()
			n := x.A.Write(4000)
			n.Packets[2].Drop()
			x.A.Write(10)
			return m.Packets[2]
		},
		fine: func(x *testkit.Exchange) { x.Connect(); x.A.Write(4000); x.A.Write(4000); x.A.Write(10) },
	},
	{
		id: "capture_loss", stream: "a_to_b", summary: "1 run of requests was acknowledged but never seen (first: 2 packets at PSN 0x000003)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(4000)
			m.Packets[1].Drop()
			m.Packets[2].Drop()
			x.B.Answer(m)
			return m.Packets[3]
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 4000) },
	},
	{
		id: "ghost_ack", atEnd: true, stream: "b_to_a", summary: "1 answer carries a PSN never sent (first: 0x000064, newest request was 0x000001)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			g := x.B.Ack(x.A.Next.Add(98), 3)
			x.Wait(20 * ms)
			sendAll(x, 10)
			return g
		},
		fine: func(x *testkit.Exchange) { begun(x); x.Wait(20 * ms); sendAll(x, 10) },
	},
	{
		id: "response_gap", stream: "b_to_a", summary: "1 gap in the READ responses (first: 1 packet at PSN 0x000003)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			p := x.B.Answer(x.A.Read(4000))
			p[1].Drop()
			return p[2]
		},
		fine: func(x *testkit.Exchange) { begun(x); x.B.Answer(x.A.Read(4000)) },
	},
	{
		id: "response_lost_before_tap", stream: "b_to_a", summary: "1 READ was asked again for what is missing here (first: 1 packet at PSN 0x000003)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Read(4000)
			x.B.Answer(m)[1].Drop()
			x.Wait(50 * ms)
			rest := m.ReadRest(1)
			x.B.Answer(rest)
			return rest.Packets[0]
		},
		fine:    func(x *testkit.Exchange) { begun(x); x.B.Answer(x.A.Read(4000)) },
		besides: []string{"timeout"},
	},
	{
		id: "response_lost_behind_tap", stream: "b_to_a", summary: "1 READ was asked again for responses that are in this capture (first: PSN 0x000003)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Read(4000)
			x.B.Answer(m)
			x.Wait(50 * ms)
			rest := m.ReadRest(1)
			x.B.Answer(rest)
			return rest.Packets[0]
		},
		fine: func(x *testkit.Exchange) { begun(x); x.B.Answer(x.A.Read(4000)) },
	},
	{
		id: "timeout", stream: "a_to_b", summary: "1 time-out (first: from PSN 0x000002 after 50.001ms); 2 packets (2132 bytes) sent again, recovered after 50.003ms",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(2000)
			x.Wait(50 * ms)
			again := m.ResendFrom(0)
			x.B.Answer(m)
			return again[0]
		},
		fine: func(x *testkit.Exchange) { begun(x); m := x.A.Write(2000); x.Wait(50 * ms); x.B.Answer(m) },
	},
	{
		id: "resent_after_ack", stream: "a_to_b", summary: "1 run of requests was sent again after the ACK (first: from PSN 0x000002)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(2000)
			x.B.Answer(m)
			x.Wait(50 * ms)
			again := m.ResendFrom(0)
			x.B.Ack(m.Last, x.B.MSN)
			return again[0]
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 2000); x.Wait(50 * ms); sendAll(x, 2000) },
	},
	{
		id: "retry_exceeded", stream: "a_to_b", options: testkit.ExchangeOptions{RetryCount: 3},
		summary: "message at PSN 0x000002 was sent 3 times more, every 50.001ms, and never answered: presumed IBV_WC_RETRY_EXC_ERR (12)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(10)
			var last *testkit.Packet
			for range 3 {
				x.Wait(50 * ms)
				last = m.ResendFrom(0)[0]
			}
			later(x, time.Second)
			return last
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Write(10)
			x.B.Answer(m)
			later(x, time.Second)
		},
		besides: []string{"timeout"},
	},
	{
		id: "rnr_nak", stream: "b_to_a", summary: "1 RNR NAK (first: PSN 0x000002, timer code 12 = 640µs)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Send(10)
			rnr := x.B.RNR(m.First, 12)
			x.Wait(700 * time.Microsecond)
			m.ResendFrom(0)
			x.B.Answer(m)
			return rnr
		},
		fine: func(x *testkit.Exchange) { begun(x); x.B.Answer(x.A.Send(10)) },
	},
	{
		id: "rnr_early", stream: "a_to_b", summary: "1 resend came too early (first: after 101µs of 640µs)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Send(10)
			x.B.RNR(m.First, 12)
			x.Wait(100 * time.Microsecond)
			again := m.ResendFrom(0)
			x.B.Answer(m)
			return again[0]
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Send(10)
			x.B.RNR(m.First, 12)
			x.Wait(640 * time.Microsecond)
			m.ResendFrom(0)
			x.B.Answer(m)
		},
		besides: []string{"rnr_nak"},
	},
	{
		id: "rnr_retry_exceeded", stream: "a_to_b", options: testkit.ExchangeOptions{RNRRetryCount: 2},
		summary: "message at PSN 0x000002 was refused 3 times and then given up: presumed IBV_WC_RNR_RETRY_EXC_ERR (13)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Send(10)
			var last *testkit.Packet
			for range 2 {
				x.B.RNR(m.First, 12)
				x.Wait(ms)
				last = m.ResendFrom(0)[0]
			}
			x.B.RNR(m.First, 12)
			later(x, time.Second)
			return last
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Send(10)
			for range 2 {
				x.B.RNR(m.First, 12)
				x.Wait(ms)
				m.ResendFrom(0)
			}
			x.B.Answer(m)
			later(x, time.Second)
		},
		besides: []string{"rnr_nak"},
	},
	{
		id: "rnr_long_timer", stream: "b_to_a", summary: "1 RNR NAK asks for a wait of more than 10 ms (first: timer code 0 = 655.36ms)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Send(10)
			rnr := x.B.RNR(m.First, 0)
			x.Wait(656 * ms)
			m.ResendFrom(0)
			x.B.Answer(m)
			return rnr
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Send(10)
			x.B.RNR(m.First, 19)
			x.Wait(11 * ms)
			m.ResendFrom(0)
			x.B.Answer(m)
		},
		besides: []string{"rnr_nak"},
	},
	{
		id: "rnr_storm", stream: "b_to_a", summary: "60 RNR NAKs for 65 requests within 660.128ms",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Send(10)
			for range 60 {
				x.B.RNR(m.First, 12)
				x.Wait(11 * ms)
				m.ResendFrom(0)
			}
			x.B.Answer(m)
			return nil
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			for range 60 {
				sendAll(x, 10, 10, 10, 10, 10)
				m := x.A.Send(10)
				x.B.RNR(m.First, 12)
				x.Wait(11 * ms)
				m.ResendFrom(0)
				x.B.Answer(m)
			}
		},
		besides: []string{"rnr_nak"},
	},
	{
		id: "read_psn_span", stream: "a_to_b", summary: "request at PSN 0x000003 lies inside the 4 PSNs of the READ at 0x000002 (1 time)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			x.A.Read(4000)
			x.A.Next = x.A.Next.Add(-3) // behind its first
			return x.A.Write(10).Packets[0]
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			r := x.A.Read(4000)
			w := x.A.Write(10)
			x.B.Answer(r)
			x.B.Answer(w)
		},
	},
	{
		id: "atomic_unaligned", stream: "a_to_b", summary: "atomic on address 0x1004 (1 request)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			return x.A.FetchAdd(1, testkit.At(0x1004, 7)).Packets[0]
		},
		fine: func(x *testkit.Exchange) { begun(x); x.B.Answer(x.A.FetchAdd(1, testkit.At(0x1008, 7))) },
	},
	{
		id: "mtu_asymmetry", stream: "a_to_b", summary: "a segments by 1024 bytes, b by 512",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			x.Pingpong()
			x.B.Answer(x.A.Write(4096))
			x.MTU = 512
			x.A.Answer(x.B.Write(2048))
			return nil
		},
		fine: func(x *testkit.Exchange) {
			x.Pingpong()
			x.B.Answer(x.A.Write(4096))
			x.A.Answer(x.B.Write(2048))
		},
	},
	{
		id: "msn_count", stream: "b_to_a", summary: "MSN advanced by 3 where 1 message was completed (first at PSN 0x000004; 1 time)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(3000)
			return x.B.Ack(m.Last, x.B.MSN.Add(3)) // it counts packets
		},
		fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 3000) },
	},
	{
		id: "message_stalled", atEnd: true, stream: "a_to_b", summary: "message at PSN 0x000002: 2048 of 9000 bytes seen, its last packet missing, silent for 2s",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			m := x.A.Write(9000)
			for _, p := range m.Packets[2:] {
				p.Drop()
			}
			later(x, 2*time.Second)
			return m.Packets[1]
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			sendAll(x, 9000)
			later(x, 2*time.Second)
		},
	},
	{
		id: "no_responder", atEnd: true, stream: "a_to_b", summary: "5 requests to queue pair 0x000012 within 4µs, and no packet back",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			x.Connect()
			first := x.A.Write(10).Packets[0]
			for range 4 {
				x.A.Write(10)
			}
			return first
		},
		fine: func(x *testkit.Exchange) {
			x.Connect()
			sendAll(x, 10, 10, 10, 10, 10)
		},
	},
	{
		id: "dreq_unanswered", summary: "DREQ for 10.0.0.1 → 10.0.0.2 was not answered by a DREP",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			p := x.A.DREQ()
			later(x, 10*time.Second)
			return p
		},
		fine: func(x *testkit.Exchange) { begun(x); x.Disconnect(); later(x, 10*time.Second) },
	},
	{
		id: "nak_invalid_request", stream: "b_to_a",
		summary: "request at PSN 0x000002 was refused: invalid request, IBV_WC_REM_INV_REQ_ERR (9) at the requester (VA 0x7f0000001000, R_Key 0x1234, 10 bytes)",
		broken:  refusal(dissect.NAKInvalidRequest), fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "nak_remote_access", stream: "b_to_a",
		summary: "request at PSN 0x000002 was refused: remote access error, IBV_WC_REM_ACCESS_ERR (10) at the requester (VA 0x7f0000001000, R_Key 0x1234, 10 bytes)",
		broken:  refusal(dissect.NAKRemoteAccess), fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "nak_remote_operational", stream: "b_to_a",
		summary: "request at PSN 0x000002 was refused: remote operational error, IBV_WC_REM_OP_ERR (11) at the requester (VA 0x7f0000001000, R_Key 0x1234, 10 bytes)",
		broken:  refusal(dissect.NAKRemoteOperational), fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "nak_invalid_rd", stream: "b_to_a",
		summary: "request at PSN 0x000002 was refused: invalid RD request, IBV_WC_REM_INV_RD_REQ_ERR (15) at the requester (VA 0x7f0000001000, R_Key 0x1234, 10 bytes)",
		broken:  refusal(dissect.NAKInvalidRD), fine: func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "reserved_syndrome", stream: "b_to_a", summary: "syndrome 0x41 (1 answer)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			return x.B.Acknowledge(x.A.Write(10).Last, 0x41, 3)
		},
		fine: func(x *testkit.Exchange) { begun(x); x.B.Acknowledge(x.A.Write(10).Last, 0x1F, 3) },
	},
	{
		id: "reserved_syndrome", stream: "b_to_a", summary: "syndrome 0x65 (1 answer)",
		broken: func(x *testkit.Exchange) *testkit.Packet { begun(x); return x.B.NAK(x.A.Write(10).Last, 5) },
		fine:   func(x *testkit.Exchange) { begun(x); sendAll(x, 10) },
	},
	{
		id: "read_depth", stream: "a_to_b", options: testkit.ExchangeOptions{ReadDepth: 2},
		summary: "3 READs and atomics outstanding where 2 were agreed on",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			begun(x)
			ms := []*testkit.Message{x.A.Read(10), x.A.FetchAdd(1), x.A.Read(10)}
			for _, m := range ms {
				x.B.Answer(m)
			}
			return ms[2].Packets[0]
		},
		fine: func(x *testkit.Exchange) {
			begun(x)
			ms := []*testkit.Message{x.A.Read(10), x.A.FetchAdd(1)}
			for _, m := range ms {
				x.B.Answer(m)
			}
			x.B.Answer(x.A.Read(10))
		},
	},
	{
		id: "atomic_replay", stream: "b_to_a", summary: "the atomic at PSN 0x000002 was answered with 0x5, then with 0x6",
		broken:  replay(6),
		fine:    func(x *testkit.Exchange) { replay(5)(x) },
		besides: []string{"resent_after_ack"},
	},
	{
		id: "cm_reject", summary: "connection 10.0.0.1 → 10.0.0.2 was refused: reason 8 (" + dissect.RejReason(8).String() + ")",
		broken: func(x *testkit.Exchange) *testkit.Packet { x.A.REQ(); return x.B.REJ(8) },
		fine:   begun,
	},
	{
		id: "cm_resent", summary: "REQ was sent again (1 time)",
		broken: func(x *testkit.Exchange) *testkit.Packet {
			p := x.A.REQ()
			x.Wait(4 * time.Second)
			again := p.SendAgain()
			x.B.REP()
			x.A.RTU()
			done(x)
			return again
		},
		fine: begun,
	},
	{
		id: "handshake_without_data", summary: "queue pairs were set up (10.0.0.1 → 10.0.0.2), but this capture has no data of theirs",
		broken: func(x *testkit.Exchange) *testkit.Packet { x.Connect(); return nil },
		fine:   begun,
	},
}

// refusal is a WRITE that is refused.
func refusal(code dissect.NAKCode) func(x *testkit.Exchange) *testkit.Packet {
	return func(x *testkit.Exchange) *testkit.Packet {
		begun(x)
		return x.B.NAK(x.A.Write(10).First, code)
	}
}

// replay is an atomic that is sent again behind its answer, and answered
// again, with a value.
func replay(second uint64) func(x *testkit.Exchange) *testkit.Packet {
	return func(x *testkit.Exchange) *testkit.Packet {
		begun(x)
		m := x.A.FetchAdd(1)
		x.B.Complete(m)
		x.B.AtomicAck(m, 5)
		x.Wait(50 * ms)
		m.ResendFrom(0)
		return x.B.AtomicAck(m, second)
	}
}

// verify compares what a tracker made of the broken capture with what it
// should.
func (c *checkCase) verify(s *seen, frame uint64) error {
	f := s.finding(c.id)
	if f == nil {
		return fmt.Errorf("not found")
	}
	stream := ""
	if f.HasStream {
		stream = f.Direction.String()
	}
	switch {
	case f.Summary != c.summary:
		return fmt.Errorf("it says %q, want %q", f.Summary, c.summary)
	case stream != c.stream:
		return fmt.Errorf("it is of stream %q, want %q", stream, c.stream)
	case f.Count != max(c.count, 1) && c.id != "rnr_nak":
		return fmt.Errorf("it counts %d, want %d", f.Count, max(c.count, 1))
	case frame != 0 && f.Frame != frame:
		return fmt.Errorf("it names frame %d, want %d", f.Frame, frame)
	case frame != 0 && f.HasStream && !c.atEnd && !s.mark(int(frame)).Has(MarkFinding):
		return fmt.Errorf("frame %d is not marked", frame)
	}
	want := slices.Clone(c.besides)
	if f.Severity() > Note {
		want = append(want, c.id)
	}
	slices.Sort(want)
	if got := s.grave(); !slices.Equal(got, want) {
		return fmt.Errorf("the findings above note are %v, want %v", got, want)
	}
	return nil
}

func (c *checkCase) run() (*seen, uint64) {
	x := testkit.NewExchange(c.options)
	p := c.broken(x)
	frames := x.Frames()
	number := 0
	if p != nil {
		number = 1 + slices.IndexFunc(frames, func(f testkit.Frame) bool { return &f.Data[0] == &p.Data[0] })
	}
	return look(frames), uint64(number)
}

func TestChecks(t *testing.T) {
	for _, c := range checkCases {
		t.Run(c.id, func(t *testing.T) {
			s, frame := c.run()
			if err := c.verify(s, frame); err != nil {
				t.Errorf("%v\n%s", err, s.describe())
			}
			x := testkit.NewExchange(c.options)
			c.fine(x)
			if s := look(x.Frames()); s.finding(c.id) != nil {
				t.Errorf("found in a healthy capture too\n%s", s.describe())
			}
		})
	}
}

// TestChecksAreWatched takes each check's finding away and expects its test to
// notice.
func TestChecksAreWatched(t *testing.T) {
	for _, c := range checkCases {
		s, frame := c.run()
		snapshot := *s.Snapshot
		s.Snapshot = &snapshot
		s.Findings = slices.DeleteFunc(slices.Clone(s.Findings), func(f Finding) bool { return f.ID.String() == c.id })
		if c.verify(s, frame) == nil {
			t.Errorf("nobody would notice if %s were not found", c.id)
		}
	}
}

// TestCheckTable walks the table.
func TestCheckTable(t *testing.T) {
	ids := map[string]bool{}
	for i, c := range Checks() {
		switch {
		case c.ID == "":
			t.Errorf("row %d is empty", i)
		case ids[c.ID]:
			t.Errorf("%s is there twice", c.ID)
		case c.Title == "" || c.Explain == "" || c.Rule == "" || c.Try == "" || c.text == nil:
			t.Errorf("%s lacks a text", c.ID)
		}
		ids[c.ID] = true
		if FindingID(i).String() != c.ID {
			t.Errorf("row %d is %s, but its number is called %s", i, c.ID, FindingID(i))
		}
		if strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%s: ids are lower case and underscores", c.ID)
		}
		if strings.HasSuffix(c.Title, ".") || !strings.HasSuffix(c.Explain, ".") || !strings.HasSuffix(c.Try, ".") {
			t.Errorf("%s: a title has no full stop, the other texts do", c.ID)
		}
		here := slices.ContainsFunc(checkCases, func(k checkCase) bool { return k.id == c.ID })
		elsewhere := !here && testedElsewhere(t, &c)
		switch waits := slices.Contains(awaited, c.ID); {
		case !here && !elsewhere && !waits:
			t.Errorf("%s has no test", c.ID)
		case waits && (here || elsewhere):
			t.Errorf("%s has a test: take it off the list of those that are awaited", c.ID)
		}
	}
	for _, id := range awaited {
		if !ids[id] {
			t.Errorf("there is no check %s", id)
		}
	}
}
