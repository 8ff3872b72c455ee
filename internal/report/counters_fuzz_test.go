package report

import "testing"

// FuzzCounters: no reading of counters, in whichever form, makes its parser panic.
func FuzzCounters(f *testing.F) {
	for _, seed := range []string{
		"NIC statistics:\n     rx_prio3_pause: 17\n     rx_vport_rdma_unicast_packets: 18446744073709551615\n",
		"link rxe0/1 sent_pkts 5 rcvd_pkts 0x10 duplicate_request 0\n",
		"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:7\n",
		"==> /sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err <==\n9\n",
		"name,value\nlocal_ack_timeout_err,3\n",
		`[{"ifname":"rxe0","port":1,"sent_pkts":12,"more":{"nested":[1,2]}}]`,
		`{"statistics":{"rx_discards":1e400}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &CounterReading{Ports: map[string]map[string]uint64{}}
		_ = r.parse(text) // what is none is refused
	})
}
