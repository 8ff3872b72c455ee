package rnic

import (
	"bytes"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

func (r *rig) datagram(n int, h hdr) []byte {
	if h.qkey == 0 {
		h.qkey = 0x1234
	}
	h.data = pattern(n)
	return r.packet(dissect.OpUDSendOnlyImm, 77, h)
}

func TestDatagramIsDelivered(t *testing.T) {
	r := newRig(t, dissect.UD, nil)
	r.recv(1, 40+100)
	f := r.datagram(100, hdr{imm: 5, se: true})
	r.send(f)
	r.said()
	got := r.polled()
	want := Completion{
		ID: 100, Op: CompRecv, Flags: HasGRH | HasImm | IsSolicited, QPN: r.q.QPN(), ByteLen: 140, Imm: 5, SrcQP: peerQPN,
		Src: dissect.AddrFrom(r.outer.Src),
	}
	if len(got) != 1 || got[0] != want {
		t.Fatalf("completions %+v, want %+v", got, want)
	}
	buf := r.mr.Bytes()[4096:]
	if !bytes.Equal(buf[20:40], f[14:34]) {
		t.Error("the second half of the first 40 bytes is not the IPv4 header")
	}
	if !bytes.Equal(buf[40:140], pattern(100)) {
		t.Error("other data")
	}
}

// DETH-01 to 04: what is dropped takes no receive.
func TestDatagramsThatAreDropped(t *testing.T) {
	r := newRig(t, dissect.UD, func(*QPInit, *Attr) {})
	r.recv(1, 40+100)
	r.send(
		r.datagram(4, hdr{qkey: 9}),
		r.datagram(101, hdr{}),   // longer than the receive
		r.packet(0x60, 0, hdr{}), // UD has no FIRST
	)
	r.said()
	r.ended()
	r.send(r.datagram(100, hdr{}))
	r.ended(Success)
	r.send(r.datagram(100, hdr{})) // no receive
	r.said()
	d := r.dev.Counters().Dropped
	if d[DropQKey] != 1 || d[DropMessage] != 2 || d[DropNoReceive] != 1 {
		t.Errorf("dropped %v", d)
	}
}

func TestDatagramOnTheWire(t *testing.T) {
	r := newRig(t, dissect.UD, nil)
	ah := r.handle()
	sgl := []SGE{r.mr.SGE(0, 7)}
	must(t, r.q.PostSend(
		SendWR{ID: 1, Op: OpSend, Flags: Signaled, SGL: sgl, AH: ah, DstQP: 0x42, QKey: 0x99},
		SendWR{ID: 2, Op: OpSendImm, Flags: Signaled, Imm: 3, SGL: sgl, AH: ah, DstQP: 0x43, QKey: 0x80000000},
	))
	r.step()
	r.ended(Success, Success)
	got := r.answers()
	if g := got[0]; g.Opcode != dissect.OpUDSendOnly || g.DestQP != 0x42 || g.QKey != 0x99 || g.SrcQP != r.q.QPN() || g.AckReq || g.PSN != ownPSN || g.PayloadLen() != 7 {
		t.Errorf("%v to %#x, Q_Key %#x from %#x", g.Opcode, g.DestQP, g.QKey, g.SrcQP)
	}
	if g := got[1]; g.Opcode != dissect.OpUDSendOnlyImm || g.DestQP != 0x43 || g.QKey != 0x1234 || g.Imm != 3 || g.PSN != ownPSN+1 {
		t.Errorf("%v to %#x, Q_Key %#x", g.Opcode, g.DestQP, g.QKey)
	}
}

// UC-01, 02: a message that lost a packet is gone, the next starts clean, and its receive work request serves it.
func TestUCDropsWholeMessages(t *testing.T) {
	const first, mid, last, only, wfirst, wlast = 0x20, 0x21, 0x22, 0x24, 0x26, 0x28
	type packet struct {
		op  dissect.Opcode
		psn int
		h   hdr
	}
	full := bytes.Repeat([]byte{1}, rigMTU)
	for _, c := range []struct {
		what string
		send []packet
		want []uint32 // bytes of what is received
	}{
		{"nothing lost", []packet{{first, 0, hdr{data: full}}, {last, 1, hdr{data: full[:5]}}}, []uint32{rigMTU + 5}},
		{"FIRST lost", []packet{{mid, 1, hdr{data: full}}, {last, 2, hdr{data: full[:5]}}, {only, 3, hdr{data: full[:3]}}}, []uint32{3}},
		{"MIDDLE lost", []packet{{first, 0, hdr{data: full}}, {last, 2, hdr{data: full[:5]}}, {only, 3, hdr{data: full[:3]}}}, []uint32{3}},
		{"LAST lost", []packet{{first, 0, hdr{data: full}}, {only, 2, hdr{data: full[:3]}}}, []uint32{3}},
		{"LAST lost, and then a long one", []packet{{first, 0, hdr{data: full}}, {first, 2, hdr{data: full}}, {last, 3, hdr{data: full[:1]}}}, []uint32{rigMTU + 1}},
		{"longer than the receive", []packet{{first, 0, hdr{data: full}}, {mid, 1, hdr{data: full}}, {last, 2, hdr{data: full}}, {only, 3, hdr{data: full[:3]}}}, []uint32{3}},
		{"WRITE with a bad key", []packet{{wfirst, 0, hdr{data: full, length: 300, va: 1, rkey: 2}}, {wlast, 1, hdr{data: full[:300-rigMTU]}}, {only, 2, hdr{data: full[:3]}}}, []uint32{3}},
		{"PSN far away", []packet{{only, 0x400000, hdr{data: full[:2]}}, {only, 0x400001, hdr{data: full[:3]}}}, []uint32{2, 3}},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t, dissect.UC, nil)
			r.recv(3, 2*rigMTU)
			for _, p := range c.send {
				r.send(r.packet(p.op, dissect.PSN(rigPSN).Add(p.psn), p.h))
			}
			r.said()
			got := r.polled()
			if len(got) != len(c.want) {
				t.Fatalf("%d messages arrived: %+v", len(got), got)
			}
			for i, n := range c.want {
				if got[i].ID != uint64(100+i) || got[i].ByteLen != n || got[i].Status != Success {
					t.Errorf("receive %d: %+v, want %d bytes", i, got[i], n)
				}
			}
			if r.q.State() != RTS {
				t.Errorf("the queue pair is %v", r.q.State())
			}
		})
	}
}
