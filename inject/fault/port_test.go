package fault

import (
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// other is a port of which only what it is matters.
type other struct {
	port.Port
	info port.Info
}

func (o *other) Info() port.Info { return o.info }

type generator struct{ other }

func (*generator) Run(int) (int, error) { return 0, nil }

// TestRefusals: a port that cannot apply a rule says so.
func TestRefusals(t *testing.T) {
	deaf := &other{info: port.Info{Via: port.ViaXDP, Interface: "eth1", MaxFrame: 1518, Slots: 64}}
	for _, c := range []struct {
		port port.Port
		rule string
		want string
	}{
		{deaf, "drop way=in", "xdp on eth1 receives nothing"},
		{deaf, "inject packet=ack back=yes bth.destqp=1", "receives nothing"},
		{deaf, "pad n=4096", "1518 bytes at most"},
		{&other{info: port.Info{Via: port.ViaFile, MaxFrame: 9000}}, "delay time=1ms", "no time that passes"},
		{&other{info: port.Info{Via: port.ViaFile, MaxFrame: 9000}}, "hold time=1ms", "no time that passes"},
	} {
		_, err := Wrap(c.port, rules(t, c.rule))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), strings.Fields(c.rule)[0]) {
			t.Errorf("%s: %v, want something about %q", c.rule, err, c.want)
		}
	}
	live := &generator{other{info: port.Info{Via: port.ViaLive, Interface: "eth1"}}}
	if err := rules(t, "drop").Suits(live); err == nil || !strings.Contains(err.Error(), "in the kernel, where no rule can act") {
		t.Errorf("live frames: %v", err)
	}
	if err := rules(t, "drop").Suits(deaf); err != nil {
		t.Errorf("a rule for both ways is good for the one that there is: %v", err)
	}
}

// TestSlotsKeepTheirFrames: what the sender wrote into a slot is still there when it gets the slot again, whatever rules made of it.
func TestSlotsKeepTheirFrames(t *testing.T) {
	s := rules(t, "corrupt probability=0.3", "drop probability=0.2", "duplicate probability=0.3", "delay time=5us probability=0.3")
	r := newRig(t, s)
	frame := writes(1, 64)[0]
	written := map[uint32]bool{}
	slots := make([]uint32, 16)
	for range 2000 {
		n := r.port.Take(slots)
		out := make([]port.Out, n)
		for i, slot := range slots[:n] {
			room := r.port.Room(slot)
			if !written[slot] {
				copy(room, frame)
				written[slot] = true
			}
			if !slices.Equal(room[:len(frame)], frame) {
				t.Fatalf("slot %d has another frame", slot)
			}
			out[i] = port.Out{Slot: slot, Len: int32(len(frame))}
		}
		if err := r.port.Send(out); err != nil {
			t.Fatal(err)
		}
		r.arrived()
		r.now += 3000
	}
}

// TestNothingIsAllocated where no rule strikes; nor where one does, once the memory is there.
func TestNothingIsAllocated(t *testing.T) {
	testkit.SkipUnderRace(t)
	frames := writes(64, 64)
	for _, text := range []string{
		"drop when bth.opcode == RC_ACKNOWLEDGE", "drop when bth.destqp == 0x77", "drop way=out when flow.round == 3", "drop when reth.dmalen == 3",
		"drop probability=0.01", "corrupt probability=0.5", "duplicate", "set bth.psn=+1", "reorder nth=3", "inject packet=cnp every=2",
	} {
		r := newRig(t, rules(t, text))
		in := make([]port.In, 256)
		slots := make([]uint32, 64)
		out := make([]port.Out, 64)
		marks := make([]flows.Mark, 64)
		run := func() {
			n := r.port.Take(slots)
			for i := range n {
				out[i] = port.Out{Slot: slots[i], Len: int32(copy(r.port.Room(slots[i]), frames[i]))}
			}
			_ = r.port.SendMarked(out[:n], marks[:n])
			_, _ = r.far.Receive(in)
			_, _ = r.far.Receive(in)
			r.now += 1000
		}
		for range 100 {
			run()
		}
		if n := testing.AllocsPerRun(200, run); n > 0 {
			t.Errorf("%s: %v allocations for 64 packets", text, n)
		}
	}
}
