package load

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// fabric joins two interfaces of several queues each. It is the test that decides in which queue a frame comes in.
type fabric struct {
	mu    sync.Mutex
	steer func(from, queues int) (to int)
	ends  [2][]*fabricPort
}

// fabricPort is a queue of an end.
type fabricPort struct {
	f       *fabric
	end     int
	queue   int
	rooms   [][]byte
	free    []uint32
	arrived [][]byte
	lent    [][]byte
	wake    chan struct{}
}

const fabricSlots, fabricFrame = 512, 4200

func newFabric(queues int, steer func(from, queues int) int) (*fabric, [2][]port.Port) {
	f := &fabric{steer: steer}
	var ports [2][]port.Port
	for end := range ports {
		for queue := range queues {
			p := &fabricPort{f: f, end: end, queue: queue, wake: make(chan struct{}, 1)}
			for slot := range fabricSlots {
				p.rooms, p.free = append(p.rooms, make([]byte, fabricFrame)), append(p.free, uint32(slot))
			}
			f.ends[end], ports[end] = append(f.ends[end], p), append(ports[end], p)
		}
	}
	return f, ports
}

func (p *fabricPort) Info() port.Info {
	return port.Info{Via: "fabric", MaxFrame: fabricFrame, Slots: fabricSlots, Receives: true}
}

func (p *fabricPort) Take(slots []uint32) int {
	n := copy(slots, p.free)
	p.free = p.free[n:]
	return n
}

func (p *fabricPort) Room(slot uint32) []byte { return p.rooms[slot] }

func (p *fabricPort) Send(frames []port.Out) error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	far := p.f.ends[1-p.end]
	for _, f := range frames {
		to := far[p.f.steer(p.queue, len(far))]
		to.arrived = append(to.arrived, slices.Clone(p.rooms[f.Slot][:f.Len]))
		p.free = append(p.free, f.Slot)
		to.Wake()
	}
	return nil
}

func (p *fabricPort) Flush() error { return nil }

func (p *fabricPort) Receive(in []port.In) (int, error) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	n := min(len(in), len(p.arrived))
	p.lent = append(p.lent[:0], p.arrived[:n]...)
	p.arrived = p.arrived[n:]
	for i, frame := range p.lent {
		in[i] = port.In{Data: frame, Time: time.Now().UnixNano()}
	}
	return n, nil
}

func (p *fabricPort) Wait(timeout time.Duration) error {
	select {
	case <-p.wake:
	case <-time.After(timeout):
	}
	return nil
}

func (p *fabricPort) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *fabricPort) Stats() port.Stats { return port.Stats{} }
func (p *fabricPort) Close() error      { return nil }

// TestThreads is all operations with a thread for each of three queues, in whichever of them the packets come in: where those of the same
// queue left, always in another, or some in any, so that they overtake each other and RC sends again.
func TestThreads(t *testing.T) {
	const queues = 3
	random := rand.New(rand.NewPCG(5, 6)) // the fabric's lock is held
	for _, c := range []struct {
		name  string
		steer func(from, queues int) int
	}{
		{"straight", func(from, _ int) int { return from }},
		{"crossed", func(from, queues int) int { return (from + 1) % queues }},
		{"astray", func(from, queues int) int {
			if random.IntN(20) > 0 {
				return from
			}
			return random.IntN(queues)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ports := newFabric(queues, c.steer)
			l := (&lab{t: t}).open(ports, Serving{}, nil)
			for _, e := range everything {
				for _, on := range e.on {
					if c.name == "astray" && on != dissect.RC {
						continue // what overtakes on the others is lost, or takes a message's place
					}
					plan := Plan{Op: e.op, Transport: on, Size: 2500, QPs: 7, Count: 40, Depth: 4, Verify: true, Seed: 11}
					if on == dissect.UD {
						plan.Size = 1000
					}
					r := peer.Request{Local: connect.Parameters{MTU: 1024}}
					if c.name == "astray" {
						r.Local.AckTimeout = 16 // 268 ms: some of it is only found like this
					}
					res, err := l.run(plan, r)
					l.good(plan, res, err)
					if on != dissect.UD && res.Lost > 0 { // nobody asks datagrams to wait for receives
						t.Errorf("%+v: %d lost", plan, res.Lost)
					}
				}
			}
			for i, h := range []*peer.Host{l.ask, l.give} {
				n := h.Counters()
				if handed := n.HandedOver; c.name != "straight" && handed < n.RxFrames/100 {
					t.Errorf("end %d: %d of %d frames were handed over", i, handed, n.RxFrames)
				}
				if drops := n.Dropped[rnic.DropHandover]; drops > 0 {
					t.Errorf("end %d: %d frames were dropped", i, drops)
				}
				for k, thread := range h.Threads() {
					if d := thread.Device().Counters(); d.TxFrames == 0 {
						t.Errorf("end %d: thread %d sent nothing", i, k)
					}
				}
			}
		})
	}
}

// TestThreadsByCM connects queue pairs on all threads by CM, one of them for perftest's words, has them answer each other, and all are given
// back.
func TestThreadsByCM(t *testing.T) {
	_, ports := newFabric(2, func(from, queues int) int { return (from + 1) % queues })
	l := (&lab{t: t}).open(ports, Serving{}, nil)
	to := netip.AddrPortFrom(l.addrs[1][0], connect.PerftestPort)
	for _, r := range []peer.Request{
		{Way: peer.ByCM},
		{Way: peer.ByPerftest, Perftest: connect.PerftestOptions{Program: "ib_write_bw", OverCM: true, QPsByCM: true}},
	} {
		plan := Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 3000, QPs: 5, Count: 30}
		r.Peer, r.Local.MTU = to, 1024
		res, err := l.run(plan, r)
		l.good(plan, res, err)
	}
	plan := Plan{Op: rnic.OpSend, Transport: dissect.RC, Size: 300, QPs: 4, Count: 100, Rally: SendRally, Verify: true, Seed: 2}
	res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: 1024}})
	l.good(Plan{QPs: plan.QPs, Count: plan.Count, Transport: plan.Transport}, res, err)
	must(t, l.ask.Close())
	l.emptied()
}
