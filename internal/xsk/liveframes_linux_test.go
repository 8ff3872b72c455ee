package xsk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
)

// liveCase is a message that live frames can make.
type liveCase struct {
	name    string
	opcodes []dissect.Opcode // first, middle, last, or only
	sizes   []int            // of their payloads
	span    uint64           // of the region, if not some messages
	ipv6    bool
	vlans   []uint16
	o       LiveOptions
}

// liveCases are the shapes: what the tests send.
var liveCases = []liveCase{
	{name: "WRITE only", opcodes: []dissect.Opcode{0x0A}, sizes: []int{1024}},
	{name: "WRITE only, IPv6, VLAN", opcodes: []dissect.Opcode{0x0A}, sizes: []int{61}, ipv6: true, vlans: []uint16{0x6007}},
	{name: "WRITE only, without end", opcodes: []dissect.Opcode{0x0A}, sizes: []int{4}, span: 1 << 63},
	{name: "WRITE only, one place", opcodes: []dissect.Opcode{0x0A}, sizes: []int{4}, span: 0x10_0000 + 4096},
	{name: "WRITE only, random", opcodes: []dissect.Opcode{0x0A}, sizes: []int{64}, o: LiveOptions{RandomVA: true, AckEvery: 3}},
	{name: "SEND only", opcodes: []dissect.Opcode{0x04}, sizes: []int{2}, o: LiveOptions{AckEvery: 4}},
	{name: "READ request", opcodes: []dissect.Opcode{0x0C}, sizes: []int{0}, o: LiveOptions{PSNStep: 4}},
	{name: "FETCH_ADD", opcodes: []dissect.Opcode{0x14}, sizes: []int{0}},
	{name: "UD SEND", opcodes: []dissect.Opcode{0x64}, sizes: []int{333}},
	{name: "WRITE of 2", opcodes: []dissect.Opcode{0x06, 0x08}, sizes: []int{256, 256}, o: LiveOptions{Segments: 2}},
	{name: "WRITE of 5", opcodes: []dissect.Opcode{0x06, 0x07, 0x08}, sizes: []int{1024, 1024, 1024}, o: LiveOptions{Segments: 5, AckEvery: 1}},
	{name: "WRITE of 5, short end", opcodes: []dissect.Opcode{0x06, 0x07, 0x08}, sizes: []int{512, 512, 17}, o: LiveOptions{Segments: 5, AckEvery: 2, Interleave: true}},
	{name: "WRITE with immediate, of 3", opcodes: []dissect.Opcode{0x06, 0x07, 0x09}, sizes: []int{256, 256, 3}, o: LiveOptions{Segments: 3, RandomVA: true}},
	{name: "SEND with immediate, of 3", opcodes: []dissect.Opcode{0x00, 0x01, 0x03}, sizes: []int{256, 256, 8}, ipv6: true, o: LiveOptions{Segments: 3, Interleave: true}},
}

// frame makes a whole frame with plain code.
func (c *liveCase) frame(t testing.TB, kind, qp int, psn uint32, va uint64, number uint32, ack bool) []byte {
	t.Helper()
	outer := dissect.Outer{
		DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, VLANs: c.vlans,
		Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), SrcPort: uint16(49152 + 7*qp),
	}
	if c.ipv6 {
		outer.Src, outer.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	b := outer.AppendTo(nil)
	at := len(b)
	op := c.opcodes[kind]
	b = dissect.AppendTransport(b, op)
	bth := dissect.BTH(b[at:])
	bth.SetDestQP(uint32(0x1000 + 0x101*qp))
	bth.SetPSN(dissect.PSN(psn))
	bth.SetAckReq(ack)
	info := op.Info()
	rkey := uint32(0xCAFE0000 + 17*qp)
	if h := dissect.RETH(info.View(b[at:], dissect.LayerRETH)); h != nil {
		h.SetVA(va)
		h.SetRKey(rkey)
		h.SetDMALen(4096)
	}
	if h := dissect.AtomicETH(info.View(b[at:], dissect.LayerAtomicETH)); h != nil {
		h.SetVA(va)
		h.SetRKey(rkey)
		h.SetSwapAdd(uint64(qp) + 1)
	}
	if h := dissect.ImmDt(info.View(b[at:], dissect.LayerImmDt)); h != nil {
		h.SetData(number)
	}
	if h := dissect.DETH(info.View(b[at:], dissect.LayerDETH)); h != nil {
		h.SetQKey(0x11111111)
		h.SetSrcQP(uint32(0x900 + qp))
	}
	for i := range c.sizes[kind] {
		b = append(b, byte(3*i+5))
	}
	var crafter dissect.Crafter
	b, err := crafter.Seal(&outer, b)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// layout finds the fields.
func (c *liveCase) layout(kind int) (k LiveKind) {
	outer := dissect.Outer{VLANs: c.vlans, Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2")}
	if c.ipv6 {
		outer.Src = netip.MustParseAddr("fd00::1")
	}
	bth := len(outer.AppendTo(nil))
	k.PSN = bth + 8
	info := c.opcodes[kind].Info()
	k.Payload = bth + info.Len
	if info.Has(dissect.LayerRETH) || info.Has(dissect.LayerAtomicETH) {
		k.VA = bth + 12
	}
	if info.Has(dissect.LayerImmDt) {
		k.Number = bth + info.Len - 4
	}
	return k
}

// options are those of the case, with templates that say something wrong in every field that the program computes.
func (c *liveCase) options(t testing.TB, qps int) LiveOptions {
	o := c.o
	o.Interface = left
	for kind := range c.opcodes {
		o.Kinds = append(o.Kinds, c.layout(kind))
	}
	for q := range qps {
		qp := LiveQP{PSN: 0xFFFFFE - uint32(3*q), VA: 0x7F00_0000_0000 + uint64(q)<<33, VAStep: 0x10_0000 + 4096, VASpan: 0x60_0000, Seed: 1<<63 + uint64(q)}
		switch {
		case o.RandomVA:
			qp.VAStep, qp.VASpan = 64, 1<<30+1
		case c.span > 0:
			qp.VASpan = c.span
		}
		for kind := range c.opcodes {
			qp.Frames = append(qp.Frames, c.frame(t, kind, q, 0x123456+uint32(q), 0xDEADBEEF01020304^uint64(q)<<40, 0xABCDEF01, q%2 == 0 && o.AckEvery > 0))
		}
		o.QPs = append(o.QPs, qp)
	}
	return o
}

// liveModel is what the program does, in plain Go.
type liveModel struct {
	c    *liveCase
	o    LiveOptions
	at   int // queue pair
	qps  []modelQP
	made int
}

type modelQP struct {
	psn      uint32
	segment  int
	messages int
	offset   uint64
}

func newLiveModel(c *liveCase, o LiveOptions) *liveModel {
	m := &liveModel{c: c, o: o, qps: make([]modelQP, len(o.QPs))}
	m.o.Segments, m.o.PSNStep = max(o.Segments, 1), max(o.PSNStep, 1)
	for i := range m.qps {
		m.qps[i] = modelQP{psn: o.QPs[i].PSN}
	}
	return m
}

// next is the next frame.
func (m *liveModel) next(t testing.TB) []byte {
	i := m.at
	q, s := m.o.QPs[i], &m.qps[i]
	kind, last := 0, s.segment == m.o.Segments-1
	switch {
	case last:
		kind = len(m.o.Kinds) - 1
	case s.segment > 0:
		kind = 1
	}
	ack := last && m.o.AckEvery > 0 && (s.messages+1)%int(m.o.AckEvery) == 0
	va := q.VA + s.offset
	if m.o.RandomVA {
		va = q.VA + randomPlace(q.Seed, uint64(s.messages), q.VASpan)*q.VAStep
	}
	frame := m.c.frame(t, kind, i, s.psn, va, uint32(s.messages), ack)
	s.psn = (s.psn + 1) & 0xFFFFFF
	s.segment++
	if last {
		s.psn = (s.psn + m.o.PSNStep - 1) & 0xFFFFFF
		s.segment = 0
		s.messages++
		if s.offset += q.VAStep; s.offset+q.VAStep > q.VASpan {
			s.offset = 0
		}
	}
	if last || m.o.Interleave {
		m.at = (m.at + 1) % len(m.o.QPs)
	}
	m.made++
	return frame
}

// TestLiveProgramAgainstGo runs the program frame by frame on one page, and compares with frames that were made whole, with
// their ICRC by dissect.
func TestLiveProgramAgainstGo(t *testing.T) {
	newWire(t, 1500, 1)
	newSink(t, right)
	for _, c := range liveCases { // no subtests: they would run outside of the namespace
		func() {
			for _, qps := range []int{1, 5} {
				o := c.options(t, qps)
				l, err := OpenLiveFrames(o)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				defer l.Close()
				m := newLiveModel(&c, o)
				page := append([]byte(nil), l.plan.page...)
				out := make([]byte, len(page)+64)
				for i := range 200 {
					want := m.next(t)
					if err := l.until(uint64(i + 1)); err != nil {
						t.Fatal(err)
					}
					run := ebpf.RunOptions{Data: page, DataOut: out, Repeat: 1}
					verdict, err := l.program.Run(&run)
					if err != nil || verdict != xdpRedirect {
						t.Fatalf("frame %d: verdict %d, %v", i, verdict, err)
					}
					got := run.DataOut
					if string(got) != string(want) {
						t.Fatalf("%s, %d queue pairs, frame %d:\n%x, not\n%x", c.name, qps, i, got, want)
					}
					for _, k := range l.plan.kinds { // the page as the program left it
						if k.length == len(got) && k.PSN == l.kindOf(got, c).PSN {
							copy(page[k.skip:], got)
						}
					}
				}
				if s, err := l.Stats(); err != nil || s != (LiveStats{Sent: 200}) {
					t.Error(s, err)
				}
				for q := range qps {
					if psn, err := l.PSN(q); err != nil || psn != m.qps[q].psn {
						t.Errorf("queue pair %d: PSN %d, %v", q, psn, err)
					}
				}
			}
		}()
	}
}

// kindOf finds a frame's kind by its opcode.
func (l *LiveFrames) kindOf(frame []byte, c liveCase) LiveKind {
	for i, k := range l.options.Kinds {
		if dissect.Opcode(frame[k.PSN-8]) == c.opcodes[i] {
			return k
		}
	}
	return LiveKind{}
}

// TestLiveFrames sends for real, and receives what comes at the far end.
func TestLiveFrames(t *testing.T) {
	newWire(t, 1500, 1)
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	rx := receiver(t, p, Options{Interface: right, UMEM: newTestUMEM(t, UMEMOptions{Chunks: 8192}), RX: 4096})
	for _, c := range liveCases {
		func() {
			o := c.options(t, 7)
			l, err := OpenLiveFrames(o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			m := newLiveModel(&c, o)
			for _, n := range []int{1, runSingly, 63, 1000, 2000} {
				sent, err := l.Run(n)
				if sent != n || err != nil {
					t.Fatal(sent, err)
				}
				wrong := 0
				got := collect(t, rx, n, func(frame []byte) {
					if want := m.next(t); string(frame) != string(want) && wrong == 0 {
						wrong++
						t.Errorf("%s, frame %d:\n%x, not\n%x", c.name, m.made-1, frame, want)
					}
				})
				if got != n {
					t.Fatalf("%s: %d of %d frames arrived", c.name, got, n)
				}
			}
		}()
	}
}

func TestLivePlan(t *testing.T) {
	// Weights against the CRC of whole frames.
	rng := rand.New(rand.NewPCG(1, 2))
	c := liveCases[0]
	k := liveKind{LiveKind: c.layout(0)}
	a := c.frame(t, 0, 0, 0, 0, 0, false)
	k.length = len(a)
	tables := k.makeTables()
	for range 1000 {
		psn, va := rng.Uint32()&0xFFFFFF, rng.Uint64()
		crc := binary.LittleEndian.Uint32(a[len(a)-4:])
		for i := range 3 {
			crc ^= binary.NativeEndian.Uint32(tables[tablePSN+i*tableSize+int(byte(psn>>(8*i)))*4:])
		}
		for i := range 8 {
			crc ^= binary.NativeEndian.Uint32(tables[tableVA+i*tableSize+int(byte(va>>(8*i)))*4:])
		}
		b := c.frame(t, 0, 0, psn, va, 0, false)
		if want := binary.LittleEndian.Uint32(b[len(b)-4:]); crc != want {
			t.Fatalf("PSN %#x, VA %#x: ICRC %#x, not %#x", psn, va, crc, want)
		}
	}
}

func TestLiveChangingBytes(t *testing.T) {
	for _, c := range []struct {
		q      LiveQP
		random bool
		want   int
	}{
		{q: LiveQP{VA: 0x7FFF_FFFF_FF00, VAStep: 16, VASpan: 256}, want: 1},
		{q: LiveQP{VA: 0x7FFF_FFFF_FF00, VAStep: 16, VASpan: 272}, want: 6}, // from 7FFF… to 8000…
		{q: LiveQP{VA: 0x10_0000_0000, VAStep: 1 << 16, VASpan: 1 << 32}, want: 4},
		{q: LiveQP{VA: 5, VAStep: 0, VASpan: 1 << 32}, want: 0},
		{q: LiveQP{VA: 5, VAStep: 64, VASpan: 64}, want: 0},
		{q: LiveQP{VA: 1 << 63, VAStep: 64, VASpan: 1 << 63}, want: 8},
		{q: LiveQP{VA: 1<<63 + 1<<62, VAStep: 64, VASpan: 1 << 63}, want: 8}, // beyond the end
		{q: LiveQP{VA: 0, VAStep: 64, VASpan: 1<<10 + 1}, random: true, want: 3},
	} {
		if got := c.q.changing(c.random); got != c.want {
			t.Errorf("%+v: %d bytes, not %d", c.q, got, c.want)
		}
	}
}

// TestLiveRefusals: what cannot be done is refused before anything is sent.
func TestLiveRefusals(t *testing.T) {
	newWire(t, 1500, 1)
	c := liveCases[0]
	good := c.options(t, 2)
	_, err := OpenLiveFrames(good)
	if !errors.Is(err, ErrNotSupported) { // nothing at the far end takes redirected frames
		t.Errorf("without a far end: %v", err)
	} else {
		t.Log(err)
	}
	newSink(t, right)
	segmented := liveCases[slices.IndexFunc(liveCases, func(c liveCase) bool { return c.name == "WRITE of 5" })]
	for _, c := range []struct {
		name   string
		kind   error
		change func(*LiveOptions)
	}{
		{"no interface", ErrGone, func(o *LiveOptions) { o.Interface = "nowhere" }},
		{"no queue pair", nil, func(o *LiveOptions) { o.QPs = nil }},
		{"another length", nil, func(o *LiveOptions) { o.QPs[1].Frames[0] = o.QPs[1].Frames[0][:200] }},
		{"kinds", nil, func(o *LiveOptions) { o.Segments = 2 }},
		{"the PSN outside", nil, func(o *LiveOptions) { o.Kinds[0].PSN = 5000 }},
		{"the address outside", nil, func(o *LiveOptions) { o.Kinds[0].VA = 5 }},
		{"batch", nil, func(o *LiveOptions) { o.Batch = 257 }},
		{"step", nil, func(o *LiveOptions) { o.PSNStep = 1 << 24 }},
		{"region", nil, func(o *LiveOptions) { o.QPs[0].VASpan = 1 }},
		{"no place", nil, func(o *LiveOptions) { o.RandomVA, o.QPs[0].VASpan = true, 0 }},
		{"the number outside", nil, func(o *LiveOptions) { o.Kinds[0].Number = 5 }},
		{"payload by queue pair", ErrNotSupported, func(o *LiveOptions) {
			for i := 100; i < 1000; i++ {
				o.QPs[1].Frames[0][i] ^= 0xFF
			}
		}},
		{"payload by segment", ErrNotSupported, func(o *LiveOptions) {
			*o = segmented.options(t, 1)
			for i := 100; i < 1000; i++ {
				o.QPs[0].Frames[1][i] ^= 0xFF
			}
		}},
		{"MTU", ErrFrameSize, func(o *LiveOptions) {
			long := liveCase{opcodes: []dissect.Opcode{0x0A}, sizes: []int{2048}}
			*o = long.options(t, 1)
		}},
	} {
		o := liveCases[0].options(t, 2)
		c.change(&o)
		l, err := OpenLiveFrames(o)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) && c.kind != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			l.Close()
		}
		t.Log(err)
	}
}

// TestLiveFrameLimit: frames beyond the kernel's limit are refused with the limit, and at the limit they go out.
func TestLiveFrameLimit(t *testing.T) {
	newWire(t, 9000, 1)
	newSink(t, right)
	limit, err := MaxLiveFrame()
	if err != nil {
		t.Skip(err)
	}
	t.Logf("live frames of up to %d bytes", limit)
	for _, over := range []int{0, 1} {
		c := liveCase{opcodes: []dissect.Opcode{0x04}, sizes: []int{(limit-58)/4*4 + 4*over}} // whole words up to the limit, or one more
		frame := c.frame(t, 0, 0, 0, 0, 0, false)
		l, err := OpenLiveFrames(c.options(t, 1))
		if over > 0 {
			if !errors.Is(err, ErrFrameSize) || len(frame) <= limit {
				t.Errorf("%d bytes: %v", len(frame), err)
			}
			t.Log(err)
			continue
		}
		if err != nil || len(frame) > limit {
			t.Fatalf("%d bytes: %v", len(frame), err)
		}
		if n, err := l.Run(100); n != 100 || err != nil {
			t.Error(n, err)
		}
		l.Close()
	}
}

// TestLiveDropped: after privileges are dropped it goes on sending, tells what it sent, and lets go.
func TestLiveDropped(t *testing.T) {
	newWire(t, 1500, 1)
	far := newSink(t, right)
	c := liveCases[0]
	l, err := OpenLiveFrames(c.options(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := capabilities(); err != nil { // of this thread, which ends with the test
		t.Fatal(err)
	}
	if n, err := l.Run(1000); n != 1000 || err != nil {
		t.Error(n, err)
	}
	if s, err := l.Stats(); err != nil || s.Sent != 1000 {
		t.Error(s, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Run(1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := l.Prime(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := OpenLiveFrames(c.options(t, 3)); !errors.Is(err, ErrPrivilege) {
		t.Error(err)
	}
	if n := far.count(t); n != 1000 {
		t.Errorf("%d frames arrived", n)
	}
}

// TestLivePrivileges: the capabilities that we ask for are enough.
func TestLivePrivileges(t *testing.T) {
	newWire(t, 1500, 1)
	far := newSink(t, right)
	if err := capabilities(unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_IPC_LOCK); err != nil {
		t.Fatal(err)
	}
	for _, c := range liveCases {
		l, err := OpenLiveFrames(c.options(t, 5))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if n, err := l.Run(100); n != 100 || err != nil {
			t.Error(n, err)
		}
		l.Close()
	}
	if n := far.count(t); n != uint64(100*len(liveCases)) {
		t.Errorf("%d frames arrived", n)
	}
}

// TestLiveInterfaceDeleted: a run ends when its interface does.
func TestLiveInterfaceDeleted(t *testing.T) {
	w := newWire(t, 1500, 1)
	newSink(t, right)
	c := liveCases[0]
	l, err := OpenLiveFrames(c.options(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n, err := l.Run(10); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if err := netlink.LinkDel(w.left); err != nil {
		t.Fatal(err)
	}
	n, err := l.Run(1000)
	if n != 0 || !errors.Is(err, ErrGone) {
		t.Error(n, err)
	}
	if s, _ := l.Stats(); s.Sent != 10 || s.Gone == 0 {
		t.Errorf("%+v", s)
	}
}

func TestLiveAllocations(t *testing.T) {
	newWire(t, 1500, 1)
	newSink(t, right)
	c := liveCases[0]
	l, err := OpenLiveFrames(c.options(t, 64))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	perRun := testing.AllocsPerRun(20, func() {
		if _, err := l.Run(runLength); err != nil {
			t.Fatal(err)
		}
	})
	if perRun > 64 { // of a system call, whatever the number of frames
		t.Errorf("%v allocations for %d frames", perRun, runLength)
	}
}

func BenchmarkLive(b *testing.B) {
	for _, size := range []int{0, 1024, 2048} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			newWire(b, 9000, 1)
			far := newSink(b, right)
			c := liveCase{opcodes: []dissect.Opcode{0x0A}, sizes: []int{size}}
			l, err := OpenLiveFrames(c.options(b, 64))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime()
			if n, err := l.Run(b.N); n != b.N || err != nil {
				b.Fatal(n, err)
			}
			used := cpuTime() - began
			b.StopTimer()
			b.ReportMetric(float64(far.count(b))/used.Seconds()/1e6, "Mpkt/CPU-s")
		})
	}
}

// randomPlace is which of so many places message n of a queue pair goes to, as the program should have it.
func randomPlace(seed, n, places uint64) uint64 {
	x := (seed + n*randomStride) ^ randomSalt
	x += splitMixAdd
	x = (x ^ x>>30) * splitMixFirst
	x = (x ^ x>>27) * splitMixSecond
	x ^= x >> 31
	return x % places
}
