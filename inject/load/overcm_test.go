package load

import (
	"net/netip"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// TestPerftestOverCM has perftest's conversation over a queue pair of CM's, with queue pairs that CM connects (-R), and that are told (-z).
func TestPerftestOverCM(t *testing.T) {
	for _, on := range []dissect.Transport{dissect.RC, dissect.UC, dissect.UD} {
		l := newLab(t, 0, Serving{}, func(o *peer.Listening) { o.Transport = on })
		for _, c := range []struct {
			program string
			op      rnic.Op
			size    int
		}{{"ib_write_bw", rnic.OpWrite, 3000}, {"ib_read_bw", rnic.OpRead, 3000}, {"ib_send_bw", rnic.OpSend, 1000}, {"ib_atomic_bw", rnic.OpFetchAdd, 8}} {
			if on == dissect.UD && !isSend(c.op) || on == dissect.UC && !isSend(c.op) && !isWrite(c.op) {
				continue
			}
			for family := range 2 {
				for _, byCM := range []bool{true, false} {
					if (family == 1 || !byCM) && !isSend(c.op) {
						continue // the one operation that all services have will do
					}
					plan := Plan{Op: c.op, Transport: on, Size: c.size, QPs: 3, Count: 20}
					res, err := l.run(plan, peer.Request{
						Way: peer.ByPerftest, Peer: netip.AddrPortFrom(l.addrs[1][family], connect.PerftestPort),
						Perftest: connect.PerftestOptions{Program: c.program, OverCM: true, QPsByCM: byCM},
						Local:    connect.Parameters{MTU: 1024, Address: l.addrs[0][family]},
					})
					if err != nil || res.Messages != 60 {
						t.Errorf("%s on %v, queue pairs by CM %t: %+v, %v", c.program, on, byCM, res, err)
					}
				}
			}
		}
		must(t, l.give.Do(func() error {
			for _, h := range l.told {
				if h.Err != nil {
					t.Errorf("%v: %v %v", on, h.Kind, h.Err)
				}
			}
			return nil
		}))
		if n := l.ask.Device().QPs(); n != 0 {
			t.Errorf("%v: %d queue pairs are left", on, n)
		}
		l.judged()
	}
}

// TestLatencyOverCM answers perftest's latency programs, which talk over a queue pair of CM's, with queue pairs that they tell (-z) or that
// CM connects as well (-R).
func TestLatencyOverCM(t *testing.T) {
	for _, c := range []struct {
		program string
		op      rnic.Op
		rally   Rally
		byCM    bool
	}{
		{"ib_send_lat", rnic.OpSend, SendRally, false},
		{"ib_write_lat", rnic.OpWrite, WriteRally, false},
		{"ib_send_lat", rnic.OpSend, SendRally, true},
		{"ib_write_lat", rnic.OpWrite, WriteRally, true},
	} {
		l := newLab(t, 0, Serving{Rally: c.rally, RallySize: 100, RallyCount: 100}, nil)
		for range 2 {
			res, err := l.run(Plan{Op: c.op, Transport: dissect.RC, Size: 100, Count: 100, Rally: c.rally}, peer.Request{
				Way: peer.ByPerftest, Peer: netip.AddrPortFrom(l.addrs[1][0], connect.PerftestPort),
				Perftest: connect.PerftestOptions{Program: c.program, OverCM: true, QPsByCM: c.byCM}, Local: connect.Parameters{MTU: 1024},
			})
			if err != nil || res.Messages != 100 {
				t.Errorf("%s, queue pair by CM %t: %+v, %v", c.program, c.byCM, res, err)
			}
		}
		l.emptied()
		l.judged()
	}
}
