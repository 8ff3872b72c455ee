package captures_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/testkit"
)

// myCores are the cores that this process may run on.
func myCores(t *testing.T) (list []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for core := 0; len(list) < set.Count(); core++ {
		if set.IsSet(core) {
			list = append(list, core)
		}
	}
	return list
}

// sendFrom sends on a core: the far end of a veth receives on the same one.
func sendFrom(t *testing.T, lab *testkit.Lab, core int, frames []testkit.Frame) {
	t.Helper()
	lab.A.Do(func() {
		var set unix.CPUSet
		set.Set(core)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			t.Errorf("run on core %d: %v", core, err)
		}
		lab.A.NewSender().Send(frames)
	})
}

// several is WRITEs of many connections, with UDP source ports of their own.
func several(connections, messages int) []testkit.Frame {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	all := []*testkit.Exchange{x}
	for n := range uint32(connections - 1) {
		all = append(all, x.Beside(func(o *testkit.ExchangeOptions) {
			o.QPNA, o.QPNB = 0x100+n, 0x200+n
			o.SrcPortA, o.SrcPortB = 0, 0
		}))
	}
	for range messages {
		for _, e := range all {
			e.B.Answer(e.A.Write(2500))
		}
	}
	return x.Frames()
}

// checkRings adds up what is counted of each ring.
func checkRings(t *testing.T, st captures.LiveStats, rings int) {
	t.Helper()
	var sum captures.RingStats
	for i, r := range st.Rings {
		if r.Seen == 0 || r.Seen < r.Delivered+r.Dropped {
			t.Errorf("ring %d: %+v", i, r)
		}
		sum.Seen += r.Seen
		sum.Delivered += r.Delivered
		sum.Dropped += r.Dropped
	}
	if len(st.Rings) != rings || sum != (captures.RingStats{Seen: st.Seen, Delivered: st.Delivered, Dropped: st.RingDropped}) {
		t.Errorf("the rings add up to %+v, all together is %+v", sum, st)
	}
}

// TestLiveFanout captures by a ring for each core what several cores receive, and puts it into order again.
func TestLiveFanout(t *testing.T) {
	cores := myCores(t)
	if len(cores) < 2 {
		t.Skip("it takes two cores")
	}
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{Rings: 2})
	sent := several(8, 10)
	const piece = 50
	for at := 0; at < len(sent); at += piece {
		// Neighbouring cores are in different rings.
		sendFrom(t, lab, cores[at/piece%2], sent[at:min(at+piece, len(sent))])
	}
	live.Stop()
	got, err := readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	same(t, sent, got)
	st := live.Stats()
	if st.Seen != uint64(len(sent)) || st.Delivered != st.Seen || st.Late != 0 {
		t.Errorf("of %d it counts %+v", len(sent), st)
	}
	checkRings(t, st, 2)
	if d := live.Interfaces()[0].Description; !strings.Contains(d, "2 rings") {
		t.Errorf("it calls itself %q", d)
	}
}

// TestLiveFanoutCountsLoss lets one of two rings run over, of whose frames none waits for the empty ring.
func TestLiveFanoutCountsLoss(t *testing.T) {
	cores := myCores(t)
	if len(cores) < 2 {
		t.Skip("it takes two cores")
	}
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{Rings: 2, Ring: 256 << 10, Block: 32 << 10})
	sent := writes(3000)
	before := lab.B.Received()
	sendFrom(t, lab, cores[1], sent)
	sendFrom(t, lab, cores[0], sent[:10])
	saw := lab.B.Received() - before
	live.Stop()
	got, err := readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	st := live.Stats()
	if saw != uint64(len(sent)+10) || st.Seen != saw || st.Delivered+st.RingDropped != saw || st.Delivered != uint64(len(got)) {
		t.Errorf("the interface saw %d frames, %d came out, counted %+v", saw, len(got), st)
	}
	checkRings(t, st, 2)
	for _, r := range st.Rings {
		if lossy := r.Seen > 10; lossy != (r.Dropped > 0) {
			t.Errorf("one ring ran over, the other did not: %+v", st.Rings)
		}
	}
	same(t, append(sent[:len(got)-10:len(got)-10], sent[:10]...), got)
}

func writes(packets int) []testkit.Frame {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.Answer(x.A.Write(packets * 1024))
	return x.Frames()
}

// TestXDPQueues has a thread for each of several queues, on a core of its own.
func TestXDPQueues(t *testing.T) {
	const queues = 3
	lab := testkit.NewLab(t, testkit.LabOptions{Queues: queues})
	before := threadCores(t)
	live := listen(t, lab, captures.LiveOptions{Engine: captures.EngineXDP})
	sent := several(16, 10)
	saw := lab.B.Received()
	lab.A.NewSender().Send(sent)
	saw = lab.B.Received() - saw
	live.Stop()
	got, err := readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	pinned := map[string]int{}
	for core, n := range threadCores(t) {
		pinned[core] = n - before[core]
	}
	st := live.Stats()
	if saw != uint64(len(sent)) || st.Seen != saw || st.Delivered != saw || st.RingDropped+st.Waiting != 0 {
		t.Errorf("%d sent, the interface saw %d, counted %+v", len(sent), saw, st)
	}
	checkRings(t, st, queues)
	// A queue's frames are in order; those of different queues as their threads got to see them.
	order := map[string][]string{}
	for _, f := range sent {
		order[string(f.Data[26:38])] = append(order[string(f.Data[26:38])], string(f.Data))
	}
	for i := range got {
		flow := string(got[i].Data[26:38]) // addresses and UDP ports
		if len(order[flow]) == 0 || order[flow][0] != string(got[i].Data) {
			t.Fatalf("frame %d is not the next one of its flow: %x", i+1, got[i].Data)
		}
		order[flow] = order[flow][1:]
		if got[i].Direction != captures.In {
			t.Fatalf("frame %d goes %d", i+1, got[i].Direction)
		}
	}
	cores := myCores(t)
	want := map[string]int{}
	for n := range queues {
		want[strconv.Itoa(cores[(queues+n)%len(cores)])]++
	}
	for core, n := range want {
		if pinned[core] != n {
			t.Errorf("threads that may run on one core only: %v, want %v", pinned, want)
		}
	}
}

// threadCores is how many of our threads may run on which cores.
func threadCores(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	status, _ := filepath.Glob("/proc/self/task/*/status")
	for _, file := range status {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:\t")
		list, _, _ := strings.Cut(rest, "\n")
		all[list]++
	}
	return all
}

// TestLiveAllocatesNothing reads what waits in the rings.
func TestLiveAllocatesNothing(t *testing.T) {
	for name, o := range map[string]captures.LiveOptions{
		"packet": {}, "packet, two rings": {Rings: 2}, "xdp": {Engine: captures.EngineXDP},
	} {
		t.Run(name, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{})
			live := listen(t, lab, o)
			lab.A.NewSender().Send(writes(5000))
			batch := make([]captures.Frame, 64)
			read := func() {
				if _, err := live.ReadBatch(batch); err != nil {
					t.Fatal(err)
				}
			}
			for range 10 {
				read()
			}
			if n := testing.AllocsPerRun(50, read); n != 0 {
				t.Errorf("a batch of %d frames allocates %v times", len(batch), n)
			}
		})
	}
}

// TestLiveFanoutAtOnce has two cores receive at the same time. What comes out behind a younger frame is counted as late, and
// nothing else is; a flow's frames are in order.
func TestLiveFanoutAtOnce(t *testing.T) {
	cores := myCores(t)
	if len(cores) < 2 {
		t.Skip("it takes two cores")
	}
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{Rings: 2})
	var flows [2][]testkit.Frame
	for i := range flows {
		x := testkit.NewExchange(testkit.ExchangeOptions{QPNB: 0x20 + uint32(i)})
		x.A.Write(1024 * 2000)
		flows[i] = x.Frames()
	}
	var sent sync.WaitGroup
	for i := range flows {
		sent.Go(func() { sendFrom(t, lab, cores[i], flows[i]) })
	}
	sent.Wait()
	live.Stop()
	got, err := readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	late, newest := uint64(0), int64(0)
	var next [2]int
	for n := range got {
		f := &got[n]
		if f.Time < newest {
			late++
		}
		newest = max(newest, f.Time)
		i := int(f.Data[14+20+8+7] - 0x20) // the last byte of the destination QPN
		if !bytes.Equal(f.Data, flows[i][next[i]].Data) {
			t.Fatalf("frame %d is not the next one of its flow", n+1)
		}
		next[i]++
	}
	if st := live.Stats(); st.Late != late || st.Seen != uint64(len(got)) || len(got) != len(flows[0])+len(flows[1]) {
		t.Errorf("%d frames came out, %d of them late: %+v", len(got), late, st)
	}
}
