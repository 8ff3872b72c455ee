//go:build linux

package captures

import (
	"os"
	"strings"
	"testing"
)

// mapped returns what this package has mapped of a file.
func mapped(path string) (bytes, maps int) {
	mappings.mu.Lock()
	defer mappings.mu.Unlock()
	for _, m := range mappings.all {
		if m.file == path {
			bytes += len(m.data)
			maps++
		}
	}
	return bytes, maps
}

func TestOneWindowIsMappedAtATime(t *testing.T) {
	const span = 64 << 10
	file := join(shb(le), idb(le, 1, 0))
	frames := 0
	for len(file) < 1<<20 {
		file = append(file, epb(le, 0, 1, strings.Repeat("d", frames%5000))...)
		frames++
	}
	// One that no window holds.
	file = append(file, epb(le, 0, 1, strings.Repeat("L", 3*span))...)
	file = append(file, epb(le, 0, 1, "last")...)
	path := tempFile(t, file)
	src, err := open(path, &openOptions{way: byMapping, span: span})
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]Frame, 7)
	seen, last := 0, ""
	for {
		n, err := src.ReadBatch(batch)
		if err != nil {
			break
		}
		seen += n
		last = string(batch[n-1].Data)
		// All frames of a batch are valid together.
		for _, f := range batch[:n] {
			if b := mappings.holds(&f); !b {
				t.Fatal("a frame lies outside of the mapping")
			}
		}
		if bytes, maps := mapped(path); maps != 1 || bytes > 4*span+2*os.Getpagesize() {
			t.Fatalf("%d bytes in %d mappings", bytes, maps)
		}
	}
	if seen != frames+2 || last != "last" {
		t.Errorf("%d frames of %d, the last is %q", seen, frames+2, last)
	}
	src.Close()
	if _, maps := mapped(path); maps != 0 {
		t.Errorf("%d mappings are left behind", maps)
	}
}

// holds says whether a frame's bytes are mapped.
func (s *mappingSet) holds(f *Frame) bool {
	m := mapping{data: f.Data}
	if len(f.Data) == 0 {
		return true
	}
	_, _, first := s.find(m.start())
	_, _, last := s.find(m.start() + uintptr(len(f.Data)-1))
	return first && last
}
