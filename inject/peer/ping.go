package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
)

// pings are how often a host is asked, and how long each answer is waited for.
const (
	pings    = 3
	pingTime = time.Second
)

// Ping asks an address for an echo, and returns how long the answer took. It asks through the kernel where the addresses are the
// kernel's as well: the answer goes there.
func (h *Host) Ping(ctx context.Context, addr netip.Addr) (time.Duration, error) {
	src, _, err := h.local(addr)
	if err != nil {
		return 0, err
	}
	id := uint16(rand.Uint32())
	ask, end := h.pingOwn, func() {}
	if h.kernel {
		ask, end, err = pingKernel(src, addr)
	}
	if err != nil {
		return 0, err
	}
	defer end()
	for seq := range uint16(pings) {
		began := time.Now()
		within, stop := context.WithTimeout(ctx, pingTime)
		err := ask(within, addr, id, seq)
		stop()
		switch {
		case err == nil:
			return time.Since(began), nil
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case !errors.Is(err, context.DeadlineExceeded):
			return 0, err
		}
	}
	return 0, fmt.Errorf("%v %w %d pings", addr, errNoEcho, pings)
}

var errNoEcho = errors.New("answers none of")

// pingOwn asks from an address that the kernel does not have.
func (h *Host) pingOwn(ctx context.Context, addr netip.Addr, id, seq uint16) error {
	mac, err := h.MAC(ctx, addr)
	if err != nil {
		return err
	}
	src, _, err := h.local(addr)
	if err != nil {
		return err
	}
	o := dissect.Outer{DstMAC: mac, SrcMAC: h.o.MAC, Src: src, Dst: addr, VLANs: h.resolver.VLANs}
	c := make(chan struct{}, 1)
	err = h.Do(func() error {
		h.echoes = map[uint16]chan struct{}{id: c}
		return h.dev.SendFrame(connect.AppendEcho(nil, o, id, seq))
	})
	if err != nil {
		return err
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.done:
		return h.ended()
	}
}

// echoed is told of frames that may answer a ping, on the host's thread.
func (h *Host) echoed(frame []byte) {
	if len(h.echoes) == 0 {
		return
	}
	if _, id, ok := h.answers.EchoReply(frame); ok && h.echoes[id] != nil {
		h.echoes[id] <- struct{}{}
		delete(h.echoes, id)
	}
}

// pingKernel opens a socket of the kernel's.
func pingKernel(src, addr netip.Addr) (ask func(context.Context, netip.Addr, uint16, uint16) error, end func(), err error) {
	network := "ip4:icmp"
	if addr.Is6() {
		network = "ip6:ipv6-icmp"
	}
	c, err := net.ListenPacket(network, src.String())
	if err != nil {
		return nil, func() {}, fmt.Errorf("ask for an echo: %w", err)
	}
	ask = func(ctx context.Context, addr netip.Addr, id, seq uint16) error {
		deadline, _ := ctx.Deadline()
		_ = c.SetDeadline(deadline)
		m := connect.EchoMessage(id, seq)
		if addr.Is6() {
			m[0] = 128 // the kernel makes the checksum
		}
		if _, err := c.WriteTo(m, &net.IPAddr{IP: addr.AsSlice()}); err != nil {
			return fmt.Errorf("ask for an echo: %w", err)
		}
		var buf [256]byte
		for {
			n, _, err := c.ReadFrom(buf[:])
			if err != nil {
				var late net.Error
				if errors.As(err, &late) && late.Timeout() {
					return context.DeadlineExceeded
				}
				return fmt.Errorf("wait for an echo: %w", err)
			}
			if got, ok := connect.EchoID(buf[:n], addr.Is6()); ok && got == id {
				return nil
			}
		}
	}
	return ask, func() { c.Close() }, nil
}
