package main

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/inject/stream"
)

// benchOptions are the options of `rocescope bench`, named as in perftest.
type benchOptions struct {
	hostOptions
	size      string
	qps       int
	count     uint64
	duration  injectDuration
	depth     int
	timeout   uint8
	outs      int
	cm        bool
	talkCM    bool
	perftest  bool
	pingpong  bool
	hand      []string
	ipv6      bool
	all       bool
	screen    screenFlags
	lat       bool
	imm       bool
	atomic    string
	verify    bool
	seed      uint64
	json      bool
	faults    faultOptions
	window    int
	paced     bool
	given     func(string) bool
	operation string
	peer      string
	to        netip.AddrPort
	way       peer.Way
	plan      load.Plan
	program   string
	remote    []connect.Parameters
}

// check makes a plan of the options, and finds what cannot be meant.
func (o *benchOptions) check() error {
	if err := o.read(); err != nil {
		return err
	}
	op := -1
	for i, b := range benchOperations {
		if b.name == o.operation {
			op = i
		}
	}
	if op < 0 {
		if near := nearest(o.operation, benchNames()); near != "" {
			return errUsage("unknown operation %q; did you mean %q?", o.operation, near)
		}
		return errUsage("unknown operation %q; there are %s", o.operation, strings.Join(benchNames(), ", "))
	}
	if err := o.chooseWay(op); err != nil {
		return err
	}
	p := &o.plan
	p.Transport, p.QPs, p.Depth, p.Count, p.Duration, p.Verify, p.Seed = o.transport, o.qps, o.depth, o.count, o.duration.d, o.verify, o.seed
	p.Policy = rnic.Policy{Window: o.window, Paced: o.paced}
	if p.Duration > 0 && !o.given("iters") {
		p.Count = 0
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	var err error
	if o.host.Rules, err = o.faults.read(p.Seed, o.given("seed")); err != nil {
		return err
	}
	switch o.operation {
	case "write":
		p.Op = rnic.OpWrite
	case "read":
		p.Op = rnic.OpRead
	case "send":
		p.Op = rnic.OpSend
	case "atomic":
		switch o.atomic {
		case "FETCH_AND_ADD":
			p.Op = rnic.OpFetchAdd
		case "CMP_AND_SWAP":
			p.Op = rnic.OpCompareSwap
		default:
			return errUsage("--atomic_type cannot be %q; it is FETCH_AND_ADD or CMP_AND_SWAP", o.atomic)
		}
	}
	if err := o.checkTogether(); err != nil {
		return err
	}
	if o.lat {
		p.Depth = 1
		switch {
		case p.Op == rnic.OpSend && o.way != peer.ByHand && o.way != peer.ByCM:
			p.Rally = load.SendRally
		case p.Op == rnic.OpWrite && o.perftest:
			p.Rally = load.WriteRally
		}
	}
	return o.readSize()
}

// checkTogether finds what cannot be meant together.
func (o *benchOptions) checkTogether() error {
	p := &o.plan
	switch {
	case o.qps < 1 || o.qps > 1<<20:
		return errUsage("-q cannot be %d; it is 1 to 1048576", o.qps)
	case o.depth < 1 || o.depth > 1<<16:
		return errUsage("-t cannot be %d; it is 1 to 65536", o.depth)
	case o.outs < 1 || o.outs > rnic.MaxRdAtomic:
		return errUsage("-o cannot be %d; it is 1 to %d", o.outs, rnic.MaxRdAtomic)
	case o.timeout > 31:
		return errUsage("-u cannot be %d; it is 0 to 31", o.timeout)
	case o.window < 0:
		return errUsage("--window cannot be %d; it is 1 or more", o.window)
	case p.Count == 0 && p.Duration == 0:
		return errUsage("-n 0 is no message at all; -D sends for a time")
	case o.imm && p.Op != rnic.OpWrite && p.Op != rnic.OpSend:
		return errUsage("--imm is for write and send")
	case o.verify && o.way != peer.ByExchange:
		return errUsage("--verify needs \"rocescope serve\" at the other end, and a connection by its own exchange: nobody else checks what arrives")
	case o.all && o.way != peer.ByExchange:
		return errUsage("-a needs \"rocescope serve\" at the other end")
	case o.all && (o.given("size") || o.operation == "atomic"):
		return errUsage("-a is all sizes: leave -s out, and atomics have one")
	case o.perftest && p.Duration > 0 && (p.Op == rnic.OpSend || o.lat):
		return errUsage("with --perftest, send and --lat have to be told how many messages there are: -n, the same as the program has")
	case o.pingpong && p.Op != rnic.OpSend:
		return errUsage("the pingpong programs take SENDs: rocescope bench send %s --pingpong", o.peer)
	case o.pingpong && o.qps > 1:
		return errUsage("a pingpong program has one queue pair: leave -q out")
	case len(o.hand) > 0 && len(o.hand) != o.qps:
		return errUsage("-q %d needs --hand as many times", o.qps)
	case o.transport == dissect.UD && p.Op != rnic.OpSend:
		return errUsage("UD has SENDs alone: rocescope bench send %s -c UD", o.peer)
	case o.transport == dissect.UC && (p.Op == rnic.OpRead || o.operation == "atomic"):
		return errUsage("UC has no %s: leave -c out", o.operation)
	}
	if o.imm {
		p.Op++ // the same with immediate
	}
	return nil
}

// chooseWay finds how to connect.
func (o *benchOptions) chooseWay(op int) error {
	ways := []struct {
		on   bool
		name string
		way  peer.Way
	}{
		{o.cm && !o.perftest, "--cm", peer.ByCM}, {o.perftest, "--perftest", peer.ByPerftest}, {o.pingpong, "--pingpong", peer.ByPingpong}, {len(o.hand) > 0, "--hand", peer.ByHand},
	}
	var on []string
	for _, w := range ways {
		if w.on {
			on = append(on, w.name)
			o.way = w.way
		}
	}
	switch {
	case len(on) > 1:
		return errUsage("%s are different ways to connect: one of them", strings.Join(on, " and "))
	case o.talkCM && !o.perftest:
		return errUsage("-z is for --perftest: its programs alone talk over a queue pair")
	case o.talkCM && o.cm:
		return errUsage("-R connects the queue pairs by CM, -z only those that talk: one of them")
	}
	o.program = benchOperations[op].program + "_bw"
	if o.lat {
		o.program = benchOperations[op].program + "_lat"
	}
	if o.pingpong {
		o.lat = true
	}
	base := connect.Parameters{Transport: o.transport, MTU: o.pathMTU()}
	for _, text := range o.hand {
		p, err := connect.ParseParameters(text, base)
		if err != nil {
			return errUsage("--hand: %w", err)
		}
		o.remote = append(o.remote, p)
	}
	return nil
}

// from is the address of the own queue pairs, none where the peer's tells which it is.
func (o *benchOptions) from(addrs []netip.Addr) (own netip.Addr, err error) {
	if !o.ipv6 {
		return own, nil
	}
	for _, a := range addrs {
		if a.Is6() && (!own.IsValid() || own.IsLinkLocalUnicast()) {
			own = a
		}
	}
	if !own.IsValid() {
		return own, errUsage("--ipv6: the interface %s has no IPv6 address", o.iface)
	}
	return own, nil
}

// pathMTU is the path MTU that is asked for.
func (o *benchOptions) pathMTU() int {
	if o.mtu == 0 {
		return 1024
	}
	return o.mtu
}

// readSize finds the size of messages.
func (o *benchOptions) readSize() error {
	p := &o.plan
	switch {
	case o.operation == "atomic":
		if o.size != "" && o.size != "8" {
			return errUsage("-s cannot be %s: atomics have 8 bytes", o.size)
		}
		p.Size = 8
	case o.size != "":
		n, err := stream.ParseBytes(o.size, 1<<30)
		if err != nil {
			return errUsage("--size: %w", err)
		}
		p.Size = int(n)
	case o.pingpong && o.transport == dissect.UD:
		p.Size = 1024
	case o.pingpong:
		p.Size = 4096
	case o.lat:
		p.Size = 2
	case o.transport == dissect.UD:
		p.Size = o.pathMTU()
	default:
		p.Size = 64 << 10
	}
	if o.transport == dissect.UD && p.Size > o.pathMTU() {
		return errUsage("-s %d: a datagram of UD has to fit into the path MTU, %d bytes", p.Size, o.pathMTU())
	}
	if _, err := p.Traffic(); err != nil {
		return errUsage("%w", err)
	}
	return nil
}

// resolve finds the peer's address, and the interface to it.
func (o *benchOptions) resolve(ctx context.Context) error {
	var err error
	if o.to, err = o.reach(ctx, o.peer); err != nil {
		return err
	}
	for i := range o.remote {
		if !o.remote[i].Address.IsValid() {
			o.remote[i].Address = o.to.Addr()
		}
	}
	return nil
}
