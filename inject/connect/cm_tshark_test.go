package connect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCMTshark lets tshark read every kind of message that CM sends.
func TestCMTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	var frames []testkit.Frame
	keep := func(h *host) {
		for _, f := range h.sent {
			frames = append(frames, testkit.Frame{Data: slices.Clone(f), WireLen: len(f), Link: dissect.LinkEthernet})
		}
	}
	a, b := newHost(t, asRXE(0x11)), newHost(t, asRXE(0x22))
	must(t, b.Listen(rpingService))
	say := func(from, to *host) {
		keep(from)
		for _, f := range from.take() {
			to.Handle(f, 0)
		}
	}
	psn := dissect.PSN(0x123456)
	r := rcRequest()
	r.Path.VLANs = []uint16{0x6064}
	r.Expect = &psn
	idA, err := a.Connect(0, r)
	must(t, err)
	req := slices.Clone(a.sent[0])
	say(a, b) // 1 REQ
	b.Handle(req, 0)
	say(b, a) // 2 MRA
	idB := b.last(t, EventRequest).ID
	must(t, b.Accept(0, idB, Answer{Local: Parameters{QPN: 0x22, ResponderResources: 1, InitiatorDepth: 2, RNRRetryCount: 3, SRQ: true}, Expect: &psn}))
	say(b, a) // 3 REP
	must(t, a.Confirm(0, idA, nil))
	say(a, b) // 4 RTU
	must(t, b.Disconnect(0, idB, nil))
	say(b, a) // 5 DREQ
	say(a, b) // 6 DREP
	r.Service++
	_, err = a.Connect(0, r)
	must(t, err)
	for _, f := range a.take() {
		b.Handle(f, 0)
	}
	say(b, a) // 7 REJ
	_, err = a.Resolve(0, Request{Path: pathAB, Service: dissect.IPCMServiceID(dissect.PortSpaceUDP, 9)})
	must(t, err)
	say(a, b) // 8 SIDR_REQ
	say(b, a) // 9 SIDR_REP

	file := testkit.WriteCapture(t, "cm.pcap", frames)
	if out, err := ts.Run("-n", "-r", file, "-Y", "_ws.malformed || _ws.expert.severity >= 0x600000", "-T", "fields", "-e", "frame.number"); err != nil || out != "" {
		t.Errorf("tshark finds fault with frames %q: %v", out, err)
	}
	id := func(c ConnID) string { return fmt.Sprintf("0x%08x", uint32(c)) }
	attr := func(a dissect.CMAttribute) string { return fmt.Sprintf("0x%04x", uint16(a)) }
	const mad = "infiniband.mad.attributeid"
	want := []map[string]string{
		{
			mad: attr(dissect.CMAttrREQ), "infiniband.bth.destqp": "0x000001", "infiniband.deth.q_key": "0x0000000080010000", "infiniband.deth.srcqp": "0x00000001",
			"infiniband.mad.method": "0x03", "vlan.id": "100", "infiniband.cm.req": id(idA), "infiniband.cm.req.serviceid.dport": "0x1c06",
			"infiniband.cm.req.localqpn": "0x000011", "infiniband.cm.req.startpsn": "0x123456", "infiniband.cm.req.responderres": "0x10",
			"infiniband.cm.req.initdepth": "0x04", "infiniband.cm.req.retrcount": "0x07", "infiniband.cm.req.rnrretrcount": "0x06",
			"infiniband.cm.req.pppmtu": "0x03", "infiniband.cm.req.maxcmretr": "0x0f", "infiniband.cm.req.prim_localgid_ipv4": "10.0.0.1",
			"infiniband.cm.req.prim_remotegid_ipv4": "10.0.0.2", "infiniband.cm.req.prim_localacktout": "0x13", "infiniband.cm.req.ip_cm.sip4": "10.0.0.1",
			"infiniband.cm.req.ip_cm.dip4": "10.0.0.2", "infiniband.cm.req.ip_cm.sport": "0xabbf",
		},
		{mad: attr(dissect.CMAttrMRA)},
		{
			mad: attr(dissect.CMAttrREP), "infiniband.cm.rep": id(idB), "infiniband.cm.rep.remotecommid": id(idA), "infiniband.cm.rep.localqpn": "0x000022",
			"infiniband.cm.rep.startpsn": "0x123456", "infiniband.cm.rep.respres": "0x01", "infiniband.cm.rep.initdepth": "0x02",
			"infiniband.cm.rep.rnrretrcount": "0x03", "infiniband.cm.rep.srq": "0x01",
		},
		{mad: attr(dissect.CMAttrRTU), "infiniband.cm.rtu.localcommid": id(idA), "infiniband.cm.rtu.remotecommid": id(idB)},
		{
			mad: attr(dissect.CMAttrDREQ), "infiniband.cm.dreq.localcommid": id(idB), "infiniband.cm.dreq.remotecommid": id(idA),
			"infiniband.cm.req.remoteqpneecn": "0x000011",
		},
		{mad: attr(dissect.CMAttrDREP), "infiniband.cm.drsp.localcommid": id(idA), "infiniband.cm.drsp.remotecommid": id(idB)},
		{mad: attr(dissect.CMAttrREJ), "infiniband.cm.rej.reason": "0x0008", "infiniband.cm.rej.msgrej": "0x00"},
		{mad: attr(dissect.CMAttrSIDRREQ)},
		{mad: attr(dissect.CMAttrSIDRREP)},
	}
	var fields []string
	for _, w := range want {
		for field := range w {
			if !slices.Contains(fields, field) {
				fields = append(fields, field)
			}
		}
	}
	rows := ts.Fields(t, file, fields...)
	if len(rows) != len(want) {
		t.Fatalf("%d frames, want %d", len(rows), len(want))
	}
	for i, w := range want {
		for j, field := range fields {
			if value, asked := w[field]; asked && rows[i][j] != value {
				t.Errorf("frame %d: %s is %q, want %q", i+1, field, rows[i][j], value)
			}
		}
	}
}
