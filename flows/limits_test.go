package flows

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCountersBeyond32Bits sets the counters of a connection a little below 2³², as if so many messages had been seen, which would
// take hours to send, and lets some more come: nothing wraps.
func TestCountersBeyond32Bits(t *testing.T) {
	const far = math.MaxUint32 - 10
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	exchange := func(n int) []testkit.Frame {
		for range n {
			x.B.Answer(x.A.Write(100))
			x.B.Answer(x.A.Send(100))
		}
		return x.Frames()
	}
	frames := exchange(2)
	first := len(frames)
	frames = exchange(20)
	tr := New(Options{})
	track := func(from, to int) {
		packets, data := testkit.Decode(frames[from:to])
		for i := range packets {
			packets[i].Number += far // as of a capture that has gone on for long
		}
		tr.Track(&Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
	}
	track(0, first)
	// What the tracker would hold after 2³² messages of each kind: the hot counters hand over at carryAt, again and again.
	var c *conn
	tr.eachConn(func(k *conn) { c = k })
	d := AToB
	if c.stream[d].flags&streamOp == 0 {
		d = BToA
	}
	before := tr.Snapshot().Connections[0]
	s := &c.stream[d]
	wide := tr.rare(c).count(d)
	other := tr.other(&c.half[d], OpSend)
	for _, k := range []struct {
		messages, completed *uint32
		op                  Operation
	}{{&s.messages, &s.completed, s.op}, {&other.messages, &other.completed, OpSend}} {
		wide.Messages[k.op].Count, wide.Messages[k.op].Completed = carryAt, carryAt
		*k.messages += far - carryAt
		*k.completed += far - carryAt
	}
	answers := &c.stream[d.Reverse()]
	tr.rare(c).count(d.Reverse()).Acks = far - 5
	s.packets += far
	s.bytes += far
	c.half[d].index = uint32(uint64(c.half[d].index) + 2*far)
	tr.packets += far
	tr.opcodes[dissect.OpRCWriteOnly] += far
	tr.lastID = math.MaxUint32 - 1
	answers.acks = carryAt - 7
	track(first, len(frames))
	after := tr.Snapshot().Connections[0]
	was, is := &before.Streams[d], &after.Streams[d]
	for _, op := range []Operation{OpWrite, OpSend} {
		if want := was.Messages[op].Count + far + 20; is.Messages[op].Count != want || is.Messages[op].Completed != want {
			t.Errorf("%v: %d messages, %d completed, want %d", op, is.Messages[op].Count, is.Messages[op].Completed, want)
		}
	}
	if want := was.Packets + far + 40; is.Packets != want || is.Bytes < far {
		t.Errorf("%d packets, want %d; %d bytes", is.Packets, want, is.Bytes)
	}
	if got, want := after.Streams[d.Reverse()].Acks, uint64(far-5+carryAt-7+40); got != want {
		t.Errorf("%d ACKs, want %d", got, want)
	}
	end := &after.A
	if d == BToA {
		end = &after.B
	}
	if want := is.Messages[OpWrite].Count + is.Messages[OpSend].Count; end.InUse.SQSent != want {
		t.Errorf("%d work requests sent, want %d", end.InUse.SQSent, want)
	}
	if sum := tr.Snapshot(); sum.Packets != far+uint64(len(frames)) || sum.Opcodes[dissect.OpRCWriteOnly] < far {
		t.Errorf("%d packets, %d WRITEs", sum.Packets, sum.Opcodes[dissect.OpRCWriteOnly])
	}
	// The numbers of connections go round, and leave out 0, which is the capture as a whole.
	for range 3 {
		if _, c := tr.newConn(); c.id == 0 {
			t.Error("a connection has number 0")
		}
	}
}

// TestPSNAndMSNGoRound lets a conversation pass from the last PSN and MSN to the first: nothing is found.
func TestPSNAndMSNGoRound(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{PSNA: 0xFFFFF8, PSNB: 0xFFFFFA})
	x.B.MSN, x.A.MSN = 0xFFFFFA, 0xFFFFFC
	for range 20 {
		x.B.Answer(x.A.Write(100))
		x.A.Answer(x.B.Send(3000))
		x.B.Answer(x.A.Read(5000))
	}
	s := look(x.Frames())
	if len(s.Findings) != 0 {
		t.Errorf("found:\n%s", s.describe())
	}
	if c := s.only(t); c.Streams[AToB].Messages[OpWrite].Completed+c.Streams[BToA].Messages[OpWrite].Completed != 20 {
		t.Errorf("%+v", c.Streams)
	}
}

// TestIntegerLimits gives the tracker packets of which one word is at a limit: 0, 1, the greatest number, the one before, at
// every place of every kind of packet. It must not panic, count each, and stay small.
func TestIntegerLimits(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	x.B.Answer(x.A.Write(3000))
	x.B.Answer(x.A.Read(3000))
	x.A.Answer(x.B.Send(10))
	x.B.Answer(x.A.FetchAdd(1))
	x.B.NAK(x.A.Next, dissect.NAKSequence)
	x.B.RNR(x.A.Next, 12)
	x.B.CNP()
	x.A.PFC(map[int]uint16{3: 100})
	x.Perftest()
	x.Disconnect()
	frames := x.Frames()
	tr := New(Options{Series: true, Shadow: true, ShadowBytes: 1 << 20, MaxConnections: 4096})
	dec := dissect.Decoder{CheckICRC: false}
	var p [1]dissect.Packet
	n, now := uint64(0), frames[0].Time
	for _, f := range frames {
		for at := 12; at < min(len(f.Data), 130); at++ {
			for _, width := range []int{1, 2, 4} {
				if at+width > len(f.Data) || width > 1 && at%width != 0 && at%width != 2 {
					continue
				}
				for _, v := range []uint32{0, 1, 1<<(8*width) - 2, 1<<(8*width) - 1} {
					data := slices.Clone(f.Data)
					var word [4]byte
					binary.BigEndian.PutUint32(word[:], v)
					copy(data[at:], word[4-width:])
					n, now = n+1, now+1000
					p[0].Number, p[0].Time = n, now
					dec.Decode(dissect.LinkEthernet, data, len(data), &p[0])
					tr.Track(&Batch{Packets: p[:], Data: [][]byte{data}, Marks: make([]Mark, 1)})
				}
			}
		}
	}
	tr.Finish()
	if s := tr.Snapshot(); s.Packets+s.Mirrored < n {
		t.Errorf("%d packets are counted, and %d that were mirrored, of %d", s.Packets, s.Mirrored, n)
	}
}

// TestClockSteps lets the clock of a capture leap forth and back, by microseconds and by years, as when it is set or a machine
// was asleep. What is counted stays the same, and no time comes out negative.
func TestClockSteps(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, seed))
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	begun(x)
	for range 100 {
		x.B.Answer(x.A.Write(3000))
		x.A.Answer(x.B.Send(10))
		x.B.Answer(x.A.Read(2000))
	}
	frames := x.Frames()
	want := lookWith(Options{Series: true}, 64, frames).only(t)
	for name, leap := range map[string]func(i int) time.Duration{
		"an hour back, once":           func(i int) time.Duration { return -time.Duration(min(i/200, 1)) * time.Hour },
		"eight hours of sleep":         func(i int) time.Duration { return time.Duration(min(i/200, 1)) * 8 * time.Hour },
		"back and forth by a ms":       func(i int) time.Duration { return time.Duration(i%2) * time.Millisecond },
		"anywhere within 100 years":    func(int) time.Duration { return time.Duration(rng.Int64N(1 << 61)) },
		"back to 1970 and forth again": func(i int) time.Duration { return -time.Duration(i%3/2) * time.Duration(frames[0].Time) },
	} {
		t.Run(name, func(t *testing.T) {
			leapt := slices.Clone(frames)
			for i := range leapt {
				leapt[i].Time += int64(leap(i))
			}
			s := lookWith(Options{Series: true}, 64, leapt)
			got := s.only(t)
			for d := range got.Streams {
				g, w := &got.Streams[d], &want.Streams[d]
				if g.Packets != w.Packets || g.Bytes != w.Bytes || g.Messages != w.Messages || g.Acks != w.Acks {
					t.Errorf("%v: %+v, want %+v", Direction(d), g, w)
				}
				if g.Latency.Min < 0 || g.Latency.Max < 0 || g.RTT.Min < 0 || g.RNRWait < 0 || g.Goodput < 0 {
					t.Errorf("%v: a time is negative: %+v, %+v, goodput %g", Direction(d), g.Latency, g.RTT, g.Goodput)
				}
			}
			for _, m := range s.messages {
				if took, ok := m.Latency(); ok && took < 0 {
					t.Errorf("a message took %v", took)
				}
			}
			for _, f := range s.Findings {
				if f.Severity() == Error {
					t.Errorf("a leap of the clock is found to be %s", f.Summary)
				}
			}
		})
	}
}
