package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// onWire puts a device into namespace B of a lab, and returns the target that A has of it.
func onWire(t *testing.T, misbehave ...string) (*testkit.Lab, *Live, *peer.Host) {
	t.Helper()
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 4500})
	var h *peer.Host
	var err error
	for i, n := range []*testkit.Namespace{lab.A, lab.B} {
		n.Do(func() {
			a, err := netlink.ParseAddr(fmt.Sprintf("10.9.0.%d/24", i+1))
			if err == nil {
				err = netlink.AddrAdd(n.Link(), a)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	lab.B.Do(func() {
		o := peer.Options{Interface: lab.B.Iface, Via: port.ViaPacket}
		o.Device.Misbehave = misbehave
		h, err = peer.Open(o)
	})
	if errors.Is(err, port.ErrPrivilege) || errors.Is(err, port.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	to := h.Addrs()[0]
	for _, a := range h.Addrs() {
		if a.Is4() {
			to = a
		}
	}
	live := &Live{Host: peer.Options{Interface: lab.A.Iface, Via: port.ViaPacket}, Peer: netip.AddrPortFrom(to, 18515), Patience: 200 * time.Millisecond}
	return lab, live, h
}

// execute runs cases from namespace A.
func execute(t *testing.T, lab *testkit.Lab, target Target, only ...string) *Result {
	t.Helper()
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	var res *Result
	lab.A.Do(func() { res, err = Execute(t.Context(), target, s, Options{Seed: 2, Cases: only}) })
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// piped is a hook in this process, by its protocol.
func piped(t *testing.T, d Device) Device {
	t.Helper()
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	go func() { _ = ServeHook(in, out, d); out.Close() }()
	h := &ExecHook{in: commands, lines: make(chan []byte), patience: 20 * time.Second}
	go h.read(answers)
	return h
}

// TestHookOnWire: a device that a hook speaks for, as responder and as requester.
func TestHookOnWire(t *testing.T) {
	lab, live, h := onWire(t)
	d, err := NewRNIC(h.Device(), 9, h.Do, func(a netip.Addr) ([6]byte, error) { return h.MAC(context.Background(), a) })
	if err != nil {
		t.Fatal(err)
	}
	live.Device = piped(t, d)
	res := execute(t, lab, live, "GOOD-WRITE", "RES-01", "Q-WRITE", "Q-READ", "NAK-05", "LIFE-02", "ACK-02-ONCE")
	for i := range res.Cases {
		if c := &res.Cases[i]; c.Status != Passed {
			t.Errorf("%s: %s", c.ID, c.Text())
		}
	}
}

// TestSilentTarget: a target that never answers costs bounded time, and the results so far are kept.
func TestSilentTarget(t *testing.T) {
	lab, live, _ := onWire(t)
	live.Peer = netip.AddrPortFrom(live.Peer.Addr(), 9) // nobody listens
	live.Host.Patience = 300 * time.Millisecond
	res := execute(t, lab, live, "GOOD-WRITE", "BTH-01")
	if len(res.Cases) != 2 || res.Totals[Broken] != 2 || !strings.Contains(res.Cases[0].Why, "connect") {
		t.Errorf("%+v", res)
	}
}
