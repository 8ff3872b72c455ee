package captures

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLentFramesStay reads files in small batches and looks at each frame as late as that is allowed.
func TestLentFramesStay(t *testing.T) {
	const lend = 5
	one := filepath.Join(t.TempDir(), "one.pcap")
	if err := os.WriteFile(one, manyRecords(3000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][]string{{one}, {one, one, one}} {
		for name, way := range map[string]way{"read": byReading, "mapped": byMapping} {
			t.Run(name, func(t *testing.T) {
				var want [][]byte
				for i := range len(files) * 3000 {
					want = append(want, recordBytes(i%3000))
				}
				var src Source
				if len(files) == 1 {
					r, err := open(files[0], &openOptions{way: way, span: 64 << 10})
					if err != nil {
						t.Fatal(err)
					}
					src = r
				} else {
					l, err := OpenFiles(files)
					if err != nil {
						t.Fatal(err)
					}
					src = l
				}
				defer src.Close()
				src.(Lender).Lend(lend)
				var kept [][][]byte // of the last calls
				at := 0
				look := func() {
					for _, got := range kept[0] {
						if !bytes.Equal(got, want[at]) {
							t.Fatalf("frame %d is another by now", at)
						}
						at++
					}
					kept = kept[1:]
				}
				frames := make([]Frame, 97)
				for {
					if len(kept) == lend {
						look()
					}
					n, err := src.ReadBatch(frames)
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					var datas [][]byte
					for _, f := range frames[:n] {
						datas = append(datas, f.Data)
					}
					kept = append(kept, slices.Clip(datas))
				}
				for len(kept) > 0 {
					look()
				}
				if at != len(want) {
					t.Errorf("%d frames of %d", at, len(want))
				}
			})
		}
	}
}

// manyRecords is a pcap file of n records of different lengths.
func manyRecords(n int) []byte {
	file := [][]byte{pcapHeader(le, magicMicro, 1<<16, 1)}
	for i := range n {
		file = append(file, pcapRecord(le, uint32(i), 0, string(recordBytes(i))))
	}
	return join(file...)
}

// recordBytes is what record i of them holds.
func recordBytes(i int) []byte {
	return bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(i >> 3)}, 20+i%900)
}
