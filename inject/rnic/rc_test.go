package rnic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// ok fails the test unless the completions are these, of success.
func wantDone(t *testing.T, got []Completion, want ...Completion) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d completions, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		g := got[i]
		g.QPN, g.Src = 0, dissect.Addr{}
		if g != want[i] {
			t.Errorf("completion %d is %+v, want %+v", i, g, want[i])
		}
	}
}

func TestWriteReadSendAreCarriedOut(t *testing.T) {
	for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
		for _, size := range []int{0, 1, 2, 3, 4, 5, mtu - 1, mtu, mtu + 1, 3*mtu + 3, 5 * mtu} {
			t.Run(fmt.Sprintf("mtu %d, %d bytes", mtu, size), func(t *testing.T) {
				l := newLab(t, labOptions{ipv6: size%2 == 1})
				q := l.connect(pair{mtu: mtu, psn: [2]dissect.PSN{0xFFFFFE, 0x123456}})
				a, b := l.region(0, size+64), l.region(1, size+64)
				want := bytes.Clone(b.Bytes())

				must(t, q[0].PostSend(SendWR{ID: 1, Op: OpWrite, Flags: Signaled, SGL: []SGE{a.SGE(8, size)}, RemoteVA: b.VA() + 5, RKey: b.RKey()}))
				l.settle()
				wantDone(t, l.taken(0), Completion{ID: 1, Op: CompWrite})
				wantDone(t, l.taken(1))
				copy(want[5:], a.Bytes()[8:8+size])
				if !bytes.Equal(b.Bytes(), want) {
					t.Error("WRITE: memory is not what was written")
				}

				into := l.region(0, size+8)
				canary := bytes.Clone(into.Bytes())
				must(t, q[0].PostSend(SendWR{ID: 2, Op: OpRead, Flags: Signaled, SGL: []SGE{into.SGE(3, size)}, RemoteVA: b.VA() + 1, RKey: b.RKey()}))
				l.settle()
				wantDone(t, l.taken(0), Completion{ID: 2, Op: CompRead, ByteLen: uint32(size)})
				copy(canary[3:], want[1:1+size])
				if !bytes.Equal(into.Bytes(), canary) {
					t.Error("READ: memory is not what was read")
				}

				must(t, q[1].PostRecv(RecvWR{ID: 7, SGL: []SGE{b.SGE(0, size/2), b.SGE(size/2, size-size/2)}}))
				must(t, q[0].PostSend(SendWR{ID: 3, Op: OpSendImm, Flags: Signaled | Solicited, Imm: 0xCAFE, SGL: []SGE{a.SGE(2, size)}}))
				l.settle()
				wantDone(t, l.taken(0), Completion{ID: 3, Op: CompSend})
				wantDone(t, l.taken(1), Completion{ID: 7, Op: CompRecv, ByteLen: uint32(size), Imm: 0xCAFE, Flags: HasImm | IsSolicited})
				copy(want, a.Bytes()[2:2+size])
				if !bytes.Equal(b.Bytes(), want) {
					t.Error("SEND: memory is not what was sent")
				}
				l.healthy()
			})
		}
	}
}

func TestAtomicsAreCarriedOut(t *testing.T) {
	l := newLab(t, labOptions{})
	q := l.connect(pair{})
	a, b := l.region(0, 64), l.region(1, 64)
	word := func(mr *MR, at int) uint64 { return binary.NativeEndian.Uint64(mr.Bytes()[at:]) }
	binary.NativeEndian.PutUint64(b.Bytes()[16:], 40)
	post := func(id uint64, op Op, compareAdd, swap uint64) {
		t.Helper()
		must(t, q[0].PostSend(SendWR{
			ID: id, Op: op, Flags: Signaled, SGL: []SGE{a.SGE(8, 8)}, RemoteVA: b.VA() + 16, RKey: b.RKey(), CompareAdd: compareAdd, Swap: swap,
		}))
		l.settle()
	}
	post(1, OpFetchAdd, 2, 0)
	if got := [2]uint64{word(a, 8), word(b, 16)}; got != [2]uint64{40, 42} {
		t.Errorf("fetch and add: before and after %v", got)
	}
	post(2, OpCompareSwap, 41, 99)
	if got := [2]uint64{word(a, 8), word(b, 16)}; got != [2]uint64{42, 42} {
		t.Errorf("compare and swap that differs: before and after %v", got)
	}
	post(3, OpCompareSwap, 42, 0x0102030405060708)
	if got := [2]uint64{word(a, 8), word(b, 16)}; got != [2]uint64{42, 0x0102030405060708} {
		t.Errorf("compare and swap that fits: before and after %x", got)
	}
	wantDone(t, l.taken(0),
		Completion{ID: 1, Op: CompFetchAdd, ByteLen: 8}, Completion{ID: 2, Op: CompCompareSwap, ByteLen: 8}, Completion{ID: 3, Op: CompCompareSwap, ByteLen: 8})
	l.healthy()
}
