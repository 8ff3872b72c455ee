package tui

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
)

// sampleFile writes a bundled capture to a file.
func sampleFile(t *testing.T, name string) string {
	t.Helper()
	data, err := samples.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".pcap")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openSession(t *testing.T, path string) *Session {
	t.Helper()
	ses, err := NewSession(context.Background(), Input{
		Title: filepath.Base(path), Again: true, Command: "rocescope tui " + filepath.Base(path),
		Open: func(context.Context) (captures.Source, error) { return captures.Open(path) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ses.Close() })
	return ses
}

func TestFromTheOverviewToTheBitsOfTheNAK(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.sees("Overview", "518", "1 connection", "findings W1 N3", "6 gaps were answered by a sequence NAK")
	u.press("enter").sees("Findings (4)", "IBA Vol 1, 9.7.5.1.1", "Look at the requester's port")
	u.press("enter").sees("Packets ▸ 88", "NAK: PSN sequence error", "Base Transport Header: RC Acknowledge")
	u.press("d").sees("Ladder of #1", "NAK PSN sequence error")
	u.press("esc", "esc", "esc").sees("Overview", "What is wrong")
}

func TestFindingsAreAKeyAwayFromAnywhere(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("2", "e").sees("Packets ▸ 22", "went into waiting for resends")
	u.press("e").sees("Packets ▸ 77")
	u.press("e").sees("Packets ▸ 88")
	u.press("E").sees("Packets ▸ 77")
	u.press("5", "e").sees("Ladder of", "6 gaps were answered")
}

func TestFilterToAQueuePairWriteTheSliceAndReopenIt(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "/", "flow.retransmission and bth.destqp == 0x14").sees("✓ valid")
	u.press("enter").sees("179 packets", "Packets ▸ 90")
	slice := filepath.Join(t.TempDir(), "slice.pcapng")
	u.press("w", "ctrl-u", slice, "enter").sees("Wrote 179 packets")
	u.press("w", "ctrl-u", slice, "enter").sees("is there already. Overwrite it?")
	u.press("n").press("u").sees("Packets").seesNot("179 packets")

	again := openUser(t, slice, 120, 40)
	again.sees("179 packets")
	src, err := captures.Open(slice)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	n := 0
	for batch := make([]captures.Frame, 64); ; {
		k, err := src.ReadBatch(batch)
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	if n != 179 {
		t.Errorf("the slice has %d packets", n)
	}
}

func TestAWrongFilterSaysWhere(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 80, 24)
	u.press("/", "bth.pns == 1").sees("✗ not yet", `^ unknown field "bth.pns"; did you mean bth.psn?`)
	u.press("enter").sees("did you mean bth.psn")
	u.press("ctrl-u", "bth.psn == 2509956", "enter").seesNot("✗").sees("2 packets")
	u.press("4", "X").sees("Packets ▸").seesNot("2 packets ")
}

func TestFilterIsCompletedAndRemembered(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("/", "flow.retr", "tab").sees("flow.retransmission ")
	u.press("enter").sees("179 packets")
	u.press("X", "/", "up").sees("flow.retransmission", "✓ valid")
	u.press("ctrl-s", "again", "enter").sees("Saved as @again")
	u.press("ctrl-u", "@aga", "tab", "enter").sees("179 packets")
}

func TestConnectionShowsStatesPlotsMessagesAndFindings(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("2", "enter").sees("paired by socket", "RESET ──▶ INIT ──▶ RTR ──▶[RTS]", "179", "Messages (60)", "again 179")
	u.press("tab", "tab", "tab", "tab", "z").sees("operation", "write", "4.0 KiB")
	u.press("enter").sees("asked", "R_Key", "latency", "Its packets")
	u.press("enter").sees("Packets of write 0")
}

func TestTreeAndBytesAreLinkedBothWays(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "ctrl-g", "22", "enter", "tab")
	v := u.s.top().(*packetsView)
	for range 40 {
		u.press("down")
		if n := v.tree.current(); n.name == "infiniband.bth.psn" {
			break
		}
	}
	u.sees("Bytes 51 to 53 of infiniband.bth.psn")
	u.press("tab", "left") // the byte before it is the reserved one and the ACK request
	if n := v.tree.current(); n.from > 50 || n.to <= 50 {
		t.Errorf("byte 50 belongs to %s, %d to %d", n.name, n.from, n.to)
	}
	u.press("shift-tab", "f").sees("equals", "as a column")
}

func TestSearchFindsTextBytesAndExpressions(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "ctrl-f", "NAK: PSN", "enter").sees("Packets ▸ 88")
	u.press("n").seesNot("Packets ▸ 88")
	u.press("N").sees("Packets ▸ 88")
	u.press("g", "ctrl-f", "ctrl-u", "/wri.e last/", "enter").sees("Packets ▸ 25")
	u.press("g", "ctrl-f", "ctrl-u", "0x5640000000071d", "enter").sees("Packets ▸ 22")
}

func TestMarksAndGoingBack(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "ctrl-g", "100", "enter", "m", "a", "G").sees("Packets ▸ 518")
	u.press("'", "a").sees("Packets ▸ 100")
	u.press("1", "-").sees("Packets ▸ 100")
}

func TestPrivacyLeavesNoAddress(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("P")
	for _, keys := range []string{"1", "2", "3", "4", "5", "6"} {
		u.press(keys).seesNot("10.77.0").sees("host-")
	}
	u.press("2", "enter").seesNot("10.77.0")
	for range 7 {
		u.press("tab").seesNot("10.77.0")
	}
	u.press("4", "ctrl-g", "22", "enter", "tab", "y", "enter")
	data, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(<-u.out, "\x1b]52;c;"), "\a"))
	if err != nil || strings.Contains(string(data), "10.77") {
		t.Errorf("a copy holds an address: %s, %v", data, err)
	}
}

func TestCopyUsesOSC52(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("/", "flow.nak", "enter", "y", "command", "enter").sees("Copied command line")
	if got, want := <-u.out, osc52("rocescope tui lost_write_recovered.pcap -Y 'flow.nak'"); got != want {
		t.Errorf("%q", got)
	}
	u.press("4", "y", "go bytes", "enter")
	if got := <-u.out; !strings.HasPrefix(got, "\x1b]52;c;") {
		t.Errorf("%q", got)
	}
}

func TestEveryKeyEverywhereIsHarmless(t *testing.T) {
	path := sampleFile(t, "rnr_wait")
	for _, size := range []struct{ w, h int }{{1, 1}, {20, 6}, {80, 24}, {200, 60}} {
		u := openUser(t, path, size.w, size.h)
		for _, view := range []string{"1", "2", "3", "4", "5", "6"} {
			u.press("esc", view)
			for _, b := range bindings {
				if b.do == doQuit || b.do == doWrite {
					continue
				}
				for _, k := range b.keys {
					u.press(k)
					u.press("esc")
				}
			}
		}
		if u.s.quit {
			t.Error("something quit that should not")
		}
	}
}

func TestEscNeverQuits(t *testing.T) {
	u := openUser(t, sampleFile(t, "atomics"), 80, 24)
	for range 20 {
		u.press("esc")
	}
	if u.s.quit {
		t.Error("esc quit")
	}
	u.press("q")
	if !u.s.quit {
		t.Error("q did not quit")
	}
}

func TestEveryViewFitsEverySampleInASCII(t *testing.T) {
	for _, sample := range samples.List() {
		t.Run(sample.Name, func(t *testing.T) {
			u := openUser(t, sampleFile(t, sample.Name), 80, 24)
			u.s.ascii = true
			for _, view := range []string{"1", "2", "3", "4", "5", "6"} {
				u.press(view)
				for i, line := range strings.Split(u.s.text(), "\n") {
					for _, r := range line {
						if r > 0x7e {
							t.Fatalf("view %s, line %d has %q: %s", view, i, r, line)
						}
					}
				}
			}
		})
	}
}

func TestFooterAndTabsAreClickable(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	line := strings.Split(u.screen(), "\n")[1]
	x := len([]rune(line[:strings.Index(line, "Findings")]))
	u.click(x, 1)
	u.sees("Findings (4)")
	u.click(20, 5) // the third row
	u.sees("packet 77 at 1.121580 s")
}
