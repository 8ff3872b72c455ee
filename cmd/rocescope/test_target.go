package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/inject/suite"
)

// hookPatience is how long a hook may take for an answer.
const hookPatience = 30 * time.Second

// reachAs takes the target from the file of cases, unless the command line has one; options that are given go before it.
func (o *testOptions) reachAs(t *suite.Reach) {
	if o.target != "" || o.pipe != "" || t == nil {
		o.target = cmp.Or(o.target, "memory")
		return
	}
	o.target = cmp.Or(t.Address, "memory")
	if !o.given("cm") && !o.given("hand") && !o.given("hook") {
		o.cm, o.hand, o.hook = t.Connect == "cm", t.Hand, t.Hook
	}
	for option, v := range map[string]struct {
		to    *string
		value string
	}{
		"pipe": {&o.pipe, t.Pipe}, "counters": {&o.counters, t.Counters}, "profile": {&o.profile, t.Profile},
		"interface": {&o.iface, t.Interface},
	} {
		if !o.given(option) {
			*v.to = v.value
		}
	}
	if !o.given("port") && t.Port != 0 {
		o.port = t.Port
	}
	if !o.given("patience") {
		o.patience = t.Patience
	}
}

// testTarget is the device that is asked for.
func (a *app) testTarget(ctx context.Context, o *testOptions) (t suite.Target, end func(), err error) {
	end = func() {}
	for _, name := range o.misbehave {
		if _, err := rnic.FindMisbehaviour(name); err != nil {
			return nil, end, errUsage("--misbehave: %w", err)
		}
	}
	switch {
	case o.pipe != "":
		if o.hook == "" {
			return nil, end, errUsage("--pipe needs --hook: somebody has to make the simulated core's queue pairs")
		}
		return o.simulation(), end, nil
	case o.target == "memory":
		if o.hook != "" {
			return nil, end, errUsage("--hook speaks for a device on the wire: give its address")
		}
		return &suite.InMemory{Misbehave: o.misbehave}, end, nil
	case len(o.misbehave) > 0:
		return nil, end, errUsage("--misbehave is for the target memory; on the wire, \"rocescope serve --misbehave\" does it")
	}
	if err := o.read(); err != nil {
		return nil, end, err
	}
	to, err := o.reach(ctx, o.target)
	if err != nil {
		return nil, end, err
	}
	live := &suite.Live{Host: o.host, Peer: to, Patience: o.patience}
	switch {
	case o.hook != "" && (o.cm || len(o.hand) > 0):
		return nil, end, errUsage("--hook makes the connections itself: no -R and no --hand")
	case o.hook != "":
		h, err := suite.StartHook(ctx, o.hook, hookPatience)
		if err != nil {
			return nil, end, err
		}
		live.Device, end = h, func() { _ = h.Close() } // the run is over
	case o.cm:
		live.Way = peer.ByCM
	case len(o.hand) > 0:
		live.Way = peer.ByHand
		for _, text := range o.hand {
			p, err := connect.ParseParameters(text, connect.Parameters{Address: to.Addr()})
			if err != nil {
				return nil, end, errUsage("--hand: %w", err)
			}
			live.Hand = append(live.Hand, p)
		}
	}
	// Who cannot take part is told so once, and not by each case.
	h, err := openHost(live.Host)
	if err != nil {
		end()
		return nil, func() {}, err
	}
	fmt.Fprintf(a.stderr, "%v from %s\n", to, where(h))
	return live, end, h.Close()
}

// simulation is a core behind a pipe.
func (o *testOptions) simulation() *suite.Piped {
	return &suite.Piped{Title: "the simulation " + o.pipe, Patience: o.patience, Open: func(ctx context.Context) (*port.Pipe, suite.Device, error) {
		p, err := port.OpenPipe(port.Options{Command: []string{"sh", "-c", o.pipe}, MaxFrame: 9000})
		if err != nil {
			return nil, nil, err
		}
		h, err := suite.StartHook(ctx, o.hook, hookPatience)
		if err != nil {
			return nil, nil, fmt.Errorf("%w (the pipe: %v)", err, p.Close())
		}
		return p, h, nil
	}}
}

// serveHook is our own RNIC as a device with a hook, on an interface: rocescope test --serve-hook.
func (a *app) serveHook(o *testOptions) error {
	if o.iface == "" {
		return errUsage("--serve-hook needs -i: the interface that the device is on")
	}
	if err := o.read(); err != nil {
		return err
	}
	host := o.host
	host.Device.Misbehave = slices.Clone(o.misbehave)
	h, err := openHost(host)
	if err != nil {
		return err
	}
	defer h.Close()
	d, err := suite.NewRNIC(h.Device(), o.seed, h.Do, nil)
	if err != nil {
		return err
	}
	return suite.ServeHook(os.Stdin, os.Stdout, d) // past the buffer of results: each answer is waited for
}

// caseNames completes the names of cases.
func caseNames(prefix string) (names []string) {
	s, err := suite.Conformance()
	if err != nil {
		return nil
	}
	for i := range s.Cases {
		if strings.HasPrefix(s.Cases[i].ID, strings.ToUpper(prefix)) {
			names = append(names, s.Cases[i].ID+"\t"+s.Cases[i].Title)
		}
	}
	return names
}
