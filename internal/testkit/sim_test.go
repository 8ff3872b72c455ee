package testkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rocescope/rocescope/dissect"
)

// checkSim holds for any conversation in which all work requests can be done: each is carried out once, and what the log
// says of the packets is what the capture shows.
func checkSim(t interface {
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, o SimOptions, r *SimResult,
) {
	for side, ms := range r.Messages {
		for i, m := range ms {
			if m.Status != SimDone || m.Executed() != 1 || m.Completed == 0 || m.FirstSent == 0 {
				t.Errorf("message %d of %d: %+v", i, side, m)
			}
			if i > 0 && m.Completed < ms[i-1].Completed {
				t.Errorf("message %d of %d is done before the one in front of it", i, side)
			}
		}
	}
	packets, _ := Decode(r.Frames)
	seen := map[int]int{}
	for i := range packets {
		p := &packets[i]
		truth := &r.Packets[r.Truth[i]]
		seen[r.Truth[i]]++
		requester := truth.From
		if !truth.Request {
			requester ^= 1
		}
		start := []dissect.PSN{o.PSNA, o.PSNB}[requester]
		if p.Opcode != truth.Op || p.PSN != start.Add(truth.Offset) || p.AckReq != truth.AckReq || len(p.Problems()) != 0 {
			t.Fatalf("frame %d is %v, PSN %d, problems %v, truth %+v", i+1, p.Opcode, p.PSN, p.Problems(), truth)
		}
		damaged := truth.Fault != nil && truth.Fault.Kind == Corrupt && !truth.Fault.Behind
		if (p.ICRC == dissect.ICRCInvalid) != damaged {
			t.Errorf("frame %d: ICRC %v, fault %+v", i+1, p.ICRC, truth.Fault)
		}
		if i > 0 && p.Time < packets[i-1].Time {
			t.Errorf("frame %d goes back in time", i+1)
		}
	}
	for i := range r.Packets {
		p := &r.Packets[i]
		frames, arrived := 1, 1
		if f := p.Fault; f != nil {
			switch {
			case f.Kind == Lose && !f.Behind:
				frames, arrived = 0, 0
			case f.Kind == Lose, f.Kind == Corrupt:
				arrived = 0
			case f.Kind == Duplicate && !f.Behind:
				frames, arrived = 2, 2
			case f.Kind == Duplicate:
				arrived = 2
			case f.Kind == Miss:
				frames = 0
			}
		}
		if len(p.Frames) != frames || seen[i] != frames || len(p.Arrived) != arrived {
			t.Errorf("packet %d, fault %+v: frames %v, arrived %v", i, p.Fault, p.Frames, p.Arrived)
		}
	}
}

func TestSimHealthy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := SimGen().Draw(t, "conversation")
		r := Simulate(o)
		checkSim(t, o, r)
		for i, p := range r.Packets {
			if p.Round != 0 || p.Cause != SentFirst {
				t.Errorf("packet %d was sent again: %+v", i, p)
			}
		}
	})
}

func TestSimFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := SimGen().Draw(t, "conversation")
		// Fewer faults than retries: whatever they hit, all work gets done.
		o.Faults = FaultGen(o, 6, Lose, Duplicate, Reorder, Corrupt, Miss).Draw(t, "faults")
		o.Retries = 16
		for side := range o.Ops {
			for i := range o.Ops[side] {
				o.Ops[side][i].NotReady = max(0, rapid.IntRange(-3, 2).Draw(t, "not ready"))
			}
		}
		o.NAKBehind = rapid.Bool().Draw(t, "nak behind rnr")
		o.Patient = rapid.Bool().Draw(t, "patient")
		r := Simulate(o)
		checkSim(t, o, r)
		if again := Simulate(o); len(again.Frames) != len(r.Frames) || !slices.EqualFunc(again.Frames, r.Frames, func(a, b Frame) bool {
			return a.Time == b.Time && slices.Equal(a.Data, b.Data)
		}) {
			t.Errorf("the same options gave two captures")
		}
	})
}

// story writes what the tap saw, one packet a line: who, what, offset, and why where it was not the first time.
func story(r *SimResult) string {
	var b strings.Builder
	for _, i := range r.Truth {
		p := &r.Packets[i]
		name := strings.TrimPrefix(p.Op.Info().Name, "RC ")
		if p.Op == dissect.OpRCAcknowledge {
			name = p.Syndrome.String()
		}
		fmt.Fprintf(&b, "%c %s %d", "AB"[p.From], name, p.Offset)
		if p.Cause != SentFirst {
			fmt.Fprintf(&b, " (%s)", []string{"", "nak", "rnr", "timeout", "implied", "duplicate"}[p.Cause])
		}
		if p.Fault != nil {
			b.WriteString(" *")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestSimStories pins how the two ends react to a fault each, as the specification tells it.
func TestSimStories(t *testing.T) {
	write := func(n int) SimOp { return SimOp{Family: dissect.Write, Size: n * 1024} }
	read := func(n int) SimOp { return SimOp{Family: dissect.Read, Size: n * 1024} }
	for _, c := range []struct {
		name string
		o    SimOptions
		want string
	}{
		{
			"a lost WRITE packet is asked for by a NAK",
			SimOptions{Ops: [2][]SimOp{{write(4)}}, Faults: []SimFault{{From: A, Nth: 1, Kind: Lose, Behind: true}}},
			"A RDMA WRITE First 0\nA RDMA WRITE Middle 1 *\nA RDMA WRITE Middle 2\nA RDMA WRITE Last 3\nB NAK: PSN sequence error 1\n" +
				"A RDMA WRITE Middle 1 (nak)\nA RDMA WRITE Middle 2 (nak)\nA RDMA WRITE Last 3 (nak)\nB ACK 3\n",
		},
		{
			"a lost last packet is silence, then a time-out",
			SimOptions{Ops: [2][]SimOp{{write(2)}}, Faults: []SimFault{{From: A, Nth: 1, Kind: Lose}}},
			"A RDMA WRITE First 0\nA RDMA WRITE First 0 (timeout)\nA RDMA WRITE Last 1 (timeout)\nB ACK 1\n",
		},
		{
			"a lost ACK makes the requester repeat, and the responder acknowledge, what was done",
			SimOptions{Ops: [2][]SimOp{{write(1)}}, Faults: []SimFault{{From: B, Nth: 0, Kind: Lose, Behind: true}}},
			"A RDMA WRITE Only 0\nB ACK 0 *\nA RDMA WRITE Only 0 (timeout)\nB ACK 0 (duplicate)\n",
		},
		{
			"a lost READ response is asked for by a READ of the rest",
			SimOptions{Ops: [2][]SimOp{{read(3)}}, Faults: []SimFault{{From: B, Nth: 1, Kind: Lose, Behind: true}}},
			"A RDMA READ Request 0\nB RDMA READ Response First 0\nB RDMA READ Response Middle 1 *\nB RDMA READ Response Last 2\n" +
				"A RDMA READ Request 1 (implied)\nB RDMA READ Response First 1 (duplicate)\nB RDMA READ Response Last 2 (duplicate)\n",
		},
		{
			"an ACK behind a READ whose response was lost is an implied NAK of the READ",
			SimOptions{Ops: [2][]SimOp{{read(1), write(1)}}, Faults: []SimFault{{From: B, Nth: 0, Kind: Lose, Behind: true}}},
			"A RDMA READ Request 0\nA RDMA WRITE Only 1\nB RDMA READ Response Only 0 *\nB ACK 1\n" +
				"A RDMA READ Request 0 (implied)\nA RDMA WRITE Only 1 (implied)\nB RDMA READ Response Only 0 (duplicate)\nB ACK 1 (duplicate)\n",
		},
		{
			"an atomic whose answer was lost is answered again, not done again",
			SimOptions{Ops: [2][]SimOp{{{Family: dissect.FetchAdd}}}, Faults: []SimFault{{From: B, Nth: 0, Kind: Lose}}},
			"A Fetch Add 0\nA Fetch Add 0 (timeout)\nB ATOMIC Acknowledge 0 (duplicate)\n",
		},
		{
			"a SEND without receive buffer waits for the RNR timer",
			SimOptions{Ops: [2][]SimOp{{{Family: dissect.Send, Size: 2048, NotReady: 1}}}},
			"A SEND First 0\nA SEND Last 1\nB RNR NAK 0\nA SEND First 0 (rnr)\nA SEND Last 1 (rnr)\nB ACK 1\n",
		},
		{
			"behind an RNR NAK soft-RoCE also says sequence error",
			SimOptions{Ops: [2][]SimOp{{{Family: dissect.Send, Size: 2048, NotReady: 1}}}, NAKBehind: true},
			"A SEND First 0\nA SEND Last 1\nB RNR NAK 0\nB NAK: PSN sequence error 0\nA SEND First 0 (rnr)\nA SEND Last 1 (rnr)\nB ACK 1\n",
		},
		{
			"a copy made by the network is acknowledged again",
			SimOptions{Ops: [2][]SimOp{{write(1)}}, Faults: []SimFault{{From: A, Nth: 0, Kind: Duplicate}}},
			"A RDMA WRITE Only 0 *\nA RDMA WRITE Only 0 *\nB ACK 0\nB ACK 0 (duplicate)\n",
		},
		{
			"an overtaken packet draws a NAK, and the next one another",
			SimOptions{Ops: [2][]SimOp{{write(4)}}, Faults: []SimFault{{From: A, Nth: 1, Kind: Reorder, By: 1}}},
			"A RDMA WRITE First 0\nA RDMA WRITE Middle 2\nA RDMA WRITE Middle 1 *\nA RDMA WRITE Last 3\nB NAK: PSN sequence error 1\n" +
				"B NAK: PSN sequence error 2\nA RDMA WRITE Middle 1 (nak)\nA RDMA WRITE Middle 2 (nak)\nA RDMA WRITE Last 3 (nak)\nB ACK 3\n",
		},
		{
			"a patient responder says nothing of an overtaken packet",
			SimOptions{Patient: true, Ops: [2][]SimOp{{write(4)}}, Faults: []SimFault{{From: A, Nth: 1, Kind: Reorder, By: 1}}},
			"A RDMA WRITE First 0\nA RDMA WRITE Middle 2\nA RDMA WRITE Middle 1 *\nA RDMA WRITE Last 3\nB ACK 3\n",
		},
		{
			"a refused WRITE ends the connection",
			SimOptions{Ops: [2][]SimOp{{{Family: dissect.Write, Refuse: dissect.NAKRemoteAccess}}}},
			"A RDMA WRITE Only 0\nB NAK: remote access error 0\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Simulate(c.o)
			if got := story(r); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestSimEndings(t *testing.T) {
	dead := SimOptions{Ops: [2][]SimOp{{{Family: dissect.Write, Size: 10}, {Family: dissect.Write, Size: 10}}}, Retries: 2}
	for i := range 20 {
		dead.Faults = append(dead.Faults, SimFault{From: A, Nth: i, Kind: Lose, Behind: true})
	}
	r := Simulate(dead)
	if m := r.Messages[A]; m[0].Status != SimRetryExceeded || m[1].Status != SimFlushed || len(r.Frames) != 6 {
		t.Errorf("a dead peer: %d frames, %+v", len(r.Frames), m)
	}
	r = Simulate(SimOptions{Ops: [2][]SimOp{{{Family: dissect.Send, Size: 10, NotReady: 99}}}, RNRRetries: 2})
	if m := r.Messages[A][0]; m.Status != SimRNRExceeded || m.Executed() != 0 {
		t.Errorf("no receive buffer ever: %+v", m)
	}
	r = Simulate(SimOptions{Before: (*Exchange).Connect, Ops: [2][]SimOp{{{Family: dissect.Send, Size: 10, Post: time.Millisecond}}}})
	if len(r.Frames) != 5 || !slices.Equal(r.Truth, []int{-1, -1, -1, 0, 1}) || r.Packets[1].Frames[0] != 5 {
		t.Errorf("with a handshake: %v", r.Truth)
	}
}

// TestSimTshark: nothing that the wire did not damage looks malformed to tshark.
func TestSimTshark(t *testing.T) {
	ts := FindTshark(t)
	for seed := range 3 {
		o := SimGen().Example(seed)
		o.Ops[A] = append(o.Ops[A], SimOp{Family: dissect.Read, Size: 3 * o.MTU}, SimOp{Family: dissect.Send, Size: 2 * o.MTU})
		o.Faults = []SimFault{{From: A, Nth: 1, Kind: Lose, Behind: true}, {From: B, Nth: 2, Kind: Reorder, By: 2}}
		r := Simulate(o)
		rows, err := ts.Query(TsharkQuery{
			File: WriteCapture(t, "sim.pcapng", r.Frames), Fields: []string{"infiniband.bth.opcode", "_ws.malformed"}, Args: tsharkArgs,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(r.Frames) {
			t.Fatalf("%d frames, tshark sees %d", len(r.Frames), len(rows))
		}
		for i, row := range rows {
			if op := r.Packets[r.Truth[i]].Op; row[0] != fmt.Sprint(uint8(op)) || row[1] != "" {
				t.Errorf("seed %d, frame %d, %v: tshark says %q", seed, i+1, op, row)
			}
		}
	}
}
