package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestReplay plays bundled captures on our own server, by its exchange and by CM, with loss, and on a device that does wrong.
func TestReplay(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	server := startServe(t, lab)
	for _, args := range []string{
		"--target 10.9.0.2", "--target 10.9.0.2 --cm", "--target fd99::2", "--target 10.9.0.2 --fault drop_nth=3",
	} {
		line := []string{"replay", sampleFile(t, "atomics"), "--json"}
		for _, word := range strings.Fields(args) {
			line = append(line, strings.ReplaceAll(word, "_", " "))
		}
		p := launchIn(t, lab.A, line...)
		p.expect(exitOK)
		var d replayDocument
		if err := json.Unmarshal([]byte(p.stdout.String()), &d); err != nil {
			t.Fatal(err)
		}
		if d.Requests == 0 || d.Answers == 0 || d.Differing != 0 || len(d.Regions) == 0 || strings.Contains(args, "fault") != (d.SentAgain > 0) {
			t.Errorf("replay %s: %s", args, p.stdout.String())
		}
	}
	server.interrupt()
	server = startServe(t, lab, "--misbehave", "atomic-empty")
	p := launchIn(t, lab.A, "replay", sampleFile(t, "atomics"), "--target", "10.9.0.2")
	p.expect(exitJudged)
	if out := p.stdout.String(); !strings.Contains(out, "value before is 0x0, in the capture 0x") {
		t.Errorf("the difference is not told:\n%s", out)
	}
	server.interrupt()
}
