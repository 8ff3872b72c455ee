//go:build unix

package sink_test

import (
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/traffic"
	"github.com/rocescope/rocescope/internal/sink"
	"github.com/rocescope/rocescope/internal/sink/clickhouse"
	"github.com/rocescope/rocescope/internal/sink/parquet"
	"github.com/rocescope/rocescope/internal/sink/text"
	"github.com/rocescope/rocescope/internal/testkit"
)

// The traffic of the benchmark: 64 connections in turn, of WRITEs, READs and SENDs of one packet of 64 bytes each.
const (
	ingestConnections = 64
	ingestPackets     = 300_000
	ingestBlock       = 16 << 10
)

// BenchmarkIngest says how many messages a second of processor time tracking, rows, and each place for rows take
// (messages/cpu-s), and how many by the clock (messages/s). A server's own time counts by the clock only.
func BenchmarkIngest(b *testing.B) {
	file := filepath.Join(b.TempDir(), "small.pcapng")
	if err := traffic.New(traffic.Config{Connections: ingestConnections, HostPairs: 8, Payload: 64}).WriteFile(file, ingestPackets, true); err != nil {
		b.Fatal(err)
	}
	var kept keeper
	b.Run("track", func(b *testing.B) {
		ingest(b, func() uint64 { return trackAll(b, file, nil) })
	})
	b.Run("rows", func(b *testing.B) {
		ingest(b, func() uint64 { return trackAll(b, file, &discard{}) })
	})
	messages := trackAll(b, file, &kept)
	var cluster *testkit.ClickHouse
	for _, k := range []struct {
		name string
		open func(b *testing.B) sink.Writer
	}{
		{"jsonl", func(*testing.B) sink.Writer { return text.NewJSONL(nowhere{}) }},
		{"csv", func(*testing.B) sink.Writer {
			return text.NewCSV(func(*sink.Table) (io.WriteCloser, error) { return nowhere{}, nil })
		}},
		{"parquet", func(b *testing.B) sink.Writer { return must(parquet.New(b.TempDir(), 1, true))(b) }},
		{"clickhouse", func(b *testing.B) sink.Writer {
			cluster = testkit.StartClickHouse(b, 1)
			target, err := clickhouse.ParseTarget(cluster.URL("ingest"))
			if err != nil {
				b.Fatal(err)
			}
			return must(clickhouse.Open(b.Context(), target, clickhouse.Options{Wait: true}))(b)
		}},
	} {
		b.Run(k.name, func(b *testing.B) {
			w := k.open(b)
			written, took := uint64(0), spent()
			began := time.Now()
			for b.Loop() {
				for _, block := range kept.blocks {
					if err := w.Write(block); err != nil {
						b.Fatal(err)
					}
				}
				written += messages
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			report(b, written, spent()-took, time.Since(began))
			if cluster != nil {
				b.ReportMetric(float64(written)/cluster.Shards[0].Spent(b).Seconds(), "messages/server-cpu-s")
			}
		})
	}
}

func ingest(b *testing.B, once func() uint64) {
	n, took, began := uint64(0), spent(), time.Now()
	for b.Loop() {
		n += once()
	}
	report(b, n, spent()-took, time.Since(began))
}

func report(b *testing.B, messages uint64, cpu, clock time.Duration) {
	b.ReportMetric(float64(messages)/cpu.Seconds(), "messages/cpu-s")
	b.ReportMetric(float64(messages)/clock.Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
}

// trackAll reads, decodes and tracks the file, and makes rows of its messages, if somebody wants them. It returns how many
// messages there were.
func trackAll(b *testing.B, file string, w sink.Writer) (messages uint64) {
	b.Helper()
	src, err := captures.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	o := flows.Options{Sink: flows.Sink{Message: func(*flows.Message) { messages++ }}}
	var rows *sink.Collector
	if w != nil {
		if rows, err = sink.NewCollector(sink.Options{Run: sink.Run{Probe: "probe", ID: 1}, Tables: []string{"messages"}, Writer: w, Rows: ingestBlock}); err != nil {
			b.Fatal(err)
		}
		o.Sink = rows.Sink()
	}
	tracker := flows.New(o)
	frames := make([]captures.Frame, 512)
	batch := flows.Batch{Packets: make([]dissect.Packet, 512), Data: make([][]byte, 512), Marks: make([]flows.Mark, 512)}
	var dec dissect.Decoder
	for number := uint64(0); ; {
		n, err := src.ReadBatch(frames)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		for i := range frames[:n] {
			number++
			p := &batch.Packets[i]
			p.Number, p.Time = number, frames[i].Time
			dec.Decode(frames[i].Link, frames[i].Data, len(frames[i].Data), p)
			batch.Data[i] = frames[i].Data
		}
		part := flows.Batch{Packets: batch.Packets[:n], Data: batch.Data[:n], Marks: batch.Marks[:n]}
		tracker.Track(&part)
		if rows != nil {
			if err := rows.Batch(&part); err != nil {
				b.Fatal(err)
			}
		}
	}
	if rows != nil {
		if err := rows.Close(nil); err != nil {
			b.Fatal(err)
		}
		messages = rows.Totals().Messages
	}
	return messages
}

// keeper keeps copies of blocks.
type keeper struct{ blocks []*sink.Block }

func (k *keeper) Write(b *sink.Block) error {
	own := sink.NewBlock(b.Table)
	all := make([]int32, b.Rows)
	for i := range all {
		all[i] = int32(i)
	}
	own.AppendRows(b, all)
	k.blocks = append(k.blocks, own)
	return nil
}
func (k *keeper) Replaces() bool { return false }
func (k *keeper) Close() error   { return nil }

// discard takes rows nowhere.
type discard struct{}

func (discard) Write(*sink.Block) error { return nil }
func (discard) Replaces() bool          { return false }
func (discard) Close() error            { return nil }

// nowhere is a file that takes everything.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

func must[W sink.Writer](w W, err error) func(testing.TB) W {
	return func(tb testing.TB) W {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return w
	}
}

// spent is the processor time of this process so far.
func spent() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
