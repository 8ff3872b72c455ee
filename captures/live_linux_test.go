package captures_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/testkit"
)

// caught is a frame with bytes of its own.
type caught struct {
	captures.Frame
}

// readAll reads until the source ends.
func readAll(src captures.Source) (all []caught, err error) {
	batch := make([]captures.Frame, 100)
	for {
		n, err := src.ReadBatch(batch)
		if err != nil {
			return all, err
		}
		for _, f := range batch[:n] {
			f.Data = bytes.Clone(f.Data)
			all = append(all, caught{f})
		}
	}
}

// listen opens a capture on the second side of a lab.
func listen(t *testing.T, lab *testkit.Lab, o captures.LiveOptions) *captures.Live {
	t.Helper()
	o.Interface = lab.B.Iface
	var live *captures.Live
	var err error
	lab.B.Do(func() { live, err = captures.OpenLive(o) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { live.Close() })
	return live
}

// traffic is an exchange of some of everything over IPv4 with a VLAN tag, and another one over IPv6 with two.
func traffic() []testkit.Frame {
	x := testkit.NewExchange(testkit.ExchangeOptions{VLANs: []uint16{3<<13 | 100}, PadFramesTo60: true})
	y := x.Beside(func(o *testkit.ExchangeOptions) {
		o.A, o.B, o.IPv6, o.VLANs, o.MTU = "", "", true, []uint16{200, 300}, 4096
	})
	z := x.Beside(func(o *testkit.ExchangeOptions) { o.VLANs = nil })
	for _, e := range []*testkit.Exchange{x, y, z} {
		e.Connect()
		for _, size := range []int{0, 1, 1024, 5000} {
			e.B.Answer(e.A.Write(size))
			e.A.Answer(e.B.Send(size))
			e.B.Answer(e.A.Read(size))
		}
		e.B.Answer(e.A.CompareSwap(1, 2))
		e.A.CNP()
		e.B.Pause(0xFFFF)
	}
	return x.Frames()
}

// same compares what was caught with what was sent.
func same(t *testing.T, sent []testkit.Frame, got []caught) {
	t.Helper()
	if len(got) != len(sent) {
		t.Fatalf("%d frames arrived, %d were sent", len(got), len(sent))
	}
	for i := range sent {
		if !bytes.Equal(got[i].Data, sent[i].Data) {
			t.Fatalf("frame %d:\ngot  %x\nsent %x", i+1, got[i].Data, sent[i].Data)
		}
		if f := &got[i]; f.WireLen != len(sent[i].Data) || !f.HasTime || f.Link != sent[i].Link {
			t.Fatalf("frame %d: %+v", i+1, f.Frame)
		}
		if i > 0 && got[i].Time < got[i-1].Time {
			t.Errorf("frame %d is older than the one before", i+1)
		}
	}
}

func TestLiveSeesEveryFrame(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := traffic()
	for _, filter := range []string{"", "none"} {
		t.Run("filter "+filter, func(t *testing.T) {
			live := listen(t, lab, captures.LiveOptions{Filter: filter})
			lab.A.NewSender().Send(sent)
			live.Stop() // what is in a block that is not full must come all the same
			got, err := readAll(live)
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			same(t, sent, got)
			st := live.Stats()
			if n := uint64(len(sent)); st.Seen != n || st.Delivered != n || st.RingDropped != 0 || st.Waiting != 0 {
				t.Errorf("counted %+v of %d frames", st, n)
			}
			if i := live.Interfaces()[0]; i.Name != lab.B.Iface || i.Hardware != "veth" || i.Stats.Received != int64(len(sent)) {
				t.Errorf("interface %+v", i)
			}
		})
	}
}

func TestLiveDirection(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := traffic()
	half := len(sent) / 2
	for _, c := range []struct {
		d    captures.Direction
		want []testkit.Frame
	}{{captures.InOut, sent}, {captures.In, sent[:half]}, {captures.Out, sent[half:]}} {
		live := listen(t, lab, captures.LiveOptions{Direction: c.d})
		lab.A.NewSender().Send(sent[:half])
		lab.B.NewSender().Send(sent[half:])
		live.Stop()
		got, err := readAll(live)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		same(t, c.want, got)
		for i := range got {
			want := captures.Out
			if c.d != captures.Out && i < half {
				want = captures.In
			}
			if got[i].Direction != want {
				t.Fatalf("-Q %d, frame %d: direction %d, want %d", c.d, i+1, got[i].Direction, want)
			}
		}
		live.Close()
	}
}

func TestLiveSnapLength(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := traffic()
	for _, snap := range []int{1, 11, 12, 13, 15, 64} { // around the place of a VLAN tag
		live := listen(t, lab, captures.LiveOptions{SnapLen: snap})
		lab.A.NewSender().Send(sent)
		live.Stop()
		got, err := readAll(live)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if len(got) != len(sent) {
			t.Fatalf("snap length %d: %d frames of %d", snap, len(got), len(sent))
		}
		for i := range got {
			want := sent[i].Data[:min(snap, len(sent[i].Data))]
			if !bytes.Equal(got[i].Data, want) {
				t.Fatalf("snap length %d, frame %d: got %x, want %x", snap, i+1, got[i].Data, want)
			}
			if snap >= 12 && got[i].WireLen != len(sent[i].Data) {
				t.Fatalf("snap length %d, frame %d: length on the wire %d, want %d", snap, i+1, got[i].WireLen, len(sent[i].Data))
			}
		}
		live.Close()
	}
}

func TestLiveFilter(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := traffic()
	for _, c := range []struct {
		filter string
		want   func(p *packet) bool
	}{
		{"vlan 100", func(p *packet) bool { return len(p.vlans) > 0 && p.vlans[0]&0xfff == 100 }},
		{"vlan and not vlan 100", func(p *packet) bool { return len(p.vlans) > 0 && p.vlans[0]&0xfff != 100 }},
		{"not vlan", func(p *packet) bool { return len(p.vlans) == 0 }},
		{"pause", func(p *packet) bool { return p.ether == 0x8808 }},
		{"ip6 and roce", func(p *packet) bool { return p.ether == 0x86dd }},
	} {
		live := listen(t, lab, captures.LiveOptions{Filter: c.filter})
		lab.A.NewSender().Send(sent)
		live.Stop()
		got, err := readAll(live)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var want []testkit.Frame
		for _, f := range sent {
			if c.want(parse(f.Data)) {
				want = append(want, f)
			}
		}
		if len(want) == 0 {
			t.Fatalf("%s: nothing of the traffic passes", c.filter)
		}
		t.Run(c.filter, func(t *testing.T) { same(t, want, got) })
		live.Close()
	}
}

// packet is what filters look at, found by other code than theirs.
type packet struct {
	vlans []uint16
	ether uint16
}

func parse(b []byte) *packet {
	p := &packet{}
	for at := 12; ; at += 4 {
		p.ether = uint16(b[at])<<8 | uint16(b[at+1])
		if p.ether != 0x8100 && p.ether != 0x88a8 {
			return p
		}
		p.vlans = append(p.vlans, uint16(b[at+2])<<8|uint16(b[at+3]))
	}
}

// TestLiveCountsLoss lets a ring run over: what came out and what was dropped is what was sent, and what the interface saw.
// TestLivePrompt: frames are there when their block has been handed over, and as
// long as not all of it is read.
func TestLivePrompt(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{Rings: 1})
	if live.Prompt() {
		t.Error("nothing was sent")
	}
	sent := traffic()
	lab.A.NewSender().Send(sent)
	for began := time.Now(); !live.Prompt() && time.Since(began) < time.Minute; { // until the block's time is over
		time.Sleep(time.Millisecond)
	}
	batch := make([]captures.Frame, 1)
	for i := range sent {
		if !live.Prompt() && i == 0 {
			t.Fatal("no frame within a minute")
		}
		if n, err := live.ReadBatch(batch); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if live.Prompt() {
		t.Error("all was read")
	}
	live.Close()
	if live.Prompt() {
		t.Error("it is closed")
	}
}

func TestLiveCountsLoss(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{Ring: 128 << 10, Block: 32 << 10})
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.Answer(x.A.Write(1024 * 3000))
	sent := x.Frames()
	before := lab.B.Received()
	lab.A.NewSender().Send(sent)
	saw := lab.B.Received() - before
	live.Stop()
	got, err := readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	st := live.Stats()
	if saw != uint64(len(sent)) {
		t.Fatalf("the interface saw %d frames of %d", saw, len(sent))
	}
	if st.Seen != saw || st.Delivered+st.RingDropped != saw || st.Delivered != uint64(len(got)) || st.Waiting != 0 {
		t.Errorf("%d frames came out, and of %d it counts %+v", len(got), saw, st)
	}
	if st.RingDropped == 0 || len(got) == 0 {
		t.Errorf("the ring did not run over: %+v", st)
	}
	same(t, sent[:len(got)], got) // it drops what comes last
}

func TestLiveInterfaceDeleted(t *testing.T) {
	for _, rings := range []int{1, 3} {
		lab := testkit.NewLab(t, testkit.LabOptions{})
		live := listen(t, lab, captures.LiveOptions{Rings: rings})
		sent := traffic()
		lab.A.NewSender().Send(sent)
		lab.A.Delete()
		got, err := readAll(live)
		if !errors.Is(err, captures.ErrInterfaceGone) {
			t.Errorf("%d rings: it ends with %v", rings, err)
		}
		same(t, sent, got)
		if st := live.Stats(); st.Waiting != 0 || st.Delivered != uint64(len(sent)) || st.Downs != 1 {
			t.Errorf("%d rings: counted %+v", rings, st)
		}
	}
}

// TestLiveInterfaceDown takes the interface down and up again: the capture goes on.
func TestLiveInterfaceDown(t *testing.T) {
	for name, o := range map[string]captures.LiveOptions{
		"packet": {}, "packet, two rings": {Rings: 2}, "xdp": {Engine: captures.EngineXDP},
	} {
		t.Run(name, func(t *testing.T) { interfaceDown(t, o) })
	}
}

func interfaceDown(t *testing.T, o captures.LiveOptions) {
	lab := testkit.NewLab(t, testkit.LabOptions{Queues: max(1, o.Rings)})
	live := listen(t, lab, o)
	sent := traffic()
	half := len(sent) / 2
	lab.A.NewSender().Send(sent[:half])
	batch := make([]captures.Frame, 10)
	var got []caught
	more := func(until int) error {
		for len(got) < until {
			n, err := live.ReadBatch(batch)
			for _, f := range batch[:n] {
				f.Data = bytes.Clone(f.Data)
				got = append(got, caught{f})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := more(half); err != nil {
		t.Fatal(err)
	}
	lab.B.SetUp(false)
	read := make(chan error)
	go func() { read <- more(len(sent)) }()
	lab.B.SetUp(true)
	lab.A.NewSender().Send(sent[half:])
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	same(t, sent, got)

	lab.B.SetUp(false)
	lab.B.Do(func() {
		o.Interface = lab.B.Iface
		if _, err := captures.OpenLive(o); !errors.Is(err, captures.ErrInterfaceDown) {
			t.Errorf("opening an interface that is down gives %v", err)
		}
	})
}

func TestLiveRefusals(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	for _, c := range []struct {
		name string
		o    captures.LiveOptions
		want error
	}{
		{"no interface", captures.LiveOptions{Interface: "absent0"}, captures.ErrNoInterface},
		{"a name that cannot be", captures.LiveOptions{Interface: "a-name-that-is-much-too-long"}, captures.ErrNoInterface},
		{"no hardware clock", captures.LiveOptions{Interface: lab.B.Iface, Clock: captures.AdapterClock}, captures.ErrNotOffered},
		{"no such engine", captures.LiveOptions{Interface: lab.B.Iface, Engine: "steam"}, captures.ErrNotOffered},
		{"down", captures.LiveOptions{Interface: "lo"}, captures.ErrInterfaceDown},
	} {
		lab.B.Do(func() {
			if _, err := captures.OpenLive(c.o); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.want)
			}
		})
	}
}

// TestXDP is the same with the engine that takes frames from the driver. Its MTU needs frames in several parts.
func TestXDP(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{Engine: captures.EngineXDP})
	sent := traffic()
	lab.A.NewSender().Send(sent)
	live.Stop()
	got, err := readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	same(t, sent, got)
	if st := live.Stats(); st.Seen != uint64(len(sent)) || st.Delivered != st.Seen || st.Waiting+st.RingDropped != 0 {
		t.Errorf("counted %+v of %d", st, len(sent))
	}
	live.Close()

	// What is not wanted goes on to the kernel, and a ring that is full is counted.
	live = listen(t, lab, captures.LiveOptions{Engine: captures.EngineXDP, Filter: "roce or tcp port 5", Ring: 1})
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.A.Pause(1)
	x.B.Answer(x.A.Write(1024 * 5000))
	sent = x.Frames()
	before := lab.B.Received()
	lab.A.NewSender().Send(sent)
	live.Stop()
	got, err = readAll(live)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	st := live.Stats()
	if saw := lab.B.Received() - before; saw != uint64(len(sent)) || st.Seen != saw-1 || st.Delivered+st.RingDropped != st.Seen || st.RingDropped == 0 {
		t.Errorf("the interface saw %d frames of %d, counted %+v", saw, len(sent), st)
	}
	same(t, sent[1:][:len(got)], got)
}

func TestXDPInterfaceDeleted(t *testing.T) {
	for _, queues := range []int{1, 2} {
		lab := testkit.NewLab(t, testkit.LabOptions{Queues: queues})
		live := listen(t, lab, captures.LiveOptions{Engine: captures.EngineXDP})
		sent := traffic()
		lab.A.NewSender().Send(sent)
		lab.A.Delete()
		got, err := readAll(live)
		if !errors.Is(err, captures.ErrInterfaceGone) {
			t.Errorf("%d queues: it ends with %v", queues, err)
		}
		if len(got) != len(sent) {
			t.Errorf("%d queues: %d frames of %d", queues, len(got), len(sent))
		}
		if queues == 1 {
			same(t, sent, got)
		}
	}
}

func TestXDPRefusals(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	for _, c := range []captures.LiveOptions{
		{Filter: "not tcp"},
		{Filter: "pause"},
		{Filter: "host 10.0.0.1"},
		{Direction: captures.Out},
		{Clock: captures.AdapterClock},
	} {
		c.Interface, c.Engine = lab.B.Iface, captures.EngineXDP
		lab.B.Do(func() {
			if _, err := captures.OpenLive(c); !errors.Is(err, captures.ErrNotOffered) {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}

// TestLiveToFile is the whole way: wire, ring, queue, file; and tshark reads the same.
func TestLiveToFile(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	live := listen(t, lab, captures.LiveOptions{})
	file := filepath.Join(t.TempDir(), "a.pcapng")
	rec, err := captures.NewRecorder(captures.RecorderOptions{
		Path: file,
		WriterOptions: captures.WriterOptions{
			Application: "a test", Interfaces: live.Interfaces(),
		},
		Statistics: func() []captures.InterfaceStats {
			return []captures.InterfaceStats{live.Stats().Interface()}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	sent := traffic()
	half := len(sent) / 2
	lab.A.NewSender().Send(sent[:half])
	lab.B.NewSender().Send(sent[half:])
	live.Stop()
	batch := make([]captures.Frame, 50)
	for {
		n, err := live.ReadBatch(batch)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rec.Record(batch[:n]); err != nil {
			t.Fatal(err)
		}
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}

	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	got, err := readAll(src)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	same(t, sent, got)
	i := src.Interfaces()[0]
	if i.Name != lab.B.Iface || i.Filter != captures.DefaultFilter || i.Application != "a test" || i.Stats.Received != int64(len(sent)) ||
		i.Stats.Dropped != 0 || i.UnitsPerSecond != 1e9 {
		t.Errorf("the file says of the interface %+v", i)
	}

	ts := testkit.FindTshark(t)
	rows := ts.Fields(t, file, "frame.len", "frame.interface_name", "infiniband.bth.psn", "frame.packet_flags_direction")
	plain := ts.Fields(t, testkit.WriteCapture(t, "plain.pcapng", sent), "frame.len", "infiniband.bth.psn")
	if len(rows) != len(plain) {
		t.Fatalf("tshark reads %d packets, want %d", len(rows), len(plain))
	}
	for i, row := range rows {
		direction := "0x00000001"
		if i >= half {
			direction = "0x00000002"
		}
		if row[0] != plain[i][0] || row[1] != lab.B.Iface || row[2] != plain[i][1] || row[3] != direction {
			t.Errorf("tshark reads packet %d as %q, want %q", i+1, row, plain[i])
		}
	}
	if testing.Verbose() {
		fmt.Println(rec.Stats())
	}
}
