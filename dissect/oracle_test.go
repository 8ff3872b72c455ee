package dissect_test

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// fromHex is a frame written by hand: hexadecimal digits, blanks do not count.
func fromHex(t testing.TB, digits ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(strings.Join(digits, "")), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pcapOf is a capture file of frames, one a millisecond.
func pcapOf(t testing.TB, link dissect.LinkType, frames [][]byte) string {
	t.Helper()
	b := make([]byte, 24)
	binary.LittleEndian.PutUint32(b, 0xA1B2C3D4)
	binary.LittleEndian.PutUint16(b[4:], 2)
	binary.LittleEndian.PutUint16(b[6:], 4)
	binary.LittleEndian.PutUint32(b[16:], 0x40000)
	binary.LittleEndian.PutUint32(b[20:], uint32(link))
	for i, f := range frames {
		b = binary.LittleEndian.AppendUint32(b, 1_700_000_000)
		b = binary.LittleEndian.AppendUint32(b, uint32(i)*1000)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	name := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// allText is every occurrence of a field, as -T fields prints them.
func allText(p *dissect.Packet, frame []byte, name string) string {
	var all []string
	for _, f := range dissect.LookupField(name) {
		if text, ok := f.AppendText(nil, p, frame); ok {
			all = append(all, string(text))
		}
	}
	return strings.Join(all, ",")
}

// unlike is where we differ from tshark on purpose.
type unlike struct {
	reason string
	field  string                                            // a name, or its beginning with a star behind
	when   func(p *dissect.Packet, frame []byte) bool        // nil: always
	same   func(p *dissect.Packet, ours, theirs string) bool // nil: anything goes
	used   bool
}

func (u *unlike) covers(p *dissect.Packet, frame []byte, name, ours, theirs string) bool {
	if begin, star := strings.CutSuffix(u.field, "*"); name != u.field && (!star || !strings.HasPrefix(name, begin)) {
		return false
	}
	if u.when != nil && !u.when(p, frame) || u.same != nil && !u.same(p, ours, theirs) {
		return false
	}
	u.used = true
	return true
}

// compareAll compares every occurrence of the fields in the packets that tshark's filter passes, and returns how many
// values were the same, by field.
func compareAll(t *testing.T, ts *testkit.Tshark, file, filter string, names []string, except []*unlike) map[string]int {
	t.Helper()
	rows, err := ts.Query(testkit.TsharkQuery{
		File: file, Filter: filter, Fields: append([]string{"frame.number"}, names...),
		Args: []string{"-E", "occurrence=a", "-E", "aggregator=,"},
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string][]string{}
	for _, r := range rows {
		theirs[r[0]] = r[1:]
	}
	same := map[string]int{}
	eachFrame(t, file, func(p *dissect.Packet, frame []byte) {
		row, ok := theirs[fieldText(p, frame, "frame.number")]
		if !ok {
			return
		}
		for i, name := range names {
			ours := allText(p, frame, name)
			if ours == row[i] {
				if ours != "" {
					same[name]++
				}
				continue
			}
			if !slices.ContainsFunc(except, func(u *unlike) bool { return u.covers(p, frame, name, ours, row[i]) }) {
				t.Errorf("%s, frame %d: %s is %q, tshark says %q", filepath.Base(file), p.Number, name, ours, row[i])
			}
		}
	})
	return same
}

// known is the names that tshark has and that begin with one of the beginnings; each must be one of ours, but for those
// named.
func known(t *testing.T, ts *testkit.Tshark, beginnings []string, not ...string) (names []string) {
	t.Helper()
	for name := range ts.KnownFields(t) {
		if !slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) }) {
			continue
		}
		switch {
		case dissect.LookupField(name) != nil:
			names = append(names, name)
		case !slices.Contains(not, name):
			t.Errorf("no field %s", name)
		}
	}
	slices.Sort(names)
	return names
}
