package main

import (
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestTestOnWire has "rocescope serve" as the device: good and misbehaving, connected by socket and by CM.
func TestTestOnWire(t *testing.T) {
	for _, c := range []struct {
		serve, test string
		code        ExitCode
		want        string
	}{
		{"", "--tier quick --patience 300ms", exitOK, "1 reported, 162 passed, 92 skipped"}, // what needs a hook is skipped, and nothing fails
		{"", "--case GOOD-WRITE,GOOD-READ,BTH-01,RETH-01,PSN-01,PSN-07,RETH-07,D7,CM-ALIVE,Q-WRITE", exitOK, "9 passed, 1 skipped"},
		{"", "-R --case GOOD-WRITE,RETH-01,PSN-05", exitOK, "3 passed"},
		{"--misbehave rkey-unchecked", "--case RETH-01,BTH-01", exitJudged, "1 failed, 1 passed"},
		{"--misbehave zero-write-hang", "--case LEN-05 --stop-on-hang", exitJudged, "1 hung"},
	} {
		lab := newPeers(t, testkit.LabOptions{MTU: 4500})
		server := startServe(t, lab, strings.Fields(c.serve)...)
		p := launchIn(t, lab.A, append([]string{"test", "10.9.0.2"}, strings.Fields(c.test)...)...)
		p.expect(c.code)
		if out := p.stdout.String(); !strings.Contains(out, c.want) {
			t.Errorf("serve %s, test %s: want %q\n%s%s", c.serve, c.test, c.want, out, p.said.String())
		}
		server.interrupt()
	}
}
