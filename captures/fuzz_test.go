package captures

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzReader reads any bytes as a mapped file, as a file that is read and as a
// stream, and demands the same frames and errors of all, in bounded memory.
func FuzzReader(f *testing.F) {
	head := join(shb(le), idb(le, 1, 0, option(le, optTsresol, []byte{9}), option(le, optTsoffset, make([]byte, 8))))
	pcap := join(pcapHeader(le, magicMicro, 65535, 1), pcapRecord(le, 1, 2, "first"), pcapRecord(le, 3, 4, "second"))
	for _, seed := range [][]byte{
		nil,
		pcap, pcap[:len(pcap)-3],
		join(pcapHeader(be, magicNano, 96, 0x24000001), pcapRecord(be, 1, 2, "x")),
		join(pcapHeader(le, magicModified, 0, 1), bytesOf(le, uint32(1), uint32(2), uint32(2), uint32(2), uint64(0), "ab")),
		join(head, epb(le, 0, 7, "data", option(le, optEPBDropCount, make([]byte, 8))), block(le, blockSPB, uint32(3), "abc"), block(le, blockISB, uint32(0), uint64(0), option(le, optIfRecv, make([]byte, 8)))),
		join(head, block(le, blockOPB, uint16(0), uint16(1), uint64(0), uint32(1), uint32(1), "x"), block(le, 99, "unknown"), shb(be), idb(be, 247, 64), epb(be, 0, 1, "x")),
		join(head, block(le, blockEPB, uint32(0), uint64(0), ^uint32(0), uint32(60), "0123")),
		gzipped(pcap), zstded(f, pcap),
	} {
		f.Add(seed)
	}
	for _, name := range []string{"atomics", "cm_rejected", "cm_rping_ipv6"} { // the small ones of the samples
		seed, err := os.ReadFile(filepath.Join("samples", name+".pcap"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "trace")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var all [3]got
		for i, open := range []func() (*reader, error){
			func() (*reader, error) { return open(path, &openOptions{way: byMapping, span: 1}) },
			func() (*reader, error) { return open(path, &openOptions{way: byReading}) },
			func() (*reader, error) { return openStream(bytes.NewReader(data)) },
		} {
			src, err := open()
			if err != nil {
				all[i].errs = []error{err}
				continue
			}
			all[i] = drain(t, src, 3)
			src.Close()
		}
		runtime.ReadMemStats(&after)

		// A decompressor takes its window and may make a thousand bytes of one.
		// (A stream is not decompressed here: it is fed below that.)
		limit := uint64(4<<20 + 2000*len(data))
		compressed := sniff(data) == formatCompressed
		if compressed {
			limit = 4*zstdLeastWindow + 10_000*uint64(len(data))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > limit {
			t.Errorf("%d bytes were allocated for a file of %d", n, len(data))
		}
		for i, way := range []string{"", "read", "as a stream"} {
			if i == 0 || i == 2 && compressed {
				continue
			}
			if diff := cmp.Diff(all[0].frames, all[i].frames); diff != "" {
				t.Errorf("%s there are other frames:\n%s", way, diff)
			}
			if diff := cmp.Diff(texts(all[0].errs), texts(all[i].errs)); diff != "" {
				t.Errorf("%s there are other errors:\n%s", way, diff)
			}
		}
		for _, err := range all[0].errs {
			var fe *FileError
			if !errors.As(err, &fe) {
				t.Errorf("%T is no FileError: %v", err, err)
			} else if fe.Offset < 0 || !compressed && fe.Offset > int64(len(data)) {
				t.Errorf("offset %d of a file of %d: %v", fe.Offset, len(data), err)
			}
		}
	})
}
