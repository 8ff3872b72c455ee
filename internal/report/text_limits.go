package report

import (
	"fmt"
	"strings"
)

// unchecked says what this text does not vouch for, and why.
func (t *summary) unchecked() {
	lines := t.d.Limits()
	if len(lines) == 0 {
		return
	}
	t.section("Not checked")
	for _, line := range lines {
		t.paragraph("  - ", line, plain)
	}
}

// Limits are what the document does not vouch for, and why: a line each.
func (d *Document) Limits() []string {
	var lines []string
	t := &summary{d: d}
	c, icrc := &t.d.Capture, &t.d.ICRC
	if icrc.Off {
		lines = append(lines, "ICRCs: checking was switched off")
	} else if icrc.NotCaptured > 0 {
		lines = append(lines, fmt.Sprintf("the ICRC of %s, which the capture kept in part only (snap length)", Plural(icrc.NotCaptured, "packet")))
	} else if icrc.Unchecked > 0 {
		lines = append(lines, "the ICRC of "+Plural(icrc.Unchecked, "packet"))
	}
	if c.Truncated > 0 && icrc.NotCaptured == 0 {
		lines = append(lines, Plural(c.Truncated, "packet")+" of which the capture kept a part only (snap length)")
	}
	if c.Malformed > 0 {
		lines = append(lines, Plural(c.Malformed, "malformed packet")+" (rocescope show -V says what is wrong with each)")
	}
	if c.Dropped > 0 {
		lines = append(lines, Plural(c.Dropped, "packet")+" that the capturing program lost: not everything that is missing here was lost by the network")
	}
	if one := t.ids(func(c *Connection) bool {
		return reliable(c.Transport) && c.Directions == "one" && c.AToB.Packets+c.BToA.Packets > 0
	}); one != "" {
		lines = append(lines, "loss, time-outs and completions of "+one+", of which only one direction was captured")
	}
	if some := t.ids(func(c *Connection) bool { return len(c.Candidates) > 0 }); some != "" {
		lines = append(lines, "who the other side of "+some+" is: several queue pairs fit")
	}
	if t.d.Evicted > 0 {
		lines = append(lines, Plural(t.d.Evicted, "connection")+" left out: the table of connections was full")
	}
	if t.d.FindingsLeft > 0 {
		lines = append(lines, Plural(t.d.FindingsLeft, "finding")+" left out: the list of findings was full")
	}
	if c.Limited {
		lines = append(lines, fmt.Sprintf("anything behind the first %s (-c)", Plural(c.Packets, "packet")))
	}
	if c.Interrupted {
		lines = append(lines, fmt.Sprintf("anything behind the first %s: interrupted", Plural(c.Packets, "packet")))
	}
	for _, e := range c.Errors {
		lines = append(lines, "the rest of an input: "+e)
	}
	return lines
}

// ids names the connections that a condition holds for: "connections 1, 4 and 7", "12 connections".
func (t *summary) ids(holds func(*Connection) bool) string {
	var ids []string
	for i := range t.d.Connections {
		if holds(&t.d.Connections[i]) {
			ids = append(ids, fmt.Sprint(t.d.Connections[i].ID))
		}
	}
	switch n := len(ids); {
	case n == 0:
		return ""
	case n == 1:
		return "connection " + ids[0]
	case n > 6:
		return Plural(uint64(n), "connection")
	default:
		return "connections " + strings.Join(ids[:n-1], ", ") + " and " + ids[n-1]
	}
}

// hints say why there may be less to see than the user expects.
func (t *summary) hints() {
	hints := t.d.Hints()
	if len(hints) == 0 {
		return
	}
	t.section("Hint")
	for _, h := range hints {
		t.paragraph("  ", h, plain)
	}
}

// Hints say why there may be less in the document than the user expects, a sentence or two each.
func (d *Document) Hints() []string {
	var hints []string
	t := &summary{d: d}
	p := &t.d.Protocols
	silent := t.ids(func(c *Connection) bool {
		return (c.EstablishedBy == "cm" || c.EstablishedBy == "socket") && c.AToB.Packets+c.BToA.Packets == 0
	})
	switch {
	case t.d.Filter != nil && len(t.d.Connections) == 0:
		hints = append(hints, "No packet of a connection matches the filter.")
	case silent != "":
		hints = append(hints, "The handshake of "+silent+" is here, but no RDMA packet of it. The data of an RDMA NIC bypasses the kernel, "+
			"and so does not pass where tcpdump looks on the host: capture at a mirror port of the switch, or on the wire, or by the NIC's own sniffer if it has one.")
	case p.RoCEv2+p.RoCEv1+p.InfiniBand+p.IWARP == 0 && p.SocketExchange > 0:
		hints = append(hints, "A handshake over TCP is here, but no RDMA packet. The data of an RDMA NIC bypasses the kernel, "+
			"and so does not pass where tcpdump looks on the host: capture at a mirror port of the switch, or on the wire, or by the NIC's own sniffer if it has one.")
	case !t.rdma() && t.d.Capture.Packets > 0:
		hints = append(hints, "There is no RDMA in this capture: RoCE v2 is UDP to port 4791, RoCE v1 is EtherType 0x8915. On a host whose RDMA NIC "+
			"bypasses the kernel, tcpdump does not see it: capture at a mirror port of the switch, or on the wire.")
	}
	return hints
}
