//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// link is a pair of virtual interfaces with a port on each, which is that of the first queue if there are more.
type link struct {
	veth   *netlink.Veth
	ports  [2]port.Port
	queues [2][]port.Port
}

// newLink makes one of a queue whose interfaces have a name of their own.
func newLink(name string) (*link, error) {
	return newQueues(name, port.Options{Queues: 1, Slots: 2048})
}

// newQueues makes one of as many queues as the ports' options say.
func newQueues(name string, o port.Options) (*link, error) {
	ends := [2]string{name + "-near", name + "-far"}
	// The kernel's own IPv6 traffic would be in between.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumRxQueues, attrs.NumTxQueues = ends[0], 4500, o.Queues, o.Queues
	l := &link{veth: netlink.NewVeth(attrs)}
	l.veth.PeerName, l.veth.PeerMTU, l.veth.PeerNumRxQueues, l.veth.PeerNumTxQueues = ends[1], uint32(attrs.MTU), uint32(o.Queues), uint32(o.Queues)
	if err := netlink.LinkAdd(l.veth); err != nil {
		return nil, fmt.Errorf("make a pair of virtual interfaces: %w", err)
	}
	for _, name := range ends {
		dev, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(dev)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("set %s up: %w", name, err), l.close())
		}
	}
	for i, name := range ends {
		o.Via, o.Interface = port.ViaXDP, name
		ports, _, err := port.Open(o)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.ports[i], l.queues[i] = ports[0], ports
	}
	return l, nil
}

func (l *link) close() error {
	var errs []error
	for _, ports := range l.queues {
		for _, p := range ports {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(append(errs, netlink.LinkDel(l.veth))...)
}

// duo is two devices whose queue pairs are connected, stepped in turn.
type duo struct {
	devs  [2]*rnic.Device
	cqs   [2]*rnic.CQ
	mrs   [2]*rnic.MR
	qps   [2][]*rnic.QP
	polls [256]rnic.Completion
	sge   [1]rnic.SGE
	ahead int64 // of the clock, where time-outs cost nothing
}

// memorySize is each side's memory.
const memorySize = 8 << 20

func newDuo(a, b port.Port, mtu, qps, depth int) (*duo, error) {
	d := &duo{}
	for i, p := range []port.Port{a, b} {
		dev, err := rnic.Open(p, rnic.Options{
			MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})},
			Clock: func() int64 { return time.Now().UnixNano() + d.ahead },
		})
		if err != nil {
			return nil, err
		}
		pd := dev.AllocPD()
		d.devs[i] = dev
		if d.cqs[i], err = dev.CreateCQ(1 << 15); err != nil {
			return nil, err
		}
		if d.mrs[i], err = pd.RegMR(make([]byte, memorySize), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead); err != nil {
			return nil, err
		}
		for range qps {
			q, err := pd.CreateQP(rnic.QPInit{Type: dissect.RC, SendCQ: d.cqs[i], RecvCQ: d.cqs[i], Cap: rnic.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSGE: 1}})
			if err != nil {
				return nil, err
			}
			d.qps[i] = append(d.qps[i], q)
		}
	}
	for i := range d.devs {
		far := d.devs[1-i]
		for n, q := range d.qps[i] {
			a := rnic.Attr{
				Port: 1, Access: rnic.RemoteWrite | rnic.RemoteRead, PathMTU: mtu, DestQPN: d.qps[1-i][n].QPN(), Timeout: 18,
				RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: 16, MaxDestRdAtomic: 16, AH: rnic.AHAttr{Dst: far.Addrs()[0], DstMAC: far.MAC()},
			}
			for _, step := range []struct {
				to   rnic.State
				mask rnic.AttrMask
			}{
				{rnic.INIT, rnic.AttrPKeyIndex | rnic.AttrPort | rnic.AttrAccess},
				{rnic.RTR, rnic.AttrAV | rnic.AttrPathMTU | rnic.AttrDestQPN | rnic.AttrRQPSN | rnic.AttrMaxDestRdAtomic | rnic.AttrMinRNRTimer},
				{rnic.RTS, rnic.AttrTimeout | rnic.AttrRetryCnt | rnic.AttrRNRRetry | rnic.AttrSQPSN | rnic.AttrMaxRdAtomic},
			} {
				a.State = step.to
				if err := q.Modify(a, step.mask|rnic.AttrState); err != nil {
					return nil, err
				}
			}
		}
	}
	return d, nil
}

// close ends the queue pairs, so that what is still under way is thrown away.
func (d *duo) close() {
	for _, side := range d.qps {
		for _, q := range side {
			_ = q.Destroy() // each exists
		}
	}
}

// post posts a message of an operation to the n-th queue pair.
func (d *duo) post(n int, op rnic.Op, size, at int) error {
	if op == rnic.OpSend {
		d.sge[0] = d.mrs[1].SGE(at, size)
		if err := d.qps[1][n].PostRecv(rnic.RecvWR{SGL: d.sge[:]}); err != nil {
			return err
		}
	}
	d.sge[0] = d.mrs[0].SGE(at, size)
	return d.qps[0][n].PostSend(rnic.SendWR{Op: op, Flags: rnic.Signaled, SGL: d.sge[:], RemoteVA: d.mrs[1].VA() + uint64(at), RKey: d.mrs[1].RKey()})
}

// step steps both devices, and returns how many messages of the first were completed. Where nothing happens and a timer runs, the
// clock goes on to it.
func (d *duo) step(skip bool) (done int, err error) {
	idle := true
	for i, dev := range d.devs {
		busy, err := dev.Step()
		if err != nil {
			return done, err
		}
		idle = idle && !busy
		for n := len(d.polls); n == len(d.polls); {
			n = d.cqs[i].Poll(d.polls[:])
			for _, c := range d.polls[:n] {
				if c.Status != rnic.Success {
					return done, fmt.Errorf("%v: %s", c.Op, c.Status.Text())
				}
			}
			if i == 0 {
				done += n
			}
		}
	}
	if idle && skip {
		d.skip()
	}
	return done, nil
}

// skip sets the clock forward to the next timer.
func (d *duo) skip() {
	next := int64(-1)
	for _, dev := range d.devs {
		if at, ok := dev.Next(); ok && (next < 0 || at < next) {
			next = at
		}
	}
	if now := time.Now().UnixNano() + d.ahead; next > now {
		d.ahead += next - now
	}
}

// messages carries out so many messages, depth of them posted and not done, one on each queue pair in turn.
func (d *duo) messages(op rnic.Op, size, count, depth int, skip bool) error {
	places := max(1, memorySize/max(size, 64)/2)
	for posted, done := 0, 0; done < count; {
		for ; posted < min(count, done+depth); posted++ {
			if err := d.post(posted%len(d.qps[0]), op, size, posted%min(places, depth)*((size+63)&^63)); err != nil {
				return err
			}
		}
		n, err := d.step(skip)
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}
