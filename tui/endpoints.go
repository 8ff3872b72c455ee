package tui

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// passed is packets and their bytes.
type passed struct{ packets, bytes uint64 }

func (p *passed) add(st *flows.Stream) { p.packets, p.bytes = p.packets+st.Packets, p.bytes+st.Bytes }

// endpoint is a host: what its queue pairs have in common, as far as connections of the table show it.
type endpoint struct {
	addr           dissect.Addr
	qps            []uint32 // in order of first sight
	unnamed        bool     // there is a queue pair whose number the wire does not tell
	conns          uint64
	peers          []peer // in order of first sight
	sent, received passed
	asked          [flows.NumOperations]flows.MessageCounts // of messages that it requested
	resent         uint64                                   // packets that it sent again
	naks, rnrs     uint64                                   // that it sent
	marked         uint64                                   // packets with CE that came to it
	cnps           uint64                                   // that it sent
	found          [flows.Error + 1]uint64                  // findings about its connections, by severity
}

// peer is a host that an endpoint talks to.
type peer struct {
	addr           dissect.Addr
	conns          uint64
	sent, received passed
}

// endpointsOf adds up connections by the hosts at their ends, in order of first sight. An end without an address is left out.
func endpointsOf(conns []flows.Connection, findings []flows.Finding) []endpoint {
	found := map[uint32][flows.Error + 1]uint64{}
	for i := range findings {
		if f := &findings[i]; f.Conn != 0 {
			n := found[f.Conn]
			n[f.Severity()]++
			found[f.Conn] = n
		}
	}
	var all []endpoint
	at, met := map[dissect.Addr]int{}, newMet()
	for i := range conns {
		k := &conns[i]
		for end, q := range []*flows.QP{&k.A, &k.B} {
			other := []*flows.QP{&k.B, &k.A}[end]
			if q.Addr.IsZero() {
				continue
			}
			n, ok := at[q.Addr]
			if !ok {
				n = len(all)
				at[q.Addr] = n
				all = append(all, endpoint{addr: q.Addr})
			}
			all[n].add(met, n, q, other, &k.Streams[end], &k.Streams[1-end])
			if end == 1 && q.Addr == k.A.Addr { // it talks to itself, and was counted
				continue
			}
			all[n].conns++
			for sev, count := range found[k.ID] {
				all[n].found[sev] += count
			}
		}
	}
	return all
}

// met is what was seen of endpoints by their place in the list: a host may have many queue pairs and many peers.
type met struct {
	qps   map[metQP]bool
	peers map[metPeer]int // index in the endpoint's peers
}

type metQP struct {
	of  int
	qpn uint32
}

type metPeer struct {
	of   int
	addr dissect.Addr
}

func newMet() *met { return &met{qps: map[metQP]bool{}, peers: map[metPeer]int{}} }

// add counts a queue pair of the endpoint, which is the n-th, what it sent, and what came to it.
func (e *endpoint) add(met *met, n int, q, other *flows.QP, out, in *flows.Stream) {
	switch k := (metQP{n, q.QPN}); {
	case !q.Known:
		e.unnamed = true
	case !met.qps[k]:
		met.qps[k] = true
		e.qps = append(e.qps, q.QPN)
	}
	e.sent.add(out)
	e.received.add(in)
	for op := range e.asked {
		e.asked[op].Count += out.Messages[op].Count
		e.asked[op].Bytes += out.Messages[op].Bytes
		e.asked[op].Failed += out.Messages[op].Failed
	}
	e.resent += out.RetransmittedPackets
	for _, n := range out.NAKs {
		e.naks += n
	}
	e.rnrs += out.RNRNAKs
	e.cnps += out.CNPs
	e.marked += in.ECNCE
	if other.Addr.IsZero() {
		return
	}
	k := metPeer{n, other.Addr}
	i, ok := met.peers[k]
	if !ok {
		i = len(e.peers)
		met.peers[k] = i
		e.peers = append(e.peers, peer{addr: other.Addr})
	}
	p := &e.peers[i]
	p.conns++
	p.sent.add(out)
	p.received.add(in)
}

// id tells endpoints apart.
func (e *endpoint) id() uint64 { return e.addr.Hi*0x9E3779B97F4A7C15 ^ e.addr.Lo + 1 }

// filter selects the packets that a host sends or gets.
func (e *endpoint) filter() string {
	a := e.addr
	if a.IsLID() {
		return fmt.Sprintf("infiniband.lrh.slid == %d or infiniband.lrh.dlid == %d", a.Lo, a.Lo)
	}
	ip, gid := "ipv6", a.String()
	if a.Is4() {
		ip, gid = "ip", "::ffff:"+gid
	}
	return fmt.Sprintf("%s.addr == %s or infiniband.grh.sgid == %s or infiniband.grh.dgid == %s", ip, a, gid, gid)
}

// operations are the messages that an endpoint asked for, in words.
func (e *endpoint) operations() string {
	var parts []string
	for op := range flows.NumOperations {
		if m := &e.asked[op]; m.Count > 0 {
			text := fmt.Sprintf("%s: %s, %s", op, report.Count(m.Count), report.Bytes(m.Bytes))
			if m.Failed > 0 {
				text += fmt.Sprintf(", %s failed", report.Count(m.Failed))
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}
