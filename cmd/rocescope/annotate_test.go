package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/testkit"
)

// rocescopeRun runs a command line of this program and returns what it printed.
func rocescopeRun(t *testing.T, want ExitCode, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"rocescope"}, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := ExitCode(cmd.ProcessState.ExitCode()); got != want {
		t.Fatalf("%q: exit code %d, want %d\n%s", args, got, want, said.String())
	}
	return out.String(), said.String()
}

// allFrames are those of a capture, with copies of their bytes.
func allFrames(t *testing.T, path string) (all []captures.Frame) {
	t.Helper()
	src, err := captures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	room := make([]captures.Frame, 256)
	for {
		n, err := src.ReadBatch(room)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range room[:n] {
			f.Data = slices.Clone(f.Data)
			all = append(all, f)
		}
	}
}

// wantUntouched compares an annotated capture with what it was made of.
func wantUntouched(t *testing.T, before, after string) {
	t.Helper()
	a, b := allFrames(t, before), allFrames(t, after)
	if len(a) != len(b) {
		t.Fatalf("%d frames were %d", len(b), len(a))
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if !bytes.Equal(x.Data, y.Data) || x.WireLen != y.WireLen || x.Link != y.Link || x.Iface != y.Iface || x.Direction != y.Direction || x.Time != y.Time {
			t.Errorf("frame %d was\n%+v, is\n%+v", i+1, x, y)
		}
	}
}

// TestAnnotate asks tshark for the comments of every sample and of some reference captures.
func TestAnnotate(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, s := range samples.List() {
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, s.Capture.File)
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	files = append(files, filepath.Join(dir, "sections.pcapng"))
	if err := os.WriteFile(files[len(files)-1], foreignPcapng(t, files[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	if folder := os.Getenv("ROCESCOPE_CAPTURES"); folder != "" {
		for _, pattern := range []string{
			"public/rocev2_sanderw71_*", "public/rocev2_linlinw5_rping*", "public/*hadrielk_be-test202*", "two-tap/mixed_tap_a*",
		} {
			more, _ := filepath.Glob(filepath.Join(folder, pattern))
			files = append(files, more...)
		}
	}
	ts := testkit.FindTshark(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.pcapng")
			_, said := rocescopeRun(t, exitOK, "annotate", file, out)
			wantUntouched(t, file, out)
			rows, err := ts.Query(testkit.TsharkQuery{File: out, Fields: []string{"frame.number", "frame.comment"}, Filter: "frame.comment"})
			if err != nil {
				t.Fatal(err)
			}
			if comments := strings.Fields(strings.TrimPrefix(said, out+": "))[0]; comments == "0" != (len(rows) == 0) {
				t.Errorf("%q, and tshark shows %d", said, len(rows))
			}
			for _, row := range rows {
				if row[1] == "" {
					t.Errorf("frame %s has an empty comment", row[0])
				}
			}
		})
	}
}

// foreignPcapng makes of a pcap sample a pcapng file as others write them: two sections of both byte orders, comments and
// unknown options, Simple Packet Blocks, blocks of unknown types.
func foreignPcapng(t *testing.T, sample string) []byte {
	t.Helper()
	frames := allFrames(t, sample)
	var out []byte
	half := len(frames) / 2
	for section, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		block := func(typ uint32, body []byte) {
			for len(body)%4 != 0 {
				body = append(body, 0)
			}
			out = order.AppendUint32(out, typ)
			out = order.AppendUint32(out, uint32(len(body)+12))
			out = append(out, body...)
			out = order.AppendUint32(out, uint32(len(body)+12))
		}
		option := func(b []byte, code uint16, value string) []byte {
			b = order.AppendUint16(order.AppendUint16(b, code), uint16(len(value)))
			b = append(b, value...)
			for len(b)%4 != 0 {
				b = append(b, 0)
			}
			return b
		}
		head := order.AppendUint32(nil, 0x1a2b3c4d)
		head = order.AppendUint16(order.AppendUint16(head, 1), 0)
		head = order.AppendUint64(head, ^uint64(0))
		block(0x0a0d0d0a, option(option(head, 4, "somebody"), 0, ""))
		face := order.AppendUint16(order.AppendUint16(nil, uint16(frames[0].Link)), 0)
		face = order.AppendUint32(face, 0)
		block(1, option(option(option(face, 2, "eth7"), 9, "\x09"), 0, ""))
		block(0x80001234, []byte("whatever this is"))
		mine := frames[:half]
		if section == 1 {
			mine = frames[half:]
		}
		for i := range mine {
			f := &mine[i]
			stamp := uint64(f.Time)
			b := order.AppendUint32(nil, 0)
			b = order.AppendUint32(order.AppendUint32(b, uint32(stamp>>32)), uint32(stamp))
			b = order.AppendUint32(order.AppendUint32(b, uint32(len(f.Data))), uint32(f.WireLen))
			b = append(b, f.Data...)
			for len(b)%4 != 0 {
				b = append(b, 0)
			}
			if i%2 == 0 {
				b = option(option(option(b, 1, "theirs"), 2, string(order.AppendUint32(nil, 1))), 0, "")
			}
			block(6, b)
		}
	}
	return out
}

// TestAnnotateKeepsTheRest looks at a file block by block: without our comments it is what it was.
func TestAnnotateKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	s, err := samples.Open("lost_write_recovered")
	if err != nil {
		t.Fatal(err)
	}
	sample, in, out := filepath.Join(dir, "s.pcap"), filepath.Join(dir, "in.pcapng"), filepath.Join(dir, "out.pcapng")
	if err := os.WriteFile(sample, s, 0o644); err != nil {
		t.Fatal(err)
	}
	before := foreignPcapng(t, sample)
	if err := os.WriteFile(in, before, 0o644); err != nil {
		t.Fatal(err)
	}
	rocescopeRun(t, exitOK, "annotate", in, out)
	after, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, after) {
		t.Fatal("nothing was annotated")
	}
	if got := withoutComments(t, after); !bytes.Equal(got, withoutComments(t, before)) {
		t.Error("something else than comments changed")
	}
	if theirs, still := bytes.Count(before, []byte("theirs")), bytes.Count(after, []byte("theirs")); theirs != still || theirs == 0 {
		t.Errorf("of %d comments that were there, %d are left", theirs, still)
	}
	// A file that is cut off is annotated as far as it goes; a link to the input, and a file that is there, are left alone.
	if err := os.WriteFile(in, before[:len(before)-50], 0o644); err != nil {
		t.Fatal(err)
	}
	rocescopeRun(t, exitUsage, "annotate", in, in, "--force")
	rocescopeRun(t, exitUsage, "annotate", in, out)
	rocescopeRun(t, exitInput, "annotate", in, out, "--force")
	if n, all := len(allFrames(t, out)), len(allFrames(t, sample)); n != all-1 {
		t.Errorf("%d frames of %d", n, all)
	}
}

// withoutComments takes the comments out of packet blocks, and options ends with them where nothing else is left.
func withoutComments(t *testing.T, b []byte) (out []byte) {
	t.Helper()
	var order binary.ByteOrder
	for len(b) > 0 {
		if bytes.HasPrefix(b, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
			order = binary.LittleEndian
			if b[8] == 0x1a {
				order = binary.BigEndian
			}
		}
		length := order.Uint32(b[4:])
		block := b[:length]
		b = b[length:]
		if order.Uint32(block) != 6 {
			out = append(out, block...)
			continue
		}
		end := 28 + (order.Uint32(block[20:])+3)&^3
		out = append(out, block[8:end]...)
		for o := block[end : length-4]; len(o) >= 4; {
			size := 4 + (order.Uint16(o[2:])+3)&^3
			if code := order.Uint16(o); code > 1 {
				out = append(out, o[:size]...)
			}
			o = o[size:]
		}
	}
	return out
}
