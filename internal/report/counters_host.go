package report

import (
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// HostTraffic counts the RoCE packets that each address sent and was sent. It is for what a snapshot does not count by
// host: management datagrams, multicast, packets by what they are.
type HostTraffic struct {
	hosts map[dissect.Addr]*packetCounts
	order []dissect.Addr // by first sight
}

// packetCounts are one address's.
type packetCounts struct {
	sent, received                   uint64
	multicastSent                    uint64
	badSent, badReceived             uint64 // with a wrong ICRC, at the tap
	marked                           uint64 // received with congestion experienced
	cnpSent, cnpReceived             uint64
	madsSent, madsReceived           uint64
	requestsSent, requestsReceived   [dissect.Vendor + 1]uint64 // by family
	responsesSent, responsesReceived [dissect.Vendor + 1]uint64
}

// NewHostTraffic makes an empty tally.
func NewHostTraffic() *HostTraffic { return &HostTraffic{hosts: map[dissect.Addr]*packetCounts{}} }

func (t *HostTraffic) host(a dissect.Addr) *packetCounts {
	h := t.hosts[a]
	if h == nil {
		h = &packetCounts{}
		t.hosts[a] = h
		t.order = append(t.order, a)
	}
	return h
}

// Packet counts a packet.
func (t *HostTraffic) Packet(p *dissect.Packet) {
	if !p.Has(dissect.LayerBTH) {
		return
	}
	op := p.Op()
	from := t.host(p.Src)
	from.sent++
	if p.Dst.Netip().IsMulticast() {
		from.multicastSent++
	}
	to := t.host(p.Dst)
	to.received++
	if p.ICRC == dissect.ICRCInvalid {
		from.badSent++
		to.badReceived++
		return
	}
	if p.TrafficClass&3 == 3 {
		to.marked++
	}
	switch {
	case op.Family == dissect.Congestion:
		from.cnpSent++
		to.cnpReceived++
	case p.Has(dissect.LayerMAD):
		from.madsSent++
		to.madsReceived++
	case op.Role == dissect.Request:
		from.requestsSent[op.Family]++
		to.requestsReceived[op.Family]++
	default:
		from.responsesSent[op.Family]++
		to.responsesReceived[op.Family]++
	}
}

// hostView is everything that the counters of one host are predicted from.
type hostView struct {
	addrs     []dissect.Addr
	packets   packetCounts
	multicast uint64       // that others sent: it may be a member of the group
	out, in   flows.Stream // sums of what its queue pairs sent, and were sent; of both, only counters are set
	rqUsed    uint64       // receive WQEs

	retryExceeded, rnrExceeded uint64 // messages that it gave up
	openAgain, openRNR         uint64 // messages that were still open when the capture ended, of streams that had to repeat or to wait
	unanswered                 uint64 // packets that it was sent and never answered, so that its queue pair may have been gone
	responseGaps               uint64 // in answers to its READs
	unreliableIn               uint64 // UC and UD messages that it was sent
	missing                    uint64 // packets that the device counted and the capture does not have; set while comparing
}

// view sums up what the addresses of a host did.
func (t *HostTraffic) view(s *flows.Snapshot, addrs []dissect.Addr) *hostView {
	v := &hostView{addrs: addrs}
	for a, h := range t.hosts {
		if slices.Contains(addrs, a) {
			v.packets.add(h)
		} else {
			v.multicast += h.multicastSent
		}
	}
	type side struct {
		conn uint32
		d    flows.Direction
	}
	mine := map[side]bool{} // streams that it sends
	for i := range s.Connections {
		c := &s.Connections[i]
		for d, q := range []*flows.QP{&c.A, &c.B} {
			if !slices.Contains(addrs, q.Addr) {
				continue
			}
			d := flows.Direction(d)
			mine[side{c.ID, d}] = true
			sent, got := &c.Streams[d], &c.Streams[d.Reverse()]
			addStream(&v.out, sent)
			addStream(&v.in, got)
			v.rqUsed += q.InUse.RQConsumed
			open := unsettled(sent)
			if got.Retransmissions[flows.CauseTimeout] > 0 && unsettled(got)+failed(got) > 0 {
				peer := []*flows.QP{&c.B, &c.A}[d]
				v.unanswered += got.RetransmittedPackets + uint64(peer.InUse.OutstandingPackets)
			}
			if reliable(c.Transport.String()) {
				if sent.Retransmissions[flows.CauseTimeout] > 0 {
					v.openAgain += open
				}
				if got.RNRNAKs > 0 {
					v.openRNR += open
				}
			} else {
				for _, m := range got.Messages {
					v.unreliableIn += m.Count
				}
			}
		}
	}
	for i := range s.Findings {
		f := &s.Findings[i]
		if !f.HasStream {
			continue
		}
		n := max(f.Count, 1)
		d := f.Direction
		switch f.ID.String() {
		case "retry_exceeded":
			if mine[side{f.Conn, d}] {
				v.retryExceeded += n
			}
		case "rnr_retry_exceeded":
			if mine[side{f.Conn, d}] {
				v.rnrExceeded += n
			}
		case "response_gap", "response_lost_behind_tap":
			if mine[side{f.Conn, d.Reverse()}] {
				v.responseGaps += n
			}
		}
	}
	return v
}

// unsettled is how many messages were still open when the capture ended.
func unsettled(s *flows.Stream) (n uint64) {
	for _, m := range s.Messages {
		n += m.Count - min(m.Count, m.Completed+m.Failed)
	}
	return n
}

func failed(s *flows.Stream) (n uint64) {
	for _, m := range s.Messages {
		n += m.Failed
	}
	return n
}

func (p *packetCounts) add(o *packetCounts) {
	p.sent += o.sent
	p.received += o.received
	p.multicastSent += o.multicastSent
	p.badSent += o.badSent
	p.badReceived += o.badReceived
	p.marked += o.marked
	p.cnpSent += o.cnpSent
	p.cnpReceived += o.cnpReceived
	p.madsSent += o.madsSent
	p.madsReceived += o.madsReceived
	for f := range p.requestsSent {
		p.requestsSent[f] += o.requestsSent[f]
		p.requestsReceived[f] += o.requestsReceived[f]
		p.responsesSent[f] += o.responsesSent[f]
		p.responsesReceived[f] += o.responsesReceived[f]
	}
}

func addStream(sum, s *flows.Stream) {
	for op := range s.Messages {
		m, n := &sum.Messages[op], &s.Messages[op]
		m.Count += n.Count
		m.Completed += n.Completed
		m.Failed += n.Failed
	}
	for c := range s.Retransmissions {
		sum.Retransmissions[c] += s.Retransmissions[c]
	}
	for c := range s.NAKs {
		sum.NAKs[c] += s.NAKs[c]
	}
	sum.RetransmittedPackets += s.RetransmittedPackets
	sum.Duplicates += s.Duplicates
	sum.OutOfOrder += s.OutOfOrder
	sum.LostBeforeTap += s.LostBeforeTap
	sum.LostBehindTap += s.LostBehindTap
	sum.Reordered += s.Reordered
	sum.Ambiguous += s.Ambiguous
	sum.NetworkDuplicates += s.NetworkDuplicates
	sum.RNRNAKs += s.RNRNAKs
}
