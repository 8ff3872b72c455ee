package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/internal/testkit"
)

// wireLab is two hosts, each on a virtual link to a third namespace, in which the interfaces are left0 and right0.
func wireLab(t *testing.T) (left, right, middle *testkit.Namespace) {
	t.Helper()
	l := testkit.NewLab(t, testkit.LabOptions{Iface: "left0", MTU: 4300})
	r := testkit.NewLab(t, testkit.LabOptions{Iface: "right0", MTU: 4300})
	var target *os.File
	var err error
	l.B.Do(func() { target, err = os.Open("/proc/thread-self/ns/net") })
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	r.B.Do(func() {
		link, ferr := netlink.LinkByName("right0")
		if err = ferr; err == nil {
			err = netlink.LinkSetNsFd(link, int(target.Fd()))
		}
	})
	l.B.Do(func() {
		link, ferr := netlink.LinkByName("right0")
		if err = errors.Join(err, ferr); err == nil {
			err = netlink.LinkSetUp(link)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.A, r.A, l.B
}

// TestWire joins two hosts, breaks what it is told, says when a link goes down, and that the link is down at the end.
func TestWire(t *testing.T) {
	left, right, middle := wireLab(t)
	file := filepath.Join(t.TempDir(), "both.pcapng")
	p := launchIn(t, middle, "wire", "left0", "right0", "--via", "packet", "-w", file, "--json", "--seed", "7",
		"--fault", "drop every=4 way=out when bth.opcode == RC_RDMA_WRITE_ONLY")
	p.until(regexp.MustCompile("^left0 and right0 are joined by packet .*MTU 4300"))
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for range 40 {
		x.A.Write(64)
	}
	before := right.Received()
	left.NewSender().Send(x.Frames())
	for end := time.Now().Add(20 * time.Second); right.Received()-before < 30 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	left.SetUp(false)
	p.until(regexp.MustCompile("^The link is down: left0$"))
	left.SetUp(true)
	p.until(regexp.MustCompile("^left0 and right0 are joined again$"))
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.until(regexp.MustCompile("^The link is down: left0 and right0 are not joined any more$"))
	p.expect(exitInterrupted)
	var d wireDocument
	if err := json.Unmarshal([]byte(p.stdout.String()), &d); err != nil {
		t.Fatalf("%v in %q", err, p.stdout.String())
	}
	if out := d.Directions[0]; d.Seed != 7 || out.Received != 40 || out.Forwarded != 30 || out.Struck != 10 || d.Rules[0].Struck != 10 || d.Written < 40 {
		t.Errorf("%+v", d)
	}
	if got := right.Received() - before; got != 30 {
		t.Errorf("%d frames arrived, want 30", got)
	}
	show := launchIn(t, middle, "show", file, "-Y", "infiniband")
	show.expect(exitOK)
	if n := strings.Count(show.stdout.String(), "\n"); n != 40 {
		t.Errorf("%d packets in the file, want 40", n)
	}
}
