package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

// asOne and asShards read the same files: by one tracker, and by several that share it in whichever way the buckets fall.
func asOne(t testing.TB, o Options, files ...string) (Result, error) {
	t.Helper()
	o.Workers = 1
	return New(o).Run(t.Context(), open(t, files...))
}

func asShards(t testing.TB, o Options, workers int, files ...string) (got Result, crossed string, err error) {
	t.Helper()
	o.Reopen = func() (captures.Source, error) { return captures.OpenFiles(files) }
	s := newShards(New(o), o, deal(&[numBuckets]int{}, workers), open(t, files...))
	if crossed, err = s.run(t.Context()); crossed != "" {
		return got, crossed, err
	}
	got, err = s.r.conclude(err)
	return got, "", err
}

// everyCapture is all captures that there are: the bundled ones, and the reference captures where they are.
func everyCapture(t testing.TB) (files []string) {
	for _, s := range samples.List() {
		files = append(files, sampleFile(t, s.Name))
	}
	if root := os.Getenv("ROCESCOPE_CAPTURES"); root != "" {
		_ = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
			if err == nil && (strings.Contains(e.Name(), ".pcap") || strings.HasSuffix(e.Name(), ".erf")) {
				files = append(files, path)
			}
			return nil
		})
	}
	return files
}

// TestSharesOfEveryCapture: what trackers know together is what one knows, or they say that it may not be.
func TestSharesOfEveryCapture(t *testing.T) {
	shared, crossed := 0, map[string]int{}
	for _, file := range everyCapture(t) {
		if src, err := captures.OpenFiles([]string{file}); err != nil {
			continue
		} else {
			src.Close()
		}
		o := Options{CheckICRC: true, Track: true, Tracker: flows.Options{Series: true}}
		want, wantErr := asOne(t, o, file)
		for _, workers := range []int{2, 3} {
			got, why, err := asShards(t, o, workers, file)
			if why != "" {
				crossed[why]++
				continue
			}
			shared++
			if diff := gocmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("%s, %d workers, %v, %v:\n%.3000s", filepath.Base(file), workers, err, wantErr, diff)
			}
		}
	}
	t.Logf("%d shared, not shared: %v", shared, crossed)
	if shared == 0 {
		t.Error("nothing was shared")
	}
}

// elsewhere is a capture's frames as if other hosts had sent them, from a time on: the IPv4 addresses of its packets are changed
// wherever they stand, in headers and in set-up.
func elsewhere(t testing.TB, file string, which byte, start int64) (frames []testkit.Frame) {
	t.Helper()
	addresses := map[string]bool{}
	got, err := New(Options{Sinks: []Sink{SinkFunc(func(b *Batch) error {
		for i := range b.Packets {
			if a := b.Packets[i].Src; a.Is4() && !a.IsZero() {
				v4 := a.Netip().As4()
				addresses[string(v4[:])] = true
			}
			f := b.Frames[i]
			frames = append(frames, testkit.Frame{Time: f.Time, Data: bytes.Clone(f.Data), WireLen: f.WireLen, Link: f.Link})
		}
		return nil
	})}}).Run(t.Context(), open(t, file))
	if err != nil {
		return nil
	}
	for i := range frames {
		frames[i].Time += start - got.First
		for a := range addresses {
			frames[i].Data = bytes.ReplaceAll(frames[i].Data, []byte(a), []byte{a[0], a[1] ^ which, a[2], a[3]})
		}
	}
	return frames
}

// TestSharesOfManyPairs mixes captures, healthy and faulty, each between hosts of its own.
func TestSharesOfManyPairs(t *testing.T) {
	var plain []string
	for _, file := range everyCapture(t) {
		src, err := captures.OpenFiles([]string{file})
		if err != nil {
			continue
		}
		if f := src.Interfaces(); len(f) == 1 && f[0].Link == dissect.LinkEthernet {
			plain = append(plain, file)
		}
		src.Close()
	}
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	shared := 0
	for round := range rounds {
		r := rand.New(rand.NewPCG(uint64(round), 7))
		var frames []testkit.Frame
		for n := range 12 {
			frames = append(frames, elsewhere(t, plain[r.IntN(len(plain))], byte(16+n), 1e18+r.Int64N(1e8))...)
		}
		slices.SortStableFunc(frames, func(a, b testkit.Frame) int { return cmp.Compare(a.Time, b.Time) })
		file := testkit.WriteCapture(t, fmt.Sprint(round, ".pcapng"), frames)
		o := Options{Track: true, Tracker: flows.Options{Series: true, MaxDetails: 5}} // the ICRCs are those of the old addresses
		want, err := asOne(t, o, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{2, 5} {
			got, why, err := asShards(t, o, workers, file)
			if why != "" {
				t.Log(round, workers, why)
				continue
			}
			shared++
			if diff := gocmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("round %d, %d workers, %v:\n%.3000s", round, workers, err, diff)
			}
		}
	}
	if shared < rounds/2 {
		t.Errorf("only %d of %d were shared", shared, 2*rounds)
	}
}

// pairs are testkit's.
type pairs []*testkit.Exchange

// write has each pair write once.
func (all pairs) write() {
	for _, x := range all {
		x.B.Answer(x.A.Write(3000))
	}
}

// turnByTurn deals the pairs to the workers in turn.
func (all pairs) turnByTurn(workers int) *dealing {
	d := &dealing{workers: workers}
	for i, x := range all {
		d.owners[bucketOf(dissect.AddrFrom(x.A.Addr), dissect.AddrFrom(x.B.Addr))] = uint8(i % workers)
	}
	return d
}

// TestWhatCannotBeShared: something reaches from one worker's pairs to another's. It is noticed, and the result is as by one worker.
func TestWhatCannotBeShared(t *testing.T) {
	from := func(addr string, b *testkit.Build) { b.Outer.Src = netip.MustParseAddr(addr) }
	for _, c := range []struct {
		name    string
		crossed string // "" = it can be shared
		more    func(all pairs)
		tracker flows.Options
	}{
		{name: "nothing", more: func(pairs) {}},
		{name: "set-up of each pair", more: func(all pairs) {
			all[2].Disconnect()
			all[2].Connect()
		}},
		{name: "a stranger's packet", crossed: "a queue pair that several", more: func(all pairs) {
			all[1].A.Packet(dissect.OpRCWriteOnly, func(b *testkit.Build) { from("10.0.9.9", b); b.Payload = make([]byte, 8) })
			all.write()
		}},
		{name: "a CNP from elsewhere", crossed: "a queue pair that several", more: func(all pairs) {
			all[1].A.Packet(dissect.OpCNP, func(b *testkit.Build) { from("10.0.9.9", b); b.Payload = make([]byte, 16) })
		}},
		{name: "a damaged packet from elsewhere", crossed: "a queue pair that several", more: func(all pairs) {
			all[1].A.Packet(dissect.OpRCWriteOnly, func(b *testkit.Build) { from("10.0.9.9", b); b.Payload = make([]byte, 8) }).BreakICRC()
		}},
		{name: "set-up that names another pair's", crossed: "a queue pair that several", more: func(all pairs) {
			x := all[1].Beside(func(o *testkit.ExchangeOptions) { o.A, o.B, o.QPNA = all[1].ExchangeOptions.A, "10.0.9.9", all[1].QPNA })
			x.Connect()
		}},
		{name: "a datagram queue pair that several talk to", more: func(all pairs) {
			for _, from := range []string{"10.0.1.1", "10.0.9.9"} {
				all[1].Beside(func(o *testkit.ExchangeOptions) { o.Transport, o.A, o.QPNB = dissect.UD, from, 0x502 }).A.Send(8)
			}
		}},
		{name: "the same, with set-up", crossed: "a queue pair that several", more: func(all pairs) {
			x := all[1].Beside(func(o *testkit.ExchangeOptions) { o.Transport, o.QPNA, o.QPNB = dissect.UD, 0x501, 0x502 })
			x.Perftest()
			x.A.Send(8)
			all[1].Beside(func(o *testkit.ExchangeOptions) { o.Transport, o.A, o.QPNB = dissect.UD, "10.0.9.9", 0x502 }).A.Send(8)
		}},
		{name: "a damaged management datagram", crossed: "a queue pair that several", more: func(all pairs) { all[1].A.REQ().BreakICRC() }},
		{name: "a sender's wrong ICRCs to two hosts", crossed: "wrong ICRCs", more: func(all pairs) {
			x := all[1].Beside(func(o *testkit.ExchangeOptions) { o.A, o.B = all[1].ExchangeOptions.A, "10.0.9.9" })
			all[1].A.Write(8).Packets[0].BreakICRC()
			x.A.Write(8).Packets[0].BreakICRC()
		}},
		{name: "a link with both versions of RoCE", crossed: "RoCE v1", more: func(all pairs) {
			all[0].Beside(func(o *testkit.ExchangeOptions) { o.RoCEv1 = true }).A.Write(8)
		}},
		{name: "a pause frame", crossed: "pause", more: func(all pairs) { all[0].A.PFC(map[int]uint16{3: 100}) }},
		{name: "a fragment", crossed: "fragments", more: func(all pairs) {
			all[0].A.Write(8).Packets[0].Data[14+6] |= 0x20 // more fragments
		}},
		{name: "too many connections", crossed: "too many connections", more: func(pairs) {}, tracker: flows.Options{MaxConnections: 5}},
		{name: "too many findings", crossed: "a table that is full", tracker: flows.Options{MaxFindings: 3}, more: func(all pairs) {
			for _, x := range all {
				x.A.Write(8).Packets[0].BreakICRC()
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := pairs(testkit.Pairs(4))
			all.write()
			c.more(all)
			all.write()
			file := testkit.WriteCapture(t, "pairs.pcapng", all[0].Frames())
			o := Options{CheckICRC: true, Track: true, Tracker: c.tracker, Workers: 2}
			o.Reopen = func() (captures.Source, error) { return captures.OpenFiles([]string{file}) }
			s := newShards(New(o), o, all.turnByTurn(2), open(t, file))
			crossed, err := s.run(t.Context())
			if err != nil || !strings.Contains(crossed, c.crossed) || (crossed == "") != (c.crossed == "") {
				t.Fatalf("%v, crossed: %q", err, crossed)
			}
			want, err := asOne(t, o, file)
			if err != nil {
				t.Fatal(err)
			}
			if crossed == "" {
				got, err := s.r.conclude(nil)
				if diff := gocmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v\n%s", err, diff)
				}
			}
		})
	}
}

// TestSurvey: who shares what is seen at the beginning of the capture, and Run does it.
func TestSurvey(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool
		make   func() *testkit.Exchange
	}{
		{"many pairs", true, func() *testkit.Exchange {
			all := pairs(testkit.Pairs(16))
			for range 400 {
				all.write()
			}
			return all[0]
		}},
		{"one pair", false, func() *testkit.Exchange {
			all := pairs(testkit.Pairs(1))
			for range 6000 {
				all.write()
			}
			return all[0]
		}},
		{"not enough frames", false, func() *testkit.Exchange {
			all := pairs(testkit.Pairs(16))
			all.write()
			return all[0]
		}},
		{"TCP for the most part", false, func() *testkit.Exchange {
			all := pairs(testkit.Pairs(16))
			for range 400 {
				all.write()
				for range 100 {
					all[0].A.TCP(0x10, []byte("x"))
				}
			}
			return all[0]
		}},
		{"a pause frame at the end", true, func() *testkit.Exchange { // the survey cannot know
			all := pairs(testkit.Pairs(16))
			for range 400 {
				all.write()
			}
			all[0].A.PFC(map[int]uint16{3: 100})
			return all[0]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := testkit.WriteCapture(t, "survey.pcapng", c.make().Frames())
			o := Options{Track: true, Workers: leastShards}
			o.Reopen = func() (captures.Source, error) { return captures.OpenFiles([]string{file}) }
			p := New(o)
			d := p.survey(3)
			if (d != nil) != c.shared {
				t.Fatalf("shared: %v", d != nil)
			}
			got, err := p.Run(t.Context(), open(t, file))
			if err != nil {
				t.Fatal(err)
			}
			want, err := asOne(t, o, file)
			if diff := gocmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v\n%.2000s", err, diff)
			}
			if p.Snapshot() != got.Snapshot {
				t.Error("the last snapshot is another than the result's")
			}
		})
	}
}

// lent is a script that can lend, for its frames stay as they are.
type lent struct{ *script }

func (lent) Lend(int) {}

// TestSharesEndTogether: whatever ends a pass, all workers have seen the same frames.
func TestSharesEndTogether(t *testing.T) {
	all := pairs(testkit.Pairs(8))
	for range 40 {
		all.write()
	}
	frames := all[0].Frames()
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		end  func(cancel context.CancelCauseFunc) func([]captures.Frame) (int, error)
		want error
		more int // frames that still come
	}{
		{"an error", func(context.CancelCauseFunc) func([]captures.Frame) (int, error) { return fail(broken) }, broken, 0},
		{"an error that one can go on behind", func(context.CancelCauseFunc) func([]captures.Frame) (int, error) {
			return fail(&captures.FileError{Resumable: true, Err: broken})
		}, broken, 100},
		{"the context", func(cancel context.CancelCauseFunc) func([]captures.Frame) (int, error) {
			return func([]captures.Frame) (int, error) { cancel(broken); return 0, nil }
		}, broken, 0},
	} {
		for _, workers := range []int{2, 4} {
			ctx, cancel := context.WithCancelCause(t.Context())
			at := 0
			some := func(dst []captures.Frame) (int, error) {
				for i, f := range frames[at : at+100] {
					dst[i] = captures.Frame{Time: f.Time, Data: f.Data, WireLen: f.WireLen, Link: f.Link, HasTime: true}
				}
				at += 100
				return 100, nil
			}
			src := newScript(some, some, some, c.end(cancel), some)
			o := Options{Track: true}
			o.Reopen = func() (captures.Source, error) { return nil, broken }
			s := newShards(New(o), o, all.turnByTurn(workers), lent{src})
			crossed, err := s.run(ctx)
			got, err := s.r.conclude(err)
			if crossed != "" || !errors.Is(err, c.want) || got.Frames != uint64(300+c.more) || got.Snapshot.Packets != got.Frames || got.Matched != got.Frames {
				t.Errorf("%s, %d workers: %v, %q, %d frames, %d tracked", c.name, workers, err, crossed, got.Frames, got.Snapshot.Packets)
			}
			<-src.closed
			cancel(nil)
		}
	}
}

// TestNoAllocationPerPacketOfShards: as of other ways, what is allocated does not grow with the capture.
func TestNoAllocationPerPacketOfShards(t *testing.T) {
	testkit.SkipUnderRace(t)
	all := pairs(testkit.Pairs(8))
	count := func(rounds int) float64 {
		for range rounds {
			all.write()
		}
		file := testkit.WriteCapture(t, "shares.pcapng", all[0].Frames())
		return testing.AllocsPerRun(1, func() {
			o := Options{Track: true}
			s := newShards(New(o), o, all.turnByTurn(3), open(t, file))
			if crossed, err := s.run(t.Context()); crossed != "" || err != nil {
				t.Fatal(crossed, err)
			}
		})
	}
	if few, many := count(1000), count(2000); many > few+100 {
		t.Errorf("%v allocations for 32 000 packets, %v for 96 000", few, many)
	}
}
