package peer

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/inject/route"
)

type answer struct {
	mac [6]byte
	ok  bool
}

// found is told by the resolver.
func (h *Host) found(addr netip.Addr, mac [6]byte, ok bool) {
	for _, c := range h.asked[addr] {
		c <- answer{mac, ok}
	}
	delete(h.asked, addr)
	if !ok {
		h.resolver.Forget(addr)
	}
}

// MAC finds where frames to an address go: to its owner, or to the router on the way there.
func (h *Host) MAC(ctx context.Context, addr netip.Addr) ([6]byte, error) {
	src, _, err := h.local(addr)
	if err != nil {
		return [6]byte{}, err
	}
	if h.kernel {
		path := route.Path{Interface: h.o.Interface, Src: src, Dst: addr, SrcMAC: h.o.MAC}
		err := route.Find(&path)
		return path.DstMAC, err
	}
	if h.o.Router.IsValid() && h.o.Router.Is4() == addr.Is4() {
		addr = h.o.Router
	}
	c := make(chan answer, 1)
	err = h.Do(func() error {
		h.asked[addr] = append(h.asked[addr], c)
		h.due = 0
		return h.resolver.Ask(h.clock(), addr)
	})
	if err != nil {
		return [6]byte{}, err
	}
	late := time.NewTimer(h.o.Patience)
	defer late.Stop()
	select {
	case a := <-c:
		if a.ok {
			return a.mac, nil
		}
	case <-late.C:
	case <-ctx.Done():
		return [6]byte{}, context.Cause(ctx)
	case <-h.done:
		return [6]byte{}, h.ended()
	}
	return [6]byte{}, fmt.Errorf("%w for %v: is it there, on this link?", route.ErrNoNeighbour, addr)
}
