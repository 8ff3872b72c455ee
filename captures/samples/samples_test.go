package samples

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryFileIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range List() {
		listed[s.Name+".pcap"], listed[s.Name+".json"] = true, true
	}
	found, err := fs.Glob(files, "*")
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, name := range found {
		if !listed[name] {
			t.Errorf("%s is in the folder but not in the list", name)
		}
		info, err := fs.Stat(files, name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if len(found) != 2*len(List()) {
		t.Errorf("%d files for %d samples", len(found), len(List()))
	}
	if total > 1_500_000 {
		t.Errorf("the samples take %d bytes of every binary, more than 1.5 MB", total)
	}
}

func TestSamples(t *testing.T) {
	sentence := regexp.MustCompile(`[.:] |\.$`)
	for _, s := range List() {
		t.Run(s.Name, func(t *testing.T) {
			data, err := Open(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != s.Capture.SHA256 || int64(len(data)) != s.Capture.Bytes {
				t.Error("the capture is not the one that the ground truth speaks of")
			}
			if got := countPackets(t, data); got != s.Capture.Packets {
				t.Errorf("the capture holds %d packets, the ground truth says %d", got, s.Capture.Packets)
			}
			if s.Schema != Schema || s.Capture.File != s.Name+".pcap" {
				t.Errorf("schema %q, file %q", s.Schema, s.Capture.File)
			}
			if s.Title == "" || len(s.Title) > 80 {
				t.Errorf("the title is to fit on one line: %q", s.Title)
			}
			if n := len(sentence.FindAllString(s.Story, -1)); n < 2 {
				t.Errorf("the story is to be two sentences: %q", s.Story)
			}
			for _, side := range []Side{s.Sides.Client, s.Sides.Server} {
				if side.Address == "" {
					t.Error("a side has no address")
				}
				if len(side.QueuePairs) > 0 && side.QueuePairsFrom == "" {
					t.Error("nobody vouches for the queue pairs")
				}
			}
			for _, m := range s.Truth.Messages {
				side := s.Sides.Client
				if m.From == "server" {
					side = s.Sides.Server
				}
				known := false
				for _, q := range side.QueuePairs {
					known = known || q.QPN == m.QPN
				}
				if !known {
					t.Errorf("messages from QP %#x of the %s, which has no such QP", uint64(m.QPN), m.From)
				}
			}
		})
	}
}

// TestStrictSchema finds keys that the ground truth has and its description has not.
func TestStrictSchema(t *testing.T) {
	for _, s := range List() {
		text, err := files.ReadFile(s.Name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		in := json.NewDecoder(bytes.NewReader(text))
		in.DisallowUnknownFields()
		if err := in.Decode(new(Sample)); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func TestDefaultAndUnknown(t *testing.T) {
	if s, err := Find(Default); err != nil || List()[0].Name != s.Name {
		t.Errorf("the default is to be the first: %v, %v", s.Name, err)
	}
	if _, err := Open("no_such_story"); err == nil {
		t.Error("opened a sample that does not exist")
	}
	if _, err := Open("../samples/atomics"); err == nil {
		t.Error("opened a path")
	}
}

// TestReadmeNamesAll keeps the page beside the files complete.
func TestReadmeNamesAll(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(".", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range List() {
		if !strings.Contains(string(page), "`"+s.Name+"`") {
			t.Errorf("README.md says nothing about %s", s.Name)
		}
	}
}

// countPackets walks a little-endian pcap file; enough of a reader for files whose bytes never change.
func countPackets(t *testing.T, data []byte) int {
	t.Helper()
	if magic := binary.LittleEndian.Uint32(data); magic != 0xa1b2c3d4 && magic != 0xa1b23c4d {
		t.Fatalf("magic %#x", magic)
	}
	n := 0
	for at := 24; at < len(data); n++ {
		at += 16 + int(binary.LittleEndian.Uint32(data[at+8:]))
		if at > len(data) {
			t.Fatal("the last packet is cut off")
		}
	}
	return n
}
