package lab

import (
	"bytes"
	"strconv"
	"testing"
)

// member is what a reader of the archive finds.
type member struct {
	name, data string
	mode       uint64
}

// read is an independent reader of the format.
func read(t *testing.T, b []byte) (all []member) {
	t.Helper()
	for {
		if string(b[:6]) != "070701" {
			t.Fatalf("a member begins with %q", b[:6])
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(b[6+8*i:][:8]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		size, nameSize, mode := field(6), field(11), field(1)
		name := string(b[110:][:nameSize-1])
		b = b[(110+nameSize+3)&^3:]
		if name == "TRAILER!!!" {
			return all
		}
		all = append(all, member{name, string(b[:size]), uint64(mode)})
		b = b[(size+3)&^3:]
	}
}

func TestArchive(t *testing.T) {
	a := newArchive()
	a.put("/usr/bin/rping", modeProg, []byte("program"))
	a.put("init", modeProg, []byte("agent"))
	a.put("usr/lib/x.so", modeLink, []byte("x.so.1"))
	var b bytes.Buffer
	if err := a.write(&b); err != nil {
		t.Fatal(err)
	}
	want := []member{
		{"init", "agent", 0o100755},
		{"usr", "", 0o40755},
		{"usr/bin", "", 0o40755},
		{"usr/bin/rping", "program", 0o100755},
		{"usr/lib", "", 0o40755},
		{"usr/lib/x.so", "x.so.1", 0o120777},
	}
	got := read(t, b.Bytes())
	if len(got) != len(want) {
		t.Fatalf("the archive has %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("member %d is %v, not %v", i, got[i], want[i])
		}
	}
	if !a.has("/usr/lib/x.so") || a.has("usr/lib/y.so") {
		t.Error("has does not know what is there")
	}
}
