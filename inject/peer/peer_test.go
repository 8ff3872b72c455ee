package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// party is a side of conversations: a region, and a receive.
type party struct {
	pd     *rnic.PD
	cq     *rnic.CQ
	mr     *rnic.MR
	conns  []*Conn
	closed chan error
}

// newParty makes one whose queue pairs live on a thread.
func newParty(t *testing.T, on *Thread) *party {
	t.Helper()
	p := &party{pd: on.Device().AllocPD(), closed: make(chan error, 8)}
	must(t, on.Do(func() (err error) {
		if p.cq, err = on.Device().CreateCQ(64); err != nil {
			return err
		}
		p.mr, err = p.pd.RegMR(make([]byte, 4096), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead)
		return err
	}))
	return p
}

func (p *party) PD() *rnic.PD { return p.pd }

func (p *party) Make(_ int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	qp, err := p.pd.CreateQP(rnic.QPInit{Type: t, SendCQ: p.cq, RecvCQ: p.cq, Cap: rnic.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	return qp, connect.Memory{RKey: p.mr.RKey(), VA: p.mr.VA(), Length: uint64(p.mr.Len())}, err
}

func (p *party) Prepare(*Conn) error                                             { return nil }
func (p *party) Traffic(connect.Traffic) error                                   { return nil }
func (p *party) Connected(c *Conn)                                               { p.conns = append(p.conns, c) }
func (p *party) Ready(int, *connect.Report) *connect.Report                      { return nil }
func (p *party) Results(r connect.PerftestResults) (own connect.PerftestResults) { return r }
func (p *party) Closed(err error)                                                { p.closed <- err }

// hosts are two hosts on a pair in memory, with addresses of both kinds. change may be nil.
func hosts(t *testing.T, change func(i int, o *Options)) (h [2]*Host) {
	t.Helper()
	a, b := port.Pair(port.MemoryOptions{Slots: 512})
	for i, end := range []*port.Memory{a, b} {
		o := Options{
			MAC:      [6]byte{2, 0, 0, 0, 0, byte(i + 1)},
			Addrs:    []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))},
			Patience: 10 * time.Second,
		}
		if change != nil {
			change(i, &o)
		}
		var err error
		h[i], err = New(end, o)
		must(t, err)
		t.Cleanup(func() { must(t, h[i].Close()) })
	}
	return h
}

func TestNeighboursAndPings(t *testing.T) {
	h := hosts(t, nil)
	for _, addr := range h[1].Addrs() {
		mac, err := h[0].MAC(t.Context(), addr)
		must(t, err)
		if mac != [6]byte{2, 0, 0, 0, 0, 2} {
			t.Errorf("%v is at %x", addr, mac)
		}
		if took, err := h[0].Ping(t.Context(), addr); err != nil || took <= 0 {
			t.Errorf("ping %v: %v, %v", addr, took, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h[0].Ping(ctx, netip.MustParseAddr("10.0.0.9")); !errors.Is(err, context.Canceled) {
		t.Errorf("a ping that was given up ended by %v", err)
	}
}

// dial connects the first host's party with the second's by CM, and writes.
func TestConnectionsByCM(t *testing.T) {
	for k, family := range []string{"IPv4", "IPv6"} {
		t.Run(family, func(t *testing.T) {
			h := hosts(t, nil)
			ask, give := newParty(t, h[0].Threads()[0]), newParty(t, h[1].Threads()[0])
			_, err := h[1].Listen(t.Context(), Listening{Accept: func(c Call) (Party, error) {
				if c.Way != ByCM {
					t.Errorf("called by %v", c.Way)
				}
				return give, nil
			}})
			must(t, err)
			s, err := h[0].Dial(t.Context(), Request{Way: ByCM, Peer: netip.AddrPortFrom(h[1].Addrs()[k], connect.PerftestPort), Maker: ask, Local: connect.Parameters{Transport: dissect.RC}})
			must(t, err)
			c := s.Conns[0]
			if c.QP.State() != rnic.RTS || c.Remote.Memory.RKey != give.mr.RKey() || c.Remote.Memory.VA != give.mr.VA() || c.Remote.QPN != give.conns[0].QP.QPN() {
				t.Errorf("connected as %+v", c.Remote)
			}
			copy(ask.mr.Bytes(), "one side to the other")
			must(t, c.QP.PostSend(rnic.SendWR{Op: rnic.OpWrite, Flags: rnic.Signaled, SGL: []rnic.SGE{ask.mr.SGE(0, 21)}, RemoteVA: c.Remote.Memory.VA, RKey: c.Remote.Memory.RKey}))
			var done [1]rnic.Completion
			for ask.cq.Poll(done[:]) == 0 {
				time.Sleep(time.Millisecond)
			}
			must(t, h[1].Do(func() error {
				if done[0].Status != rnic.Success || string(give.mr.Bytes()[:21]) != "one side to the other" {
					return fmt.Errorf("%v, memory %q", done[0].Status, give.mr.Bytes()[:21])
				}
				return nil
			}))
			must(t, s.Close())
			if err := <-give.closed; err != nil {
				t.Errorf("the end was told as %v", err)
			}
			if n := h[0].Device().QPs() + h[1].Device().QPs(); n != 0 {
				t.Errorf("%d queue pairs are left", n)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	h := hosts(t, nil)
	ask := newParty(t, h[0].Threads()[0])
	q := Request{Way: ByCM, Peer: netip.AddrPortFrom(h[1].Addrs()[0], connect.PerftestPort), Maker: ask, Local: connect.Parameters{Transport: dissect.RC}}
	var refused *RejectedError
	if _, err := h[0].Dial(t.Context(), q); !errors.As(err, &refused) || refused.Reason != dissect.RejInvalidServiceID {
		t.Errorf("nobody listens: %v", err)
	}
	_, err := h[1].Listen(t.Context(), Listening{Accept: func(Call) (Party, error) { return nil, errors.New("not today") }})
	must(t, err)
	if _, err := h[0].Dial(t.Context(), q); !errors.As(err, &refused) || refused.Reason != dissect.RejConsumer {
		t.Errorf("refused: %v", err)
	}
	q.Local.Transport = dissect.UD
	if _, err := h[0].Dial(t.Context(), q); !errors.As(err, &refused) || refused.Status == dissect.SIDRValid {
		t.Errorf("a datagram service that is refused: %v", err)
	}
	if n := h[0].Device().QPs(); n != 0 {
		t.Errorf("%d queue pairs are left of connections that were refused", n)
	}
	must(t, h[0].Close())
	if err := h[0].Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed host does what it is asked: %v", err)
	}
}

// Rules strike the host's packets, and are counted; those that its port cannot apply are refused.
func TestRulesOfAHost(t *testing.T) {
	rule, err := fault.Parse("drop nth=1 when infiniband.mad")
	must(t, err)
	h := hosts(t, func(i int, o *Options) {
		if i == 0 {
			o.Rules = &fault.Set{Seed: 1, Rules: []*fault.Rule{rule}}
			o.CM.ResponseTimeout = 14 // 67 ms
		}
	})
	ask, give := newParty(t, h[0].Threads()[0]), newParty(t, h[1].Threads()[0])
	_, err = h[1].Listen(t.Context(), Listening{Accept: func(Call) (Party, error) { return give, nil }})
	must(t, err)
	s, err := h[0].Dial(t.Context(), Request{Way: ByCM, Peer: netip.AddrPortFrom(h[1].Addrs()[0], connect.PerftestPort), Maker: ask, Local: connect.Parameters{Transport: dissect.RC}})
	must(t, err)
	counts, full := h[0].Faults()
	if len(counts) != 2 || counts[0].Way != fault.Out || counts[0].Struck != 1 || counts[1].Struck != 1 || full != 0 {
		t.Errorf("%+v, %d", counts, full)
	}
	must(t, s.Close())
	long, err := fault.Parse("pad n=500")
	must(t, err)
	near, _ := port.Pair(port.MemoryOptions{Slots: 64, MaxFrame: 400})
	if _, err := New(near, Options{Addrs: h[0].Addrs(), Rules: &fault.Set{Rules: []*fault.Rule{long}}}); !errors.Is(err, ErrRules) {
		t.Errorf("a rule that cannot be applied: %v", err)
	}
}
