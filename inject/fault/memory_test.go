package fault

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// TestFailedFaultKeepsNoMemory: where a packet can be edited, but what was to be added cannot be made, the copy that was edited goes back.
func TestFailedFaultKeepsNoMemory(t *testing.T) {
	frame := writes(1, 64)[0]
	frame[23] = 47 // not UDP: there is no BTH to craft a packet from
	l := rules(t, "ecn then inject packet=ack").Start(9018, 0)[Out]
	for i := range 3 {
		if !l.Look(int64(i), frame, nil) {
			t.Fatal("half a fault was done")
		}
	}
	if r := l.rules[0]; r.failed != 3 || l.made != len(l.pool) {
		t.Errorf("%d failed, and of %d frames %d are free", r.failed, l.made, len(l.pool))
	}
}

// TestSwapWithoutMemory: where there is no memory to keep a packet behind the one that waits, all go at once, in their order, and
// what was added in front of the packet goes once.
func TestSwapWithoutMemory(t *testing.T) {
	frames := writes(2, 64)
	l := rules(t, "swap when bth.psn == 0", "inject packet=ack place=before").Start(9018, 0)[Out]
	l.Look(0, frames[0], nil)
	l.made = mostHeld - 1 // what is left is for the ACK
	if !l.Look(1, frames[1], nil) {
		t.Fatal("a packet was kept without memory")
	}
	if len(l.Before) != 2 || len(l.Behind) != 0 {
		t.Fatalf("%d frames go out before it and %d behind, instead of 2 and none", len(l.Before), len(l.Behind))
	}
	if order(frames, [][]byte{l.Before[0].Bytes()})[0] != 0 || decode(l.Before[1].Bytes()).Opcode != dissect.OpRCAcknowledge || l.holding != 0 {
		t.Errorf("not the first packet and then the ACK; %d are still held", l.holding)
	}
}
