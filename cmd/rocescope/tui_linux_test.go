package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/testkit"
)

// terminal is the program in a terminal of its own, by tmux.
type terminal struct {
	t      *testing.T
	dir    string
	socket string
	n      *testkit.Namespace
}

// openTerminal runs a command line in a terminal; n says in which network namespace, nil in this one.
func openTerminal(t *testing.T, n *testkit.Namespace, width, height int, args ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not there")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "rocescope") // the test binary is the program when it is called so
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, dir: dir, socket: filepath.Join(dir, "tmux"), n: n}
	line := "'" + program + "'"
	for _, a := range args {
		line += " '" + a + "'"
	}
	cmd := exec.Command("tmux", "-u", "-S", x.socket, "-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height),
		"stty -a >"+dir+"/before; env HOME="+dir+" LANG=C.UTF-8 TERM=xterm-256color "+line+"; echo it ended with $?; stty -a >"+dir+"/after; sleep 100")
	if n != nil {
		err = n.Start(cmd)
		if err == nil {
			err = cmd.Wait()
		}
	} else {
		err = cmd.Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.tmux("kill-server") })
	return x
}

func (x *terminal) tmux(args ...string) string {
	out, _ := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...).CombinedOutput()
	return string(out)
}

// stty is the terminal's settings before or after the program; "" where they do not come.
func (x *terminal) stty(when string) string {
	for range 100 {
		if text, err := os.ReadFile(filepath.Join(x.dir, when)); err == nil && strings.HasSuffix(string(text), "\n") {
			return string(text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ""
}

// press sends keys by tmux's names of them.
func (x *terminal) press(keys ...string) *terminal {
	for _, k := range keys {
		x.tmux("send-keys", k)
	}
	return x
}

// types sends text.
func (x *terminal) types(text string) *terminal {
	x.tmux("send-keys", "-l", text)
	return x
}

// sees waits until all texts are on the screen.
func (x *terminal) sees(texts ...string) *terminal {
	x.t.Helper()
	var screen string
	for range 600 {
		screen = x.tmux("capture-pane", "-p")
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(screen, text)
		}
		if !missing {
			return x
		}
		time.Sleep(20 * time.Millisecond)
	}
	x.t.Fatalf("%q is not on the screen:\n%s", texts, screen)
	return x
}

// TestScreenStory is how somebody finds out about a lost WRITE: the finding, why it is one, the NAK, the ladder, the queue pair's
// packets alone, as a file, which is opened again.
func TestScreenStory(t *testing.T) {
	dir := t.TempDir()
	s, err := samples.Find(samples.Default)
	if err != nil {
		t.Fatal(err)
	}
	file, err := writeSample(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	x := openTerminal(t, nil, 120, 40, file)
	x.sees("Overview", "518 packets", "findings W1 N3", "answered by a sequence NAK")
	x.press("6").sees("Look at the requester's port", "IBA Vol 1, 9.7.5")
	x.press("Enter").sees("Packets ▸ 88", "NAK: PSN sequence error")
	x.press("d").sees("Ladder of #1", "NAK PSN sequence error", "missing: 1")
	x.press("4", "/").types("bth.pns == 1").sees("✗ not yet", `^ unknown field "bth.pns"; did you mean bth.psn?`)
	x.press("C-u").types("bth.destqp == 0x14 and flow.retransmission").sees("✓ valid").press("Enter").sees("179 packets")
	x.tmux("resize-window", "-x", "80", "-y", "24")
	x.sees("179 packets", "q quit")
	slice := filepath.Join(dir, "slice.pcapng")
	x.press("w", "C-u").types(slice).press("Enter").sees("Wrote 179 packets")
	x.press("q").sees("it ended with 0")

	again := openTerminal(t, nil, 80, 24, "tui", slice)
	again.sees("slice.pcapng", "179 packets").press("q").sees("it ended with 0")
}

// TestScreenWhileTrafficPasses looks at an interface: packets come, the screen is frozen while more come, and lets go.
func TestScreenWhileTrafficPasses(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	x := openTerminal(t, lab.B, 120, 40, lab.B.Iface)
	x.sees("No packets yet.", "rocescope doctor "+lab.B.Iface)
	sender := lab.A.NewSender()
	sent := writes(500)
	sender.Send(sent[:400])
	x.sees("400 packets", "following", "live by AF_PACKET")
	x.press("4").sees("Packets ▸ 400").press("Space").sees("frozen +0 new")
	sender.Send(sent[400:450])
	x.sees("frozen +50 new", "Packets ▸ 400", "400 packets")
	x.press("Space").sees("450 packets", "Packets ▸ 450")
	x.press("g").sees("Packets ▸ 1")
	sender.Send(sent[450:])
	x.sees("501 packets", "Packets ▸ 1", "none lost by the capture")
	x.press("F").sees("Packets ▸ 501")
	x.press("q").sees("it ended with 0")
}

// TestScreenSaysWhichEngineCaptures: AF_XDP where it was asked for, which a second capture cannot have; it has AF_PACKET, and says why.
func TestScreenSaysWhichEngineCaptures(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	x := openTerminal(t, lab.B, 120, 40, "tui", "-i", lab.B.Iface, "--engine", "xdp")
	x.sees("No packets yet.", "live by AF_XDP")
	y := openTerminal(t, lab.B, 120, 40, "tui", "-i", lab.B.Iface, "--engine", "xdp")
	y.sees("It is captured by AF_PACKET, not by AF_XDP: not offered here", "in use", "live by AF_PACKET · none lost by the capture · not by AF_XDP")
	y.press("q").sees("it ended with 0")
	lab.A.NewSender().Send(writes(100))
	x.sees("101 packets", "engine    AF_XDP").press("q").sees("it ended with 0")
	if a := lab.B.Link().Attrs().Xdp; a != nil && a.Attached {
		t.Error("the program is attached still")
	}
}

// TestTheCommandLineThatIsCopied opens the same interface by the same engine, with the same filter.
func TestTheCommandLineThatIsCopied(t *testing.T) {
	in := &input{stream: true, live: &liveFlags{liveOptions: liveOptions{name: "eth1", engine: "packet"}}}
	if got := new(app).sessionInput(in, new(tuiOptions)).Command; got != "rocescope tui -i eth1" {
		t.Error(got)
	}
	in.live.engine, in.live.filter = "xdp", "roce or tcp port 18515"
	if got := new(app).sessionInput(in, new(tuiOptions)).Command; got != "rocescope tui -i eth1 --engine xdp -f 'roce or tcp port 18515'" {
		t.Error(got)
	}
}

// TestScreenLeavesTheTerminalAsItWas also when the program is told to end.
func TestScreenLeavesTheTerminalAsItWas(t *testing.T) {
	dir := t.TempDir()
	s, err := samples.Find(samples.Default)
	if err != nil {
		t.Fatal(err)
	}
	file, err := writeSample(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []string{"TERM", "HUP", "INT"} {
		t.Run(signal, func(t *testing.T) {
			x := openTerminal(t, nil, 80, 24, file)
			x.sees("518 packets")
			pid := strings.TrimSpace(x.tmux("display-message", "-p", "#{pane_pid}"))
			out, err := exec.Command("pgrep", "-P", pid).Output()
			if err != nil {
				t.Fatal(err)
			}
			if err := exec.Command("kill", "-"+signal, strings.TrimSpace(string(out))).Run(); err != nil {
				t.Fatal(err)
			}
			x.sees("it ended with 130")
			if got := strings.TrimSpace(x.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}")); got != "0 0 1" {
				t.Errorf("alternate screen, mouse, cursor are %q", got)
			}
			if before, after := x.stty("before"), x.stty("after"); before == "" || after != before {
				t.Errorf("the terminal's settings are others:\n%s%s", before, after)
			}
		})
	}
}

// TestScreenFollowsASuite: cases and what became of them; the packets of one, as a ladder; the result comes behind the screen.
func TestScreenFollowsASuite(t *testing.T) {
	x := openTerminal(t, nil, 120, 40, "test", "--only", "PSN-0*", "--tui")
	x.sees("conformance against", "Cases (", "finished for")
	x.press("g").sees("required", "rule", "us ──▶ device", "us ◀── device")
	x.press("Enter").sees("Ladder of #1", "RDMA", "◀──")
	x.press("6").sees("Findings")
	x.press("8").sees("Cases (").press("q").sees("it ended with", "passed")
}

// TestScreenSteersAGenerator starts a stream, slows it down, holds it up and ends it; the report comes behind the screen.
func TestScreenSteersAGenerator(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	x := openTerminal(t, lab.A, 120, 40, "inject", "write", "-i", lab.A.Iface, "--src", "10.0.0.1", "--dst", "10.0.0.2",
		"--dst-mac", "02:00:00:00:00:02", "-D", "100", "--rate", "20Mbps", "--yes", "--tui", "--fault", "drop nth=3")
	x.sees("stopped", "20.00 Mbit/s", "drop nth=3")
	x.press("S").sees("Start inject write@rc on 1 QP, at 20.00 Mbit/s?").press("y").sees("running for", "struck")
	x.press("r", "C-u").types("1000pps").press("Enter").sees("1,000 packets/s")
	x.press("p").sees("paused for").press("p").sees("running for")
	x.press("q").sees("Traffic is being sent. Stop it and quit?").press("y").sees("it ended with")
}

// TestScreenServesAndMeasures is a server and a client, both on the screen: what passed is counted on both, what was measured
// comes behind the client's screen, and what was served behind the server's.
func TestScreenServesAndMeasures(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	server := openTerminal(t, lab.B, 120, 50, "serve", "-i", lab.B.Iface, "--tui")
	server.sees("serve on", "running for", "0 frames")
	client := openTerminal(t, lab.A, 120, 50, "bench", "write", "10.9.0.2", "-n", "500", "-s", "5000", "--verify", "--tui", "--fault", "drop nth=40")
	client.sees("bench", "finished for", "drop nth=40", "both ways").press("q").sees("it ended with 0", "verdict: good", "checked and right")
	server.sees("running for", "both ways").press("S").sees("Stop serve on").press("y").sees("finished for")
	server.press("q").sees("it ended with", "calls by exchange", "served")
}
