package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// injectLab is a lab whose ends have addresses and know each other.
func injectLab(t *testing.T, mtu int) *testkit.Lab {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: mtu})
	for n, address := range map[*testkit.Namespace]string{lab.A: "10.9.0.1/24", lab.B: "10.9.0.2/24"} {
		n.Do(func() {
			a, err := netlink.ParseAddr(address)
			if err == nil {
				err = netlink.AddrAdd(n.Link(), a)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	return lab
}

// injectResult is the result that --json prints.
func injectResult(t *testing.T, p *process) (d injectDocument) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.stdout.String()), &d); err != nil {
		t.Fatalf("%v in %q; it says\n%s", err, p.stdout.String(), p.said.String())
	}
	if s := &d.Sent; d.Asked.Messages != s.Messages+s.MessagesCut+s.MessagesNotSent || s.Packets != s.PacketsSent+s.PacketsLost {
		t.Errorf("it does not add up: %+v, %+v", d.Asked, d.Sent)
	}
	return d
}

// Every packet that inject sends arrives once and in order, whichever way it leaves, with the addresses that the kernel knows.
func TestInjectArrives(t *testing.T) {
	for _, c := range []struct {
		via, mtu, engine string
		packets          int
		more             []string
	}{
		{"xdp", "4096", "packet", 8 * 25 * 2, nil},
		{"packet", "4096", "packet", 8 * 25 * 2, []string{"--interleave"}},
		{"live", "2048", "xdp", 8 * 25 * 3, []string{"--payload", "zero"}}, // a virtual link takes live frames if its far end has XDP
	} {
		t.Run(c.via, func(t *testing.T) {
			lab := injectLab(t, 4500)
			file := filepath.Join(t.TempDir(), "a.pcapng")
			see := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "-f", "roce", "-c", strconv.Itoa(c.packets), "--engine", c.engine)
			args := []string{
				"inject", "write", "-s", "5000", "-m", c.mtu, "-q", "8", "-n", "25", "-i", lab.A.Iface, "--dst", "10.9.0.2",
				"--psn", "0xfffff0", "--via", c.via, "--json",
			}
			p := launchIn(t, lab.A, append(args, c.more...)...)
			if p.expect(exitOK); t.Failed() {
				return
			}
			see.expect(exitOK)
			d := injectResult(t, p)
			if d.Via != c.via || d.Sent.Packets != uint64(c.packets) || d.Sent.Messages != 200 || d.Sent.PacketsUnsure != 0 {
				t.Errorf("%+v", d)
			}
			next := map[uint32]dissect.PSN{}
			packets, _ := testkit.Decode(testkit.ReadCapture(t, file))
			for i := range packets {
				q := &packets[i]
				want, known := next[q.DestQP]
				if !known {
					want = 0xfffff0
				}
				if q.PSN != want || q.ICRC != dissect.ICRCValid || q.Src.String() != "10.9.0.1" {
					t.Fatalf("packet %d: PSN %d, want %d; ICRC %v; from %v", i+1, q.PSN, want, q.ICRC, q.Src)
				}
				next[q.DestQP] = want.Add(1)
			}
			if len(packets) != c.packets || len(next) != 8 {
				t.Errorf("%d packets of %d QPs", len(packets), len(next))
			}
		})
	}
}

func TestInjectRate(t *testing.T) {
	lab := injectLab(t, 1500)
	p := launchIn(t, lab.A, "inject", "send@uc", "-s", "100", "-D", "2.5", "--rate", "2000pps", "-i", lab.A.Iface, "--dst", "10.9.0.2", "--via", "packet")
	p.expect(exitOK)
	said := p.said.String()
	if n := len(regexp.MustCompile(`(?m)^\ds  [\d,]+ packets?  [\d,]+ packets/s, .* of 2,000 packets/s  ring \d+%`).FindAllString(said, -1)); n < 1 {
		t.Errorf("%d lines in\n%s", n, said)
	}
	if !strings.HasPrefix(said, "Sending send@uc on 1 QP to 10.9.0.2 through "+lab.A.Iface+", seed 1\n") {
		t.Errorf("it says\n%s", said)
	}
}

func TestInjectUntilCtrlC(t *testing.T) {
	lab := injectLab(t, 1500)
	p := launchIn(t, lab.A, "inject", "write", "-s", "100", "-D", "100", "--yes", "--rate", "1000pps", "-i", lab.A.Iface, "--dst", "10.9.0.2", "--json")
	p.until(regexp.MustCompile("^1s "))
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	if d := injectResult(t, p); d.Sent.Packets == 0 {
		t.Errorf("%+v", d.Sent)
	}
}

func TestInjectInterfaceDeleted(t *testing.T) {
	for _, via := range []string{"xdp", "packet", "live"} {
		t.Run(via, func(t *testing.T) {
			lab := injectLab(t, 1500)
			if via == "live" {
				startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", "/dev/null", "--force", "--engine", "xdp", "-f", "roce")
			}
			p := launchIn(t, lab.A, "inject", "write", "-s", "100", "-D", "100", "--yes", "--rate", "5000pps", "-i", lab.A.Iface, "--dst", "10.9.0.2", "--json", "--via", via)
			p.until(regexp.MustCompile("^1s "))
			lab.B.Delete()
			p.expect(exitUnavailable)
			if d := injectResult(t, p); d.Sent.Packets == 0 {
				t.Errorf("%+v", d.Sent)
			}
		})
	}
}

func TestInjectRefusals(t *testing.T) {
	lab := injectLab(t, 1500)
	for _, c := range []struct {
		code ExitCode
		want string
		args []string
	}{
		{exitUnavailable, fmt.Sprintf("ip link set %s mtu ", lab.A.Iface), []string{"write", "-m", "4096", "--dst", "10.9.0.2"}},
		{exitUsage, "100,000,000 packets to 10.9.0.2 through " + lab.A.Iface + " is a lot: --yes says that it is meant", []string{"write", "-s", "1", "-n", "100000000", "--dst", "10.9.0.2"}},
		{exitUsage, "traffic for 20s to 10.9.0.2", []string{"write", "-D", "20", "--dst", "10.9.0.2"}},
		{exitFailed, "no answer to ARP or neighbour discovery for 10.9.0.77", []string{"write", "--dst", "10.9.0.77"}},
		{exitUnavailable, "the address is this host's own", []string{"write", "--dst", "10.9.0.1"}},
		{exitUsage, "--via live: ", []string{"mix", "write", "read", "--via", "live", "--dst", "10.9.0.2"}},
	} {
		p := launchIn(t, lab.A, append([]string{"inject", "-i", lab.A.Iface}, c.args...)...)
		p.expect(c.code)
		if !strings.Contains(p.said.String(), c.want) {
			t.Errorf("%v says\n%s", c.args, p.said.String())
		}
	}
	if n := lab.B.Received(); n > 50 { // ARP, and what IPv6 says; no traffic
		t.Errorf("%d frames were sent", n)
	}
}

func TestInjectWithoutPrivilege(t *testing.T) {
	lab := injectLab(t, 1500)
	dir, err := os.MkdirTemp("", "rocescope-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "rocescope")
	data, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.WriteFile(binary, data, 0o755), os.Chmod(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, via := range []string{"", "xdp", "packet", "live"} {
		cmd := exec.Command(binary, "inject", "write@uc", "-s", "64", "--no-answers", "-i", lab.A.Iface, "--dst", "10.9.0.2", "--via", via)
		var said bytes.Buffer
		cmd.Stderr, cmd.Dir = &said, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := lab.A.Start(cmd); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != int(exitUnavailable) || !strings.Contains(said.String(), "sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep "+binary) {
			t.Errorf("--via %q ends with %v and says\n%s", via, cmd.ProcessState, said.String())
		}
	}
}
