package rnic

import (
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// asked is a request packet, in what both sides must agree on.
type asked struct {
	op            dissect.Opcode
	psn           dissect.PSN
	va            uint64
	rkey          uint32
	length        uint32
	payload       int
	imm           uint32
	swap, compare uint64
}

func askedBy(p *dissect.Packet) asked {
	a := asked{op: p.Opcode, psn: p.PSN, payload: p.PayloadLen()}
	if p.Has(dissect.LayerRETH) {
		a.va, a.rkey, a.length = p.VA, p.RKey, p.DMALen
	}
	if p.Has(dissect.LayerAtomicETH) {
		a.va, a.rkey, a.swap = p.VA, p.RKey, p.Swap
		if p.Op().Family == dissect.CompareSwap {
			a.compare = p.Compare // of fetch and add it means nothing
		}
	}
	if p.Op().Flags&(dissect.WithImm|dissect.WithInv) != 0 {
		a.imm = p.Imm
	}
	return a
}

// Our requester, given the work of Linux' soft-RoCE, must send what that one sent, and take its peer's answers.
func TestRequestsAsSoftRoCEDid(t *testing.T) {
	dir := testkit.RXE(t)
	for _, name := range []string{
		"write_bw_rc_1.pcap", "write_bw_rc_1024.pcap", "write_bw_rc_1025.pcap", "read_bw_rc_1.pcap", "read_bw_rc_3.pcap",
		"read_bw_rc_10000.pcap", "send_bw_rc_1.pcap", "send_bw_rc_3.pcap", "send_bw_rc_5001.pcap", "atomic_bw_cmp_and_swap.pcap",
		"atomic_bw_fetch_and_add.pcap", "tool_imm.pcap", "tool_sizes.pcap", "tool_write_1m.pcap", "tool_psn_wrap.pcap", "tool_mtu256.pcap",
		"vlan_write_bw.pcap",
	} {
		t.Run(name, func(t *testing.T) {
			frames := testkit.ReadCapture(t, filepath.Join(dir, name))
			requestAgain(t, frames)
		})
	}
}

// requestAgain lets a device do the work of a capture's first requester.
func requestAgain(t *testing.T, frames []testkit.Frame) {
	dec := dissect.Decoder{}
	var first dissect.Packet
	var firstData []byte
	var want []asked
	var answers [][]byte
	var work []SendWR
	mtu, ownQP := 1024, uint32(0)
	for _, f := range frames {
		var p dissect.Packet
		dec.Decode(f.Link, f.Data, f.WireLen, &p)
		if p.Proto != dissect.ProtoRoCEv2 || p.Op().Transport != dissect.RC {
			continue
		}
		op := p.Op()
		switch {
		case op.Role == dissect.Request && (firstData == nil || p.Src == first.Src && p.DestQP == first.DestQP):
			if firstData == nil {
				first, firstData = p, f.Data
			}
			a := askedBy(&p)
			want = append(want, a)
			if op.Position == dissect.First {
				mtu = a.payload
			}
			if op.Starts() {
				work = append(work, SendWR{Op: opOf(op), RemoteVA: a.va, RKey: a.rkey, CompareAdd: a.compare, Swap: a.swap})
			}
			wr := &work[len(work)-1]
			if op.Ends() {
				wr.Op, wr.Imm = opOf(op), a.imm
			}
			if wr.Op == OpFetchAdd {
				wr.CompareAdd = a.swap
			}
			n := uint32(a.payload)
			if wr.Op == OpRead {
				n = a.length
			} else if wr.Op >= OpCompareSwap {
				n = 8
			}
			if len(wr.SGL) == 0 {
				wr.SGL = []SGE{{}}
			}
			wr.SGL[0].Length += n
		case op.Role == dissect.Response && firstData != nil && p.Dst == first.Src && p.Src == first.Dst:
			ownQP = p.DestQP
			answers = append(answers, f.Data)
			if p.Opcode == dissect.OpRCReadResponseFirst {
				mtu = p.PayloadLen()
			}
		}
	}
	now := start
	clock := func() int64 { return now }
	near, far := port.Pair(port.MemoryOptions{Slots: 4096, MaxFrame: 4300, Clock: clock})
	dev, err := Open(near, Options{MAC: [6]byte(firstData[6:12]), Addrs: netips(first.Src), VLAN: uint16(max(first.VLAN(), 0))})
	must(t, err)
	r := &rig{t: t, now: now, dev: dev, far: far, pd: dev.AllocPD()}
	r.cq, err = dev.CreateCQ(8192)
	must(t, err)
	r.mr, err = r.pd.RegMR(make([]byte, 4<<20), LocalWrite)
	must(t, err)
	r.q, err = r.pd.CreateQP(QPInit{
		Type: dissect.RC, SendCQ: r.cq, RecvCQ: r.cq, QPN: ownQP, SigAll: true, Cap: QPCap{MaxSendWR: 4096}, Policy: Policy{Window: 4096},
	})
	must(t, err)
	for to := INIT; to <= RTS; to++ {
		n, _ := step(dissect.RC, to-1, to)
		must(t, r.q.Modify(Attr{
			State: to, Port: 1, PathMTU: mtu, DestQPN: first.DestQP, SQPSN: first.PSN, MaxDestRdAtomic: 1, MaxRdAtomic: 16, RetryCnt: 7, RNRRetry: 7,
			AH: AHAttr{Dst: first.Dst.Netip(), DstMAC: [6]byte(firstData[:6])},
		}, AttrState|n.must))
	}
	for i := range work {
		work[i].SGL[0] = r.mr.SGE(0, int(work[i].SGL[0].Length))
	}
	must(t, r.q.PostSend(work...))
	var got []asked
	hear := func() {
		r.step()
		for _, h := range r.answers() {
			got = append(got, askedBy(&h.Packet))
		}
	}
	hear()
	for _, f := range answers {
		r.send(f)
		hear()
	}
	if len(got) != len(want) {
		t.Fatalf("%d request packets, the capture has %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("request packet %d is %+v, in the capture %+v", i, got[i], want[i])
		}
	}
	done := make([]Completion, len(work)+1)
	n := r.cq.Poll(done)
	for _, c := range done[:n] {
		if c.Status != Success {
			t.Fatalf("completion %+v", c)
		}
	}
	if n != len(work) {
		t.Errorf("%d of %d messages were completed", n, len(work))
	}
	t.Logf("%d messages, %d packets agree, %d answers taken", len(work), len(want), len(answers))
}

// opOf is the operation of a packet that ends its message.
func opOf(info *dissect.OpInfo) Op {
	for op := range numOps {
		if o := &operations[op]; o.family == info.Family && o.flags == info.Flags&(dissect.WithImm|dissect.WithInv) {
			return op
		}
	}
	return numOps
}
