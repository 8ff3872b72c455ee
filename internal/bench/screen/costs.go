//go:build linux

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// measureFor is how long processor time is looked at.
const measureFor = 10 * time.Second

// costs is what the open screen takes of a core: while nothing moves, and while
// traffic is captured.
func costs(b *bench) ([]page.Row, error) {
	t, err := openTerminal(b.binary, "tui", b.file)
	if isMissing(err) {
		return []page.Row{{What: "cost of the screen", Ours: err.Error(), Met: page.NotMeasured}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer t.close()
	if _, err := t.indexed(b); err != nil {
		return nil, err
	}
	var out []page.Row
	for _, c := range []struct{ key, what string }{{"1", "overview with charts"}, {"4", "packet list"}} {
		part, err := t.share(c.key)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Row{What: "a finished file on the screen, " + c.what + ", of a core", Ours: percent(part), Goal: "≤ 2 %", Met: page.Judge(part <= 0.02)})
	}
	more, err := liveCosts(b)
	return append(out, more...), err
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", part*100) }

// share presses keys and looks at how much of a core the program takes then.
func (t *terminal) share(keys ...string) (float64, error) {
	if err := t.keys(keys...); err != nil {
		return 0, err
	}
	time.Sleep(2 * time.Second)
	before, began := t.cpu(), time.Now()
	time.Sleep(measureFor)
	return float64(t.cpu()-before) / float64(time.Since(began)), nil
}

// liveRate is fast enough that capturing and tracking cost far more than the screen,
// and slow enough that the machine keeps up.
const liveRate = 100_000

// liveCosts captures from one end of a pair of virtual interfaces, in a network
// namespace of this program's own, what inject sends into the other. What the
// screen costs is the difference to the same capture with a frozen screen.
func liveCosts(b *bench) ([]page.Row, error) {
	runtime.LockOSThread() // never unlocked: the thread goes with the namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return []page.Row{{What: "live capture with the screen open", Ours: "needs root", Met: page.NotMeasured}}, nil
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "near", 1500
	veth := netlink.NewVeth(attrs)
	veth.PeerName = "far"
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make a pair of virtual interfaces: %w", err)
	}
	for _, name := range []string{"near", "far"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Second) // a link is not up at once
	far, err := netlink.LinkByName("far")
	if err != nil {
		return nil, err
	}
	to := far.Attrs().HardwareAddr.String()
	out, err := liveScreen(b, to)
	if err != nil {
		return nil, err
	}
	lost, sent, err := liveLoss(b, to)
	if err != nil {
		return nil, err
	}
	return append(out, page.Row{
		What: "lost with the screen open at the highest rate that `inject` makes, 5 s", Ours: lost, Other: sent, Goal: "none", Met: page.Judge(lost == "none"),
	}), nil
}

// openLive captures with the screen open, and begins to send.
func openLive(b *bench, to string, sending ...string) (*terminal, *exec.Cmd, error) {
	t, err := openTerminal(b.binary, "tui", "-i", "far")
	if err != nil {
		return nil, nil, err
	}
	if _, err := t.await(t.began, regexp.MustCompile("Capturing on far"), time.Minute); err != nil {
		return nil, nil, errors.Join(err, t.close())
	}
	time.Sleep(2 * time.Second)
	send := exec.Command(b.binary, append([]string{
		"inject", "write", "-s", "1024", "-q", "16", "-i", "near", "--src", "10.9.0.1", "--dst", "10.9.0.2", "--dst-mac", to, "--yes",
	}, sending...)...)
	send.Stdout, send.Stderr = new(strings.Builder), new(strings.Builder)
	if err := send.Start(); err != nil {
		return nil, nil, errors.Join(err, t.close())
	}
	return t, send, nil
}

// liveScreen is what the screen costs while traffic is captured.
func liveScreen(b *bench, to string) ([]page.Row, error) {
	t, send, err := openLive(b, to, "--rate", fmt.Sprintf("%dpps", liveRate), "-D", "120")
	if err != nil {
		return nil, err
	}
	defer t.close()
	defer func() {
		_ = send.Process.Kill()
		_ = send.Wait()
	}()
	var parts []float64
	for _, keys := range [][]string{{"1"}, {"4", "F"}, {"Space"}} {
		part, err := t.share(keys...)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	charts, list, frozen := parts[0], parts[1], parts[2]
	if err := t.keys("Space"); err != nil {
		return nil, err
	}
	lost, err := t.lost()
	return []page.Row{
		{
			What: fmt.Sprintf("live at %d packets/s: what the overview with charts costs of a core", liveRate), Ours: percent(max(charts-frozen, 0)),
			Other: "capture, tracking and ring, the screen frozen: " + percent(frozen), Goal: "≤ 10 %", Met: page.Judge(charts-frozen <= 0.10),
		},
		{What: "the same, the packet list that follows", Ours: percent(max(list-frozen, 0)), Goal: "≤ 5 %", Met: page.Judge(list-frozen <= 0.05)},
		{What: "lost by that capture", Ours: lost, Goal: "none", Met: page.Judge(lost == "none")},
	}, err
}

// liveLoss is what is lost when inject sends as fast as it can, and how much that was.
func liveLoss(b *bench, to string) (lost, sent string, err error) {
	t, send, err := openLive(b, to, "-D", "5")
	if err != nil {
		return "", "", err
	}
	defer t.close()
	if err := send.Wait(); err != nil {
		return "", "", fmt.Errorf("inject: %w: %s", err, send.Stderr)
	}
	for _, line := range strings.Split(fmt.Sprint(send.Stdout, send.Stderr), "\n") {
		if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[2], "packets/s") || len(f) > 3 && strings.HasPrefix(f[3], "packets/s") {
			sent = strings.TrimSpace(line)
		}
	}
	time.Sleep(2 * time.Second)
	lost, err = t.lost()
	return lost, sent, err
}

// lost is what the overview says of packets that the capture lost.
func (t *terminal) lost() (string, error) {
	if err := t.keys("1"); err != nil {
		return "", err
	}
	time.Sleep(time.Second)
	screen, err := t.tmux("capture-pane", "-p", "-t", "bench")
	if err != nil {
		return "", err
	}
	if m := regexp.MustCompile(`lost ([\d,]+) packets? itself|([\d,]+) lost by the capture`).FindStringSubmatch(screen); m != nil {
		return m[1] + m[2], nil
	}
	if strings.Contains(screen, "none lost") || strings.Contains(screen, "lost none") || strings.Contains(screen, "lost nothing") {
		return "none", nil
	}
	return "", fmt.Errorf("the overview does not say what was lost:\n%s", screen)
}
