package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

func TestParseSizes(t *testing.T) {
	for _, c := range []struct {
		text    string
		values  []uint32
		weights []float64
	}{
		{"4096", []uint32{4096}, []float64{1}},
		{"64K", []uint32{65536}, []float64{1}},
		{"2g", []uint32{1 << 31}, []float64{1}},
		{"0-3", []uint32{0, 1, 2, 3}, []float64{.25, .25, .25, .25}},
		{"64-256/64", []uint32{64, 128, 192, 256}, []float64{.25, .25, .25, .25}},
		{"64=7,1K-2K/1K=2", []uint32{64, 1024, 2048}, []float64{7, 1, 1}},
	} {
		s, err := ParseSizes(c.text)
		if err != nil || !cmp.Equal(s.values, c.values) || !cmp.Equal(s.weights, c.weights) {
			t.Errorf("%s: %v %v, %v", c.text, s.values, s.weights, err)
		}
	}
	s := mustSizes(t, "1-1000000")
	if n := len(s.values); n != maxSizes || s.values[0] != 1 || s.values[n-1] != 1000000 {
		t.Errorf("a wide range has %d sizes from %d to %d", n, s.values[0], s.values[n-1])
	}
	for _, bad := range []string{"", "x", "3-1", "1-9/0", "64=0", "64=x", "3g", "-1", "1K="} {
		if _, err := ParseSizes(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"10G": {Bits: 1e10}, "2.5gbps": {Bits: 2.5e9}, "100Mbit/s": {Bits: 1e8}, "9600": {Bits: 9600},
		"1000pps": {Packets: 1000}, "1.5Mpps": {Packets: 1.5e6},
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "fast", "0", "-1G", "1e99", "NaN"} {
		if _, err := ParseRate(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseSeries(t *testing.T) {
	for text, want := range map[string][]uint64{
		"7": {7, 7, 7}, "0x11+2": {0x11, 0x13, 0x15}, "5,9": {5, 9, 5}, "0": {0, 0, 0},
	} {
		s, err := ParseSeries(text, 100)
		if got := []uint64{s.At(0), s.At(1), s.At(2)}; err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if again, err := ParseSeries(s.String(), 100); err != nil || !cmp.Equal(again.At(2), s.At(2)) {
			t.Errorf("%s prints as %s", text, s.String())
		}
	}
	for _, bad := range []string{"", "x", "101", "1+x", "1,,2", "1+101"} {
		if _, err := ParseSeries(bad, 100); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestChoiceKeepsWeights(t *testing.T) {
	weights := []float64{1, 0, 5, 0.5, 3.5}
	c := newChoice(weights)
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 1_000_000
	var got [5]int
	for range n {
		got[c.pick(rnd.Uint64())]++
	}
	for i, w := range weights {
		if share := float64(got[i]) / n; math.Abs(share-w/10) > 0.003 {
			t.Errorf("%d: %.4f of all, want %.4f", i, share, w/10)
		}
	}
}

func TestPatterns(t *testing.T) {
	counter, _ := Named("counter")
	if r := counter.ring(1024); r.n != 64 || binary.BigEndian.Uint32(r.at(3, 1024)[4:]) != 3*256+1 || &r.at(67, 10)[0] != &r.at(3, 10)[0] {
		t.Error("the counter does not go on from packet to packet")
	}
	prbs, _ := Named("prbs")
	ones := 0
	for _, b := range prbs.data {
		for ; b != 0; b &= b - 1 {
			ones++
		}
	}
	if n := len(prbs.data) * 8; ones < n*49/100 || ones > n*51/100 {
		t.Errorf("%d ones of %d bits", ones, n)
	}
	// PRBS-31: each bit is that of 31 and that of 28 before it.
	bit := func(i int) byte { return prbs.data[i/8] >> (7 - i%8) & 1 }
	for i := 31; i < 10000; i++ {
		if bit(i) != bit(i-31)^bit(i-28) {
			t.Fatalf("bit %d", i)
		}
	}
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte("abcdefg"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := PatternFile(file)
	if r := p.ring(256); err != nil || string(r.at(1, 8)) != "efgabcde" { // byte 256 is the fourth after 36 rounds of seven
		t.Errorf("%q, %v", r.at(1, 8), err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := PatternFile(file); err == nil {
		t.Error("an empty file is taken")
	}
}

// Slots are given to templates that they hold already, as far as there are any, and no slot is given twice.
func TestSlots(t *testing.T) {
	const n, templates = 50, 7
	s := newSlots(n, templates)
	holds := map[uint32]int{}
	out := map[uint32]bool{}
	for i := range uint32(n) {
		s.queue = append(s.queue, i)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		if s.left() == 0 || len(out) > 0 && rnd.IntN(2) == 0 {
			for slot := range out {
				delete(out, slot)
				s.put(slot)
				break
			}
			continue
		}
		want := rnd.IntN(templates)
		there := false
		for slot, of := range holds {
			there = there || of == want && !out[slot]
		}
		slot, fresh := s.get(want)
		if out[slot] {
			t.Fatal("a slot was given twice")
		}
		if old, held := holds[slot]; fresh == (held && old == want) || fresh == there {
			t.Fatalf("fresh %v: the slot holds %d (%v), want %d, which some slot holds: %v", fresh, old, held, want, there)
		}
		out[slot], holds[slot] = true, want
		if s.left()+len(out) != n {
			t.Fatalf("%d free and %d out", s.left(), len(out))
		}
	}
}

// Bursts are due when the rate says, whatever happens between; what was missed is made up for, but not without end.
func TestPacer(t *testing.T) {
	p := newPacer(Rate{Packets: 1e6}, 1, 5000, new(atomic.Pointer[wish]))
	for i := range int64(100) {
		at := 5000 + i*10_000
		if d, ok := p.ready(at - 1); i > 0 && (ok || d < 1 || d > 2) {
			t.Fatalf("burst %d is due %v early, %v", i, d, ok)
		}
		if _, ok := p.ready(at); !ok {
			t.Fatalf("burst %d is late", i)
		}
		p.spend(10, 0)
	}
	late := int64(5000 + time.Second)
	sent := 0
	for {
		if _, ok := p.ready(late); !ok {
			break
		}
		p.spend(10, 0)
		sent += 10
	}
	if sent < 10_000 || sent > 10_010 { // 10 ms at a million a second
		t.Errorf("%d packets were made up for", sent)
	}
	bits := newPacer(Rate{Bits: 8e9}, 1, 0, new(atomic.Pointer[wish]))
	bits.spend(64, 1000)
	if d, ok := bits.ready(0); ok || d < time.Microsecond || d > time.Microsecond+1 {
		t.Errorf("1000 bytes at 8 Gbit/s take %v", d)
	}
	if n := newPacer(Rate{Packets: 100}, 1, 0, new(atomic.Pointer[wish])).burst(100, 64); n != 1 {
		t.Errorf("bursts of %d at 100 packets a second", n)
	}
	if n := newPacer(Rate{Bits: 100e9}, 1, 0, new(atomic.Pointer[wish])).burst(1000, 64); n != 64 {
		t.Errorf("bursts of %d at 100 Gbit/s", n)
	}
}

// At a rate, a file's times are the rate's.
func TestRateInAFile(t *testing.T) {
	c := mixedConfig(t, layouts[0].outer, 1024)
	clock := NewVirtual(1e18)
	c.Clock, c.Rate, c.Burst = clock, Rate{Packets: 1e6}, 1
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var times []int64
	p := port.NewFile(&bytes.Buffer{}, port.Options{MaxFrame: s.MaxFrame(), Clock: func() int64 { times = append(times, clock.Now()); return clock.Now() }})
	if _, err := s.Run(context.Background(), []port.Port{p}); err != nil {
		t.Fatal(err)
	}
	for i, at := range times {
		if want := 1e18 + int64(i)*1000; at < want || at > want+1 {
			t.Fatalf("packet %d is sent at %d, want %d", i, at, want)
		}
	}
}

// The same seed gives the same frames, another gives others; however many threads, a QP sends the same.
func TestDeterministic(t *testing.T) {
	byQP := func(seed uint64, threads int) map[uint32]string {
		c := mixedConfig(t, layouts[0].outer, 512)
		c.Seed, c.Access = seed, Random
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var ports []port.Port
		var bufs []*bytes.Buffer
		for range threads {
			b := &bytes.Buffer{}
			bufs = append(bufs, b)
			ports = append(ports, port.NewFile(b, port.Options{MaxFrame: s.MaxFrame(), Clock: func() int64 { return 1 }}))
		}
		if _, err := s.Run(context.Background(), ports); err != nil {
			t.Fatal(err)
		}
		all := map[uint32]string{}
		for i, b := range bufs {
			ports[i].Close()
			for _, f := range parse(t, b.Bytes()) {
				var d dissect.Decoder
				var p dissect.Packet
				d.Decode(dissect.LinkEthernet, f, len(f), &p)
				all[p.DestQP] += string(f)
			}
		}
		return all
	}
	one := byQP(1, 1)
	if !cmp.Equal(one, byQP(1, 1)) || !cmp.Equal(one, byQP(1, 3)) {
		t.Error("the same seed gives other frames")
	}
	if cmp.Equal(one, byQP(2, 1)) {
		t.Error("another seed gives the same frames")
	}
}

func TestWhatCannotBeMeant(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"no destination":       func(c *Config) { c.Outer.Dst = netip.Addr{} },
		"two kinds of address": func(c *Config) { c.Outer.Dst = netip.MustParseAddr("::1") },
		"no path MTU":          func(c *Config) { c.MTU = 1500 },
		"no operation":         func(c *Config) { c.Mix = nil },
		"READ on UC":           func(c *Config) { c.Mix[0].Operation, _ = FindOperation("read"); c.Mix[0].Transport = dissect.UC },
		"long UD":              func(c *Config) { c.Mix[0].Transport, c.Mix[0].Sizes = dissect.UD, Size(5000) },
		"no end":               func(c *Config) { c.Count = 0 },
		"region too small":     func(c *Config) { c.Region = 10 },
		"QPNs too large":       func(c *Config) { c.DestQPN = Steps(1<<24-2, 1) },
		"two rates":            func(c *Config) { c.Rate = Rate{1, 1} },
		"a burst of millions":  func(c *Config) { c.Burst = 1 << 20 },
	} {
		c := loop(t, nil)
		if change(&c); c.Mix != nil && what == "region too small" {
			c.Mix = c.Mix[3:4]
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// Frames that the port does not take are refused before any is sent.
func TestFramesTooLongForThePort(t *testing.T) {
	s, err := New(loop(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := port.Pair(port.MemoryOptions{MaxFrame: 200})
	if err := s.Prepare([]port.Port{a}); err == nil {
		t.Error("no error")
	}
}

// Frames leave through as many ports as there are to be threads.
func TestThreads(t *testing.T) {
	c := mixedConfig(t, layouts[0].outer, 1024)
	c.Threads = 2
	ports := []port.Port{newSink(64), newSink(64), newSink(64)}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(context.Background(), ports)
	if err != nil || r.Threads != 2 || r.Messages != 66*12 || r.Port.Sent != r.Packets {
		t.Errorf("%v: %d threads, %d messages, %d packets of %d", err, r.Threads, r.Messages, r.Port.Sent, r.Packets)
	}
	for i, p := range ports {
		if sent := p.Stats().Sent; (sent == 0) != (i == 2) {
			t.Errorf("port %d sent %d", i, sent)
		}
	}
}

// So many packets are sent and no more, in the middle of a message if need be.
func TestPacketsAreALimit(t *testing.T) {
	c := mixedConfig(t, layouts[0].outer, 256)
	c.Packets = 101
	_, frames, r := written(t, c)
	if len(frames) != 101 || r.Packets != 101 || r.Asked != r.Messages+r.Cut+r.NotSent {
		t.Errorf("%d frames, %+v", len(frames), r)
	}
}

func TestARateIsChangedAndAPauseKeptWhileAStreamRuns(t *testing.T) {
	s := &Stream{plan: &plan{config: Config{Rate: Rate{Packets: 1e6}}}}
	p := newPacer(s.plan.config.Rate, 0.5, 0, &s.wishes) // one of two senders: a packet each 2 µs
	p.spend(1, 0)
	if d, ok := p.ready(0); ok || d != 2*time.Microsecond || p.renew(0) {
		t.Errorf("due in %v, %v", d, ok)
	}
	s.Pause()
	if !p.renew(1000) || p.renew(1000) {
		t.Error("a pause is taken over once")
	}
	if _, ok := p.ready(1e9); ok {
		t.Error("it sends while it pauses")
	}
	if err := s.SetRate(Rate{Packets: 100}); err != nil {
		t.Fatal(err)
	}
	if p.renew(1e9); !p.paused {
		t.Error("another rate ends a pause")
	}
	s.Resume()
	p.renew(2e9)
	if _, ok := p.ready(2e9); !ok {
		t.Error("it does not go on")
	}
	p.spend(1, 0)
	if d, ok := p.ready(2e9); ok || d != 20*time.Millisecond {
		t.Errorf("at the new rate the next is due in %v", d)
	}
	if s.SetRate(Rate{Packets: 1, Bits: 1}) == nil {
		t.Error("two rates at once are taken")
	}
}
