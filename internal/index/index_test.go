package index

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/filter"
)

// truth is a packet as one run of the engine tells it.
type truth struct {
	Packet  dissect.Packet
	Mark    flows.Mark
	Data    []byte
	Matched bool
}

// sequential reads files by the engine, with an optional filter.
func sequential(t testing.TB, open func(context.Context) (captures.Source, error), o engine.Options) ([]truth, error) {
	t.Helper()
	src, err := open(t.Context())
	if err != nil {
		return nil, err
	}
	var all []truth
	joined, turned := map[uint32]uint32{}, map[uint32]uint64{}
	o.Track, o.CheckICRC = true, true
	o.Tracker.Sink.Joined = func(gone, into uint32) { joined[gone] = into }
	o.Tracker.Sink.Turned = func(conn uint32, upTo uint64) { turned[conn] = upTo }
	o.Sinks = []engine.Sink{engine.SinkFunc(func(b *engine.Batch) error {
		for i := range b.Packets {
			all = append(all, truth{b.Packets[i], b.Marks[i], bytes.Clone(b.Data[i]), b.Matched[i]})
		}
		return nil
	})}
	o.Reopen = func() (captures.Source, error) { return open(t.Context()) }
	_, err = engine.New(o).Run(t.Context(), src)
	for i := range all {
		m := &all[i].Mark
		if all[i].Packet.Number <= turned[m.Conn] {
			m.Direction = m.Direction.Reverse()
		}
		for joined[m.Conn] != 0 {
			m.Conn = joined[m.Conn]
		}
		tidy(m)
	}
	return all, err
}

// tidy clears what a mark does not say.
func tidy(m *flows.Mark) {
	if !m.Has(flows.MarkPSN) {
		m.PSNOffset = 0
	}
	if !m.Has(flows.MarkMessage) {
		m.Message = 0
	}
}

func fileOpener(paths ...string) func(context.Context) (captures.Source, error) {
	return func(context.Context) (captures.Source, error) { return captures.OpenFiles(paths) }
}

// indexed reads a capture to its end.
func indexed(t testing.TB, o Options) *Index {
	t.Helper()
	o.Engine.CheckICRC = true
	x, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	<-x.Done()
	return x
}

func sampleFrames(t testing.TB) (names []string, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	for _, s := range samples.List() {
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		names, files[s.Name] = append(names, s.Name), data
	}
	return names, files
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sections rewrites captures as one pcapng file with a section each; sections have
// interfaces of their own, frames take turns among them, some have no time, some are
// cut, some were sent.
func sections(t testing.TB, files [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	for k, file := range files {
		src, err := captures.Open(write(t, "part", file))
		if err != nil {
			t.Fatal(err)
		}
		face := src.Interfaces()[0]
		faces := slices.Repeat([]captures.Interface{face}, k%3+1)
		w := captures.NewWriter(&out, captures.WriterOptions{Interfaces: faces})
		batch := make([]captures.Frame, 100)
		for {
			n, err := src.ReadBatch(batch)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range batch[:n] {
				f := batch[i]
				f.Iface = i % len(faces)
				f.Direction = captures.Direction(i % 3)
				if i%17 == 5 {
					f.Data = f.Data[:len(f.Data)*2/3]
				}
				f.HasTime = i%23 != 7 || f.Iface != 0
				if !f.HasTime {
					f.Time, f.Direction = 0, captures.InOut
				}
				if err := w.Write(&f); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		src.Close()
	}
	return out.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// kinds are the ways in which a capture comes, each with all of the samples' stories
// or one of them.
func kinds(t testing.TB) map[string]Options {
	names, files := sampleFrames(t)
	var all [][]byte
	var paths []string
	for _, n := range names {
		all = append(all, files[n])
		paths = append(paths, write(t, n+".pcap", files[n]))
	}
	mixed := slices.Clone(paths)
	mixed[1] = write(t, "some.pcap.gz", zipped(t, files[names[1]]))
	ng := sections(t, all)
	return map[string]Options{
		"pcap":                     {Open: fileOpener(paths[0]), Again: true},
		"pcapng of many sections":  {Open: fileOpener(write(t, "all.pcapng", ng)), Again: true},
		"gzip":                     {Open: fileOpener(write(t, "all.pcapng.gz", zipped(t, ng))), Again: true},
		"files":                    {Open: fileOpener(paths...), Again: true},
		"files, one of them gzip":  {Open: fileOpener(mixed...), Again: true},
		"several workers":          {Open: fileOpener(write(t, "all2.pcapng", ng)), Again: true, Engine: engine.Options{Workers: 3}},
		"as if it were a live one": {Open: fileOpener(write(t, "all3.pcapng", ng)), Live: true},
	}
}

func TestSamePacketsAsReadingOn(t *testing.T) {
	for name, o := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			want, err := sequential(t, o.Open, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x := indexed(t, o)
			if _, err := x.Result(); err != nil {
				t.Fatal(err)
			}
			samePackets(t, x, want)
		})
	}
}

// TestDirectionsAreTheConnections: a packet goes where its connection says, also one that passed before it was known whose
// partner is whose.
func TestDirectionsAreTheConnections(t *testing.T) {
	_, files := sampleFrames(t)
	checked := 0
	for name, data := range files {
		x := indexed(t, Options{Open: fileOpener(write(t, name, data)), Again: true})
		conns := map[uint32]*flows.Connection{}
		for i, all := 0, x.Snapshot().Connections; i < len(all); i++ {
			conns[all[i].ID] = &all[i]
		}
		r := x.NewReader()
		var row Row
		for n := x.First(); n <= x.Last(); n++ {
			if err := r.At(n, &row); err != nil {
				t.Fatal(err)
			}
			p, k := &row.Packet, conns[row.Mark.Conn]
			if k == nil || !p.Has(dissect.LayerBTH) || p.Op().Family == dissect.Congestion || !k.A.Known || !k.B.Known {
				continue
			}
			toA, toB := p.Dst == k.A.Addr && p.DestQP == k.A.QPN, p.Dst == k.B.Addr && p.DestQP == k.B.QPN
			if toA == toB {
				continue
			}
			checked++
			if want := map[bool]flows.Direction{true: flows.AToB, false: flows.BToA}[toB]; row.Mark.Direction != want {
				t.Fatalf("%s: packet %d of connection %d goes %v, should be %v", name, n, k.ID, row.Mark.Direction, want)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d packets have been checked", checked)
	}
}

// samePackets compares all packets, in order and at random.
func samePackets(t *testing.T, x *Index, want []truth) {
	t.Helper()
	if x.First() != 1 || x.Last() != uint64(len(want)) {
		t.Fatalf("there are packets %d to %d, should be 1 to %d", x.First(), x.Last(), len(want))
	}
	r := x.NewReader()
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(want))
	for i := range want {
		order = append(order, i)
	}
	var row Row
	for _, i := range order {
		if err := r.At(uint64(i)+1, &row); err != nil {
			t.Fatal(err)
		}
		w := &want[i]
		if !bytes.Equal(row.Data, w.Data) {
			t.Fatalf("packet %d has other bytes", i+1)
		}
		if row.Mark != w.Mark {
			t.Fatalf("packet %d is marked\n%+v, should be\n%+v", i+1, row.Mark, w.Mark)
		}
		// What Decode leaves from the packet before is nobody's business.
		if diff := cmp.Diff(shown(&w.Packet, w.Data), shown(&row.Packet, row.Data)); diff != "" {
			t.Fatalf("packet %d is not the same:\n%s", i+1, diff)
		}
	}
	if err := r.At(uint64(len(want))+1, &row); err == nil {
		t.Error("there is a packet behind the last")
	}
}

// shown is all fields of a packet as text.
func shown(p *dissect.Packet, data []byte) (all []string) {
	fields := dissect.Fields()
	for i := range fields {
		f := &fields[i]
		if v, ok := f.Uint(p, data); ok {
			all = append(all, fmt.Sprintf("%s %d", f.Name, v))
		}
	}
	return all
}

func TestPipeIsSpooled(t *testing.T) {
	data, err := samples.Open(samples.Default)
	if err != nil {
		t.Fatal(err)
	}
	want, err := sequential(t, fileOpener(write(t, "file", data)), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	go func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer f.Close()
		for len(data) > 0 { // small pieces, so that blocks are shown before they are full
			n := min(len(data), 700)
			f.Write(data[:n])
			data = data[n:]
		}
	}()
	dir := t.TempDir()
	x := indexed(t, Options{Open: fileOpener(fifo), SpoolDir: dir, Engine: engine.Options{MayBlock: true}})
	samePackets(t, x, want)
	if p := x.Progress(); p.Spooled == 0 {
		t.Error("nothing was spooled")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the spool has a name: %v", left)
	}
	if _, err := x.Filter(t.Context(), compile(t, "msg.size > 0")); err == nil || !strings.Contains(err.Error(), "read twice") {
		t.Errorf("a filter on the end of a pipe: %v", err)
	}
}

func compile(t testing.TB, text string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestViews(t *testing.T) {
	for name, o := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			x := indexed(t, o)
			for _, text := range []string{
				"infiniband.bth.opcode == RC_ACKNOWLEDGE", "flow.retransmission", "flow.nak or flow.gap", "not flow.request",
				"frame.number in {3..9, 20}", "frame.len > 200 and flow.response", "ip.addr and frame.time_delta > 10us", "msg.index == 2",
				"bth.psn > 100 and flow.id", "infiniband.invariant.crc", "frame.time_relative < 1", "msg.size > 100", `finding.severity == "error"`, "flow.round > 0",
			} {
				f := compile(t, text)
				if f.Needs() == filter.NeedEnd && !o.Again {
					continue
				}
				want, err := sequential(t, o.Open, engine.Options{Filter: f, Outcomes: f.Needs() == filter.NeedEnd})
				if err != nil {
					t.Fatal(err)
				}
				v, err := x.Filter(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				<-v.Done()
				if ok, err := v.State(); !ok || err != nil {
					t.Fatalf("%s: %v %v", text, ok, err)
				}
				var numbers []uint64
				for i := range want {
					if want[i].Matched {
						numbers = append(numbers, uint64(i)+1)
					}
				}
				sameView(t, text, v, numbers, uint64(len(want)))
			}
		})
	}
}

func sameView(t *testing.T, what string, v *View, want []uint64, last uint64) {
	t.Helper()
	if got := slices.Collect(v.Frames()); !slices.Equal(got, want) {
		t.Errorf("%s selects others: %s", what, cmp.Diff(want, got))
		return
	}
	if v.Len() != len(want) {
		t.Errorf("%s selects %d packets, should be %d", what, v.Len(), len(want))
	}
	for i, n := range want {
		if got, ok := v.Frame(i); !ok || got != n {
			t.Errorf("%s: number %d is packet %d, should be %d", what, i, got, n)
		}
	}
	if _, ok := v.Frame(len(want)); ok {
		t.Errorf("%s: there is one behind the last", what)
	}
	for n := uint64(1); n <= last; n++ {
		i, exact := slices.BinarySearch(want, n)
		if gotI, gotExact := v.Find(n); gotI != i || gotExact != exact {
			t.Errorf("%s: packet %d is at %d, %v; should be %d, %v", what, n, gotI, gotExact, i, exact)
		}
	}
}

func TestConnectionsAndMessages(t *testing.T) {
	for name, o := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			all, err := sequential(t, o.Open, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x := indexed(t, o)
			result, _ := x.Result()
			for i := range result.Snapshot.Connections {
				conn := result.Snapshot.Connections[i].ID
				var want []uint64
				for k := range all {
					if all[k].Mark.Conn == conn {
						want = append(want, uint64(k)+1)
					}
				}
				v := x.OfConnection(t.Context(), conn)
				<-v.Done()
				sameView(t, fmt.Sprintf("connection %d", conn), v, want, 0)
				got, err := x.MessagesOf(t.Context(), conn, 1000)
				if err != nil || got.Partial {
					t.Fatal(err, got.Partial)
				}
				var count uint64
				for _, s := range result.Snapshot.Connections[i].Streams {
					for _, m := range s.Messages {
						count += m.Count
					}
				}
				if uint64(got.Total) != count {
					t.Errorf("connection %d has %d messages, the snapshot says %d", conn, got.Total, count)
				}
				for _, m := range got.List[:min(len(got.List), 3)] {
					v := x.OfMessage(t.Context(), conn, m.Direction, m.Index)
					<-v.Done()
					if _, ok := v.Find(m.FirstFrame); !ok && m.FirstFrame != 0 {
						t.Errorf("connection %d, message %d does not have its first frame %d but %v", conn, m.Index, m.FirstFrame, slices.Collect(v.Frames()))
					}
				}
			}
		})
	}
}

func TestFindings(t *testing.T) {
	o := kinds(t)["pcapng of many sections"]
	var want []uint64
	o.Engine.Tracker.Sink.Finding = func(f *flows.Finding) { want = append(want, f.Frame) }
	x := indexed(t, o)
	slices.Sort(want)
	if len(want) < 10 {
		t.Fatalf("the samples have %d findings only", len(want))
	}
	distinct := slices.Compact(slices.Clone(want))
	var got []uint64
	for n, ok := x.NextFinding(0); ok; n, ok = x.NextFinding(n) {
		got = append(got, n)
	}
	if !slices.Equal(got, distinct) {
		t.Errorf("next: %v, should be %v", got, distinct)
	}
	got = nil
	for n, ok := x.PrevFinding(x.Last() + 1); ok; n, ok = x.PrevFinding(n) {
		got = append(got, n)
	}
	slices.Reverse(got)
	if !slices.Equal(got, distinct) {
		t.Errorf("previous: %v, should be %v", got, distinct)
	}
	all, more := x.Findings()
	if len(all) != len(want) || more != 0 {
		t.Errorf("%d findings, should be %d", len(all), len(want))
	}
	for _, n := range distinct {
		if len(x.FindingsOf(n)) == 0 {
			t.Errorf("packet %d proves nothing", n)
		}
	}
}

func TestSearch(t *testing.T) {
	o := kinds(t)["pcapng of many sections"]
	all, err := sequential(t, o.Open, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := indexed(t, o)
	word := all[40].Data[30:38]
	hexes, err := MatchHex(fmt.Sprintf("0x%x", word))
	if err != nil {
		t.Fatal(err)
	}
	evens := x.Select(t.Context(), func(e *Entry) bool { return e.Number%2 == 0 })
	<-evens.Done()
	for _, view := range []*View{nil, evens} {
		for _, backward := range []bool{false, true} {
			var want, got []uint64
			for i := range all {
				if bytes.Contains(all[i].Data, word) && (view == nil || i%2 == 1) {
					want = append(want, uint64(i)+1)
				}
			}
			r, from := x.NewReader(), uint64(0)
			if backward {
				slices.Reverse(want)
				from = x.Last() + 1
			}
			for {
				hit, ok, err := r.Search(t.Context(), hexes, from, backward, view)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if !bytes.HasPrefix(all[hit.Number-1].Data[hit.At:], word) || hit.Length != len(word) {
					t.Errorf("packet %d does not have it at %d", hit.Number, hit.At)
				}
				from = hit.Number
				got = append(got, hit.Number)
			}
			if !slices.Equal(got, want) {
				t.Errorf("backward %v, view %v: found %v, should be %v", backward, view != nil, got, want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := x.NewReader().Search(ctx, hexes, 0, false, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMatches(t *testing.T) {
	row := &Row{Data: []byte("xx RoCE\x00\xffv2\nend")}
	for _, c := range []struct {
		name     string
		make     func(string) (Match, error)
		text     string
		at, size int // -1: not there
		fails    bool
	}{
		{"text", MatchText, "roce", 3, 4, false},
		{"text with capitals", MatchText, "RoCE", 3, 4, false},
		{"text with other capitals", MatchText, "ROCE", -1, 0, false},
		{"text with an expression's characters", MatchText, "r.c", -1, 0, false},
		{"no text", MatchText, "", 0, 0, true},
		{"expression", MatchRegexp, "r.c.+v\\d", 3, 8, false},
		{"expression over a line's end", MatchRegexp, "v2.end", 9, 6, false},
		{"no expression", MatchRegexp, "(", 0, 0, true},
		{"hex", MatchHex, "00:ff 76", 7, 3, false},
		{"hex that is not there", MatchHex, "0x00fe", -1, 0, false},
		{"half a byte", MatchHex, "0x0", 0, 0, true},
		{"no bytes", MatchHex, "", 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := c.make(c.text)
			if (err != nil) != c.fails {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			at, size, ok := m(row)
			if ok != (c.at >= 0) || ok && (at != c.at || size != c.size) {
				t.Errorf("found %v at %d, %d bytes; should be at %d, %d bytes", ok, at, size, c.at, c.size)
			}
		})
	}
}

func TestExport(t *testing.T) {
	for name, o := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			all, err := sequential(t, o.Open, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x := indexed(t, o)
			v := x.Select(t.Context(), func(e *Entry) bool { return e.Number%3 != 0 })
			<-v.Done()
			path := filepath.Join(t.TempDir(), "slice.pcapng")
			comment := func(n uint64) []string { return []string{fmt.Sprint("frame ", n)} }
			n, err := x.Export(t.Context(), path, v.Frames(), ExportOptions{Comment: comment})
			if err != nil || n != uint64(v.Len()) {
				t.Fatal(n, err)
			}
			got, err := sequential(t, fileOpener(path), engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			k := 0
			for i := range all {
				if (i+1)%3 == 0 {
					continue
				}
				g, w := &got[k], &all[i]
				k++
				if !bytes.Equal(g.Data, w.Data) || g.Packet.WireLen != w.Packet.WireLen || g.Packet.Link != w.Packet.Link ||
					!w.Packet.NoTime && g.Packet.Time != w.Packet.Time || g.Packet.Direction != w.Packet.Direction || g.Packet.Iface != w.Packet.Iface {
					t.Fatalf("packet %d is written as another", i+1)
				}
			}
			if k != len(got) {
				t.Errorf("%d packets are there, should be %d", len(got), k)
			}
			if _, err := x.Export(t.Context(), path, v.Frames(), ExportOptions{}); !errors.Is(err, os.ErrExist) {
				t.Errorf("over a file that is there: %v", err)
			}
			if n, err := x.Export(t.Context(), path, slices.Values([]uint64{2, 5}), ExportOptions{Overwrite: true}); n != 2 || err != nil {
				t.Errorf("over a file that is there, as asked: %d, %v", n, err)
			}
			if file := x.Interfaces()[0].File; file != "" {
				if _, err := x.Export(t.Context(), file, v.Frames(), ExportOptions{Overwrite: true}); err == nil {
					t.Error("the capture was overwritten")
				}
			}
		})
	}
}
