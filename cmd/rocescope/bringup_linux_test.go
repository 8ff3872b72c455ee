package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/inject/bringup"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestBringup brings our own server up, and servers that do one thing wrong: each fails at the step that is meant for it.
func TestBringup(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	for _, c := range []struct{ serve, args, step, says string }{
		{"", "10.9.0.2", "", ""},
		{"", "fd99::2 -m 4096", "", ""},
		{"--address 10.9.0.77 --mac 02:77:00:00:00:01", "10.9.0.77 --address 10.9.0.88", "", ""},
		{"--misbehave udp-length-long", "10.9.0.2", "WRITE 1", "lengths of IP, UDP"},
		{"--misbehave zero-write-hang", "10.9.0.2", "sizes", "WRITE of 0 bytes"},
		{"--misbehave pad-written", "10.9.0.2", "READ", "the byte 1 behind the data"},
		{"--misbehave payload-damaged", "10.9.0.2", "READ", "of the data"},
		{"--misbehave atomic-empty", "10.9.0.2", "ATOMIC", "told as 0x0"},
		{"--misbehave swap-always", "10.9.0.2", "ATOMIC", "comparison failed"},
		{"--misbehave gap-accepted", "10.9.0.2", "loss", "the first packet of a WRITE is lost"},
		{"--misbehave duplicate-executed", "10.9.0.2", "loss", "comes again behind another"},
	} {
		t.Run(c.serve+" "+c.args, func(t *testing.T) {
			server := startServe(t, lab, strings.Fields(c.serve)...)
			defer server.interrupt()
			code, timeout := exitOK, "14" // a busy machine keeps a good target from answering for longer than 10 allows
			if c.step != "" {
				code, timeout = exitJudged, "10"
			}
			p := launchIn(t, lab.A, append([]string{"bringup", "--json", "-u", timeout}, strings.Fields(c.args)...)...)
			p.expect(code)
			var d bringupDocument
			if err := json.Unmarshal([]byte(p.stdout.String()), &d); err != nil {
				t.Fatal(err)
			}
			last := d.Steps[len(d.Steps)-1]
			if c.step == "" {
				if !d.Good || last.Step.Name != "loss" || last.Outcome != bringup.Passed {
					t.Errorf("%+v", d)
				}
				return
			}
			if d.Good || last.Step.Name != c.step || last.Outcome != bringup.Failed || !strings.Contains(last.Detail, c.says) || last.Step.Means == "" {
				t.Errorf("the last step is %s, %s: %s; want %s to fail with %q", last.Step.Name, last.Outcome, last.Detail, c.step, c.says)
			}
		})
	}
}

// TestBringupTells reads the text for people, of a core that is set up by hand.
func TestBringupTells(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	p := launchIn(t, lab.A, "bringup", "10.9.0.2", "--hand", "qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000", "-u", "8")
	p.expect(exitJudged)
	out := p.stdout.String()
	for _, want := range []string{"ok       ARP      ", "ok       ping     ", "skipped  UD       ", "ok       connect  ", "FAILED   WRITE 1  ", "nothing came back", "usually it means:\n    no answer:", "look at:"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}
