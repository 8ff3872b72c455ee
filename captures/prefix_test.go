package captures

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everything is a file of each format with one of all that there is.
func everything() map[string][]byte {
	return map[string][]byte{
		"pcap": join(pcapHeader(le, magicMicro, 65535, 1), pcapRecord(le, 1, 2, "first"), pcapRecord(le, 3, 4, ""), pcapRecord(le, 5, 6, "third")),
		"pcapng": join(
			shb(le, option(le, optOS, []byte("system"))), idb(le, 1, 0, option(le, optTsresol, []byte{9}), option(le, optEnd, nil)),
			epb(le, 0, 7, "data", option(le, optEPBDropCount, make([]byte, 8))), block(le, blockSPB, uint32(3), "abc"),
			block(le, blockOPB, uint16(0), uint16(1), uint64(0), uint32(1), uint32(1), "x"),
			block(le, blockISB, uint32(0), uint64(0), option(le, optIfRecv, make([]byte, 8))),
			block(le, blockNRB, uint32(0)), shb(be), idb(be, 247, 64), block(be, 99, "unknown"), epb(be, 0, 1, "end")),
	}
}

// TestEveryPrefix cuts files at every byte: what is whole is delivered, and the
// end is clean at the borders of records and nowhere else.
func TestEveryPrefix(t *testing.T) {
	for name, file := range everything() {
		whole := readEveryWay(t, file)
		checkErrors(t, whole.errs, nil)
		clean := 0
		for n := 1; n < len(file); n++ {
			g := readEveryWay(t, file[:n])
			if diff := cmp.Diff(whole.frames[:len(g.frames)], g.frames, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s cut to %d bytes: %s", name, n, diff)
			}
			switch {
			case len(g.errs) == 0:
				clean++
			case len(g.errs) > 1 || !errors.Is(g.errs[0], ErrTruncated):
				t.Errorf("%s cut to %d bytes: %v", name, n, g.errs)
			}
		}
		if want := map[string]int{"pcap": 3, "pcapng": 10}[name]; clean != want {
			t.Errorf("%s ends cleanly at %d places, there are %d borders", name, clean, want)
		}
	}
}

// TestEveryByteDamaged sets each byte to values that hurt: nothing may panic,
// hang, or give a frame that is not in the file.
func TestEveryByteDamaged(t *testing.T) {
	for name, file := range everything() {
		for i := range file {
			for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, file[i] + 1, file[i] - 1} {
				bad := bytes.Clone(file)
				bad[i] = v
				src, err := openStream(bytes.NewReader(bad))
				if err != nil {
					continue
				}
				for _, f := range drain(t, src, 2).frames {
					if !bytes.Contains(bad, f.Data) {
						t.Errorf("%s with byte %d set to %d: frame %q is not in it", name, i, v, f.Data)
					}
				}
			}
		}
	}
}
