package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCapturePrivacy captures what TestPrivacy reads, and looks for the same in rows, events, findings and words.
func TestCapturePrivacy(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	dir := t.TempDir()
	sample, err := samples.Find("lost_write_recovered")
	if err != nil {
		t.Fatal(err)
	}
	file, err := writeSample(dir, sample)
	if err != nil {
		t.Fatal(err)
	}
	s := secretsOf(t, file)
	var frames []testkit.Frame
	for _, f := range allFrames(t, file) {
		frames = append(frames, testkit.Frame{Data: f.Data})
	}
	rows, log := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "log.jsonl")
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "--privacy-key", privacyKey, "--findings", "--events", log, "--sink", "jsonl:"+rows,
		"-f", "all", "-c", fmt.Sprint(len(frames)))
	lab.A.NewSender().Send(frames)
	p.expect(exitOK)
	s.check(t, "what it says", p.said.String()+p.stdout.String())
	if p.stdout.String() == "" {
		t.Error("it has no findings")
	}
	for _, path := range []string{rows, log} {
		content := string(mustRead(t, path))
		if s.check(t, filepath.Base(path), content); strings.Count(content, "\n") < 10 {
			t.Errorf("%s is short:\n%s", path, content)
		}
		masked := false
		for m := range s.masks {
			masked = masked || m != strangerHost && strings.Contains(content, m)
		}
		if !masked {
			t.Errorf("%s has no mask that the other commands use", path)
		}
	}
}
