package load

import (
	"context"
	"net/netip"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
)

// TestFlood asks for far more connections than are allowed, and establishes none: what is kept is bounded, the rest is refused, and the
// host lives on.
func TestFlood(t *testing.T) {
	const requests, allowed = 20_000, 100
	near, far := port.Pair(port.MemoryOptions{Slots: 512})
	addr := netip.MustParseAddr("10.0.0.2")
	h, err := peer.New(far, peer.Options{MAC: [6]byte{2, 0, 0, 0, 0, 2}, Addrs: []netip.Addr{addr}})
	must(t, err)
	t.Cleanup(func() { h.Close() })
	r, err := NewResponder(h, Serving{Region: 4096, Connections: allowed})
	must(t, err)
	_, err = h.Listen(context.Background(), peer.Listening{Accept: r.Accept})
	must(t, err)

	var in [64]port.In
	var slots [1]uint32
	cm, err := connect.NewCM(connect.CMConfig{
		Send: func(frame []byte) error {
			for near.Take(slots[:]) == 0 { // the host has to take what there is first
				if _, err := near.Receive(in[:]); err != nil {
					return err
				}
			}
			return near.Send([]port.Out{{Slot: slots[0], Len: int32(copy(near.Room(slots[0]), frame))}})
		},
		Event: func(connect.Event) {}, MaxConnections: requests,
	})
	must(t, err)
	for i := range requests {
		_, err := cm.Connect(0, connect.Request{
			Path:    dissect.Outer{SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, Src: netip.MustParseAddr("10.0.0.1"), Dst: addr},
			Service: dissect.IPCMServiceID(dissect.PortSpaceTCP, connect.PerftestPort), SrcPort: 5000,
			Local: connect.Parameters{Transport: dissect.RC, QPN: uint32(i + 2), MTU: 1024},
		})
		must(t, err)
		_, err = near.Receive(in[:])
		must(t, err)
	}
	for h.CMStats().Received < requests {
		_, err := near.Receive(in[:])
		must(t, err)
	}
	s := h.CMStats()
	if qps := h.Device().QPs(); qps != allowed || s.Pending != allowed || s.Refused < requests-allowed {
		t.Errorf("%d queue pairs, %+v", qps, s)
	}
}
