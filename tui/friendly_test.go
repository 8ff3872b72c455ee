package tui

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
	"github.com/rocescope/rocescope/tui/cells"
)

// openWith opens a capture with settings as a config file says them.
func openWith(t *testing.T, path, config, profile string, change func(*Options)) *user {
	t.Helper()
	c, err := ParseConfig("config.yaml", []byte(config), profile)
	if err != nil {
		t.Fatal(err)
	}
	ses := openSession(t, path)
	<-ses.index.Done()
	o := Options{Depth: cells.Color256, Config: c}
	if change != nil {
		change(&o)
	}
	return seat(t, o, ses, 120, 40)
}

// copied is the next text that went into the clipboard.
func (u *user) copied() string {
	u.t.Helper()
	data, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(<-u.out, "\x1b]52;c;"), "\a"))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(data)
}

func TestANumberRepeatsAndGoesToARow(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "alt-5").sees("5 times").press("j").sees("Packets ▸ 6").seesNot("5 times")
	u.press("alt-1", "2", "0", "G").sees("Packets ▸ 120")
	u.press("alt-1", "0", "k").sees("Packets ▸ 110")
	u.press("alt-9", "esc", "j").sees("Packets ▸ 111")
	u.press("/", "flow.nak", "enter", "alt-1", "0", "0", "G").sees("Packets ▸ 1")
	u.press("6", "alt-3", "G").sees("packet 77")
	u.press("1", "alt-2", "e").sees("Packets ▸ 77")

	u = openWith(t, sampleFile(t, samples.Default), "tui: {digits: count}", "", nil)
	u.press("alt-4", "5", "j").sees("Packets ▸ 6").press("2", "0", "0", "g").sees("Packets ▸ 200")
	u.press("alt-6").sees("Findings (4)")
}

func TestViewsAreVisitedAgain(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("[").sees("No view was visited before this one.")
	u.press("2", "enter", "tab", "6", "j", "enter").sees("Packets ▸ 22")
	u.press("5").sees("Ladder of #1")
	u.press("[").sees("Packets ▸ 22").seesNot("Ladder of").press("[").sees("Findings (4)", "Around packet 22")
	u.press("[").sees("─ States ", "#1 10.77.0.1 0x14").press("alt-9", "[").sees("No view was visited before this one.", "Busiest connections")
	u.press("alt-4", "]").sees("Packets ▸ 22").press("]").sees("Ladder of #1").press("]").sees("This is the view that was visited last.")
	u.press("alt-3", "[", "esc").sees("Connections (1)", "RTS/RTR") // esc goes up, and that is a visit like others: what lay ahead is forgotten
	u.press("]").sees("This is the view that was visited last.").press("[").sees("#1 10.77.0.1 0x14", "Memory")
	u.press("]", "1").sees("Busiest connections").press("[").sees("Connections (1)")
	u.do(func() {
		for range mostVisits {
			u.s.push(newFindings())
			u.s.push(newOverview())
		}
		if n := len(u.s.visits.stacks); n != mostVisits {
			t.Errorf("%d views are remembered", n)
		}
	})
}

func TestChipsAreClickedAway(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "/", "flow.nak", "enter").sees("6 packets")
	u.clickOn(" flow.nak ×").seesNot("6 packets", "flow.nak")
	u.press("u").sees("6 packets").press("X", "ctrl-f", "NAK: PSN", "enter").sees("search NAK: PSN")
	u.clickOn("search NAK: PSN ×").seesNot("search NAK")
	u.press("P").sees("masked").clickOn("masked ×").seesNot("masked ×")
	u.press("z").clickOn("zoomed ×").seesNot("zoomed")
	u.press("6", "enter", "d").clickOn("▸ Findings").sees("Look at the requester's port").seesNot("Ladder of")
}

func TestSplitsAreDragged(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4")
	x, y := u.at("─ Tree")
	u.drag(x, y, x, y+10)
	if _, now := u.at("─ Tree"); now != y+10 {
		t.Errorf("the line between list and tree is at %d, and was dragged to %d", now, y+10)
	}
	u.press("<")
	if _, now := u.at("─ Tree"); now >= y+10 {
		t.Errorf("< left the line at %d", now)
	}
}

func TestChartsAreRead(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("shift-tab").sees("(← and → read values)").press("left").sees("What passed, each ", "; from 1.5").press("enter").sees("Packets ▸ 51")
	u.press("esc", "esc").press("esc").seesNot("; from")
	x, y := u.at("Nr  NN")
	u.click(x, y).sees("; from 1.1", "NAK or RNR", "sent again")
	u.drag(x, y, x+14, y).sees("; from 1.4")

	u.press("2", "enter", "tab", "tab", "tab", "z").sees("Charts, each 524 µs (N NAK or RNR, !", "Payload rate", "Messages completed", "!N", "rN").press("right").sees("Charts, each 524 µs, at 1.1")
	u.press("alt-5", "right").sees("A→B p50").press("esc").seesNot(", at 1.")
	u.sees("#1")
}

// creditCapture is a capture of three SENDs whose answers grant credits by that code.
func creditCapture(t *testing.T, code uint8) string {
	t.Helper()
	x := testkit.NewExchange(testkit.ExchangeOptions{Credit: code})
	x.Connect()
	for range 3 {
		m := x.A.Send(10)
		x.Wait(5 * time.Millisecond)
		x.B.Answer(m)
	}
	return testkit.WriteCapture(t, "credits.pcap", x.Frames())
}

// TestCreditsAreCharted: of a requester that had none left for a while; where answers say nothing of credits there is no chart.
func TestCreditsAreCharted(t *testing.T) {
	for _, c := range []struct {
		code    uint8
		charted bool
	}{{1, true}, {dissect.NoCreditInfo, false}} {
		u := openUser(t, creditCapture(t, c.code), 120, 50)
		u.press("2", "enter", "tab", "tab", "tab", "z").sees("Messages completed")
		if !c.charted {
			u.seesNot("Credits granted", "waited for credits", "without credits", "waited, credits")
			continue
		}
		u.sees("Credits granted (fewest), messages open (most, ≤)  ■ A→B granted  ■ A→B open", "w waited for credits)")
		u.press("left").sees(" without credits").press("1", "2", "enter").sees("waited, credits", "in flight", "1 credit granted to it last")
		u.do(func() { u.s.ascii = true })
		u.press("tab", "tab", "tab", "z").sees("Credits granted")
	}
}

func TestUndoTakesBackOneChangeAtATime(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "/", "flow.nak", "enter", "z", "c", "another", "enter", "bth.opcode", "enter").sees("zoomed", "opcode", "6 packets")
	u.press("u").seesNot("opcode").press("u").seesNot("zoomed").press("u").seesNot("6 packets")
	u.press("u").sees("There is nothing to undo.")
	u.press("3", "s", "latency", "enter").sees("latency▼").press("u").seesNot("latency▼")
	u.press("z", "1", "u").seesNot("zoomed")
}

const profiles = `
tui:
  theme: light
  filters: {refused: flow.nak}
profiles:
  lab:
    theme: mine
    themes: {mine: {base: mono, bad: 208 bold}}
    columns: [infiniband.bth.psn]
    colors: {flow.nak: bad}
    filters: {again: flow.retransmission}
    time: d
    list: 60
    keys: {freeze: [f6]}
`

func TestProfilesChangeWhatIsShown(t *testing.T) {
	path := sampleFile(t, samples.Default)
	u := openWith(t, path, profiles, "lab", nil)
	u.press("4").sees("bth.psn", "Time").press("/", "@again", "enter").sees("179 packets")
	u.press("/", "ctrl-u", "@refused", "enter").sees("6 packets")
	u.press("f6").sees("frozen")

	u = openWith(t, path, profiles, "", nil)
	if u.s.theme.Name != "light" {
		t.Errorf("the theme is %s", u.s.theme.Name)
	}
	u.press("4").seesNot("bth.psn").press(":", "profile lab", "enter").sees("bth.psn", "Profile lab.")
	if u.s.theme.Name != "mine" || u.s.split != 60 || timeFormats[u.s.clock].name != "d" || u.s.rules[0].style != cells.Bad {
		t.Errorf("%s %d %v", u.s.theme.Name, u.s.split, u.s.rules)
	}
	if _, err := ParseConfig("c", []byte(profiles), "labs"); err == nil || !strings.Contains(err.Error(), `no profile "labs"; there are lab`) {
		t.Error(err)
	}
}

func TestAProfileIsSavedAndThereNextTime(t *testing.T) {
	path := sampleFile(t, samples.Default)
	u := openUser(t, path, 120, 40)
	u.press("4", "c", "another", "enter", "infiniband.bth.opcode", "enter", "t", "T", ":", "save-profile", "enter").sees("as which profile?")
	u.press("mine", "enter").sees("rocescope tui --profile mine")
	kept := u.s.kept()

	again := openWith(t, path, "", "", func(o *Options) { o.Kept = kept })
	again.press("4").seesNot("opcode").press(":", "profile mine", "enter").sees("opcode")
	if again.s.theme.Name != "light" || timeFormats[again.s.clock].name != "d" {
		t.Errorf("theme %s, time %s", again.s.theme.Name, timeFormats[again.s.clock].name)
	}
}

func TestActionsOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	config := fmt.Sprintf(`
tui:
  actions:
    look: {key: f5, command: "echo qp {{.QPN}} peer {{.PeerQPN}} packet {{.Packet}} of {{.File}} filter {{.Filter}}", help: what is here}
    note: {key: f6, command: "printf '%%s' {{.Filter}} >%[1]s/noted", output: none, ask: true}
    broken: {command: "echo no such thing; exit 3", output: none}
    nothing: {command: "echo {{.Connection}}"}
`, dir)
	u := openWith(t, sampleFile(t, samples.Default), config, "", nil)
	u.s.ses.in.File = "it's here.pcap"
	u.press("?", "what is here").sees("Your own", "f5", "what is here").press("esc")
	u.press("4", "ctrl-g", "88", "enter", "f5").sees("look (esc closes)", "qp 0x14 peer 0x14 packet 88 of it's here.pcap filter").press("esc").seesNot("esc closes")
	u.press("/", "ip.addr == 10.77.0.1 and not (flow.nak)", "enter", "f6").sees("Run printf", "noted ?").press("y").sees("note has ended.")
	if text, err := os.ReadFile(filepath.Join(dir, "noted")); err != nil || string(text) != "ip.addr == 10.77.0.1 and not (flow.nak)" {
		t.Errorf("%q, %v", text, err)
	}
	u.press(":", "broken", "enter").sees("broken: exit status 3: no such thing")

	for _, c := range []struct{ config, says string }{
		{"tui: {actions: {look: {command: 'echo {{.QP}}'}}}", "names in double braces are File, "},
		{"tui: {actions: {look: {command: 'echo {{'}}}", "config.yaml:1: tui.actions.look.command: "},
		{"tui: {actions: {freeze: {command: ls}}}", "an action of that name is there already"},
		{"tui: {actions: {look: {command: ls, key: q}}}", "tui.keys.look: q is bound to both quit and look"},
		{"tui: {actions: {look: {key: f5}}}", "there is no command"},
		{"tui: {actions: {look: {command: ls, output: paper}}}", `"paper" is none of window, terminal, none`},
	} {
		if _, err := ParseConfig("config.yaml", []byte(c.config), ""); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.config, err)
		}
	}
}

func TestSearchForWhatAFilterSelects(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("4", "ctrl-f", "=flow.nak", "enter").sees("Packets ▸ 88")
	u.press("n").seesNot("Packets ▸ 88").press("N").sees("Packets ▸ 88").press("N").sees("No packet in front of this one matches")
	u.press("1", "n").sees("Packets ▸ ")
	u.press("ctrl-f", "ctrl-u", "=bth.pns", "enter").sees("unknown field")
}

func TestTheCommandLineReopensTheView(t *testing.T) {
	path := sampleFile(t, samples.Default)
	u := openUser(t, path, 120, 40)
	u.press("4", "ctrl-g", "88", "enter", "y", "command", "enter").sees("Copied")
	if got := u.copied(); got != "rocescope tui lost_write_recovered.pcap --view packets --at 88" {
		t.Error(got)
	}
	u.press("d", "y", "command", "enter").sees("Copied")
	if got := u.copied(); got != "rocescope tui lost_write_recovered.pcap --view ladder --at 88" {
		t.Error(got)
	}
	openWith(t, path, "", "", func(o *Options) { o.View, o.At = "ladder", 88 }).sees("Ladder of #1", "NAK PSN sequence error")
	openWith(t, path, "", "", func(o *Options) { o.At = 88 }).sees("Packets ▸ 88")
	openWith(t, path, "", "", func(o *Options) { o.View = "findings" }).sees("Findings (4)")
}

func TestCopiesByACommand(t *testing.T) {
	to := filepath.Join(t.TempDir(), "clipboard")
	u := openWith(t, sampleFile(t, samples.Default), "tui: {copy: \"cat >'"+to+"'\"}", "", nil)
	u.press("4", "ctrl-g", "88", "enter", "y", "packet as hex", "enter").sees("Copied packet as hex by cat")
	text, err := os.ReadFile(to)
	if err != nil || !strings.HasPrefix(string(text), "020000007701") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestWhatIsWrittenWhileMaskedIsMasked(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	slice := filepath.Join(t.TempDir(), "slice.pcapng")
	u.press("P", "w").sees("(masked)").press("ctrl-u", slice, "enter").sees("Wrote 518 packets", "masked and without payload")
	again := openUser(t, slice, 120, 40)
	again.sees("ICRC", "477 right").press("2").sees("0x14").seesNot("10.77.0")
}

func TestACutOffCellIsInFullBelow(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 80, 24)
	u.press("6", "alt-5", "right").sees("what was found: 6 gaps were answered by a sequence NAK (first: 1")
	u.press("left").seesNot("what was found: 6")
}

func TestACaptureWithoutRDMASaysWhy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arp.pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := captures.NewWriter(f, captures.WriterOptions{Interfaces: []captures.Interface{{Link: dissect.LinkEthernet}}})
	arp := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6}, make([]byte, 28)...)
	if err := w.Write(&captures.Frame{Time: 1, HasTime: true, Data: arp, WireLen: len(arp)}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	u := openUser(t, path, 80, 24)
	u.sees("no packet has one", "there is n", "none of the packets is RoCE", "rocescope doctor IFACE")
	u.press("2").sees("none of the packets is RoCE").press("3").sees("none of the packets is RoCE").seesNot("There are no packets")
	u.press("5").sees("There is no connection to draw yet.").press("6").sees("Nothing was found")
}

func TestReadingSaysHowLongItTakesStill(t *testing.T) {
	s := &screen{began: time.Unix(100, 0), now: func() time.Time { return time.Unix(105, 0) }}
	s.status = sessionStatus{read: 25, of: 100}
	if got := s.left(); got != 15*time.Second {
		t.Errorf("%s left", got)
	}
	s.status.read = 0
	if got := s.left(); got != 0 {
		t.Errorf("%s left, of what has not begun", got)
	}
}

func TestASmallTerminalHasOnePanel(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 70, 20)
	u.press("4").sees("small: panel 1 of 3", "What it says").seesNot("─ Tree").press("tab").sees("─ Tree").seesNot("What it says")
	u.press("tab").sees("─ Bytes").seesNot("─ Tree")
	u = openUser(t, sampleFile(t, samples.Default), 30, 8)
	u.press("2", "enter", "4").sees("▸ … ▸ Packets")
}

func TestLessGoesOverASlowLine(t *testing.T) {
	path := sampleFile(t, samples.Default)
	size := func(depth cells.Depth, ascii bool) (n int) {
		u := openWith(t, path, "tui: {low-bandwidth: true}", "", func(o *Options) { o.Depth, o.ASCII = depth, ascii })
		for _, view := range []string{"1", "2", "4", "5"} {
			u.press(view)
			u.do(func() { n += len(u.s.text()) })
		}
		if every := u.s.o.Config.frame().Milliseconds(); every != 500 {
			t.Errorf("a frame every %d ms", every)
		}
		return n
	}
	full, slow := size(cells.Color256, false), size(cells.Color16, true)
	if slow*100 > full*85 {
		t.Errorf("%d bytes instead of %d", slow, full)
	}
}

// TestNoProgramsWhileAnInterfaceIsCaptured: the kernel's refusal is said in words, and other errors are as they are.
func TestNoProgramsWhileAnInterfaceIsCaptured(t *testing.T) {
	refused := &fs.PathError{Op: "fork/exec", Path: "/bin/sh", Err: syscall.EPERM}
	live := &screen{ses: &Session{in: Input{Live: true}}}
	if got := live.notRun(refused).Error(); !strings.Contains(got, "no program can be started while an interface is captured") {
		t.Error(got)
	}
	failed := errors.New("exit status 1")
	if got := live.notRun(failed); got != failed {
		t.Error(got)
	}
	if got := (&screen{ses: &Session{}}).notRun(refused); got != error(refused) {
		t.Error(got)
	}
}
