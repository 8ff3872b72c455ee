package captures

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// capturesDir is where the big set of real captures is, which is not part of
// the repository.
func capturesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ROCESCOPE_CAPTURES")
	if dir == "" {
		t.Skip("ROCESCOPE_CAPTURES is not set: the set of real captures is not here")
	}
	return dir
}

// count reads a whole source and returns its frames' number and the error that
// ended it, nil for a clean end.
func count(src Source) (frames int, err error) {
	batch := make([]Frame, 100)
	for {
		n, err := src.ReadBatch(batch)
		frames += n
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
	}
}

func TestManifestCounts(t *testing.T) {
	dir := capturesDir(t)
	for _, set := range []string{"rxe", "two-tap"} {
		text, err := os.ReadFile(filepath.Join(dir, set, "MANIFEST.json"))
		if err != nil {
			t.Fatal(err)
		}
		type file struct {
			File     string
			Observed json.RawMessage // an object, or words that refer to another file
		}
		var m struct {
			Captures []file
			Pairs    []struct{ Files []file }
		}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		files := m.Captures
		for _, p := range m.Pairs {
			files = append(files, p.Files...)
		}
		if len(files) == 0 {
			t.Errorf("%s: the manifest names no files", set)
		}
		for _, f := range files {
			var observed struct{ Packets int }
			if json.Unmarshal(f.Observed, &observed) != nil {
				observed.Packets = -1
			}
			for _, opts := range [][]Option{{Mapped()}, {Unmapped()}} {
				src, err := Open(filepath.Join(dir, set, f.File), opts...)
				if err != nil {
					t.Errorf("%s: %v", f.File, err)
					continue
				}
				n, err := count(src)
				if err != nil || n == 0 || observed.Packets >= 0 && n != observed.Packets {
					t.Errorf("%s: %d frames, error %v; the manifest says %d", f.File, n, err, observed.Packets)
				}
				src.Close()
			}
		}
	}
}

// publicErrors are the files of the public set that must not end cleanly: the
// error's kind and a part of its text.
var publicErrors = map[string]struct {
	frames int
	is     error
	text   string
}{
	"reader_trex_dns-0-ex.erf":                           {0, ErrFormat, "pcap and pcapng"},
	"reader_gopacket_be-test901.pcapng":                  {1, ErrUnsupported, "block 4 at offset 0x1e0: not supported: pcapng section of version 2.0"},
	"malf_libpcap_linktype-reserved-field-not-zero.pcap": {0, ErrUnsupported, "reserved bits"},
	"malf_libpcap_pcap-invalid-version-1.pcap":           {0, ErrUnsupported, "pcap version 1.4"},
	"malf_libpcap_pcapng-invalid-vers-1.pcapng":          {0, ErrUnsupported, "version 0.1"},
	"malf_libpcap_shb-option-too-long.pcapng":            {0, ErrMalformed, "option 12336 (unknown) is longer than its block"},
	"malf_ndpi_fuzz-2021-10-13.pcap":                     {1, ErrTruncated, "record 2 at offset 0xed: cut off"},
}

func TestPublicCaptures(t *testing.T) {
	dir := filepath.Join(capturesDir(t), "public")
	table, err := os.Open(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	seen := 0
	for lines := bufio.NewScanner(table); lines.Scan(); {
		col := strings.Split(lines.Text(), "|")
		if len(col) < 9 {
			continue
		}
		name := strings.TrimSpace(col[1])
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			continue
		}
		seen++
		for _, opts := range [][]Option{{Mapped()}, {Unmapped()}} {
			frames := 0
			src, err := Open(filepath.Join(dir, name), opts...)
			if err == nil {
				frames, err = count(src)
				src.Close()
			}
			if want, ok := publicErrors[name]; ok {
				if frames != want.frames || !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.text) {
					t.Errorf("%s: %d frames, error %v; want %d and %q", name, frames, err, want.frames, want.text)
				}
				continue
			}
			want, cerr := strconv.Atoi(strings.TrimSpace(col[7]))
			if cerr != nil || err != nil || frames != want {
				t.Errorf("%s: %d frames, error %v; the table says %s", name, frames, err, col[7])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d files of the table were found", seen)
	}
}
