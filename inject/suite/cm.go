package suite

import (
	"math/rand/v2"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
)

// nobodysPort is a port of rdma_cm's that nobody listens on.
const nobodysPort = 1

// askCM asks the device by CM for a service that it does not offer: an answer of any kind says that its CM lives.
func (r *runner) askCM(p *pair, s *Step) error {
	var answered, given bool
	cm, err := connect.NewCM(connect.CMConfig{
		Send: func(frame []byte) error { return r.l.send(frame) }, Rand: rand.NewPCG(r.seed, uint64(r.salt)), MaxRetries: 2,
		Event: func(e connect.Event) {
			answered = answered || e.Kind == connect.EventRejected || e.Kind == connect.EventResponse
			given = given || e.Kind == connect.EventUnreachable
		},
	})
	if err != nil {
		return err
	}
	if err := r.digest(); err != nil {
		return err
	}
	seen := len(r.w.records)
	local := connect.Parameters{
		Transport: dissect.RC, Address: p.outer.Src, QPN: p.local.QPN, MTU: p.mtu, PKey: dissect.DefaultPKey, ResponderResources: 1, InitiatorDepth: 1,
		AckTimeout: 14, RetryCount: 7, RNRRetryCount: 7,
	}
	id, err := cm.Connect(r.l.clock(), connect.Request{Path: p.outer, Service: dissect.IPCMServiceID(dissect.PortSpaceTCP, nobodysPort), SrcPort: 4711, Local: local})
	if err != nil {
		return err
	}
	_, err = r.await(max(s.Within, 100*r.l.patient), func() bool {
		for ; seen < len(r.w.records); seen++ {
			if a := &r.w.records[seen]; !a.ours && a.p.Has(dissect.LayerMAD) {
				cm.Handle(a.data, r.l.clock())
			}
		}
		cm.Tick(r.l.clock())
		return answered || given
	})
	if err != nil {
		return err
	}
	if !answered {
		r.problem(Problem{Kind: "answer", Required: "a request by CM is answered", Seen: "no answer", Packets: r.packets(r.from, len(r.w.records))})
		_ = cm.Disconnect(r.l.clock(), id, nil) // nobody is there
	}
	return nil
}
