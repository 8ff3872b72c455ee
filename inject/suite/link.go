package suite

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/crash"
)

// link is our side of a case: our RNIC on a port that is written down, and the connections to the device.
type link struct {
	dev    *rnic.Device
	tap    *tap
	clock  func() int64
	do     func(func() error) error // on the thread that steps our RNIC
	pass   func(until int64) error  // lets time pass until then, or until something arrives
	gate   *gate                    // nil without rules
	device Device                   // nil where nobody can tell the device what to do
	close  func() error

	usual   bool                           // connections have all rights, for the probes
	connect func(index int) (*pair, error) // makes, or makes anew, a connection

	pd           *rnic.PD
	cq           *rnic.CQ
	region       *rnic.MR // the device writes to it and reads from it
	source, sink *rnic.MR
	huge         *rnic.MR // nil until a message does not fit source and sink
	offset, sunk int

	mac     [6]byte
	addrs   []netip.Addr
	pairs   []*pair
	patient time.Duration // how long an answer may take
	quiet   time.Duration // how long silence has to be
	driven  bool
	anew    bool                              // a connection can be made anew
	macOf   func(netip.Addr) ([6]byte, error) // nil: it is asked for here
}

// pair is a connection, and what the runner knows of the device's side of it.
type pair struct {
	index         int
	qp            *rnic.QP
	ah            *rnic.AH
	local, remote Numbers
	keys          map[string]Numbers
	outer         dissect.Outer
	transport     dissect.Transport
	mtu           int

	psn    dissect.PSN // that the device expects
	gap    uint32      // PSNs of ours that it did not get
	msn    dissect.MSN
	va     uint64 // where the message under way goes on
	dead   bool   // the case brought it to ERROR
	atomic map[dissect.PSN]uint64

	source, sink int // where the device's next message lies in its memory
	owed         int // completions that were not waited for
}

// names of queue pairs for the hook.
func pairName(i int) string {
	switch i {
	case 0:
		return "subject"
	case 1:
		return "other"
	}
	return fmt.Sprintf("extra%d", i)
}

// rules makes the set of a case's faults.
func rules(texts []string, seed uint64) (*fault.Set, error) {
	s := &fault.Set{Seed: seed}
	for _, text := range texts {
		r, err := fault.Parse(text)
		if err != nil {
			return nil, err
		}
		s.Rules = append(s.Rules, r)
	}
	return s, nil
}

// newLink puts our RNIC on a port.
func newLink(p port.Port, c *Case, seed uint64, mac [6]byte, addrs []netip.Addr, mtu int) (*link, error) {
	l := &link{tap: newTap(p), mac: mac, addrs: addrs}
	l.clock = l.tap.clock
	l.do = func(f func() error) error { return f() }
	var on port.Port = l.tap
	if len(c.Faults) > 0 {
		s, err := rules(c.Faults, seed)
		if err != nil {
			return nil, err
		}
		w, err := fault.Wrap(l.tap, s)
		if err != nil {
			return nil, err
		}
		l.gate = &gate{Port: w, plain: l.tap}
		on = l.gate
	}
	var err error
	if l.dev, err = rnic.Open(on, rnic.Options{MAC: mac, Addrs: addrs, Clock: l.clock, MTU: mtu, MaxQP: 128}); err != nil {
		return nil, err
	}
	host := connect.Host{MAC: mac, Addrs: addrs}
	l.dev.OnOther(func(frame []byte, _ int64) {
		if answer := host.Answer(nil, frame); len(answer) > 0 {
			_ = l.dev.SendFrame(answer) // who is not answered asks again
		}
	})
	return l, l.memory(c, seed)
}

// contents is a copy of our own region, taken between two steps of our RNIC: a device may write to it at any moment.
func (l *link) contents() (all []byte, err error) {
	err = l.do(func() error { all = slices.Clone(l.region.Bytes()); return nil })
	return all, err
}

// memory makes our memory. What it holds is each case's own: what one before it left at a device that lives on is not taken for right.
func (l *link) memory(c *Case, seed uint64) error {
	l.pd = l.dev.AllocPD()
	var err error
	if l.cq, err = l.dev.CreateCQ(4096); err != nil {
		return err
	}
	all := rnic.LocalWrite | rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic
	for i, to := range []**rnic.MR{&l.region, &l.source, &l.sink} {
		mem := make([]byte, regionSize)
		pattern(mem, uint32(seed)*31+uint32(i)+77+crc32.ChecksumIEEE([]byte(c.ID)))
		if *to, err = l.pd.RegMR(mem, all); err != nil {
			return err
		}
	}
	return nil
}

// makeQP makes our queue pair of a connection, in INIT, with its receives.
func (l *link) makeQP(s *Setup, transport dissect.Transport) (*rnic.QP, error) {
	q, err := l.pd.CreateQP(rnic.QPInit{Type: transport, SendCQ: l.cq, RecvCQ: l.cq, Cap: rnic.QPCap{MaxSendWR: 512, MaxRecvWR: 64}})
	if err != nil {
		return nil, err
	}
	a := rnic.Attr{State: rnic.INIT, Port: 1, QKey: suiteQKey, Access: rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic}
	mask := rnic.AttrState | rnic.AttrPKeyIndex | rnic.AttrPort
	switch q.Type() {
	case dissect.UD:
		mask |= rnic.AttrQKey
	case dissect.UC:
		a.Access = rnic.RemoteWrite
		mask |= rnic.AttrAccess
	default:
		mask |= rnic.AttrAccess
	}
	if err := q.Modify(a, mask); err != nil {
		return nil, err
	}
	return q, l.receives(q, s)
}

// receives posts our receives.
func (l *link) receives(q *rnic.QP, s *Setup) error {
	for range or(s.OurReceives, 16) {
		if err := q.PostRecv(rnic.RecvWR{ID: recvID, SGL: []rnic.SGE{l.sink.SGE(regionSize/2, 4096)}}); err != nil {
			return err
		}
	}
	return nil
}

const recvID = 1 << 40

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// byHook makes a connection whose other side the hook makes.
func (l *link) byHook(c *Case, i int, seed uint64) (*pair, error) {
	s := &c.Setup
	access := s.Access
	if access == nil || l.usual {
		access = []string{"write", "read", "atomic"}
	}
	receives := or(s.Receives, 8)
	if l.usual {
		receives = 8
	}
	name := pairName(i)
	create := &Command{
		Do: "create", QP: name, Transport: s.Transport, MTU: s.mtu(), PSN: s.DevicePSN, Access: access, Receives: receives,
		ReceiveSize: max(s.ReceiveSize, 0), Depth: max(s.Depth, 0), DeviceDepth: s.DeviceDepth, SRQ: s.SRQ, BadReceive: s.BadReceive && !l.usual, CQ: s.CQ, IPv6: s.IPv6, Posts: c.posts(name), Huge: s.Huge,
	}
	transport := transports[s.Transport]
	if i > 0 { // the bystanders are plain
		transport, create.Transport = dissect.RC, "RC"
		create.BadReceive, create.Receives, create.CQ, create.Huge, create.Access = false, 8, 0, 0, []string{"write", "read", "atomic"}
	}
	for _, d := range []struct {
		to *int
		n  int
	}{{&create.ReceiveSize, 2048}, {&create.Depth, 8}, {&create.DeviceDepth, 8}, {&create.CQ, 256}} {
		if *d.to == 0 {
			*d.to = d.n
		}
	}
	a, err := l.ask(create)
	if err != nil {
		return nil, err
	}
	if a.Numbers == nil {
		return nil, errors.New("the hook's answer to create has no numbers")
	}
	p := &pair{index: i, remote: *a.Numbers, keys: a.Keys, transport: transport, mtu: s.mtu(), atomic: map[dissect.PSN]uint64{}}
	dst, err := netip.ParseAddr(p.remote.Address)
	if err != nil {
		return nil, fmt.Errorf("the hook's answer to create: %w", err)
	}
	mac, err := l.find(dst, p.remote.MAC)
	if err != nil {
		return nil, err
	}
	gid, src := l.from(dst)
	p.psn = dissect.PSN(or(s.PSN, uint32(seed*2654435761+uint64(i)*7919)&0xFFFFFF))
	if err = l.do(func() error { p.qp, err = l.makeQP(s, transport); return err }); err != nil {
		return nil, err
	}
	p.local = Numbers{
		Address: src.String(), MAC: macText(l.mac), QPN: p.qp.QPN(), PSN: uint32(p.psn), RKey: l.region.RKey(), VA: l.region.VA(), Length: regionSize,
	}
	timeout, timer := s.Timeout, s.RNRTimer
	if timeout == 0 {
		timeout = 8
		if !l.driven { // real time has other work, too
			timeout = 14
		}
	}
	if timer == 0 {
		timer = 1
	}
	attr := rnic.Attr{
		Port: 1, AH: rnic.AHAttr{Dst: dst, DstMAC: mac, SGIDIndex: gid, TrafficClass: uint8(s.TrafficClass)}, PathMTU: p.mtu, DestQPN: p.remote.QPN,
		RQPSN: dissect.PSN(p.remote.PSN), SQPSN: p.psn, Timeout: l.timeout(), RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: 8, MaxDestRdAtomic: 8, QKey: suiteQKey,
	}
	if err := raise(p.qp, attr); err != nil {
		return nil, err
	}
	if p.transport == dissect.UD {
		if p.ah, err = l.pd.CreateAH(attr.AH); err != nil {
			return nil, err
		}
	}
	_, err = l.ask(&Command{
		Do: "connect", QP: name, Remote: &p.local, Timeout: timeout, Retries: or(s.Retries, 7), RNRRetries: or(s.RNRRetries, 7), RNRTimer: timer,
	})
	p.outer = dissect.Outer{DstMAC: mac, SrcMAC: l.mac, Src: src, Dst: dst, SrcPort: 0xC000 + uint16(i), TrafficClass: uint8(s.TrafficClass)}
	return p, err
}

// timeout is the code of our acknowledgement time-out: eight of them take no less than the device may for an answer.
func (l *link) timeout() uint8 {
	code := uint8(8)
	for !l.driven && 8*4096<<code < l.patient {
		code++
	}
	return code
}

func (s *Setup) mtu() int {
	if s.MTU == 0 {
		return 1024
	}
	return s.MTU
}

// from is our address to reach another one from.
func (l *link) from(dst netip.Addr) (int, netip.Addr) {
	for i, a := range l.addrs {
		if a.Is4() == dst.Is4() {
			return i, a
		}
	}
	return 0, l.addrs[0]
}

// ask asks the device; our RNIC works meanwhile, for a program may need our answers.
func (l *link) ask(c *Command) (*Answer, error) {
	if l.device == nil {
		return nil, ErrUnsupported
	}
	if l.driven {
		return l.device.Do(c)
	}
	type result struct {
		a   *Answer
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer crash.Guard()
		a, err := l.device.Do(c)
		done <- result{a, err}
	}()
	for {
		select {
		case r := <-done:
			return r.a, r.err
		default:
		}
		if err := l.pass(l.clock() + int64(time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// find finds the MAC of the device: it is told, or asked for.
func (l *link) find(addr netip.Addr, text string) (mac [6]byte, err error) {
	if text != "" {
		return parseMAC(text)
	}
	if l.macOf != nil {
		return l.macOf(addr)
	}
	found := false
	r := connect.Resolver{Host: &connect.Host{MAC: l.mac, Addrs: l.addrs}, Send: l.dev.SendFrame, Found: func(_ netip.Addr, m [6]byte, ok bool) { mac, found = m, ok }}
	if err := r.Ask(l.clock(), addr); err != nil {
		return mac, err
	}
	seen := 0
	var all []record
	for end := l.clock() + int64(l.patient)*10; !found && l.clock() < end; {
		if err := l.pass(l.clock() + int64(l.patient)/10); err != nil {
			return mac, err
		}
		fresh, _ := l.tap.take()
		all = append(all, fresh...)
		for ; seen < len(all); seen++ {
			if !all[seen].ours {
				r.Handle(all[seen].data)
			}
		}
		r.Tick(l.clock())
	}
	if !found {
		return mac, fmt.Errorf("%v does not answer: nobody tells its MAC address", addr)
	}
	return mac, nil
}

// send puts crafted frames on the wire.
func (l *link) send(frames ...[]byte) error {
	return l.do(func() error {
		for _, f := range frames {
			if err := l.dev.SendFrame(f); err != nil {
				return err
			}
		}
		return nil
	})
}
