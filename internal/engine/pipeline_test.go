package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/testkit"
)

// sampleFile writes a bundled capture into the test's folder.
func sampleFile(t testing.TB, name string) string {
	t.Helper()
	data, err := samples.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".pcap")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t testing.TB, files ...string) captures.Source {
	t.Helper()
	src, err := captures.OpenFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func compile(t testing.TB, text string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lines is a sink that writes down what it gets, a line a packet.
type lines struct{ list []string }

func (l *lines) Batch(b *Batch) error {
	for i := range b.Packets {
		p := b.Packets[i]
		if !p.Has(dissect.LayerBTH) { // they are those of another packet then
			p.Opcode, p.PSN = 0, 0
		}
		l.list = append(l.list, fmt.Sprintf("%d %d %d %d %v %v %d %v %v %+v %x",
			p.Number, p.Time, p.Base, p.Prev, p.Proto, p.Opcode, p.PSN, p.ICRC, b.Matched[i], b.Marks[i],
			maphash.Bytes(seed, b.Data[i])))
	}
	return nil
}

var seed = maphash.MakeSeed()

// long is a capture that takes several reads, whatever the number of workers: frames of all samples, often.
func long(t testing.TB) []string {
	var files []string
	for _, s := range samples.List() {
		files = append(files, sampleFile(t, s.Name))
	}
	for len(files) < 100 {
		files = append(files, files...)
	}
	return files
}

func TestResultsDoNotDependOnWorkers(t *testing.T) {
	files := append(long(t)[:12], bigFile(t, 10_000))
	type outcome struct {
		Lines  []string
		Result Result
	}
	var want outcome
	for _, text := range []string{"", "infiniband.bth.opcode == RC_ACKNOWLEDGE", "flow.retransmission or flow.nak"} {
		for _, workers := range []int{1, 2, 3, 8} {
			var got lines
			p := New(Options{Workers: workers, CheckICRC: true, Track: true, Filter: compile(t, text), Sinks: []Sink{&got}})
			r, err := p.Run(t.Context(), open(t, files...))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.list) != int(r.Frames) || r.Frames < 10_000 {
				t.Fatalf("%d packets for %d frames", len(got.list), r.Frames)
			}
			if r.Snapshot != p.Snapshot() {
				t.Errorf("the last snapshot is another than the result's")
			}
			if workers == 1 {
				want = outcome{got.list, r}
				continue
			}
			if diff := cmp.Diff(want, outcome{got.list, r}); diff != "" {
				t.Errorf("%q: %d workers differ from 1:\n%.2000s", text, workers, diff)
			}
		}
	}
}

// bigFile is one capture of n frames in which a packet is lost now and then.
func bigFile(t testing.TB, n int) string {
	x := testkit.NewExchange(testkit.ExchangeOptions{MTU: 256, PSNA: 0xFFFF00})
	x.Connect()
	for i := 0; i < n/4; i++ {
		m := x.A.Write(700)
		if i%50 == 7 {
			m.Packets[1].Drop()
			x.B.NAK(m.First.Add(1), dissect.NAKSequence)
			m.ResendFrom(1)
		}
		x.B.Answer(m)
	}
	return testkit.WriteCapture(t, "big.pcapng", x.Frames())
}

func TestNumbersAndTimes(t *testing.T) {
	a, b := sampleFile(t, "cm_rejected"), sampleFile(t, "atomics")
	var got []dissect.Packet
	keep := SinkFunc(func(b *Batch) error { got = append(got, b.Packets...); return nil })
	r, err := New(Options{Sinks: []Sink{keep}}).Run(t.Context(), open(t, a, b))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 30 || r.Frames != 30 || r.Matched != 30 || len(r.Interfaces) != 2 {
		t.Fatalf("%d packets, %+v", len(got), r)
	}
	for i := range got {
		p := &got[i]
		before := &got[max(i-1, 0)]
		if p.Number != uint64(i+1) || p.Base != got[0].Time || p.Prev != before.Time {
			t.Errorf("packet %d: number %d, time %d, first %d, before %d", i+1, p.Number, p.Time, p.Base, p.Prev)
		}
		if want := uint16(min(i/2, 1)); p.Iface != want {
			t.Errorf("packet %d: interface %d, want %d", i+1, p.Iface, want)
		}
	}
	if r.First != got[2].Time || r.Last != got[1].Time || !r.HasTime { // the second file was captured before the first
		t.Errorf("from %d to %d", r.First, r.Last)
	}
	if diff := cmp.Diff([]dissect.LinkType{dissect.LinkEthernet}, r.Links); diff != "" {
		t.Error(diff)
	}
}

func TestMaxFrames(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for _, most := range []uint64{1, 511, 512, 513, 5000} {
			var got lines
			r, err := New(Options{Workers: workers, MaxFrames: most, Sinks: []Sink{&got}}).Run(t.Context(), open(t, long(t)...))
			if err != nil || r.Frames != most || len(got.list) != int(most) {
				t.Errorf("%d workers, at most %d: %d frames, %d packets, %v", workers, most, r.Frames, len(got.list), err)
			}
		}
	}
}

// script is a source that gives what it is told, step by step.
type script struct {
	steps  []func(dst []captures.Frame) (int, error)
	closed chan struct{}
}

func newScript(steps ...func(dst []captures.Frame) (int, error)) *script {
	return &script{steps: steps, closed: make(chan struct{})}
}

func (s *script) ReadBatch(dst []captures.Frame) (int, error) {
	if len(s.steps) == 0 {
		return 0, io.EOF
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step(dst)
}

func (s *script) Interfaces() []captures.Interface { return []captures.Interface{{Name: "script"}} }

func (s *script) Close() error {
	close(s.closed)
	return nil
}

func give(n int) func([]captures.Frame) (int, error) {
	return func(dst []captures.Frame) (int, error) {
		n := min(n, len(dst))
		for i := range dst[:n] {
			dst[i] = captures.Frame{Time: int64(i), Data: make([]byte, 60), WireLen: 60, Link: dissect.LinkEthernet, HasTime: true}
		}
		return n, nil
	}
}

func fail(err error) func([]captures.Frame) (int, error) {
	return func([]captures.Frame) (int, error) { return 0, err }
}

func TestErrorsOfTheSource(t *testing.T) {
	broken := errors.New("broken")
	damage := func(resumable bool) error { return &captures.FileError{File: "x", Resumable: resumable, Err: broken} }
	for _, c := range []struct {
		name   string
		steps  []func([]captures.Frame) (int, error)
		frames uint64
		errors int
	}{
		{"none", []func([]captures.Frame) (int, error){give(3)}, 3, 0},
		{"at the end", []func([]captures.Frame) (int, error){give(3), give(4), fail(broken), give(5)}, 7, 1},
		{"for good", []func([]captures.Frame) (int, error){give(3), fail(damage(false)), give(5)}, 3, 1},
		{"one can go on", []func([]captures.Frame) (int, error){give(3), fail(damage(true)), give(4), fail(damage(true))}, 7, 2},
		{"one can go on for a while", []func([]captures.Frame) (int, error){give(3), fail(damage(true)), fail(broken), give(4)}, 3, 2},
	} {
		for _, blocks := range []bool{false, true} {
			src := newScript(c.steps...)
			var got lines
			r, err := New(Options{Track: true, MayBlock: blocks, Sinks: []Sink{&got}}).Run(t.Context(), src)
			if r.Frames != c.frames || len(got.list) != int(c.frames) || r.Snapshot.Packets != c.frames {
				t.Errorf("%s: %d frames, %d packets, %d tracked", c.name, r.Frames, len(got.list), r.Snapshot.Packets)
			}
			if (c.errors > 0) != errors.Is(err, broken) {
				t.Errorf("%s: %v", c.name, err)
			}
			var se *SourceError
			if c.errors > 0 && !errors.As(err, &se) {
				t.Errorf("%s: %v is no SourceError", c.name, err)
			}
			if joined, ok := err.(interface{ Unwrap() []error }); c.errors > 0 && (!ok || len(joined.Unwrap()) != c.errors) {
				t.Errorf("%s: %v", c.name, err)
			}
			if len(r.Interfaces) != 1 {
				t.Errorf("%s: interfaces %v", c.name, r.Interfaces)
			}
			<-src.closed
		}
	}
}

func TestSourceWithoutEndOfErrors(t *testing.T) {
	var steps []func([]captures.Frame) (int, error)
	for range 3 * maxSourceErrors {
		steps = append(steps, fail(&captures.FileError{Resumable: true, Err: captures.ErrMalformed}))
	}
	src := newScript(steps...)
	if _, err := New(Options{}).Run(t.Context(), src); !errors.Is(err, captures.ErrMalformed) {
		t.Error(err)
	}
	if len(src.steps) != 2*maxSourceErrors-1 {
		t.Errorf("gave up with %d errors to come", len(src.steps))
	}
}

func TestErrorOfASinkEndsTheRun(t *testing.T) {
	full := errors.New("full")
	for _, workers := range []int{1, 4} {
		calls := 0
		sink := SinkFunc(func(*Batch) error {
			if calls++; calls == 2 {
				return full
			}
			return nil
		})
		_, err := New(Options{Workers: workers, Sinks: []Sink{sink}}).Run(t.Context(), open(t, long(t)...))
		var se *SourceError
		if !errors.Is(err, full) || errors.As(err, &se) || calls != 2 {
			t.Errorf("%d workers: %v after %d calls", workers, err, calls)
		}
	}
}

// TestPanicOfASink: whoever called Run gets it, whichever worker it hits.
func TestPanicOfASink(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		batches := 0
		sink := SinkFunc(func(*Batch) error {
			if batches++; batches == 5 {
				panic("the fifth")
			}
			return nil
		})
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "the fifth") {
					t.Errorf("%d workers: Run panicked with %v", workers, v)
				}
			}()
			r, err := New(Options{Workers: workers, Sinks: []Sink{sink}}).Run(t.Context(), open(t, long(t)...))
			t.Errorf("%d workers: Run returned %+v, %v", workers, r, err)
		}()
		if batches != 5 {
			t.Errorf("%d workers: %d batches behind the panic", workers, batches-5)
		}
	}
}

func TestContextEndsTheRun(t *testing.T) {
	reason := errors.New("asked to")
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	sink := SinkFunc(func(*Batch) error {
		if calls++; calls == 3 {
			cancel(reason)
		}
		return nil
	})
	r, err := New(Options{Track: true, Sinks: []Sink{sink}}).Run(ctx, open(t, long(t)...))
	if !errors.Is(err, reason) || calls != 3 || r.Snapshot == nil || r.Snapshot.Packets != r.Frames {
		t.Errorf("%v after %d calls: %+v", err, calls, r)
	}
}

func TestContextEndsAReadThatBlocks(t *testing.T) {
	reason := errors.New("asked to")
	ctx, cancel := context.WithCancelCause(t.Context())
	release := make(chan struct{})
	src := newScript(give(5), func([]captures.Frame) (int, error) {
		cancel(reason)
		<-release
		return 0, io.EOF
	})
	r, err := New(Options{Track: true, MayBlock: true}).Run(ctx, src)
	if !errors.Is(err, reason) || r.Frames != 5 || r.Snapshot.Packets != 5 || len(r.Interfaces) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	select {
	case <-src.closed:
		t.Error("closed while a read was under way")
	default:
	}
	close(release)
	<-src.closed
}

func TestSnapshotsOnRequest(t *testing.T) {
	src := newScript(give(5), give(6))
	p := New(Options{Track: true})
	if p.Snapshot() != nil {
		t.Error("a snapshot before the run")
	}
	var seen []uint64
	p.o.Sinks = []Sink{SinkFunc(func(*Batch) error {
		if s := p.Snapshot(); s != nil {
			seen = append(seen, s.Packets)
		}
		p.RequestSnapshot()
		p.RequestSnapshot()
		return nil
	})}
	if _, err := p.Run(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{5}, seen); diff != "" || p.Snapshot().Packets != 11 {
		t.Errorf("%s\nat the end %d", diff, p.Snapshot().Packets)
	}
}

func TestSnapshotWhileTheSourceWaits(t *testing.T) {
	var p *Pipeline
	src := newScript(give(5), func([]captures.Frame) (int, error) {
		p.RequestSnapshot()
		for deadline := time.Now().Add(10 * time.Second); p.Snapshot() == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("no snapshot while the source waits")
				break
			}
		}
		return 0, io.EOF
	})
	p = New(Options{Track: true, MayBlock: true})
	if _, err := p.Run(t.Context(), src); err != nil {
		t.Fatal(err)
	}
}

// promptScript is a source whose frames are there already but for the last step.
type promptScript struct{ *script }

func (s promptScript) Prompt() bool { return len(s.steps) > 1 }

// TestWhatIsThereIsRead: such a source keeps nobody from a snapshot, and its end
// is that of one that waits.
func TestWhatIsThereIsRead(t *testing.T) {
	var p *Pipeline
	var seen []uint64
	step := func(dst []captures.Frame) (int, error) {
		if s := p.Snapshot(); s != nil {
			seen = append(seen, s.Packets)
		}
		p.RequestSnapshot()
		return give(5)(dst)
	}
	src := promptScript{newScript(step, step, step, fail(io.EOF))}
	p = New(Options{Track: true, MayBlock: true})
	r, err := p.Run(t.Context(), src)
	if err != nil || r.Frames != 15 {
		t.Fatalf("%d frames, %v", r.Frames, err)
	}
	if diff := cmp.Diff([]uint64{5, 10}, seen); diff != "" {
		t.Errorf("snapshots: %s", diff)
	}
	<-src.closed
}

func TestSecondPassKnowsTheEnd(t *testing.T) {
	file := sampleFile(t, "lost_write_recovered")
	var finished []flows.Message
	got := map[flows.Status]int{}
	found := 0
	sink := SinkFunc(func(b *Batch) error {
		var room flows.Outcome
		for i := range b.Packets {
			o := b.Outcome(i, &room)
			if b.Marks[i].Conn != 0 && o.EstablishedBy != flows.BySocket {
				t.Errorf("packet %d: established by %v", b.Packets[i].Number, o.EstablishedBy)
			}
			if found += len(o.Findings); len(o.Findings) > 0 && o.Severity < flows.Checks()[o.Findings[0]].Severity {
				t.Errorf("packet %d: %v is graver than %v", b.Packets[i].Number, o.Findings, o.Severity)
			}
			if b.Marks[i].Has(flows.MarkMessage) {
				if o.Message == nil {
					t.Errorf("packet %d: nothing is known of its message", b.Packets[i].Number)
					continue
				}
				got[o.Message.Status]++
			}
		}
		return nil
	})
	o := Options{
		Track: true, CheckICRC: true, Outcomes: true, Sinks: []Sink{sink}, Filter: compile(t, "msg.status == IBV_WC_SUCCESS"),
		Reopen: func() (captures.Source, error) { return captures.Open(file) },
	}
	o.Tracker.Sink.Message = func(m *flows.Message) { finished = append(finished, *m) }
	r, err := New(o).Run(t.Context(), open(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if len(finished) != 60 || len(got) != 1 || got[flows.StatusSuccess] == 0 || found == 0 {
		t.Errorf("%d messages, packets by status %v, %d findings", len(finished), got, found)
	}
	if r.Frames != 518 || r.Matched != uint64(got[flows.StatusSuccess]) {
		t.Errorf("%d frames, %d selected, %v", r.Frames, r.Matched, got)
	}
}

func TestFileCutWhileItIsRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files are not mapped everywhere")
	}
	whole, err := os.ReadFile(bigFile(t, 40_000))
	if err != nil {
		t.Fatal(err)
	}
	for run, workers := range []int{1, 4, 1, 4} {
		var way []captures.Option
		if run < 2 {
			way = append(way, captures.Mapped())
		}
		file := filepath.Join(t.TempDir(), "cut.pcapng")
		if err := os.WriteFile(file, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		packets, calls := 0, 0
		sink := SinkFunc(func(b *Batch) error {
			packets += len(b.Packets)
			if calls++; calls == 3 {
				if err := os.Truncate(file, int64(len(whole)/3)); err != nil {
					t.Error(err)
				}
			}
			sum := byte(0)
			for _, d := range b.Data {
				for _, c := range d {
					sum += c
				}
			}
			_ = sum
			return nil
		})
		src, err := captures.Open(file, way...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Options{Workers: workers, CheckICRC: true, Track: true, Sinks: []Sink{sink}}).Run(t.Context(), src)
		var se *SourceError
		if !errors.Is(err, captures.ErrTruncated) || !errors.As(err, &se) {
			t.Errorf("%d workers: %v", workers, err)
		}
		if packets == 0 || uint64(packets) > r.Frames {
			t.Errorf("%d workers: %d packets of %d frames", workers, packets, r.Frames)
		}
	}
}

func TestNoAllocationPerPacket(t *testing.T) {
	testkit.SkipUnderRace(t)
	for _, workers := range []int{1, 2} {
		few, many := bigFile(t, 50_000), bigFile(t, 100_000) // both longer than what the source lends
		count := func(file string) (n float64) {
			src := open(t, file)
			p := New(Options{Workers: workers, CheckICRC: true, Filter: compile(t, "bth.psn == 5 or reth"), Sinks: []Sink{SinkFunc(func(*Batch) error { return nil })}})
			return testing.AllocsPerRun(1, func() {
				if src == nil {
					src = open(t, file)
				}
				if _, err := p.Run(t.Context(), src); err != nil {
					t.Fatal(err)
				}
				src = nil
			})
		}
		if a, b := count(few), count(many); b > a+20 {
			t.Errorf("%d workers: %v allocations for 50 000 packets, %v for 100 000", workers, a, b)
		}
	}
}

func TestFramesWithoutTime(t *testing.T) {
	times := []int64{0, 0, 70, 0, 90} // 0 is none
	src := newScript(func(dst []captures.Frame) (int, error) {
		for i, at := range times {
			dst[i] = captures.Frame{Time: at, HasTime: at != 0, Data: make([]byte, 60), WireLen: 60, Link: dissect.LinkEthernet}
		}
		return len(times), nil
	})
	type stamp struct {
		Time, Base, Prev int64
		None             bool
	}
	var got []stamp
	sink := SinkFunc(func(b *Batch) error {
		for i := range b.Packets {
			p := &b.Packets[i]
			got = append(got, stamp{p.Time, p.Base, p.Prev, p.NoTime})
		}
		return nil
	})
	r, err := New(Options{Sinks: []Sink{sink}}).Run(t.Context(), src)
	if err != nil || r.First != 70 || r.Last != 90 {
		t.Errorf("from %d to %d, %v", r.First, r.Last, err)
	}
	want := []stamp{{70, 70, 70, true}, {70, 70, 70, true}, {70, 70, 70, false}, {70, 70, 70, true}, {90, 70, 70, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
