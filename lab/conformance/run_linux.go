// Package conformance runs the conformance suite (inject/suite) against Linux's soft-RoCE in the laboratory, as responder and as
// requester, and holds what comes of it against what is known of that driver.
//
// It owns the list of its deviations (deviations_linux.go), each with the reason and whose word that is, and the page that a run
// makes. A deviation that is not on the list fails the run, and so does one on the list that is gone. What a case is, and
// whether it passed, is the suite's affair.
package conformance

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/lab"
)

const (
	hookPort = 7777
	// answerTime is how long an answer of Linux's may take, in a virtual machine without KVM.
	answerTime = 2 * time.Second
	// soakMemory, in MiB, has room for a region of 2^31 bytes, which Linux pins.
	soakMemory = 4096
)

// Run boots the guest, has a hook speak for its device, that for verbs or perftest's, and runs the suite. The guest is to be there
// behind it.
func Run(ctx context.Context, image *lab.Image, perftest bool, o suite.Options) (*suite.Result, *lab.Guest, error) {
	var seat lab.Seat
	o.CaseTime = 2 * time.Minute
	if o.Tier == "soak" {
		seat.Memory, o.CaseTime = soakMemory, 2*time.Hour
	}
	g, err := lab.BootAt(image, seat)
	if err != nil {
		return nil, nil, err
	}
	var hook suite.Device = NewPerftest(g)
	if perftest {
		o.Profile = perftestProfile
	} else {
		if hook, err = dial(g); err != nil {
			return nil, g, err
		}
	}
	defer hook.Close()
	all, err := suite.Conformance()
	if err != nil {
		return nil, g, err
	}
	target := &suite.Live{
		Host:   peer.Options{Interface: lab.Interface, Via: port.ViaPacket},
		Peer:   netip.AddrPortFrom(lab.Peer.IP4.Addr(), 0),
		Device: hook, Patience: answerTime,
	}
	o.Command = "lab conformance"
	res, err := suite.Execute(ctx, target, all, o)
	if err != nil {
		return res, g, err
	}
	if out, err := g.Run(time.Minute, "ibv_devinfo", "-d", lab.Device); err != nil || !strings.Contains(out, "PORT_ACTIVE") {
		return res, g, fmt.Errorf("behind the suite the guest's device is not there any more: %w\n%s\nits console:\n%s", err, out, g.Console())
	}
	return res, g, nil
}

// dial starts the hook in the guest and connects to it.
func dial(g *lab.Guest) (suite.Device, error) {
	p, err := g.Start("python3", "-u", "-c", suite.VerbsHook, "--address", lab.Peer.IP4.Addr().String(), "--listen", strconv.Itoa(hookPort))
	if err != nil {
		return nil, err
	}
	const patience = 3 * time.Minute // Python compiles its library anew
	for end := time.Now().Add(patience); !strings.Contains(p.Output(), "listening"); time.Sleep(100 * time.Millisecond) {
		select {
		case <-p.Done():
			return nil, fmt.Errorf("the hook in the guest ended:\n%s", p.Output())
		default:
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the hook in the guest was not ready after %v:\n%s", patience, p.Output())
		}
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(lab.Peer.IP4.Addr().String(), strconv.Itoa(hookPort)))
	if err != nil {
		return nil, fmt.Errorf("the hook in the guest cannot be reached: %w", err)
	}
	return suite.NewHook(conn, time.Minute), nil
}
