package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

func render(t *testing.T, d *Document, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.WriteText(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// handshakeOnly is what tcpdump on the host of an RDMA NIC shows.
func handshakeOnly() *Document {
	s := &flows.Snapshot{Packets: 8, Protocols: flows.ProtocolCounts{SocketExchange: 8}}
	c := flows.Connection{
		ID: 1, Transport: dissect.RC, Evidence: flows.BySocket, Why: "address lines over TCP",
		A: qp("10.0.0.1", 0x11, flows.StateUnknown), B: qp("10.0.0.2", 0x12, flows.StateUnknown),
	}
	s.Connections = []flows.Connection{c}
	return NewDocument(s, Capture{Files: []string{"-"}, Packets: 8, First: start, Last: start + second})
}

func TestText(t *testing.T) {
	documents := map[string]*Document{
		"troubled":  troubledDocument(),
		"healthy":   healthy(),
		"handshake": handshakeOnly(),
		"empty":     NewDocument(&flows.Snapshot{}, Capture{Files: []string{"empty.pcap"}}),
		"other":     NewDocument(&flows.Snapshot{Packets: 9, Protocols: flows.ProtocolCounts{Other: 9}}, Capture{Files: []string{"a.pcap", "b.pcap"}, Packets: 9}),
	}
	for name, d := range documents {
		for _, width := range []int{80, 120} {
			t.Run(fmt.Sprintf("%s at %d columns", name, width), func(t *testing.T) {
				got := render(t, d, TextOptions{Width: width})
				testkit.Golden(t, fmt.Sprintf("%s.%d.txt", name, width), []byte(got))
				for _, line := range strings.Split(got, "\n") {
					if utf8.RuneCountInString(line) > width {
						t.Errorf("wider than %d: %q", width, line)
					}
					if strings.TrimRight(line, " ") != line {
						t.Errorf("blanks at the end of %q", line)
					}
				}
				for _, r := range got {
					if r > '~' || r < ' ' && r != '\n' {
						t.Errorf("%q is not safe on every terminal", r)
					}
				}
				colored := render(t, d, TextOptions{Width: width, Style: Style{Color: true}})
				if plain := escapes.ReplaceAllString(colored, ""); plain != got {
					t.Errorf("without its colours it reads otherwise:\n%s", plain)
				}
				testkit.Golden(t, fmt.Sprintf("%s.%d.color.txt", name, width), []byte(colored))
			})
		}
	}
}

func TestTop(t *testing.T) {
	d := troubledDocument()
	got := render(t, d, TextOptions{Width: 120, Top: 2})
	for _, want := range []string{"1 more finding; --top", "N  1 note, which -v tells: Packets were cut short", "and 4 more connections"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	// The gravest finding is on connection 2; of the others 1 has a warning and carried most.
	if !regexp.MustCompile(`(?m)^  1  10\.77\.0\.1`).MatchString(got) && !strings.Contains(got, "  2  2001:db8") {
		t.Errorf("connections 1 and 2 should be shown:\n%s", got)
	}
	if strings.Contains(got, "0x000030") {
		t.Errorf("connection 5 should not be shown:\n%s", got)
	}
}

// What -v and --series add.
func TestVerboseText(t *testing.T) {
	c := troubledCapture()
	c.Series = true
	d := NewDocument(troubled(), c)
	d.Findings = troubledDocument().Findings
	for _, width := range []int{80, 120} {
		testkit.Golden(t, fmt.Sprintf("verbose.%d.txt", width), []byte(render(t, d, TextOptions{Width: width, Verbose: true})))
	}
	if !d.Only([]uint32{0x11, 0x999}) {
		t.Fatal("QP 0x11 is there")
	}
	testkit.Golden(t, "qp.80.txt", []byte(render(t, d, TextOptions{Width: 80, Verbose: true})))
	if d.Only([]uint32{0x999}) {
		t.Error("QP 0x999 is not there")
	}
}

func TestFilterIsNamed(t *testing.T) {
	d := NewDocument(&flows.Snapshot{}, Capture{Files: []string{"x.pcap"}, Packets: 3, Filter: "flow.nak"})
	got := render(t, d, TextOptions{})
	if !strings.Contains(got, "selects: flow.nak") || !strings.Contains(got, "No packet of a connection matches") {
		t.Error(got)
	}
}

func TestNamesCannotCommandTheTerminal(t *testing.T) {
	d := NewDocument(&flows.Snapshot{}, Capture{Files: []string{"evil\x1b[2J.pcap"}})
	if got := render(t, d, TextOptions{}); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
