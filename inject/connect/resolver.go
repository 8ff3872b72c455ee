package connect

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Resolver asks for the MACs of neighbours, by ARP or neighbour discovery, and remembers the answers. It asks no router: for
// an address beyond the link ask for the router's.
//
// It has no clock: Tick and Handle are told the time.
type Resolver struct {
	Host  *Host // in whose name is asked
	VLANs []uint16
	Send  func(frame []byte) error                    // takes a frame, which is borrowed
	Found func(addr netip.Addr, mac [6]byte, ok bool) // is told what came of Ask; ok is false where nobody answered

	asked []question
	known map[netip.Addr][6]byte
	frame []byte
}

type question struct {
	addr     netip.Addr
	left     int
	deadline int64
}

const (
	maxQuestions = 256
	maxKnown     = 4096
	askTries     = 5
	askInterval  = int64(time.Second)
)

// Ask asks for a neighbour. Found is told at once what is known already.
func (r *Resolver) Ask(now int64, addr netip.Addr) error {
	if mac, ok := r.known[addr]; ok {
		r.Found(addr, mac, true)
		return nil
	}
	switch {
	case r.source(addr) == netip.Addr{}:
		return fmt.Errorf("connect: who has %v: there is no own address of that kind to ask from", addr)
	case !unicast(addr):
		return fmt.Errorf("connect: who has %v: it is no address of one station", addr)
	case slices.ContainsFunc(r.asked, func(q question) bool { return q.addr == addr }):
		return nil
	case len(r.asked) >= maxQuestions:
		return fmt.Errorf("connect: who has %v: %d neighbours are being asked for already", addr, maxQuestions)
	}
	r.asked = append(r.asked, question{addr, askTries - 1, now + askInterval})
	return r.send(addr)
}

// source is the own address to ask from.
func (r *Resolver) source(addr netip.Addr) netip.Addr {
	for _, own := range r.Host.Addrs {
		if own.Is4() == addr.Is4() {
			return own
		}
	}
	return netip.Addr{}
}

func (r *Resolver) send(addr netip.Addr) error {
	r.frame = r.appendQuestion(r.frame[:0], addr)
	return r.Send(r.frame)
}

func (r *Resolver) appendQuestion(b []byte, addr netip.Addr) []byte {
	src, to := r.source(addr), [6]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
	if addr.Is6() { // the multicast address of all whose address ends so
		a := addr.As16()
		to = [6]byte{0x33, 0x33, 0xFF, a[13], a[14], a[15]}
	}
	b = append(append(b, to[:]...), r.Host.MAC[:]...)
	for i, tci := range r.VLANs {
		tag := uint16(etherVLAN)
		if i+1 < len(r.VLANs) {
			tag = etherQinQ
		}
		b = be.AppendUint16(be.AppendUint16(b, tag), tci)
	}
	if addr.Is4() {
		b = appendARP(be.AppendUint16(b, etherARP), arpRequest, r.Host.MAC, src, [6]byte{}, addr)
		return padEthernet(b, 0)
	}
	group := [16]byte{0: 0xFF, 1: 0x02, 11: 0x01, 12: 0xFF, 13: to[3], 14: to[4], 15: to[5]}
	return appendND(be.AppendUint16(b, etherIPv6), ndSolicit, 0, src, netip.AddrFrom16(group), addr, ndOptSource, r.Host.MAC)
}

// Handle takes a frame; those that answer no question are not looked at further.
func (r *Resolver) Handle(frame []byte) {
	at, ether := etherPayload(frame)
	if at == 0 || r.Host.foreign(frame) {
		return
	}
	var addr netip.Addr
	var mac [6]byte
	switch ether {
	case etherARP: // a request tells as much of its sender as a reply
		a := frame[at:]
		if !validARP(a) {
			return
		}
		addr, mac = netip.AddrFrom4([4]byte(a[14:18])), [6]byte(a[8:14])
	case etherIPv6:
		ip, icmp := icmpv6(frame, at)
		if icmp == nil || icmp[0] != ndAdvertise || icmp[1] != 0 || ip.HopLimit() != hopLimitOfNeighbours || len(icmp) < ndSize {
			return
		}
		addr, mac = netip.AddrFrom16([16]byte(icmp[8:24])), advertised(frame, icmp)
	}
	i := slices.IndexFunc(r.asked, func(q question) bool { return q.addr == addr })
	if i < 0 || mac[0]&1 != 0 || mac == [6]byte{} {
		return
	}
	r.asked = slices.Delete(r.asked, i, i+1)
	if r.known == nil || len(r.known) >= maxKnown {
		r.known = map[netip.Addr][6]byte{}
	}
	r.known[addr] = mac
	r.Found(addr, mac, true)
}

// advertised is the MAC that an advertisement tells: in an option, else its sender's.
func advertised(frame, icmp []byte) [6]byte {
	for o := icmp[ndSize:]; len(o) >= 8 && o[1] != 0 && int(o[1])*8 <= len(o); o = o[int(o[1])*8:] {
		if o[0] == ndOptTarget {
			return [6]byte(o[2:8])
		}
	}
	return [6]byte(frame[6:12])
}

// Forget lets the next Ask for an address ask again.
func (r *Resolver) Forget(addr netip.Addr) { delete(r.known, addr) }

// Tick asks again what was not answered, and returns when that is due next: math.MaxInt64 if never.
func (r *Resolver) Tick(now int64) (next int64) {
	next = never
	var silent []netip.Addr
	for i := 0; i < len(r.asked); i++ {
		q := &r.asked[i]
		if q.deadline <= now {
			if q.left == 0 {
				silent = append(silent, q.addr)
				r.asked = slices.Delete(r.asked, i, i+1)
				i--
				continue
			}
			q.left--
			q.deadline = now + askInterval
			_ = r.send(q.addr) // lost is lost: it is asked again
		}
		next = min(next, q.deadline)
	}
	for _, addr := range silent {
		r.Found(addr, [6]byte{}, false)
	}
	return next
}

// Via completes a path to a neighbour.
func (r *Resolver) Via(mac [6]byte, addr netip.Addr) dissect.Outer {
	return dissect.Outer{DstMAC: mac, SrcMAC: r.Host.MAC, VLANs: r.VLANs, Src: r.source(addr), Dst: addr}
}
