package connect

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCMAsFlowsSeesIt lets the other half of the program watch: it understands by our messages what we understood.
func TestCMAsFlowsSeesIt(t *testing.T) {
	a, b := newHost(t, nil), newHost(t, func(c *CMConfig) { c.GUID = 2 })
	must(t, b.Listen(rpingService))
	var frames []testkit.Frame
	say := func(from, to *host) {
		for _, f := range from.take() {
			frames = append(frames, testkit.Frame{Time: int64(len(frames)) * ms, Data: f, WireLen: len(f), Link: dissect.LinkEthernet})
			to.Handle(f, 0)
		}
	}
	idA, err := a.Connect(0, rcRequest())
	must(t, err)
	say(a, b)
	must(t, b.Accept(0, b.last(t, EventRequest).ID, Answer{Local: Parameters{QPN: 0x22, ResponderResources: 8, InitiatorDepth: 32, RNRRetryCount: 5}}))
	say(b, a)
	must(t, a.Confirm(0, idA, nil))
	say(a, b)
	e := a.last(t, EventEstablished)

	tr := flows.New(flows.Options{})
	testkit.Batches(frames, 16, func(packets []dissect.Packet, data [][]byte) {
		tr.Track(&flows.Batch{Packets: packets, Data: data, Marks: make([]flows.Mark, len(packets))})
	})
	tr.Finish()
	s := tr.Snapshot()
	if len(s.Connections) != 1 || len(s.Findings) != 1 || s.Findings[0].ID.String() != "handshake_without_data" { // a note, and right
		t.Fatalf("%d connections, findings %v", len(s.Connections), s.Findings)
	}
	c := s.Connections[0]
	for i, end := range []struct {
		qp   flows.QP
		want Parameters
	}{{c.A, e.Local}, {c.B, e.Remote}} {
		n := end.qp.Negotiated
		if end.qp.QPN != end.want.QPN || end.qp.Addr.Netip() != end.want.Address || n.StartPSN != end.want.PSN || n.PathMTU != end.want.MTU ||
			n.ResponderResources != int(end.want.ResponderResources) || n.InitiatorDepth != int(end.want.InitiatorDepth) {
			t.Errorf("end %d is %+v, want %+v", i, end.qp, end.want)
		}
	}
	if c.Evidence != flows.ByCM || c.ServiceID != uint64(rpingService) {
		t.Errorf("%v, service %#x", c.Evidence, c.ServiceID)
	}
}
