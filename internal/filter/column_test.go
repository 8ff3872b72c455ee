package filter

import (
	"testing"
)

func TestColumns(t *testing.T) {
	s := tracked(t)
	v6 := udImm6(t)
	for _, c := range []struct {
		name, want string
		shot       *shot
		need       Need
	}{
		{"infiniband.bth.psn", "11259375", s, NeedPacket},
		{"bth.psn", "11259375", s, NeedPacket},
		{"infiniband.bth.destqp", "0x000011", s, NeedPacket},
		{"ip.src", "10.77.0.1", s, NeedPacket},
		{"ip.addr", "10.77.0.1", s, NeedPacket},
		{"eth.dst", "02:00:00:00:77:02", s, NeedPacket},
		{"frame.time_relative", "1.500000000", s, NeedPacket},
		{"frame.protocol", "RoCE v2", s, NeedPacket},
		{"vlan.id", "100", v6, NeedPacket},
		{"ipv6.src", "fe80::1", v6, NeedPacket},
		{"immdt", "deadbeef", v6, NeedPacket},
		{"reth.va", "0x7f00123456789abc", s, NeedPacket},
		{"reth", "RETH - RDMA Extended Transport Header", s, NeedPacket},
		{"flow.id", "4", s, NeedFlow},
		{"flow.retransmission", "1", s, NeedFlow},
		{"flow.direction", "b_to_a", s, NeedFlow},
		{"msg.status", "IBV_WC_RETRY_EXC_ERR", s, NeedEnd},
		{"msg.latency", "0.000060000", s, NeedEnd},
		{"deth.srcqp", "", s, NeedPacket},
		{"flow.id", "", v6, NeedFlow},
	} {
		col, err := LookupColumn(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		out, ok := col.Append([]byte("|"), &c.shot.p, c.shot.frame, c.shot.m, c.shot.o)
		if string(out) != "|"+c.want || ok != (c.want != "") {
			t.Errorf("%s is %q, %v", c.name, out, ok)
		}
		if col.Needs() != c.need {
			t.Errorf("%s needs %v", c.name, col.Needs())
		}
	}
	_, err := LookupColumn("infiniband.bth.pns")
	if err == nil || err.Error() != `unknown field "infiniband.bth.pns": did you mean infiniband.bth.psn?` {
		t.Error(err)
	}
}
