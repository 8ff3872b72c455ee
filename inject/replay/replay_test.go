package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/testkit"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lossy loses some of what arrives.
type lossy struct {
	*port.Memory
	lose float64
	rand *rand.Rand
}

func (l *lossy) Receive(in []port.In) (int, error) {
	n, err := l.Memory.Receive(in)
	kept := 0
	for _, f := range in[:n] {
		if l.rand.Float64() >= l.lose {
			in[kept] = f
			kept++
		}
	}
	return kept, err
}

// target is who is connected to by CM: a region, and receives for all that comes.
type target struct {
	pd   *rnic.PD
	cq   *rnic.CQ
	mr   *rnic.MR
	sink *rnic.MR
	recv int
}

const sinkSize = 64 << 10

func newTarget(t *testing.T, h *peer.Host, memory, receives int) *target {
	g := &target{pd: h.Device().AllocPD(), recv: receives}
	must(t, h.Do(func() (err error) {
		if g.cq, err = h.Device().CreateCQ(receives + 16); err != nil {
			return err
		}
		if g.sink, err = g.pd.RegMR(make([]byte, sinkSize), rnic.LocalWrite); err != nil {
			return err
		}
		g.mr, err = g.pd.RegMR(make([]byte, memory), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead|rnic.RemoteAtomic)
		return err
	}))
	return g
}

func (g *target) PD() *rnic.PD { return g.pd }

func (g *target) Make(_ int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	qp, err := g.pd.CreateQP(rnic.QPInit{Type: t, SendCQ: g.cq, RecvCQ: g.cq, Cap: rnic.QPCap{MaxSendWR: 1, MaxRecvWR: g.recv}})
	return qp, connect.Memory{RKey: g.mr.RKey(), VA: g.mr.VA(), Length: uint64(g.mr.Len())}, err
}

func (g *target) Prepare(c *peer.Conn) error {
	for range g.recv {
		if err := c.QP.PostRecv(rnic.RecvWR{SGL: []rnic.SGE{g.sink.SGE(0, sinkSize)}}); err != nil {
			return err
		}
	}
	return nil
}

func (g *target) Traffic(connect.Traffic) error                                   { return nil }
func (g *target) Connected(*peer.Conn)                                            {}
func (g *target) Ready(int, *connect.Report) *connect.Report                      { return nil }
func (g *target) Results(r connect.PerftestResults) (own connect.PerftestResults) { return r }
func (g *target) Closed(error)                                                    {}

// replayed plays a file on a target of our own, and compares memory with what the capture says.
func replayed(t *testing.T, file string, qpn uint32, lose float64, misbehave ...string) (*Result, error) {
	t.Helper()
	src, err := captures.Open(file)
	must(t, err)
	defer src.Close()
	c, err := Read(src, qpn)
	must(t, err)
	regions, err := c.Regions()
	must(t, err)
	size := 8192
	for _, r := range regions {
		size += len(r.Before) + 8192
	}
	a, b := port.Pair(port.MemoryOptions{Slots: 2048})
	var hosts [2]*peer.Host
	for i, end := range []*port.Memory{a, b} {
		o := peer.Options{MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}, Patience: 20 * time.Second}
		if i == 1 {
			o.Device.Misbehave = misbehave
		}
		hosts[i], err = peer.New(&lossy{end, lose, rand.New(rand.NewPCG(3, uint64(i)))}, o)
		must(t, err)
		t.Cleanup(func() { hosts[i].Close() })
	}
	g := newTarget(t, hosts[1], size, 4096)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = hosts[1].Listen(ctx, peer.Listening{Accept: func(peer.Call) (peer.Party, error) { return g, nil }})
	must(t, err)
	res, err := Run(ctx, hosts[0], c, Options{Request: peer.Request{Way: peer.ByCM, Peer: netip.AddrPortFrom(hosts[1].Addrs()[0], connect.PerftestPort)}})
	if err != nil {
		return res, err
	}
	if res.Requests != len(c.Fresh) {
		t.Errorf("%d requests were sent, and the capture has %d", res.Requests, len(c.Fresh))
	}
	must(t, hosts[1].Do(func() error {
		for i, r := range regions {
			at := res.Regions[i].At - g.mr.VA()
			if got := g.mr.Bytes()[at : at+uint64(len(r.After))]; !bytes.Equal(got, r.After) && len(misbehave) == 0 {
				for k := range got {
					if got[k] != r.After[k] {
						return fmt.Errorf("memory of rkey %#x, byte %d: %#02x, and the capture says %#02x", r.RKey, k, got[k], r.After[k])
					}
				}
			}
		}
		return nil
	}))
	return res, nil
}

// What soft-RoCE was asked for is asked of our RNIC: memory is then what it was there, and so are the answers.
func TestReplayOfSoftRoCE(t *testing.T) {
	dir := testkit.RXE(t)
	for _, c := range []struct {
		file string
		lose float64
	}{
		{"write_bw_rc_1025.pcap", 0},
		{"read_bw_rc_10000.pcap", 0},
		{"send_bw_rc_5001.pcap", 0},
		{"atomic_bw_cmp_and_swap.pcap", 0},
		{"tool_imm.pcap", 0},
		{"tool_sizes.pcap", 0},
		{"tool_psn_wrap.pcap", 0},
		{"tool_mtu256.pcap", 0},
		{"tool_atomics.pcap", 0},
		{"vlan_write_bw.pcap", 0},
		{"tool_sizes.pcap", 0.02},
		{"read_bw_rc_10000.pcap", 0.02},
		{"tool_atomics.pcap", 0.02},
	} {
		t.Run(fmt.Sprint(c.file, " losing ", c.lose), func(t *testing.T) {
			file := filepath.Join(dir, c.file)
			for _, qpn := range askedFor(t, file) {
				res, err := replayed(t, file, qpn, c.lose)
				must(t, err)
				if res.Differing > 0 {
					t.Errorf("%d answers differ, the first: %+v", res.Differing, res.Differences[0])
				}
				if (c.lose > 0) != (res.SentAgain > 0) && c.lose == 0 {
					t.Errorf("%d packets were sent again", res.SentAgain)
				}
			}
		})
	}
}

// askedFor lists the queue pairs of a capture that are asked.
func askedFor(t *testing.T, file string) (all []uint32) {
	seen := map[uint32]bool{}
	var d dissect.Decoder
	for _, f := range testkit.ReadCapture(t, file) {
		var p dissect.Packet
		if d.Decode(f.Link, f.Data, f.WireLen, &p); p.Proto == dissect.ProtoRoCEv2 && p.Op().Transport == dissect.RC && p.Op().Role == dissect.Request && !seen[p.DestQP] {
			seen[p.DestQP] = true
			all = append(all, p.DestQP)
		}
	}
	return all
}

// A device that damages what it answers is found by the capture of one that does not.
func TestReplayFindsDifferences(t *testing.T) {
	file := filepath.Join(testkit.RXE(t), "tool_atomics.pcap")
	res, err := replayed(t, file, askedFor(t, file)[0], 0, "atomic-empty")
	must(t, err)
	if res.Differing == 0 || res.Differences[0].What != "value before" || res.Differences[0].Live != "0x0" {
		t.Errorf("%+v", res)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := testkit.RXE(t)
	for _, c := range []struct {
		file string
		qpn  uint32
		want error
		says string
	}{
		{"send_bw_rc_bidir.pcap", 0, ErrMany, "requests)"},
		{"write_bw_rc_1.pcap", 0x777777, ErrNone, "0x777777"},
		{"pingpong_ud.pcap", 0, ErrNone, "RC"},
	} {
		src, err := captures.Open(filepath.Join(dir, c.file))
		must(t, err)
		_, err = Read(src, c.qpn)
		src.Close()
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.file, err)
		}
	}
}
