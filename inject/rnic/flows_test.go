package rnic

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// One thing is done to an exchange of two devices, and flows, which watches, must say that and nothing else. Neither of the two knows
// the other's state machine, so they check each other.
func TestFlowsTellsWhatWasDone(t *testing.T) {
	const request, answer = 0, 1
	behind, before := fate{lost: true}, fate{unseen: true}
	for _, c := range []struct {
		what string
		op   Op
		from int // whose frames
		nth  int
		does fate
		want []string
	}{
		{"nothing", OpWrite, request, -1, fate{}, nil},
		{"a WRITE's second packet is lost behind the tap", OpWrite, request, 1, behind, []string{"lost_behind_tap 1", "retransmission 1"}},
		{"a WRITE's second packet is lost before the tap", OpWrite, request, 1, before, []string{"lost_before_tap 1", "psn_gap 1", "retransmission 1"}},
		{"a WRITE's first packet is lost", OpWrite, request, 0, behind, []string{"lost_behind_tap 1", "retransmission 1"}},
		{"a WRITE's last packet is lost", OpWrite, request, 4, behind, []string{"timeout 1"}},
		{"the ACK is lost behind the tap", OpWrite, answer, 0, behind, []string{"resent_after_ack 1"}},
		{"the ACK is lost before the tap", OpWrite, answer, 0, before, []string{"timeout 1"}},
		{"a SEND's packet is late", OpSend, request, 1, fate{late: 5000}, []string{"lost_behind_tap 1", "retransmission 1"}},
		{"a READ's request is lost", OpRead, request, 0, behind, []string{"timeout 1"}},
		{"a READ response is lost behind the tap", OpRead, answer, 1, behind, []string{"response_lost_behind_tap 1"}},
		{"a READ response is lost before the tap", OpRead, answer, 1, before, []string{"response_gap 1", "response_lost_before_tap 1"}},
		{"an atomic's answer is lost", OpFetchAdd, answer, 0, behind, []string{"resent_after_ack 1"}},
		{"a bit of a WRITE is wrong", OpWrite, request, 1, fate{change: func(f []byte) { f[100] ^= 1 }}, []string{"bad_icrc 1", "lost_before_tap 1", "psn_gap 1", "retransmission 1"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := newLab(t, labOptions{})
			q := l.connect(pair{retry: 7, rnr: 7, timeout: 9})
			l.acquaint(q)
			l.fault = func(from, n int, _ *dissect.Packet, _ []byte) fate {
				if from == c.from && n == c.nth {
					return c.does
				}
				return fate{}
			}
			size := 5000
			if c.op == OpFetchAdd {
				size = 8
			}
			a, b := l.region(0, size), l.region(1, size)
			remote := bytes.Clone(b.Bytes())
			must(t, q[1].PostRecv(RecvWR{SGL: []SGE{b.SGE(0, size)}}))
			must(t, q[0].PostSend(SendWR{ID: 1, Op: c.op, Flags: Signaled, SGL: []SGE{a.SGE(0, size)}, RemoteVA: b.VA(), RKey: b.RKey(), CompareAdd: 1}))
			l.settle()
			if got := l.taken(0); len(got) != 1 || got[0].Status != Success {
				t.Fatalf("completions %+v", got)
			}
			if c.op != OpFetchAdd && !bytes.Equal(a.Bytes(), b.Bytes()) || c.op == OpFetchAdd && b.Bytes()[0] != remote[0]+1 {
				t.Error("other data arrived")
			}
			var got []string
			for _, f := range l.watched().Findings {
				got = append(got, fmt.Sprint(f.ID, " ", f.Count))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("flows finds %q, want %q\n%s", got, c.want, l.story())
			}
		})
	}
}

// acquaint lets the two sides talk for a while, so that flows knows who belongs to whom, and forgets how much was sent.
func (l *lab) acquaint(q [2]*QP) {
	l.t.Helper()
	for i := range 60 {
		near, far := l.region(i%2, 100), l.region(1-i%2, 100)
		for _, op := range []Op{OpWrite, OpRead} {
			must(l.t, q[i%2].PostSend(SendWR{Op: op, SGL: []SGE{near.SGE(0, 100)}, RemoteVA: far.VA(), RKey: far.RKey()}))
		}
		l.settle()
	}
	l.sent = [2]int{}
}

// What flows counts of a healthy exchange is what the devices counted.
func TestFlowsCountsWhatTheDevicesCount(t *testing.T) {
	l := newLab(t, labOptions{})
	q := l.connect(pair{retry: 7, rnr: 7, mtu: 512})
	a, b := l.region(0, 4000), l.region(1, 4000)
	for i := range 40 {
		op := []Op{OpWrite, OpRead, OpSend, OpFetchAdd, OpWriteImm}[i%5]
		n := 97 * i
		if op == OpFetchAdd {
			n = 8
		}
		must(t, q[1].PostRecv(RecvWR{SGL: []SGE{b.SGE(0, 4000)}}))
		must(t, q[0].PostSend(SendWR{Op: op, SGL: []SGE{a.SGE(0, n)}, RemoteVA: b.VA(), RKey: b.RKey()}))
	}
	l.settle()
	l.healthy()
	s := l.watched()
	if len(s.Connections) != 1 {
		t.Fatalf("%d connections", len(s.Connections))
	}
	c := &s.Connections[0]
	dev, far := l.sides[0].dev.Counters(), l.sides[1].dev.Counters()
	d := flows.AToB
	if c.A.QPN != q[0].QPN() {
		d = flows.BToA
	}
	st := &c.Streams[d]
	for _, m := range []struct {
		what string
		got  flows.MessageCounts
		want uint64
	}{
		{"send", st.Messages[flows.OpSend], far.RxSendRequests},
		{"write", st.Messages[flows.OpWrite], far.RxWriteRequests},
		{"read", st.Messages[flows.OpRead], far.RxReadRequests},
		{"fetch and add", st.Messages[flows.OpFetchAdd], far.RxAtomicRequests},
	} {
		if m.got.Count != m.want || m.got.Completed != m.want || m.want == 0 {
			t.Errorf("%s: flows counts %+v, the device %d", m.what, m.got, m.want)
		}
	}
	if s.Packets != dev.TxFrames+far.TxFrames {
		t.Errorf("flows counts %d packets, the devices %d and %d", s.Packets, dev.TxFrames, far.TxFrames)
	}
}
