package captures

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// someInterface is an interface of which everything is known.
var someInterface = Interface{
	Name: "eth0", Description: "the port under test", Filter: "roce", Hardware: "veth", OS: "Linux", Application: "a test",
	Link: dissect.LinkEthernet, SnapLen: 100, FCSLen: 4, Speed: 100e9, Resolution: "10^-9 s", UnitsPerSecond: 1e9, Stats: noStats,
}

func someFrames(n int) []Frame {
	frames := make([]Frame, n)
	for i := range frames {
		data := bytes.Repeat([]byte{byte(i)}, 14+i%90)
		frames[i] = Frame{Time: 1_700_000_000_000_000_000 + int64(i), Data: data, WireLen: len(data) + i%3, HasTime: true, Link: dissect.LinkEthernet, Direction: Direction(i % 3)}
	}
	return frames
}

// readBack reads what was written. There is nothing wrong with it.
func readBack(t *testing.T, data []byte) got {
	t.Helper()
	src, err := openStream(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	g := drain(t, src, 1000)
	if len(g.errs) > 0 {
		t.Fatal(g.errs)
	}
	for i := range g.ifs {
		g.ifs[i].File = ""
	}
	return g
}

func TestWriterRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf, WriterOptions{Application: "a test", Interfaces: []Interface{someInterface}, Remarks: []string{"a remark"}})
	second := w.AddInterface(Interface{Name: "raw", Link: dissect.LinkRaw})
	frames := someFrames(5000) // more than one buffer
	frames[7].Iface, frames[7].Link = second, dissect.LinkRaw
	frames[9].HasTime, frames[9].Time, frames[9].WireLen = false, 0, len(frames[9].Data)
	for i := range frames {
		var comments []string
		if i%100 == 3 {
			comments = []string{"a comment", "and another, longer one"}
		}
		if err := w.Write(&frames[i], comments...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(&Frame{Iface: 2}); err == nil {
		t.Error("a frame of an interface that nobody described was written")
	}
	want := InterfaceStats{Received: 10, Dropped: 3, FilterAccepted: 9, OSDropped: 2, Delivered: -1}
	if err := errors.Join(w.Statistics(0, want, 1, 2), w.Flush()); err != nil {
		t.Fatal(err)
	}
	g := readBack(t, buf.Bytes())
	if diff := cmp.Diff(frames, g.frames); diff != "" {
		t.Errorf("frames (-written +read):\n%s", diff)
	}
	described := someInterface
	described.Stats = want
	if diff := cmp.Diff(described, g.ifs[0]); diff != "" {
		t.Errorf("interface (-written +read):\n%s", diff)
	}

	ts := testkit.FindTshark(t)
	rows := ts.Fields(t, tempFile(t, buf.Bytes()), "frame.time_epoch", "frame.comment", "frame.len", "frame.cap_len")
	if len(rows) != len(frames) {
		t.Fatalf("tshark reads %d packets of %d", len(rows), len(frames))
	}
	if row := rows[103]; row[0] != "1700000000.000000103" || row[1] != "a comment" || row[2] != "28" || row[3] != "27" {
		t.Errorf("tshark reads %q", row)
	}
}

// limited takes so many bytes, and then has no space left.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if n := min(len(p), l.left); n < len(p) {
		l.left = 0
		l.Buffer.Write(p[:n])
		return n, syscall.ENOSPC
	}
	l.left -= len(p)
	return l.Buffer.Write(p)
}

func TestWriterFullDisk(t *testing.T) {
	full := &limited{left: writeBuffer + 1000}
	w := NewWriter(full, WriterOptions{Interfaces: []Interface{someInterface}})
	var err error
	frames := someFrames(10000)
	for i := 0; err == nil; i++ {
		err = w.Write(&frames[i])
	}
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(w.Flush(), syscall.ENOSPC) || !errors.Is(w.Write(&frames[0]), syscall.ENOSPC) {
		t.Errorf("it says %v", err)
	}
}

func TestWriterAllocatesNothing(t *testing.T) {
	testkit.SkipUnderRace(t)
	w := NewWriter(io.Discard, WriterOptions{Interfaces: []Interface{someInterface}})
	rec, err := NewRecorder(RecorderOptions{Output: io.Discard, WriterOptions: WriterOptions{Interfaces: []Interface{someInterface}}})
	if err != nil {
		t.Fatal(err)
	}
	frames := someFrames(500)
	for range 2000 { // the recorder's chunks are made as they are needed
		rec.Record(frames)
	}
	// Of the whole process: the recorder's other goroutine counts.
	if n := testing.AllocsPerRun(1000, func() {
		for i := range frames {
			w.Write(&frames[i])
		}
		rec.Record(frames)
	}); n >= 1 {
		t.Errorf("%v allocations for 1000 frames", n)
	}
	rec.Close()
}

// record writes frames with a recorder, in batches of 7, and returns what it says in the end.
func record(t *testing.T, o RecorderOptions, frames []Frame) (RecorderStats, error) {
	t.Helper()
	o.Interfaces = []Interface{someInterface}
	rec, err := NewRecorder(o)
	if err != nil {
		t.Fatal(err)
	}
	for batch := range slices.Chunk(frames, 7) {
		if _, err = rec.Record(batch); err != nil {
			break
		}
	}
	if cerr := rec.Close(); cerr != nil {
		err = cerr
	}
	return rec.Stats(), err
}

// readFiles reads files one after the other. None has an error.
func readFiles(t *testing.T, names []string) (all []Frame) {
	t.Helper()
	for _, name := range names {
		src, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		g := drain(t, src, 100)
		src.Close()
		if len(g.errs) > 0 {
			t.Fatal(g.errs)
		}
		if g.ifs[0].Name != "eth0" {
			t.Errorf("%s has interfaces %+v", name, g.ifs)
		}
		all = append(all, g.frames...)
	}
	return all
}

func TestRecorderRotation(t *testing.T) {
	frames := someFrames(1000)
	for _, c := range []struct {
		name  string
		r     Rotation
		stop  Limits
		files int
		from  int // first frame that is kept
		to    int
	}{
		{"by packets", Rotation{Packets: 300}, Limits{}, 4, 0, 1000},
		{"exactly full at the end", Rotation{Packets: 250}, Limits{}, 4, 0, 1000},
		{"keeping two", Rotation{Packets: 300, Files: 2}, Limits{}, 2, 600, 1000},
		{"by size", Rotation{Bytes: 1}, Limits{Packets: 5}, 5, 0, 5},
		{"by size, larger", Rotation{Bytes: 50_000}, Limits{}, 2, 0, 1000},
		{"by time, all the time", Rotation{Duration: 1}, Limits{Packets: 1}, 1, 0, 1},
		{"by time, never", Rotation{Duration: time.Hour}, Limits{}, 1, 0, 1000},
		{"until two files are full", Rotation{Packets: 300}, Limits{Files: 2}, 2, 0, 600},
		{"until a size", Rotation{}, Limits{Bytes: 1}, 1, 0, 1},
		{"until a number of packets", Rotation{}, Limits{Packets: 123}, 1, 0, 123},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			st, err := record(t, RecorderOptions{Path: filepath.Join(dir, "a.b.pcapng"), Rotate: c.r, Stop: c.stop}, frames)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if limited := c.stop != (Limits{}); errors.Is(err, io.EOF) != limited {
				t.Errorf("it ended with %v", err)
			}
			names, _ := filepath.Glob(filepath.Join(dir, "*"))
			if len(names) != c.files {
				t.Errorf("there are %q, want %d files", names, c.files)
			}
			if diff := cmp.Diff(frames[c.from:c.to], readFiles(t, names)); diff != "" {
				t.Errorf("frames (-recorded +read):\n%s", diff)
			}
			if n := uint64(c.to); st.Accepted != n || st.Written != n || st.Dropped+st.Failed != 0 || st.Queued != 0 {
				t.Errorf("it counts %+v", st)
			}
			if c.r.some() && !strings.HasPrefix(filepath.Base(st.File), "a.b_000") {
				t.Errorf("the last file is %s", st.File)
			}
		})
	}
}

func TestRotatedName(t *testing.T) {
	at := time.Date(2024, 1, 2, 3, 4, 5, 6, time.Local)
	for path, want := range map[string]string{
		"a.pcapng":      "a_00007_20240102030405.pcapng",
		"./x.y/capture": "./x.y/capture_00007_20240102030405",
		"d/.hidden":     "d/.hidden_00007_20240102030405",
	} {
		if got := rotatedName(path, 7, at); got != want {
			t.Errorf("%s becomes %s, want %s", path, got, want)
		}
	}
}

func TestRecorderKeepsFiles(t *testing.T) {
	file := tempFile(t, []byte("precious"))
	o := RecorderOptions{Path: file}
	if _, err := NewRecorder(o); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there: %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file has become %q", b)
	}
	o.Force = true
	if _, err := record(t, o, someFrames(3)); err != nil {
		t.Fatal(err)
	}
	if n := len(readFiles(t, []string{file})); n != 3 {
		t.Errorf("overwritten, it has %d frames", n)
	}
	if _, err := record(t, RecorderOptions{Path: os.DevNull}, someFrames(3)); err != nil {
		t.Errorf("a device: %v", err)
	}
	for _, bad := range []RecorderOptions{
		{},
		{Path: t.TempDir()},
		{Path: t.TempDir(), Force: true},
		{Path: "x", Rotate: Rotation{Files: 2}},
		{Output: io.Discard, Rotate: Rotation{Packets: 2}},
	} {
		if _, err := NewRecorder(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// gate holds every write back until it is opened.
type gate struct {
	bytes.Buffer
	open sync.Mutex
}

func (g *gate) Write(p []byte) (int, error) {
	g.open.Lock()
	defer g.open.Unlock()
	return g.Buffer.Write(p)
}

// TestRecorderNeverWaits records more than the queue holds while nothing can be written.
func TestRecorderNeverWaits(t *testing.T) {
	var out gate
	rec, err := NewRecorder(RecorderOptions{
		Output: &out, Queue: 4 * chunkSize, WriterOptions: WriterOptions{Interfaces: []Interface{someInterface}},
		Statistics: func() []InterfaceStats { return []InterfaceStats{{Received: 7, Dropped: 5}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	out.open.Lock()
	frames := someFrames(100_000)
	if n, err := rec.Record(frames); n != len(frames) || err != nil {
		t.Fatalf("recorded %d, %v", n, err)
	}
	st := rec.Stats()
	if st.Dropped == 0 || st.Accepted+st.Dropped != uint64(len(frames)) || st.Written != 0 || st.Queued > 4*chunkSize {
		t.Errorf("it counts %+v", st)
	}
	out.open.Unlock()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	st = rec.Stats()
	if st.Written != st.Accepted || st.Queued != 0 || st.Bytes != uint64(out.Len()) {
		t.Errorf("after the end it counts %+v", st)
	}
	got := readBack(t, out.Bytes())
	if uint64(len(got.frames)) != st.Written || got.ifs[0].Stats.Dropped != 5 {
		t.Errorf("read %d frames, %+v", len(got.frames), got.ifs)
	}
	if diff := cmp.Diff(frames[:len(got.frames)], got.frames); diff != "" {
		t.Error("it dropped others than the last frames")
	}
}

func TestRecorderFullDisk(t *testing.T) {
	for _, room := range []int{300, 5000, chunkSize + 77} {
		out := &limited{left: room}
		frames := someFrames(20_000)
		st, err := record(t, RecorderOptions{Output: out}, frames)
		var failure *WriteError
		if !errors.As(err, &failure) || !errors.Is(err, syscall.ENOSPC) || failure.Frames != st.Written {
			t.Fatalf("%d bytes of room: %v", room, err)
		}
		if st.Accepted != st.Written+st.Failed || st.Failed == 0 {
			t.Errorf("%d bytes of room: it counts %+v", room, st)
		}
		src, err := openStream(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		g := drain(t, src, 100)
		if uint64(len(g.frames)) != st.Written {
			t.Errorf("%d bytes of room: %d frames can be read, %d are said to be whole", room, len(g.frames), st.Written)
		}
	}
}
