package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Live is a device on the wire. A hook speaks for it (Device), or it is connected like any peer: by socket, CM or by hand; then only
// cases that need nothing of it but a connection and memory are carried out.
type Live struct {
	Host     peer.Options
	Peer     netip.AddrPort
	Way      peer.Way
	Hand     []connect.Parameters // ByHand: of the subject and the bystander
	Device   Device
	Patience time.Duration // how long an answer may take; 0 = 100 ms

	stands [2]standing // ByHand: the cases follow each other on the same queue pairs
}

// standing is where a queue pair of the device's stands: what it expects, and how many messages it has executed.
type standing struct {
	psn dissect.PSN
	msn dissect.MSN
}

// Name implements Target.
func (t *Live) Name() string {
	if t.Device != nil {
		return fmt.Sprintf("%v, by a hook", t.Peer.Addr())
	}
	return fmt.Sprintf("%v, connected %v", t.Peer, t.Way)
}

// plain says why a setup cannot be had without a hook; nil where it can.
func (c *Case) plain() error {
	s := c.Setup
	usual := Setup{Transport: s.Transport, MTU: s.MTU, QPs: s.QPs, TrafficClass: s.TrafficClass, OurReceives: s.OurReceives}
	switch {
	case c.Role == requester:
		return fmt.Errorf("%w: nobody can tell the device to request (--hook)", ErrUnsupported)
	case fmt.Sprint(s) != fmt.Sprint(usual):
		return fmt.Errorf("%w: the case needs a queue pair that is made for it (--hook)", ErrUnsupported)
	case s.Transport == "UD":
		return fmt.Errorf("%w: datagrams (--hook)", ErrUnsupported)
	}
	for i := range c.Steps {
		if st := &c.Steps[i]; st.Hook != "" || st.Device != "" || st.State != "" {
			return fmt.Errorf("%w: the device has to be told to do something (--hook)", ErrUnsupported)
		}
	}
	return nil
}

// napTime is for how long at most nobody asks whether what is waited for has come: a hook does not tell by itself.
const napTime = 2 * time.Millisecond

func (t *Live) open(ctx context.Context, c *Case, seed uint64) (_ *link, err error) {
	if t.Device == nil {
		if err := c.plain(); err != nil {
			return nil, err
		}
	}
	l := &link{device: t.Device, patient: t.Patience}
	if l.patient == 0 {
		l.patient = 100 * time.Millisecond
	}
	l.quiet = l.patient / 5
	l.anew = t.Device != nil || t.Way != peer.ByHand
	o := t.Host
	o.Device.MaxQP = 256
	if t.Device == nil && t.Way == peer.ByCM {
		o.Device.FirstQPN = peer.AnyQPN()
	}
	o.Wrap = func(p port.Port) (port.Port, error) {
		l.tap = newTap(p)
		if len(c.Faults) == 0 {
			return l.tap, nil
		}
		s, err := rules(c.Faults, seed)
		if err != nil {
			return nil, err
		}
		w, err := fault.Wrap(l.tap, s)
		if err != nil {
			return nil, err
		}
		l.gate = &gate{Port: w, plain: l.tap}
		return l.gate, nil
	}
	h, err := peer.Open(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = h.Close()
		}
	}()
	l.dev, l.do, l.clock, l.mac, l.addrs = h.Device(), h.Do, h.Now, h.Device().MAC(), h.Addrs()
	l.pass = func(until int64) error {
		timer := time.NewTimer(min(time.Duration(until-h.Now()), napTime))
		defer timer.Stop()
		select {
		case <-l.tap.arrived:
		case <-timer.C:
		case <-h.Done():
			return errors.Join(peer.ErrClosed, h.Err())
		}
		return nil
	}
	if err := l.memory(c, seed); err != nil {
		return nil, err
	}
	l.macOf = func(a netip.Addr) ([6]byte, error) { return h.MAC(ctx, a) }
	var sessions []*peer.Session
	l.close = func() error {
		if t.Way == peer.ByHand {
			for i, p := range l.pairs {
				t.stands[i] = standing{p.psn, p.msn}
			}
		}
		for _, s := range sessions {
			_ = s.Close() // the device may be gone
		}
		return h.Close()
	}
	if t.Device != nil {
		l.connect = func(i int) (*pair, error) { return l.byHook(c, i, seed) }
		return l, nil
	}
	l.connect = func(i int) (*pair, error) {
		p, s, err := t.dial(ctx, h, l, c, i)
		if s != nil {
			sessions = append(sessions, s)
		}
		return p, err
	}
	return l, nil
}

// maker makes our queue pair of a connection that is dialled.
type maker struct {
	l *link
	s *Setup
}

// PD implements peer.Maker.
func (m *maker) PD() *rnic.PD { return m.l.pd }

// Make implements peer.Maker.
func (m *maker) Make(_ int, transport dissect.Transport) (*rnic.QP, connect.Memory, error) {
	q, err := m.l.pd.CreateQP(rnic.QPInit{Type: transport, SendCQ: m.l.cq, RecvCQ: m.l.cq, Cap: rnic.QPCap{MaxSendWR: 512, MaxRecvWR: 64}})
	return q, connect.Memory{RKey: m.l.region.RKey(), VA: m.l.region.VA(), Length: regionSize}, err
}

// Prepare implements peer.Maker.
func (m *maker) Prepare(c *peer.Conn) error { return m.l.receives(c.QP, m.s) }

// dial makes a connection as any peer makes it.
func (t *Live) dial(ctx context.Context, h *peer.Host, l *link, c *Case, i int) (*pair, *peer.Session, error) {
	transport := dissect.RC
	if i == 0 {
		transport = transports[c.Setup.Transport]
	}
	q := peer.Request{
		Way: t.Way, Peer: t.Peer, Maker: &maker{l, &c.Setup}, Local: connect.Parameters{Transport: transport, MTU: c.Setup.mtu(), ResponderResources: 8, InitiatorDepth: 8},
	}
	switch t.Way {
	case peer.ByExchange:
		q.Traffic = &connect.Traffic{Operation: "send", Size: regionSize, Slots: 1} // memory as for WRITEs, and receives
	case peer.ByHand:
		if i >= len(t.Hand) {
			return nil, nil, fmt.Errorf("%w: the numbers of %d queue pairs were given, and this case needs more", ErrUnsupported, len(t.Hand))
		}
		q.Hand, q.Local.PSN = t.Hand[i:i+1], t.stands[i].psn
	}
	s, err := h.Dial(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	x := s.Conns[0]
	if t.Way == peer.ByExchange {
		if _, err := s.Ready(0); err != nil {
			return nil, s, err
		}
	}
	m := x.Remote.Memory
	if m.IsZero() {
		return nil, s, fmt.Errorf("%w: the device tells no memory that may be written", ErrUnsupported)
	}
	for j := range c.Steps {
		if at := c.Steps[j].At; (at < 0 || at > regionSize-4096) && m.Length != regionSize {
			return nil, s, fmt.Errorf("%w: it tells a region of another length than 64 KiB, and the case is about its ends", ErrUnsupported)
		}
	}
	mac, err := h.MAC(ctx, x.Remote.Address)
	if err != nil {
		return nil, s, err
	}
	var msn dissect.MSN
	if t.Way == peer.ByHand {
		msn = t.stands[i].msn
	}
	p := &pair{
		index: i, qp: x.QP, ah: x.AH, transport: transport, mtu: min(c.Setup.mtu(), cmp.Or(x.Remote.MTU, c.Setup.mtu())), psn: x.Local.PSN, msn: msn, atomic: map[dissect.PSN]uint64{},
		remote: Numbers{Address: x.Remote.Address.String(), QPN: x.Remote.QPN, PSN: uint32(x.Remote.PSN), RKey: m.RKey, VA: m.VA, Length: int(min(m.Length, regionSize))},
		local:  Numbers{Address: x.Local.Address.String(), QPN: x.Local.QPN, PSN: uint32(x.Local.PSN), RKey: l.region.RKey(), VA: l.region.VA(), Length: regionSize},
		outer:  dissect.Outer{DstMAC: mac, SrcMAC: l.mac, Src: x.Local.Address, Dst: x.Remote.Address, SrcPort: 0xC000 + uint16(i), TrafficClass: uint8(c.Setup.TrafficClass)},
	}
	if m.Length == 0 {
		p.remote.Length = regionSize
	}
	return p, s, nil
}
