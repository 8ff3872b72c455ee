package suite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rocescope/rocescope/inject/port"
)

// needs skips a test where a program is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v: this test puts a core behind the pipe", err)
		}
	}
}

// build runs a compiler in a folder.
func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// TestVerilator: the bench for Verilator carries frames to a core and back.
func TestVerilator(t *testing.T) {
	needs(t, "verilator", "g++", "make")
	examples, err := filepath.Abs("examples")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build(t, dir, "verilator", "--cc", "--exe", "--build", "--prefix", "Vcore", "--top-module", "axi_stream_echo", "-Mdir", dir,
		filepath.Join(examples, "axi_stream_echo.v"), filepath.Join(examples, "axi_stream_verilator.cpp"))
	tryBench(t, filepath.Join(dir, "Vcore"))
}

// TestCocotb: the bench for cocotb does the same with the same core.
func TestCocotb(t *testing.T) {
	needs(t, "cocotb-config", "iverilog", "vvp")
	dir := t.TempDir()
	core := filepath.Join(dir, "core.vvp")
	build(t, "examples", "iverilog", "-g2012", "-o", core, "-s", "axi_stream_echo", "axi_stream_echo.v")
	tryBench(t, "examples/axi_stream_bench.sh", core, "axi_stream_echo")
}

// tryBench sends frames of many lengths to the echoing core behind a bench, at once and with pauses, with a bench that is always ready and one that
// presses back. Each has to come back once, in order, whole, and not before its time; and every run has to be the same.
func tryBench(t *testing.T, command ...string) {
	for _, ready := range []string{"1.0", "0.3"} {
		var runs [2][]int64
		for i := range runs {
			runs[i] = throughEcho(t, append([]string{"env", "READY=" + ready}, command...))
		}
		if fmt.Sprint(runs[0]) != fmt.Sprint(runs[1]) {
			t.Errorf("ready %s: two runs have other times:\n%v\n%v", ready, runs[0], runs[1])
		}
	}
}

// throughEcho returns when each frame came back.
func throughEcho(t *testing.T, command []string) (times []int64) {
	p, err := port.OpenPipe(port.Options{Command: command, MaxFrame: 9022})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var sent [][]byte
	var at []int64
	in := make([]port.In, 16)
	took := 0
	receive := func() {
		n, err := p.Receive(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in[:n] {
			if took == len(sent) {
				t.Fatal("more frames came back than were sent")
			}
			want := bytes.Clone(sent[took])
			copy(want, sent[took][6:12])
			copy(want[6:], sent[took][:6])
			if !bytes.Equal(f.Data, want) {
				t.Fatalf("frame %d of %d bytes came back as %d other bytes", took, len(want), len(f.Data))
			}
			beats := int64(len(want)+63) / 64
			if f.Time < at[took]+beats*4 {
				t.Fatalf("frame %d, sent at %d, came back at %d: before %d beats can have gone in", took, at[took], f.Time, beats)
			}
			times = append(times, f.Time)
			took++
		}
	}
	for len(sent) < 120 {
		slots := make([]uint32, 1+r.IntN(6))
		slots = slots[:p.Take(slots)]
		var out []port.Out
		for _, slot := range slots {
			n := []int{60, 62, 63, 64, 65, 127, 128, 129, 1082, 4178, 9000}[r.IntN(11)]
			f := p.Room(slot)[:n]
			for i := 0; i+8 <= n; i += 8 {
				binary.LittleEndian.PutUint64(f[i:], r.Uint64())
			}
			sent, at = append(sent, bytes.Clone(f)), append(at, p.Now())
			out = append(out, port.Out{Slot: slot, Len: int32(n)})
		}
		if err := p.Send(out); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(time.Duration(r.IntN(3000))); err != nil {
			t.Fatal(err)
		}
		receive()
	}
	for end := p.Now() + int64(time.Millisecond); took < len(sent) && p.Now() < end; {
		if err := p.Wait(time.Microsecond); err != nil {
			t.Fatal(err)
		}
		receive()
	}
	if took != len(sent) {
		t.Fatalf("%d of %d frames came back", took, len(sent))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	return times
}
