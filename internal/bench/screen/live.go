//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/engine"
)

const (
	// liveRate is fast enough that capturing and tracking cost far more than the screen,
	// and slow enough that the machine keeps up.
	liveRate = 100_000
	// ringMiB is what `rocescope tui -i` has unless one says.
	ringMiB = 256
)

// lives captures from one end of a pair of virtual interfaces, in a network namespace
// of this program's own, what inject sends into the other.
func lives(b *bench) ([]page.Row, error) {
	runtime.LockOSThread() // never unlocked: the thread goes with the namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return []page.Row{{What: "live capture with the screen open", Ours: "needs root", Met: page.NotMeasured}}, nil
	}
	to, err := makeLink()
	if err != nil {
		return nil, err
	}
	out, err := liveScreen(b, to)
	if isMissing(err) {
		return []page.Row{{What: "live capture with the screen open", Ours: err.Error(), Met: page.NotMeasured}}, nil
	}
	if err != nil {
		return nil, err
	}
	lost, sent, err := liveLoss(b, to)
	if err != nil {
		return nil, err
	}
	bare, err := withoutScreen(b, to, "-D", "5")
	if err != nil {
		return nil, err
	}
	return append(out, page.Row{
		What: "lost with the screen open at the highest rate that `inject` makes: " + sent, Ours: lost,
		Other: "without a screen: " + bare.lost + ", of " + bare.sent, Goal: "none", Met: page.Judge(lost == "none"),
	}), nil
}

// makeLink makes the pair, and returns the hardware address of the far end.
func makeLink() (string, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "near", 1500
	veth := netlink.NewVeth(attrs)
	veth.PeerName = "far"
	if err := netlink.LinkAdd(veth); err != nil {
		return "", fmt.Errorf("make a pair of virtual interfaces: %w", err)
	}
	for _, name := range []string{"near", "far"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return "", err
		}
	}
	time.Sleep(time.Second) // a link is not up at once
	far, err := netlink.LinkByName("far")
	if err != nil {
		return "", err
	}
	return far.Attrs().HardwareAddr.String(), nil
}

// sender is inject at the near end.
func sender(b *bench, to string, how ...string) *exec.Cmd {
	send := exec.Command(b.binary, append([]string{
		"inject", "write", "-s", "1024", "-q", "16", "-i", "near", "--src", "10.9.0.1", "--dst", "10.9.0.2", "--dst-mac", to, "--yes",
	}, how...)...)
	send.Stdout, send.Stderr = new(strings.Builder), new(strings.Builder)
	return send
}

// sentBy is what inject says of how much it has sent, and how fast.
func sentBy(send *exec.Cmd) (sent string) {
	for _, line := range strings.Split(fmt.Sprint(send.Stdout, send.Stderr), "\n") {
		if f := strings.Fields(line); len(f) > 3 && strings.HasPrefix(f[3], "packets/s") {
			sent = strings.Join(f[:4], " ")
		}
	}
	return strings.TrimSuffix(sent, ",")
}

// openLive captures with the screen open, and begins to send.
func openLive(b *bench, to string, how ...string) (*terminal, *exec.Cmd, error) {
	t, err := openTerminal(b.binary, "tui", "-i", "far", "-B", strconv.Itoa(ringMiB))
	if err != nil {
		return nil, nil, err
	}
	if _, err := t.await(t.began, regexp.MustCompile("Capturing on far"), time.Minute); err != nil {
		return nil, nil, errors.Join(err, t.close())
	}
	time.Sleep(2 * time.Second)
	send := sender(b, to, how...)
	if err := send.Start(); err != nil {
		return nil, nil, errors.Join(err, t.close())
	}
	return t, send, nil
}

// liveScreen is what the screen costs while traffic is captured: the difference to
// the same capture with a screen that does not move.
func liveScreen(b *bench, to string) ([]page.Row, error) {
	rate := fmt.Sprintf("%dpps", liveRate)
	t, send, err := openLive(b, to, "--rate", rate, "-D", "120")
	if err != nil {
		return nil, err
	}
	defer t.close()
	defer func() {
		_ = send.Process.Kill()
		_ = send.Wait()
	}()
	var parts []float64
	// A live capture is followed from the start.
	for _, keys := range [][]string{{"1"}, {"4"}, {"Space"}} {
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
	if err != nil {
		return nil, err
	}
	_ = send.Process.Kill()
	_ = send.Wait()
	bare, err := withoutScreen(b, to, "--rate", rate, "-D", "10")
	return []page.Row{
		{
			What: fmt.Sprintf("live at %d packets/s: what the overview with charts costs of a core", liveRate), Ours: percent(max(charts-frozen, 0)),
			Other: "the screen frozen: " + percent(frozen) + "; capturing and tracking without an index and a screen: " + percent(bare.part),
			Goal:  "≤ 10 %", Met: page.Judge(charts-frozen <= 0.10),
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
	time.Sleep(2 * time.Second)
	lost, err = t.lost()
	return lost, sentBy(send), err
}

// lost is what the overview says of packets that the capture lost.
func (t *terminal) lost() (string, error) {
	if err := t.keys("1"); err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second)
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

// bare is capturing and tracking alone.
type bare struct {
	part       float64 // of a core
	lost, sent string
}

// withoutScreen captures and tracks in this process as the screen's does, with
// neither an index nor a screen.
func withoutScreen(b *bench, to string, how ...string) (got bare, err error) {
	live, err := captures.OpenLive(captures.LiveOptions{Interface: "far", Ring: ringMiB << 20})
	if err != nil {
		return got, err
	}
	eo := engine.Options{CheckICRC: true, Track: true, MayBlock: true}
	eo.Tracker.Series = true
	ended := make(chan error, 1)
	go func() {
		_, err := engine.New(eo).Run(context.Background(), live)
		ended <- err
	}()
	send := sender(b, to, how...)
	before, began := measure.Spent(), time.Now()
	failed := send.Run()
	got.part = float64(measure.Spent()-before) / float64(time.Since(began))
	live.Stop() // what was let in still comes
	if err := errors.Join(failed, <-ended); err != nil {
		return got, fmt.Errorf("capturing without a screen: %w: %s", err, send.Stderr)
	}
	st := live.Stats()
	got.sent, got.lost = sentBy(send), "none"
	if n := st.RingDropped + st.CardDropped; n > 0 {
		got.lost = fmt.Sprint(n)
	}
	return got, nil
}
