package captures

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket/pcapgo"
)

// benchFrames and benchSize make a file of about 128 MiB, several windows long.
const (
	benchFrames = 120_000
	benchSize   = 1090
)

func benchFile(b *testing.B, name string, header []byte, record func(i int) []byte) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(header)
	for i := range benchFrames {
		w.Write(record(i))
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}

func benchPcapng(b *testing.B) string {
	data := strings.Repeat("x", benchSize)
	return benchFile(b, "bench.pcapng", join(shb(le), idb(le, 1, 0)), func(i int) []byte { return epb(le, 0, uint64(i), data) })
}

func benchPcap(b *testing.B) string {
	data := strings.Repeat("x", benchSize)
	return benchFile(b, "bench.pcap", pcapHeader(le, magicMicro, 65535, 1), func(i int) []byte { return pcapRecord(le, uint32(i), 0, data) })
}

// benchRead reads the file b.N packets long, opening it as often as that takes.
func benchRead(b *testing.B, path string, opts ...Option) {
	batch := make([]Frame, 256)
	var sum int
	b.SetBytes(benchSize)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		src, err := Open(path, opts...)
		if err != nil {
			b.Fatal(err)
		}
		for left > 0 {
			n, err := src.ReadBatch(batch)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			for i := range batch[:n] {
				sum += len(batch[i].Data)
			}
			left -= n
		}
		src.Close()
	}
	_ = sum
}

// benchParse is the parser alone, on ordinary memory: what is left of reading
// when getting at the bytes costs nothing.
func benchParse(b *testing.B, p parser, path string) {
	file, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	var c cursor
	if _, err := p.begin(&c, file); err != nil {
		b.Fatal(err)
	}
	start := c.used
	batch := make([]Frame, 256)
	b.ReportAllocs()
	b.ResetTimer()
	at := start
	for left := b.N; left > 0; left -= c.n {
		c.used, c.n, c.need = 0, 0, 0
		if err := p.parse(&c, file[at:], batch); err != nil {
			b.Fatal(err)
		}
		if at += c.used; c.need > 0 {
			at = start
		}
	}
}

func BenchmarkReadPcapng(b *testing.B) {
	path := benchPcapng(b)
	b.Run("parser", func(b *testing.B) { benchParse(b, newPcapngParser(path), path) })
	b.Run("mapped", func(b *testing.B) { benchRead(b, path, Mapped()) })
	b.Run("unmapped", func(b *testing.B) { benchRead(b, path, Unmapped()) })
	b.Run("pcapgo", func(b *testing.B) {
		b.SetBytes(benchSize)
		b.ReportAllocs()
		var r *pcapgo.NgReader
		var f *os.File
		for range b.N {
			if r == nil {
				var err error
				if f, err = os.Open(path); err != nil {
					b.Fatal(err)
				}
				if r, err = pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions); err != nil {
					b.Fatal(err)
				}
			}
			if _, _, err := r.ZeroCopyReadPacketData(); err != nil {
				f.Close()
				r = nil
			}
		}
	})
}

func BenchmarkReadPcap(b *testing.B) {
	path := benchPcap(b)
	b.Run("parser", func(b *testing.B) { benchParse(b, newPcapParser(path), path) })
	b.Run("mapped", func(b *testing.B) { benchRead(b, path, Mapped()) })
	b.Run("unmapped", func(b *testing.B) { benchRead(b, path, Unmapped()) })
	b.Run("pcapgo", func(b *testing.B) {
		b.SetBytes(benchSize)
		b.ReportAllocs()
		var r *pcapgo.Reader
		var f *os.File
		for range b.N {
			if r == nil {
				var err error
				if f, err = os.Open(path); err != nil {
					b.Fatal(err)
				}
				if r, err = pcapgo.NewReader(f); err != nil {
					b.Fatal(err)
				}
			}
			if _, _, err := r.ReadPacketData(); err != nil {
				f.Close()
				r = nil
			}
		}
	})
}
