package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/testkit"
)

// wire is one direction of a pair in memory: it keeps what arrives, and loses some of it.
type wire struct {
	*port.Memory
	lose float64
	rand *rand.Rand
	tap  *tap
}

// tap keeps frames of both directions.
type tap struct {
	off    atomic.Bool
	cut    atomic.Bool // nothing arrives any more
	mu     sync.Mutex
	frames []testkit.Frame
}

func (w *wire) Receive(in []port.In) (int, error) {
	n, err := w.Memory.Receive(in)
	if w.tap.cut.Load() {
		return 0, err
	}
	if w.tap.off.Load() {
		return n, err
	}
	kept := 0
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	for _, f := range in[:n] {
		w.tap.frames = append(w.tap.frames, testkit.Frame{Time: int64(len(w.tap.frames)) * 1000, Data: slices.Clone(f.Data), WireLen: len(f.Data), Link: dissect.LinkEthernet})
		if w.rand.Float64() < w.lose {
			continue
		}
		in[kept] = f
		kept++
	}
	return kept, err
}

// lab is a host that asks, a host that serves, and a wire between them.
type lab struct {
	t         testing.TB
	tap       tap
	ask, give *peer.Host
	r         *Responder
	mu        sync.Mutex
	told      []Happening
	tcp       netip.AddrPort
	addrs     [2][]netip.Addr
}

func newLab(t testing.TB, lose float64, serving Serving, change func(*peer.Listening)) *lab {
	t.Helper()
	l := &lab{t: t}
	a, b := port.Pair(port.MemoryOptions{Slots: 2048})
	var ports [2][]port.Port
	for i, end := range []*port.Memory{a, b} {
		ports[i] = []port.Port{&wire{Memory: end, lose: lose, rand: rand.New(rand.NewPCG(1, uint64(i))), tap: &l.tap}}
	}
	return l.open(ports, serving, change)
}

// open puts the hosts on their ports, with a thread for each.
func (l *lab) open(ports [2][]port.Port, serving Serving, change func(*peer.Listening)) *lab {
	t := l.t
	t.Helper()
	var hosts [2]*peer.Host
	for i := range hosts {
		l.addrs[i] = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))}
		o := peer.Options{MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: l.addrs[i], Patience: 20 * time.Second, Threads: len(ports[i])}
		h, err := peer.NewQueues(ports[i], o)
		must(t, err)
		t.Cleanup(func() { h.Close() })
		hosts[i] = h
	}
	l.ask, l.give = hosts[0], hosts[1]
	var err error
	serving.Tell = func(h Happening) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = append(l.told, h)
	}
	l.r, err = NewResponder(l.give, serving)
	must(t, err)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	o := peer.Listening{Sockets: []net.Listener{socket}, Accept: l.r.Accept}
	if change != nil {
		change(&o)
	}
	_, err = l.give.Listen(ctx, o)
	must(t, err)
	l.tcp = addrPortOf(socket)
	return l
}

func addrPortOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// last is what was told last.
func (l *lab) last() (h Happening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.told); n > 0 {
		h = l.told[n-1]
	}
	return h
}

// emptied waits until the serving host has given back all that its clients had: it hears of their ends a moment later.
func (l *lab) emptied() {
	l.t.Helper()
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		must(l.t, l.give.Do(func() error {
			left = len(l.r.all) + l.r.qps + int(l.r.memory)
			for _, thread := range l.give.Threads() {
				left += thread.Device().QPs()
			}
			return nil
		}))
	}
}

// run dials and carries out a plan.
func (l *lab) run(plan Plan, r peer.Request) (*Result, error) {
	l.t.Helper()
	if !r.Peer.IsValid() {
		r.Peer = l.tcp
	}
	if !r.Local.Address.IsValid() {
		r.Local.Address = l.addrs[0][0]
	}
	if r.Local.AckTimeout == 0 {
		r.Local.AckTimeout = 20 // 4.3 s: however late a busy machine lets an end have its turn, nothing is sent again for that
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Measure(ctx, l.ask, plan, r)
}

// good fails the test where a plan was not carried out whole.
func (l *lab) good(plan Plan, res *Result, err error) {
	l.t.Helper()
	switch want := plan.Count * uint64(max(plan.QPs, 1)); {
	case err != nil:
		l.t.Fatalf("%+v: %v", plan, err)
	case res.Messages != want && plan.Transport == dissect.RC, res.Messages+res.Lost < want:
		l.t.Errorf("%+v: %d messages, want %d", plan, res.Messages, want)
	case res.Wrong > 0:
		l.t.Errorf("%+v: %d wrong: %s", plan, res.Wrong, res.FirstWrong)
	case plan.Verify && res.Checked+res.Lost != want:
		l.t.Errorf("%+v: %d checked and %d lost of %d", plan, res.Checked, res.Lost, want)
	}
}

// judged lets flows and tshark judge what was on the wire.
func (l *lab) judged() {
	l.t.Helper()
	must(l.t, l.ask.Close())
	must(l.t, l.give.Close())
	tr := flows.New(flows.Options{})
	testkit.Batches(l.tap.frames, 64, func(packets []dissect.Packet, data [][]byte) {
		tr.Track(&flows.Batch{Packets: packets, Data: data, Marks: make([]flows.Mark, len(packets))})
	})
	tr.Finish()
	s := tr.Snapshot()
	for i := range s.Findings {
		if f := &s.Findings[i]; f.Severity() > flows.Note {
			l.t.Errorf("flows: %v (frame %d): %s", f.ID, f.Frame, f.Summary)
		}
	}
	if len(s.Connections) == 0 {
		l.t.Error("flows saw no connection")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var everything = []struct {
	op rnic.Op
	on []dissect.Transport
}{
	{rnic.OpWrite, []dissect.Transport{dissect.RC, dissect.UC}},
	{rnic.OpWriteImm, []dissect.Transport{dissect.RC, dissect.UC}},
	{rnic.OpRead, []dissect.Transport{dissect.RC}},
	{rnic.OpSend, []dissect.Transport{dissect.RC, dissect.UC, dissect.UD}},
	{rnic.OpSendImm, []dissect.Transport{dissect.RC, dissect.UC, dissect.UD}},
	{rnic.OpCompareSwap, []dissect.Transport{dissect.RC}},
	{rnic.OpFetchAdd, []dissect.Transport{dissect.RC}},
}

// sizes of messages at a path MTU: with pads, of one segment, of exactly so many, and of many.
func sizesAt(op rnic.Op, t dissect.Transport, mtu int) []int {
	switch {
	case isAtomic(op):
		return []int{8}
	case t == dissect.UD:
		return []int{0, 1, 7, mtu - 1, mtu}
	}
	return []int{0, 1, 3, 8, mtu - 1, mtu, mtu + 1, 4*mtu + 2, 9 * mtu}
}

// TestEverything is all operations on all services with all path MTUs over both kinds of addresses, with all data checked.
func TestEverything(t *testing.T) {
	for family, name := range []string{"IPv4", "IPv6"} {
		for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
			t.Run(fmt.Sprintf("%s/%d", name, mtu), func(t *testing.T) {
				l := newLab(t, 0, Serving{}, nil)
				for _, e := range everything {
					for _, on := range e.on {
						for _, size := range sizesAt(e.op, on, mtu) {
							plan := Plan{Op: e.op, Transport: on, Size: size, QPs: 2, Count: 10, Depth: 4, Verify: true, Seed: uint64(size) + 1}
							res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: mtu, Address: l.addrs[0][family]}})
							l.good(plan, res, err)
							if res != nil && res.Lost > 0 {
								t.Errorf("%+v: %d lost", plan, res.Lost)
							}
						}
					}
				}
				l.judged()
			})
		}
	}
}
