package filter

import "testing"

// BenchmarkMatch is the cost per packet of filters as they are used.
func BenchmarkMatch(b *testing.B) {
	s := tracked(b)
	for _, c := range []struct{ name, src string }{
		{"empty", ""},
		{"opcode", "infiniband.bth.opcode == RC_RDMA_WRITE_FIRST"},
		{"opcode set", "bth.opcode in {RC_SEND_FIRST, RC_RDMA_WRITE_FIRST..RC_RDMA_WRITE_ONLY}"},
		{"psn", "bth.psn == 0xabcdef"},
		{"psn range", "bth.psn in {0xabc000..0xabcfff}"},
		{"destqp", "bth.destqp == 0x11"},
		{"reth.va", "reth.va > 0x7f0000000000"},
		{"generic field", "bth.tver == 0"},
		{"mark", "flow.retransmission"},
		{"mark, no", "flow.nak"},
		{"ip.addr", "ip.addr == 10.77.0.2"},
		{"ip.src network", "ip.src == 10.77.0.0/16"},
		{"udp.port", "udp.port == 4791"},
		{"eth.src slice", "eth.src[0:3] == 02:00:00"},
		{"payload slice", "infiniband.payload[15:4] == de:ad:be:ef"},
		{"payload contains", `payload contains "html"`},
		{"payload matches", `payload matches "index\.html"`},
		{"msg.status", "msg.status == IBV_WC_RETRY_EXC_ERR"},
		{"opcode and mark", "bth.opcode == RC_RDMA_WRITE_FIRST && flow.retransmission"},
		{"compound", "ip.addr == 10.77.0.2 && udp.dstport == 4791 && (bth.destqp == 0x11 || bth.destqp == 0x12) && !(bth.opcode == RC_ACKNOWLEDGE)"},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := Compile(c.src)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if f.MatchEnd(&s.p, s.frame, s.m, s.o) {
					n++
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile("ip.addr == 10.77.0.2 && bth.opcode in {RC_SEND_FIRST..RC_SEND_ONLY} && flow.direction == a_to_b"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrefilter(b *testing.B) {
	s := tracked(b)
	f, err := Compile("bth.destqp == 0x11 and bth.opcode == RC_RDMA_WRITE_FIRST and payload contains \"x\"")
	if err != nil {
		b.Fatal(err)
	}
	pre := f.Prefilter()
	b.ReportAllocs()
	for b.Loop() {
		pre.May(&s.p)
	}
}
