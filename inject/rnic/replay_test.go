package rnic

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// Captures of Linux' soft-RoCE, in which one queue pair asks and the other answers, and nothing is lost: our responder, given the
// requests, must answer as that one did, packet for packet.
var replayed = []string{
	"write_bw_rc_1.pcap", "write_bw_rc_1024.pcap", "write_bw_rc_1025.pcap", "read_bw_rc_1.pcap", "read_bw_rc_3.pcap", "read_bw_rc_10000.pcap",
	"send_bw_rc_1.pcap", "send_bw_rc_3.pcap", "send_bw_rc_5001.pcap", "send_bw_rc_bidir.pcap", "atomic_bw_cmp_and_swap.pcap",
	"atomic_bw_fetch_and_add.pcap", "tool_imm.pcap", "tool_sizes.pcap", "tool_write_1m.pcap", "tool_psn_wrap.pcap", "tool_mtu256.pcap",
	"tool_atomics.pcap", "pingpong_rc.pcap", "pingpong_rc_ipv6.pcap", "vlan_write_bw.pcap", "rping.pcap", "rping_ipv6.pcap",
}

func TestRespondsAsSoftRoCEDid(t *testing.T) {
	dir := testkit.RXE(t)
	for _, name := range replayed {
		t.Run(name, func(t *testing.T) {
			frames := testkit.ReadCapture(t, filepath.Join(dir, name))
			dec := dissect.Decoder{CheckICRC: true}
			packets := make([]dissect.Packet, len(frames))
			type end struct {
				addr dissect.Addr
				qpn  uint32
			}
			responders := map[end]bool{}
			for i, f := range frames {
				p := &packets[i]
				dec.Decode(f.Link, f.Data, f.WireLen, p)
				if p.Proto == dissect.ProtoRoCEv2 && p.Op().Transport == dissect.RC && p.Op().Role == dissect.Request {
					responders[end{p.Dst, p.DestQP}] = true
				}
			}
			if len(responders) == 0 {
				t.Fatal("no RC requests")
			}
			for r := range responders {
				replay(t, frames, packets, r.addr, r.qpn)
			}
		})
	}
}

// replay gives a device the requests to one queue pair, and compares its answers with those in the capture.
func replay(t *testing.T, frames []testkit.Frame, packets []dissect.Packet, addr dissect.Addr, qpn uint32) {
	var first *dissect.Packet
	var data []byte
	type span struct{ lo, hi uint64 }
	regions := map[uint32]span{} // by key
	mtu, peerQP := 0, uint32(0)
	var want []say
	for i := range packets {
		p := &packets[i]
		if p.Proto != dissect.ProtoRoCEv2 || p.Op().Transport != dissect.RC {
			continue
		}
		switch {
		case p.Op().Role == dissect.Request && p.Dst == addr && p.DestQP == qpn:
			if first == nil {
				first, data = p, frames[i].Data
			}
			if p.Has(dissect.LayerRETH) || p.Has(dissect.LayerAtomicETH) {
				n := uint64(p.DMALen)
				if p.Has(dissect.LayerAtomicETH) {
					n = 8
				}
				s, ok := regions[p.RKey]
				if !ok {
					s = span{p.VA, p.VA + n}
				}
				regions[p.RKey] = span{min(s.lo, p.VA), max(s.hi, p.VA+n)}
			}
			if p.Op().Position == dissect.First {
				mtu = p.PayloadLen()
			}
		case p.Op().Role == dissect.Response && p.Src == addr && first != nil && p.Dst == first.Src:
			peerQP = p.DestQP
			s := say{op: p.Opcode, psn: p.PSN}
			if p.Has(dissect.LayerAETH) {
				s.syndrome, s.msn = p.Syndrome, p.MSN
			}
			want = append(want, s)
			if p.Opcode == dissect.OpRCReadResponseFirst {
				mtu = p.PayloadLen()
			}
		}
	}
	if mtu == 0 {
		mtu = 1024
	}
	near, far := port.Pair(port.MemoryOptions{Slots: 2048, MaxFrame: 4300, Clock: func() int64 { return start }})
	dev, err := Open(near, Options{MAC: [6]byte(data[:6]), Addrs: netips(addr), VLAN: uint16(max(first.VLAN(), 0)), Clock: func() int64 { return start }})
	must(t, err)
	pd := dev.AllocPD()
	cq, err := dev.CreateCQ(maxQueue)
	must(t, err)
	const recvs, most = 4096, 64 << 10
	into, err := pd.RegMR(make([]byte, most), LocalWrite)
	must(t, err)
	q, err := pd.CreateQP(QPInit{Type: dissect.RC, SendCQ: cq, RecvCQ: cq, QPN: qpn, Cap: QPCap{MaxRecvWR: recvs}})
	must(t, err)
	for rkey, s := range regions {
		mr, err := pd.RegMRAt(make([]byte, s.hi-s.lo), LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic, s.lo)
		must(t, err)
		if at := int(rkey >> keyBits); at >= len(dev.regions.all()) { // the key that the capture's responder gave
			dev.regions.grow(at + 1)
		}
		mr.key = rkey
		dev.regions.all()[rkey>>keyBits].Store(mr)
	}
	rig := &rig{t: t, now: start, dev: dev, far: far, pd: pd, cq: cq, q: q}
	for to := INIT; to <= RTS; to++ {
		n, _ := step(dissect.RC, to-1, to)
		must(t, q.Modify(Attr{
			State: to, Port: 1, Access: RemoteWrite | RemoteRead | RemoteAtomic, PathMTU: mtu, DestQPN: peerQP, RQPSN: first.PSN,
			MaxDestRdAtomic: 128, MaxRdAtomic: 1, Timeout: 14, AH: AHAttr{Dst: first.Src.Netip(), DstMAC: [6]byte(data[6:12])},
		}, AttrState|n.must))
	}
	for range recvs {
		must(t, q.PostRecv(RecvWR{SGL: []SGE{into.SGE(0, most)}}))
	}
	var got []say
	hear := func() {
		for _, h := range rig.answers() {
			s := say{op: h.Opcode, psn: h.PSN}
			if h.Has(dissect.LayerAETH) {
				s.syndrome, s.msn = h.Syndrome, h.MSN
			}
			if h.DestQP != peerQP {
				t.Fatalf("an answer to %#x", h.DestQP)
			}
			got = append(got, s)
		}
	}
	for i := range packets {
		if p := &packets[i]; p.Proto == dissect.ProtoRoCEv2 && p.Dst == addr && p.DestQP == qpn && p.Op().Role == dissect.Request {
			rig.send(frames[i].Data)
			hear()
		}
	}
	// soft-RoCE acknowledges every packet of a duplicate, we those with AckReq; what the capture ended before is missing there.
	got, want = slices.Compact(got), slices.Compact(want)
	if len(want) > len(got) {
		t.Fatalf("%d answers, the capture has %d; dropped %v", len(got), len(want), dev.Counters().Dropped)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("answer %d is %+v, in the capture %+v", i, got[i], want[i])
		}
	}
	if len(got) > len(want)+1 {
		t.Fatalf("%d answers, the capture has %d", len(got), len(want))
	}
	t.Logf("%d answers agree", len(want))
}
