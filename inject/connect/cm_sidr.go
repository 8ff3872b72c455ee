package connect

import (
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// SIDRRequest asks for the queue pair of a datagram service.
type SIDRRequest struct {
	Service  dissect.ServiceID
	From     netip.Addr
	PKey     uint16
	Src, Dst netip.AddrPort // of the RDMA IP CM service
	Path     dissect.Outer  // what to send to the other side in; borrowed
	Private  []byte         // the other application's; borrowed
}

// SIDRAnswer is the answer: a queue pair, or why there is none.
type SIDRAnswer struct {
	Status  dissect.SIDRStatus
	QPN     uint32
	QKey    uint32
	Private []byte // at most 136 bytes, the rest is cut off
}

// UDPQKey is the queue key of rdma_cm's UDP port space.
const UDPQKey = 0x01234567

// ListenSIDR answers requests for a datagram service. Nothing is kept of them: a request that is sent again is answered again.
func (m *CM) ListenSIDR(service dissect.ServiceID, answer func(SIDRRequest) SIDRAnswer) error {
	return m.listen(service, answer)
}

func (m *CM) handleSIDRREQ(in inbound, data []byte) {
	req := dissect.CMSIDRREQ(data)
	a := SIDRAnswer{Status: dissect.SIDRUnsupported}
	if answer := m.listeners[req.ServiceID()]; answer != nil {
		ends := ipEndpoints(req.ServiceID(), req.IPCM())
		a = answer(SIDRRequest{
			Service: req.ServiceID(), From: in.from.Netip(), PKey: req.PKey(),
			Src: ends.src, Dst: ends.dst, Path: m.mirror, Private: req.ConsumerPrivate(),
		})
	}
	if a.Status != dissect.SIDRValid {
		m.stats.Refused++
	}
	rep := dissect.CMSIDRREP(m.compose(&m.mirror, dissect.CMAttrSIDRREP, in.TransactionID))
	rep.SetRequestID(req.RequestID())
	rep.SetStatus(a.Status)
	rep.SetQPN(a.QPN)
	rep.SetServiceID(req.ServiceID())
	rep.SetQKey(a.QKey)
	copy(rep.Private(), a.Private)
	m.emit(&m.mirror)
}

// Resolve asks for the queue pair of a datagram service by a SIDR_REQ. EventResolved, EventRejected or EventUnreachable
// follows, and that is the end of it. Private data may have 180 bytes of the RDMA IP CM service, else 216.
func (m *CM) Resolve(now int64, r Request) (ConnID, error) {
	m.now = max(m.now, now)
	c, err := m.newActive(r.Path, r.Service, r.SrcPort)
	if err != nil {
		return 0, fmt.Errorf("connect: SIDR_REQ: %w", err)
	}
	c.local, c.remote = r.Local, Parameters{Transport: dissect.UD, Address: r.Path.Dst}
	setDefault(&c.local.PKey, dissect.DefaultPKey)
	req := dissect.CMSIDRREQ(c.begin(dissect.CMAttrSIDRREQ))
	if len(r.Private) > m.roomIn(r.Service, len(req.Private())) {
		return 0, fmt.Errorf("connect: SIDR_REQ: %d bytes: %w", len(r.Private), ErrTooLong)
	}
	req.SetRequestID(c.id)
	req.SetPKey(c.local.PKey)
	req.SetServiceID(r.Service)
	m.fillIPCM(req.IPCM(), c)
	copy(req.ConsumerPrivate(), r.Private)
	m.begin(c, StateSIDRSent, m.cfg.ResponseTimeout, m.cfg.MaxRetries)
	return ConnID(c.id), nil
}

func (m *CM) handleSIDRREP(in inbound, data []byte) {
	rep := dissect.CMSIDRREP(data)
	c := m.table.byID[ConnID(rep.RequestID())]
	if c == nil || c.peer != in.from || c.state != StateSIDRSent {
		m.stats.Ignored++
		return
	}
	if rep.Status() == dissect.SIDRValid && !validQPN(rep.QPN()) {
		m.stats.Ignored++
		return
	}
	e := Event{Kind: EventResolved, Private: rep.Private()}
	if e.Status = rep.Status(); e.Status != dissect.SIDRValid {
		e.Kind = EventRejected
	}
	c.remote.QPN, c.remote.QKey = rep.QPN(), rep.QKey()
	m.end(c, e)
}
