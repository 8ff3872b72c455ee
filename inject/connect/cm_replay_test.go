package connect

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// The captures whose CM messages are played: one side's come from the capture, the other side is ours.
var cmCaptures = []string{
	"rping", "rping_ipv6", "ucmatose", "rdma_client", "cm_write_bw", "cm_read_bw", "cm_atomic_bw", "cm_write_bw_tos", "probe_hand_made_cm_rping",
}

// cmMessage is a CM message of a capture.
type cmMessage struct {
	dissect.CM
	frame    []byte
	from, to dissect.Addr
	outer    dissect.Outer // to go the same way in
}

// cmMessages are those of a capture, in order, retransmissions left out.
func cmMessages(t testing.TB, name string) (out []cmMessage) {
	t.Helper()
	frames := testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), name+".pcap"))
	var seen []string
	for _, f := range frames {
		var d dissect.Decoder
		var p dissect.Packet
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		m, ok := p.CM(f.Data)
		if !ok || slices.Contains(seen, string(m.Data)+m.Attribute.String()) {
			continue
		}
		seen = append(seen, string(m.Data)+m.Attribute.String())
		out = append(out, cmMessage{m, f.Data, p.Src, p.Dst, dissect.Outer{
			DstMAC: [6]byte(f.Data[:6]), SrcMAC: [6]byte(f.Data[6:12]), Src: p.Src.Netip(), Dst: p.Dst.Netip(), TrafficClass: p.TrafficClass,
		}})
	}
	return out
}

// theirs is a frame of the capture with identifiers changed to those of this play.
func (m cmMessage) theirs(t testing.TB, ids map[uint32]uint32) []byte {
	t.Helper()
	f := slices.Clone(m.frame)
	d := message(t, f).Data
	for at := 0; at <= 4; at += 4 {
		if at == 4 && m.RemoteCommID() == 0 {
			break
		}
		if id, ok := ids[be.Uint32(d[at:])]; ok {
			be.PutUint32(d[at:], id)
		}
	}
	var craft dissect.Crafter
	must(t, craft.Reseal(dissect.LinkEthernet, f))
	return f
}

// same compares our message with that of the capture, with our identifiers in it.
func (m cmMessage) same(t testing.TB, ours []byte, ids map[uint32]uint32) {
	t.Helper()
	got, want := message(t, ours), message(t, m.theirs(t, ids))
	if got.Attribute != want.Attribute || !slices.Equal(got.Data, want.Data) {
		t.Errorf("%v\n%x\nof ours, where the capture has %v\n%x", got.Attribute, got.Data, want.Attribute, want.Data)
	}
	var d dissect.Decoder
	var p, q dissect.Packet
	d.Decode(dissect.LinkEthernet, ours, len(ours), &p)
	d.Decode(dissect.LinkEthernet, m.frame, len(m.frame), &q)
	if p.Src != q.Src || p.Dst != q.Dst || p.TrafficClass != q.TrafficClass || p.SrcPort != q.SrcPort || !slices.Equal(ours[:14], m.frame[:14]) || len(ours) != len(m.frame) {
		t.Errorf("%v travels in another frame:\n%x\n%x", got.Attribute, ours[:60], m.frame[:60])
	}
}

// asRXE is the configuration of Linux' CM.
func asRXE(guid uint64) func(*CMConfig) {
	return func(c *CMConfig) {
		c.GUID, c.ResponseTimeout, c.MaxRetries, c.Rand = guid, 20, 15, rand.NewPCG(5, 6)
	}
}

// TestCMReplay plays each capture twice, with our CM in the place of the passive and of the active side. It says byte for
// byte what the real one said and was understood by, and goes through the same states.
func TestCMReplay(t *testing.T) {
	for _, name := range cmCaptures {
		messages := cmMessages(t, name)
		for _, active := range []bool{false, true} {
			side := "passive"
			if active {
				side = "active"
			}
			t.Run(name+"/"+side, func(t *testing.T) { replay(t, messages, active) })
		}
	}
}

func replay(t *testing.T, messages []cmMessage, active bool) {
	var us dissect.Addr
	var guid uint64
	for _, m := range messages {
		switch m.Attribute {
		case dissect.CMAttrREQ:
			if active {
				us, guid = m.from, dissect.CMREQ(m.Data).LocalCAGUID()
			} else {
				us = m.to
			}
		case dissect.CMAttrREP:
			if !active {
				guid = dissect.CMREP(m.Data).LocalCAGUID()
			}
		}
	}
	h := newHost(t, asRXE(guid))
	ids := map[uint32]uint32{} // ours, from those of the capture
	established := 0
	for _, m := range messages {
		if m.from != us {
			if m.Attribute == dissect.CMAttrREQ {
				_ = h.Listen(dissect.CMREQ(m.Data).ServiceID()) // again for a second connection
			}
			h.Handle(m.theirs(t, ids), 0)
			if m.Attribute == dissect.CMAttrDREQ {
				h.last(t, EventDisconnected)
			}
			continue
		}
		id := ConnID(ids[m.LocalCommID()])
		switch m.Attribute {
		case dissect.CMAttrREQ:
			req := dissect.CMREQ(m.Data)
			psn, path := req.StartPSN(), req.Primary()
			got, err := h.Connect(0, Request{
				Path: m.outer, Service: req.ServiceID(), SrcPort: req.IPCM().SrcPort(), Expect: &psn, Private: req.ConsumerPrivate(),
				Local: Parameters{
					QPN: req.LocalQPN(), MTU: dissect.MTUBytes(req.MTU()), ResponderResources: req.ResponderResources(), InitiatorDepth: req.InitiatorDepth(),
					RetryCount: req.RetryCount(), RNRRetryCount: req.RNRRetryCount(), AckTimeout: path.AckTimeout(),
				},
			})
			must(t, err)
			ids[m.LocalCommID()] = uint32(got)
		case dissect.CMAttrREP:
			rep, e := dissect.CMREP(m.Data), h.last(t, EventRequest)
			psn := rep.StartPSN()
			ids[m.LocalCommID()] = uint32(e.ID)
			must(t, h.Accept(0, e.ID, Answer{Expect: &psn, Private: rep.Private(), Local: Parameters{
				QPN: rep.LocalQPN(), ResponderResources: rep.ResponderResources(), InitiatorDepth: rep.InitiatorDepth(), RNRRetryCount: rep.RNRRetryCount(),
			}}))
		case dissect.CMAttrRTU:
			must(t, h.Confirm(0, h.last(t, EventResponse).ID, nil))
			established++
		case dissect.CMAttrDREQ:
			if h.State(id) == StateTimeWait { // the other side's DREQ crossed this one; ours has answered it already
				continue
			}
			must(t, h.Disconnect(0, id, nil))
		}
		if len(h.sent) == 0 {
			t.Fatalf("nothing was said where the capture has %v", m.Attribute)
		}
		m.same(t, h.sent[0], ids)
		h.sent = h.sent[1:]
	}
	for _, e := range h.events {
		switch e.Kind {
		case EventRejected, EventUnreachable:
			t.Error(e)
		}
	}
	if n := len(h.established()); n == 0 || n != h.Stats().Connections || active && n != established || len(h.sent) > 0 {
		t.Errorf("%d established, %d connections, %d frames more than in the capture", n, h.Stats().Connections, len(h.sent))
	}
	for id := range h.table.byID {
		if s := h.State(id); s != StateTimeWait {
			t.Errorf("%#x is in state %v at the end", uint32(id), s)
		}
	}
}

// TestCMReplaySense: the PSNs that our CM tells are those that the capture's first requests have.
func TestCMReplaySense(t *testing.T) {
	messages := cmMessages(t, "rping")
	h := newHost(t, asRXE(0))
	must(t, h.Listen(rpingService))
	h.Handle(messages[0].frame, 0)
	e := h.last(t, EventRequest)
	psn := dissect.CMREP(messages[1].Data).StartPSN()
	must(t, h.Accept(0, e.ID, Answer{Local: Parameters{QPN: 0x13}, Expect: &psn}))
	h.Handle(messages[2].theirs(t, map[uint32]uint32{messages[1].LocalCommID(): uint32(e.ID)}), 0)
	e = h.last(t, EventEstablished)
	first := map[dissect.Addr]dissect.PSN{}
	for _, f := range testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), "rping.pcap")) {
		var d dissect.Decoder
		var p dissect.Packet
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		if _, seen := first[p.Src]; p.IsTransport() && p.DestQP != 1 && p.Op().Role == dissect.Request && !seen {
			first[p.Src] = p.PSN
		}
		if p.IsTransport() && p.DestQP != 1 {
			if want := UDPPort(e.Remote.FlowLabel, e.Local.QPN, e.Remote.QPN); p.SrcPort != want {
				t.Fatalf("UDP source port %d, want %d", p.SrcPort, want)
			}
		}
	}
	if local, remote := first[dissect.AddrFrom(e.Local.Address)], first[dissect.AddrFrom(e.Remote.Address)]; e.Local.PSN != local || e.Remote.PSN != remote {
		t.Errorf("PSNs %#x and %#x; the first requests have %#x and %#x", e.Local.PSN, e.Remote.PSN, local, remote)
	}
}

// TestCMReplayREJ: nobody listens, said by us and by the real one.
func TestCMReplayREJ(t *testing.T) {
	m := cmMessages(t, "cm_rej_no_listener")
	h := newHost(t, asRXE(0))
	h.Handle(m[0].frame, 0)
	m[1].same(t, h.sent[0], nil)
	if h.Stats().Connections != 0 {
		t.Error("something was kept")
	}
}

// TestCMReplaySIDR: udaddy's and perftest's datagram services, both sides.
func TestCMReplaySIDR(t *testing.T) {
	for _, name := range []string{"udaddy", "cm_send_bw_ud"} {
		t.Run(name, func(t *testing.T) {
			var m []cmMessage
			for _, c := range cmMessages(t, name) {
				if c.Attribute == dissect.CMAttrSIDRREQ || c.Attribute == dissect.CMAttrSIDRREP {
					m = append(m, c)
				}
			}
			req, rep := dissect.CMSIDRREQ(m[0].Data), dissect.CMSIDRREP(m[1].Data)
			h := newHost(t, asRXE(0))
			must(t, h.ListenSIDR(req.ServiceID(), func(SIDRRequest) SIDRAnswer { return SIDRAnswer{QPN: rep.QPN(), QKey: UDPQKey} }))
			h.Handle(m[0].frame, 0)
			m[1].same(t, h.take()[0], nil)

			id, err := h.Resolve(0, Request{Path: m[0].outer, Service: req.ServiceID(), SrcPort: req.IPCM().SrcPort(), Private: req.ConsumerPrivate()})
			must(t, err)
			ids := map[uint32]uint32{req.RequestID(): uint32(id)}
			m[0].same(t, h.take()[0], ids)
			h.Handle(m[1].theirs(t, ids), 0)
			if e := h.last(t, EventResolved); e.Remote.QPN != rep.QPN() || e.Remote.QKey != rep.QKey() {
				t.Error(e)
			}
		})
	}
}
