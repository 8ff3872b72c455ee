package flows_test

import (
	"runtime"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestFloodsStayInBounds sends what an attacker would who wants the tables to grow: every packet is of another queue pair, of
// another pair of hosts, of another handshake. Three times as many take no more memory than as many as fit, and what had
// to go is counted.
func TestFloodsStayInBounds(t *testing.T) {
	testkit.SkipUnderRace(t)
	const most, flood = 5_000, 100_000
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.A.Write(64)
	x.A.REQ()
	packets, data := testkit.Decode(x.Frames())
	write, request := 0, 0
	for i := range packets {
		if packets[i].Has(dissect.LayerCMREQ) {
			request = i
		} else {
			write = i
		}
	}
	spoof := func(a *dissect.Addr, n uint64) { a.Lo = a.Lo&^0xFFFFFF | n&0xFFFFFF }
	for _, c := range []struct {
		name    string
		of      int
		change  func(p *dissect.Packet, n uint64)
		streams bool // each packet is a stream of its own
	}{
		{"QPN scan", write, func(p *dissect.Packet, n uint64) { p.DestQP = uint32(n) + 2 }, true},
		{"QPNs in steps that collide in tables of a power of two", write, func(p *dissect.Packet, n uint64) { p.DestQP = uint32(n<<14|n>>10)&0xFFFFFF | 2 }, false},
		{"spoofed hosts", write, func(p *dissect.Packet, n uint64) { spoof(&p.Src, n); spoof(&p.Dst, n*7) }, true},
		{"handshakes", request, func(p *dissect.Packet, n uint64) { spoof(&p.Src, n); spoof(&p.Dst, n*7) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := flows.New(flows.Options{MaxConnections: most})
			b := flows.Batch{Packets: make([]dissect.Packet, 1), Data: [][]byte{data[c.of]}, Marks: make([]flows.Mark, 1)}
			n := uint64(0)
			send := func(until uint64) uint64 {
				for ; n < until; n++ {
					p := &b.Packets[0]
					*p = packets[c.of]
					p.Number, p.Time = n+1, p.Time+int64(n)*1000
					c.change(p, n)
					tracker.Track(&b)
				}
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			empty := send(0)
			full := send(flood)
			later := send(3 * flood)
			t.Logf("%.1f MB, then %.1f MB", float64(full-empty)/1e6, float64(later-empty)/1e6)
			if later > full+full/10+1<<20 {
				t.Errorf("%d bytes after %d packets, %d after %d", full-empty, flood, later-empty, 3*flood)
			}
			tracker.Finish()
			s := tracker.Snapshot()
			if s.Packets != 3*flood || len(s.Connections) > most {
				t.Errorf("%d packets, %d connections where %d are the most", s.Packets, len(s.Connections), most)
			}
			if all := s.Evicted + uint64(len(s.Connections)); c.streams && all != 3*flood {
				t.Errorf("%d connections and %d evicted are not the %d that there were", len(s.Connections), s.Evicted, 3*flood)
			}
		})
	}
}
