package report

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/rocescope/rocescope/flows/iwarp"
)

// iwarp are the iWARP connections, a line for each direction that carried something.
func (t *summary) iwarp() {
	tab := &table{columns: []column{
		{title: "#", right: true, key: true},
		{title: "from", key: true},
		{title: "to", key: true},
		{title: "messages"},
		{title: "bytes", right: true},
		{title: "p50", right: true},
		{title: "p99", right: true},
		{title: "set-up"},
	}}
	for i := range t.d.IWARP {
		c := &t.d.IWARP[i]
		if t.o.Top > 0 && i >= t.o.Top {
			break
		}
		for _, d := range []struct {
			from, to TCPEnd
			s        *IWARPStream
		}{{c.A, c.B, c.AToB}, {c.B, c.A, c.BToA}} {
			if d.s.FPDUs == 0 {
				continue
			}
			messages := ""
			var bytes uint64
			for op := range iwarp.NumOps {
				m, ok := d.s.Messages[op.String()]
				if !ok {
					continue
				}
				if messages != "" {
					messages += " "
				}
				messages += Count(m.Count) + " " + op.String()
				bytes += m.Bytes
			}
			tab.add(text(fmt.Sprint(c.ID)), text(d.from.text()), text(d.to.text()), text(messages), text(Count(bytes)),
				text(latency(d.s.Latency.P50)), text(latency(d.s.Latency.P99)), text(c.text()))
		}
	}
	t.titled("iWARP", tab)
	if left := len(t.d.IWARP) - t.o.Top; t.o.Top > 0 && left > 0 {
		t.paragraph("  ", Plural(uint64(left), "more connection"), dim)
	}
}

func (e TCPEnd) text() string { return net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port))) }

// text is how the connection was set up.
func (c *IWARPConnection) text() string {
	s := "not captured"
	if u := c.Request; u != nil {
		s = fmt.Sprintf("MPA %d", u.Revision)
		if u.Markers || c.Reply != nil && c.Reply.Markers {
			s += " markers"
		}
		if c.CRC {
			s += " CRC"
		}
	}
	return s
}

func latency(ns *int64) string {
	if ns == nil {
		return ""
	}
	return Duration(time.Duration(*ns))
}
