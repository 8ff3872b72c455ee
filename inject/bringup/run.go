package bringup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Options say what the target is.
type Options struct {
	Peer    netip.AddrPort      // the port is rdma_cm's
	Hand    *connect.Parameters // numbers of a target that is set up through registers; nil = connect by CM
	Memory  connect.Memory      // where CM does not tell it
	MTU     int                 // 0 = 1024
	Timeout uint8               // of acknowledgements; 0 = 14
	Skip    []string            // names of steps
}

// Outcome is how a step ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Result is how a step ended, and what was seen.
type Result struct {
	Step    Step          `json:"step"`
	Outcome Outcome       `json:"outcome"`
	Detail  string        `json:"detail"`
	Took    time.Duration `json:"took_ns"`
}

// run is a bring-up under way.
type run struct {
	h      *peer.Host
	o      Options
	pd     *rnic.PD
	cq     *rnic.CQ
	mr     *rnic.MR
	s      *peer.Session
	c      *peer.Conn
	memory connect.Memory
	next   byte // where patterns begin, so that each is another
}

// errSkip is why a step has nothing to do.
type errSkip string

func (e errSkip) Error() string { return string(e) }

// errNoMemory: reading and writing needs memory to do it to.
var errNoMemory = errors.New("the target told no memory: --memory rkey=…,va=…,length=… says where some is")

// area is how much of the target's memory is used, at most.
const area = 64 << 10

// Rules are the faults of the step "loss"; the host has to have them (peer.Options.Rules). Each strikes one message, which it knows by
// its length.
func Rules() (*fault.Set, error) {
	set := &fault.Set{Seed: 1}
	for _, l := range losses {
		rule, err := fault.Parse(fmt.Sprintf("%s nth=%d when infiniband.reth.dmalen == %d && flow.round == 0", l.do, l.nth, l.length))
		if err != nil {
			return nil, err
		}
		set.Rules = append(set.Rules, rule)
	}
	return set, nil
}

// Run goes through the steps on a host, and tells the result of each; all of them are returned. An error is only what keeps it from
// going on at all; ok is false where a step failed.
func Run(ctx context.Context, h *peer.Host, o Options, tell func(Result)) (results []Result, ok bool, err error) {
	o.MTU, o.Timeout = cmp.Or(o.MTU, 1024), cmp.Or(o.Timeout, 14)
	r := &run{h: h, o: o, pd: h.Device().AllocPD()}
	err = h.Do(func() (err error) {
		if r.cq, err = h.Device().CreateCQ(64); err != nil {
			return err
		}
		r.mr, err = r.pd.RegMR(make([]byte, 2*area), rnic.LocalWrite)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	defer r.close()
	for _, step := range Steps() {
		began := time.Now()
		res := Result{Step: step, Outcome: Passed}
		if o.skips(step.Name) {
			err = errSkip("as asked for")
		} else {
			res.Detail, err = step.do(r, ctx)
		}
		if ctx.Err() != nil {
			return results, false, context.Cause(ctx)
		}
		res.Took = time.Since(began)
		var skip errSkip
		if errors.As(err, &skip) {
			res.Outcome, res.Detail = Skipped, skip.Error()
		} else if err != nil {
			res.Outcome, res.Detail = Failed, err.Error()
		}
		results = append(results, res)
		tell(res)
		if res.Outcome == Failed {
			return results, false, nil
		}
	}
	return results, true, nil
}

func (o *Options) skips(name string) bool {
	for _, s := range o.Skip {
		if s == name {
			return true
		}
	}
	return false
}

func (r *run) close() {
	if r.s != nil {
		_ = r.s.Close()
	}
}

// PD implements peer.Maker.
func (r *run) PD() *rnic.PD { return r.pd }

// Make implements peer.Maker.
func (r *run) Make(_ int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	qp, err := r.pd.CreateQP(rnic.QPInit{Type: t, SendCQ: r.cq, RecvCQ: r.cq, Cap: rnic.QPCap{MaxSendWR: 16, MaxRecvWR: 1}})
	return qp, connect.Memory{}, err
}

// Prepare implements peer.Maker.
func (r *run) Prepare(*peer.Conn) error { return nil }

func (r *run) arp(ctx context.Context) (string, error) {
	mac, err := r.h.MAC(ctx, r.o.Peer.Addr())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%v is at %s", r.o.Peer.Addr(), macText(mac)), nil
}

func macText(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

func (r *run) ping(ctx context.Context) (string, error) {
	took, err := r.h.Ping(ctx, r.o.Peer.Addr())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("answered after %v", took.Round(time.Microsecond)), nil
}

// datagram asks for a datagram service: whatever the answer says, a datagram got there, and one came back.
func (r *run) datagram(ctx context.Context) (string, error) {
	if r.o.Hand != nil {
		return "", errSkip("numbers by hand: there may be nobody at QP 1")
	}
	before := r.h.Device().Counters()
	s, err := r.h.Dial(ctx, peer.Request{Way: peer.ByCM, Peer: r.o.Peer, Maker: r, Local: connect.Parameters{Transport: dissect.UD, MTU: r.o.MTU}})
	var refused *peer.RejectedError
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("SIDR_REP: %v", refused.Status), nil
	case err != nil:
		return "", r.heard(err, before)
	}
	qpn := s.Conns[0].Remote.QPN
	return fmt.Sprintf("SIDR_REP: queue pair %#06x", qpn), s.Close()
}

func (r *run) connect(ctx context.Context) (string, error) {
	q := peer.Request{Way: peer.ByCM, Peer: r.o.Peer, Maker: r, Local: connect.Parameters{Transport: dissect.RC, MTU: r.o.MTU, AckTimeout: r.o.Timeout}}
	if r.o.Hand != nil {
		q.Way, q.Hand = peer.ByHand, []connect.Parameters{*r.o.Hand}
	}
	before := r.h.Device().Counters()
	s, err := r.h.Dial(ctx, q)
	if err != nil {
		return "", r.heard(err, before)
	}
	r.s, r.c = s, s.Conns[0]
	r.memory = r.c.Remote.Memory
	if m := r.o.Memory; !m.IsZero() {
		r.memory = m
	}
	if r.memory.Length == 0 {
		r.memory.Length = area
	}
	r.memory.Length = min(r.memory.Length, area)
	return fmt.Sprintf("%v: QP %#06x PSN %#06x here, QP %#06x PSN %#06x there, path MTU %d", s.Way, r.c.Local.QPN, uint32(r.c.Local.PSN), r.c.Remote.QPN,
		uint32(r.c.Remote.PSN), r.mtu()), nil
}

// mtu is the path MTU that the connection has.
func (r *run) mtu() int { return r.c.QP.Query().PathMTU }
