package captures

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestSteadyReadingAllocatesNothing(t *testing.T) {
	body := strings.Repeat("d", 200)
	pcap, ng := pcapHeader(le, magicMicro, 65535, 1), join(shb(be), idb(be, 1, 0))
	for i := range 20_000 {
		pcap = append(pcap, pcapRecord(le, uint32(i), 2, body)...)
		ng = append(ng, epb(be, 0, uint64(i), body, option(be, 2, []byte{0, 0, 0, 1}))...)
	}
	for way, opts := range [][]Option{{Mapped()}, {Unmapped()}} {
		for name, file := range map[string][]byte{"pcap": pcap, "pcapng": ng} {
			t.Run(fmt.Sprintf("%s, way %d", name, way), func(t *testing.T) {
				src, err := Open(tempFile(t, file), opts...)
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				batch := make([]Frame, 64)
				if n := testing.AllocsPerRun(200, func() {
					if _, err := src.ReadBatch(batch); err != nil {
						t.Fatal(err)
					}
				}); n != 0 {
					t.Errorf("%v allocations a batch", n)
				}
			})
		}
	}
}

func TestHostileFilesTakeLittleMemory(t *testing.T) {
	head := join(shb(le), idb(le, 1, 0))
	for name, file := range map[string][]byte{
		"EPB of 4 GiB captured":         join(head, block(le, blockEPB, uint32(0), uint64(0), ^uint32(0), uint32(60), "0123")),
		"EPB block of 4 GiB":            join(head, patch(epb(le, 0, 1, "abcd"), 4, 0xfffffffc)),
		"EPB block of just under bound": join(head, patch(epb(le, 0, 1, "abcd"), 4, maxBlock)),
		"unknown block of 4 GiB":        join(head, patch(block(le, 99, "abcd"), 4, 0xfffffffc)),
		"section header of 4 GiB":       patch(shb(le), 4, 0xfffffffc),
		"option of 64 KiB":              join(shb(le), idb(le, 1, 0, bytesOf(le, uint16(2), uint16(65535), "abcd"))),
		"record of 4 GiB":               join(pcapHeader(le, magicMicro, ^uint32(0), 1), bytesOf(le, uint32(1), uint32(0), ^uint32(0), uint32(1))),
		"record of 16 MiB":              join(pcapHeader(le, magicMicro, ^uint32(0), 1), bytesOf(le, uint32(1), uint32(0), uint32(maxBlock), uint32(1))),
	} {
		for way, opts := range [][]Option{{Mapped()}, {Unmapped()}} {
			t.Run(fmt.Sprintf("%s, way %d", name, way), func(t *testing.T) {
				path := tempFile(t, file)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				src, err := Open(path, opts...)
				if err == nil {
					_, err = count(src)
					src.Close()
				}
				runtime.ReadMemStats(&after)
				if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTruncated) && (strconv.IntSize > 32 || !errors.Is(err, ErrUnsupported)) {
					t.Errorf("error %v", err)
				}
				if n := after.TotalAlloc - before.TotalAlloc; n >= 1<<20 {
					t.Errorf("%d bytes were allocated for a file of %d", n, len(file))
				}
			})
		}
	}
}

// gzipped and zstded compress.
func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	half := len(data) / 2 // a block each, so that there is a whole one before a cut
	w.Write(data[:half])
	w.Flush()
	w.Write(data[half:])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCompressed(t *testing.T) {
	pcap, ng := pcapHeader(le, magicNano, 65535, 1), join(shb(le), idb(le, 1, 0))
	for i := range 1_500 {
		body := fmt.Sprint(strings.Repeat("d", i%90), i*7919)
		pcap = append(pcap, pcapRecord(le, uint32(i), 2, body)...)
		ng = append(ng, epb(le, 0, uint64(i), body)...)
	}
	for name, plain := range map[string][]byte{"pcap": pcap, "pcapng": ng} {
		src, err := Open(tempFile(t, plain))
		if err != nil {
			t.Fatal(err)
		}
		whole := drain(t, src, 100)
		src.Close()
		for kind, packed := range map[string][]byte{"gzip": gzipped(plain), "zstd": zstded(t, plain), "two gzip members": join(gzipped(plain[:1000]), gzipped(plain[1000:]))} {
			t.Run(name+" by "+kind, func(t *testing.T) {
				src, err := Open(tempFile(t, packed))
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				g := drain(t, src, 100)
				checkErrors(t, g.errs, nil)
				if diff := cmp.Diff(whole.frames, g.frames); diff != "" {
					t.Error(diff)
				}
				if done, total := src.(Progresser).Progress(); done != int64(len(packed)) || total != done {
					t.Errorf("progress is %d of %d, the file has %d", done, total, len(packed))
				}
			})
			t.Run(name+" by "+kind+", cut", func(t *testing.T) {
				src, err := Open(tempFile(t, packed[:len(packed)*2/3]))
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				g := drain(t, src, 100)
				checkErrors(t, g.errs, []wantError{{ErrTruncated, "(decompressed): cut off"}})
				if len(g.frames) == 0 {
					t.Error("no frames before the cut")
				}
				if diff := cmp.Diff(whole.frames[:len(g.frames)], g.frames); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
	t.Run("damaged", func(t *testing.T) {
		packed := gzipped(pcap)
		packed[len(packed)-5] ^= 1 // the checksum
		src, err := Open(tempFile(t, packed))
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		checkErrors(t, drain(t, src, 100).errs, []wantError{{ErrMalformed, "compressed stream cannot be read on"}})
	})
	t.Run("twice", func(t *testing.T) {
		_, err := Open(tempFile(t, zstded(t, gzipped(pcap))))
		checkErrors(t, []error{err}, []wantError{{ErrFormat, "gzip inside another compression"}})
	})
	t.Run("a zstd window that is too large", func(t *testing.T) {
		// Magic, no single segment, window descriptor 2^41.
		_, err := Open(tempFile(t, []byte("\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00")))
		checkErrors(t, []error{err}, []wantError{{ErrUnsupported, "zstd -d --long=31"}})
	})
	t.Run("a large zstd window in a small file", func(t *testing.T) {
		// A raw block of 4 bytes that says it is not the last. A window of 128 MiB
		// is refused for so small a file, one of 8 MiB is what everybody has to take.
		_, err := Open(tempFile(t, []byte("\x28\xb5\x2f\xfd\x00\x88\x20\x00\x00\xd4\xc3\xb2\xa1")))
		checkErrors(t, []error{err}, []wantError{{ErrUnsupported, "more than 8 MiB"}})
		path := tempFile(t, []byte("\x28\xb5\x2f\xfd\x00\x68\x20\x00\x00\xd4\xc3\xb2\xa1"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = Open(path)
		runtime.ReadMemStats(&after)
		checkErrors(t, []error{err}, []wantError{{ErrTruncated, ""}})
		if n := after.TotalAlloc - before.TotalAlloc; n > zstdLeastWindow+2<<20 {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}

func TestNotACapture(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want string
	}{
		"empty":        {"", "the file is empty (0 bytes)"},
		"text":         {"hello, world\n", "68 65 6c 6c 6f 2c 20 77, look like text"},
		"a short text": {"hi", "look like text"},
		"zeros":        {strings.Repeat("\x00", 40), "look like zeros"},
		"xz":           {"\xfd7zXZ\x00\x00", "xz archive; decompress it first"},
		"some binary":  {"\x01\x02\x03\x04\x05", "look like nothing that is known"},
		"snoop":        {"snoop\x00\x00\x00\x00\x00\x00\x02", "snoop"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(tempFile(t, []byte(test.file)))
			checkErrors(t, []error{err}, []wantError{{ErrFormat, test.want}})
			if err != nil && !strings.Contains(err.Error(), "pcap and pcapng files are read") {
				t.Errorf("%q does not say what is read", err)
			}
		})
	}
	_, err := Open(t.TempDir())
	checkErrors(t, []error{err}, []wantError{{ErrFormat, "it is a directory"}})
	_, err = Open(filepath.Join(t.TempDir(), "none"))
	checkErrors(t, []error{err}, []wantError{{os.ErrNotExist, "captures: open "}})
}

func TestPipeIsAnsweredAtOnce(t *testing.T) {
	in, out := io.Pipe()
	record := pcapRecord(le, 1, 2, "data")
	ask := make(chan []byte)
	go func() {
		for b := range ask {
			out.Write(b)
		}
		out.Close()
	}()
	ask <- pcapHeader(le, magicMicro, 65535, 1)
	src, err := openStream(in)
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]Frame, 64)
	for want := 1; want < 4; want++ {
		// A record and a half: the next call must not wait for the rest.
		ask <- join(bytes.Repeat(record, want), record[:10])
		n, err := src.ReadBatch(batch)
		if n != want || err != nil {
			t.Fatalf("%d frames, error %v; %d are there", n, err, want)
		}
		ask <- record[10:]
		if n, err = src.ReadBatch(batch); n != 1 || err != nil {
			t.Fatalf("%d frames, error %v; one was completed", n, err)
		}
	}
	close(ask)
	if _, err := src.ReadBatch(batch); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

func TestErrorOfReading(t *testing.T) {
	broken := errors.New("the disk is on fire")
	file := join(pcapHeader(le, magicMicro, 65535, 1), pcapRecord(le, 1, 0, "x"))
	src, err := openStream(io.MultiReader(bytes.NewReader(file), errorReader{broken}))
	if err != nil {
		t.Fatal(err)
	}
	g := drain(t, src, 4)
	if len(g.frames) != 1 {
		t.Errorf("%d frames before the error", len(g.frames))
	}
	checkErrors(t, g.errs, []wantError{{broken, "record 2 at offset 0x29: cannot be read"}})
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

func TestFollow(t *testing.T) {
	record := pcapRecord(le, 1, 2, "data")
	path := tempFile(t, nil)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	write := make(chan []byte)
	go func() {
		for b := range write {
			out.Write(b)
		}
	}()
	go func() { write <- pcapHeader(le, magicMicro, 65535, 1) }()
	src, err := Open(path, Follow(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	batch := make([]Frame, 8)
	for range 3 {
		go func() { write <- join(record, record[:9]); write <- record[9:] }()
		for got := 0; got < 2; {
			n, err := src.ReadBatch(batch)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	}
	stop()
	if _, err := src.ReadBatch(batch); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

func TestFollowedFileIsCut(t *testing.T) {
	path := tempFile(t, join(pcapHeader(le, magicMicro, 65535, 1), pcapRecord(le, 1, 2, "data")))
	src, err := Open(path, Follow(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if err := os.Truncate(path, 24); err != nil {
		t.Fatal(err)
	}
	g := drain(t, src, 4)
	checkErrors(t, g.errs, []wantError{{ErrTruncated, "cut while it was read"}})
}

func TestOpenFiles(t *testing.T) {
	pcap := join(pcapHeader(le, magicMicro, 65535, 1), pcapRecord(le, 5, 0, "one"))
	ng := join(shb(le), idb(le, 247, 0, option(le, optName, []byte("a"))), idb(le, 113, 0, option(le, optName, []byte("b"))), epb(le, 1, 1_000_000, "two"))
	cut := pcap[:len(pcap)-1]
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	paths := []string{write("1", pcap), write("2", gzipped(ng)), write("3", cut), write("4", pcap)}

	src, err := OpenFiles(paths)
	if err != nil {
		t.Fatal(err)
	}
	g := drain(t, src, 8)
	if diff := cmp.Diff([]Frame{
		want(5*testSec, "one", 3, 0, 1), want(testSec, "two", 3, 2, 113), want(5*testSec, "one", 3, 4, 1),
	}, g.frames); diff != "" {
		t.Error(diff)
	}
	checkErrors(t, g.errs, []wantError{{ErrTruncated, paths[2]}})
	if len(g.ifs) != 5 || g.ifs[2].Name != "b" || g.ifs[2].File != paths[1] || g.ifs[4].File != paths[3] {
		t.Errorf("interfaces %+v", g.ifs)
	}
	if done, total := src.(Progresser).Progress(); done != total || total == 0 {
		t.Errorf("progress is %d of %d", done, total)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	if _, err := src.ReadBatch(make([]Frame, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a closed source says %v", err)
	}

	if _, err := OpenFiles(append(paths, write("5", []byte("hello")))); !errors.Is(err, ErrFormat) {
		t.Errorf("a file that is none: %v", err)
	}
	if _, err := OpenFiles(nil); err == nil {
		t.Error("no files are no error")
	}
}

func TestProgressAndClose(t *testing.T) {
	file := pcapHeader(le, magicMicro, 65535, 1)
	for range 100 {
		file = append(file, pcapRecord(le, 1, 2, "data")...)
	}
	src, err := Open(tempFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]Frame, 10)
	for i := range 3 {
		if done, total := src.(Progresser).Progress(); done != int64(24+i*200) || total != 2024 {
			t.Errorf("progress is %d of %d", done, total)
		}
		if _, err := src.ReadBatch(batch); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := src.ReadBatch(nil); n != 0 || err != nil {
		t.Errorf("an empty batch: %d, %v", n, err)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	if err := src.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := src.ReadBatch(batch); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a closed source says %v", err)
	}
}
