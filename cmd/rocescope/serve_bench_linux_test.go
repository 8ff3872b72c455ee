package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/internal/events"
	"github.com/rocescope/rocescope/internal/testkit"
)

// newPeers is a lab whose ends have addresses of both kinds.
func newPeers(t *testing.T, o testkit.LabOptions) *testkit.Lab {
	t.Helper()
	lab := testkit.NewLab(t, o)
	for i, n := range []*testkit.Namespace{lab.A, lab.B} {
		n.Do(func() {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+n.Iface+"/disable_ipv6", []byte("0"), 0); err != nil {
				t.Error(err)
			}
			for _, text := range []string{fmt.Sprintf("10.9.0.%d/24", i+1), fmt.Sprintf("fd99::%d/64", i+1)} {
				a, err := netlink.ParseAddr(text)
				if err == nil {
					a.Flags = 2 // IFA_F_NODAD: at once
					err = netlink.AddrAdd(n.Link(), a)
				}
				if err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		})
	}
	return lab
}

// startServe starts a server at the B end, and waits until it serves.
func startServe(t *testing.T, lab *testkit.Lab, args ...string) *process {
	t.Helper()
	p := launchIn(t, lab.B, append([]string{"serve", "-i", lab.B.Iface}, args...)...)
	p.until(regexp.MustCompile("connections by"))
	return p
}

func (p *process) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
	p.expect(exitInterrupted)
}

// bench runs a command line of bench at the A end.
func benchIn(t *testing.T, lab *testkit.Lab, line string, code ExitCode) *process {
	t.Helper()
	p := launchIn(t, lab.A, append([]string{"bench"}, strings.Fields(line)...)...)
	p.expect(code)
	return p
}

// TestServeBench is serve in one namespace and bench in another, over both kinds of ports.
func TestServeBench(t *testing.T) {
	for _, via := range []string{"xdp", "packet"} {
		t.Run(via, func(t *testing.T) {
			lab := newPeers(t, testkit.LabOptions{})
			server := startServe(t, lab, "--via", via)
			for _, line := range []string{
				"write 10.9.0.2 -s 5001 -n 100 -m 256 --verify",
				"write 10.9.0.2 -c UC -s 3000 -n 40 -t 2 -m 2048 --verify",
				"write fd99::2 --imm -s 8191 -n 50 -q 4 -m 4096 --verify",
				"read 10.9.0.2 -s 100K -n 50 -m 4096 --verify",
				"read fd99::2 -s 777 -n 100 -q 4 -m 512 --verify",
				"send 10.9.0.2 -s 4099 -n 100 --verify",
				"send fd99::2 -c UD -s 1023 -n 40 -t 4 --verify",
				"send 10.9.0.2 -c UD --lat -n 40 --verify",
				"atomic 10.9.0.2 -n 100 -q 2 --verify",
				"atomic fd99::2 -A CMP_AND_SWAP -n 100 --verify",
				"read 10.9.0.2 --lat -s 128 -n 100 --verify",
				"write 10.9.0.2 -R -s 3000 -n 100 -q 2",
				"read fd99::2 -R -n 20",
				"write 10.9.0.2 --perftest -n 100 -q 2",
				"send 10.9.0.2 --perftest -n 100 -s 3000",
				"atomic 10.9.0.2 --perftest -n 100",
				"send 10.9.0.2 --pingpong -n 50",
			} {
				p := benchIn(t, lab, line+" --via "+via, exitOK)
				if out := p.stdout.String(); !strings.Contains(out, "verdict: good") || strings.Contains(line, "--verify") && !strings.Contains(out, "checked and right") {
					t.Errorf("bench %s:\n%s%s", line, out, p.said.String())
				}
			}
			server.interrupt()
			out := server.stdout.String()
			for _, want := range []string{"calls by exchange", "calls by CM", "calls by perftest", "calls by pingpong", "memory", "RTS", "closed (2 QPs): done", "served", "WRITEs", "atomics"} {
				if !strings.Contains(out, want) {
					t.Errorf("serve does not say %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, "error") || strings.Contains(out, "wrong") && !strings.Contains(out, ", 0 wrong") {
				t.Errorf("serve:\n%s", out)
			}
		})
	}
}

// TestServeBenchThreads has a thread for each of two queues, at both ends or at one: there half of the packets come in the other queue.
func TestServeBenchThreads(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{Queues: 2})
	server := startServe(t, lab, "--threads", "2")
	for _, line := range []string{
		"write 10.9.0.2 -s 5001 -n 60 -q 4 --threads 2 --verify",
		"read fd99::2 -s 70001 -n 40 -q 3 --threads 2 --verify",
		"atomic 10.9.0.2 -n 60 -q 4 --threads 2 --verify",
		"write 10.9.0.2 -R -s 3000 -n 60 -q 4 --threads 2",
		"write 10.9.0.2 --perftest -R -n 60 -q 2 --threads 2",
		"write 10.9.0.2 --imm -s 3000 -n 60 -q 3 --threads 1 --verify",
		"send 10.9.0.2 -s 4099 -n 60 -q 4 --threads 1 --verify",
	} {
		p := benchIn(t, lab, line+" -u 20 --via xdp", exitOK)
		if out := p.stdout.String(); !strings.Contains(out, "verdict: good") || strings.Contains(line, "--verify") && !strings.Contains(out, "checked and right") {
			t.Errorf("bench %s:\n%s%s", line, out, p.said.String())
		}
		if said := p.said.String(); strings.Contains(said, "on 2 threads") != strings.Contains(line, "--threads 2") {
			t.Errorf("bench %s says\n%s", line, said)
		}
	}
	server.interrupt()
	if out := server.stdout.String(); !strings.Contains(server.said.String()+out, ", on 2 threads\n") || !strings.Contains(out, "handed over") || strings.Contains(out, "error") {
		t.Errorf("serve:\n%s", out)
	}
}

// TestServeBenchRallies plays perftest's latency programs.
func TestServeBenchRallies(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{MTU: 1500})
	for _, c := range []struct{ serve, bench string }{
		{"--program ib_write_lat -s 64 -n 100", "write 10.9.0.2 --perftest --lat -s 64 -n 100"},
		{"--program ib_send_lat -c UD", "send 10.9.0.2 -c UD --perftest --lat -s 64 -n 100"},
	} {
		server := startServe(t, lab, strings.Fields(c.serve)...)
		p := benchIn(t, lab, c.bench, exitOK)
		if out := p.stdout.String(); !strings.Contains(out, "t_typical[usec]") || !strings.Contains(out, "verdict: good: 100 messages") {
			t.Errorf("bench %s:\n%s%s", c.bench, out, p.said.String())
		}
		server.interrupt()
	}
}

// TestServeOwnAddress has an address that no kernel has: it is asked for by ARP, and found.
func TestServeOwnAddress(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	server := startServe(t, lab, "--address", "10.9.0.77", "--mac", "02:77:00:00:00:01")
	benchIn(t, lab, "write 10.9.0.77 -R -n 20", exitOK)
	benchIn(t, lab, "read 10.9.0.77 -R -n 20 --address 10.9.0.88", exitOK)
	server.interrupt()
}

// TestServeBenchJSON reads what both say for programs.
func TestServeBenchJSON(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	server := startServe(t, lab, "--json")
	p := benchIn(t, lab, "write 10.9.0.2 -s 2000 -n 30 --verify --json", exitOK)
	var d benchDocument
	if err := json.Unmarshal([]byte(p.stdout.String()), &d); err != nil {
		t.Fatal(err)
	}
	if d.Schema != benchSchema || len(d.Results) != 1 || d.Results[0].Messages != 30 || d.Results[0].Checked != 30 || d.Results[0].Goodput <= 0 || d.Error != "" {
		t.Errorf("%+v", d)
	}
	server.interrupt()
	events := map[string]int{}
	for s := bufio.NewScanner(strings.NewReader(server.stdout.String())); s.Scan(); {
		var l serveLine
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		if events[l.Event]++; l.Event == "end" && (l.Totals.Checked != 30 || l.Totals.QPs != 1) {
			t.Errorf("the end: %+v", l.Totals)
		}
	}
	for _, want := range []string{"serving", "called", "planned", "connected", "ready", "checked", "closed", "end"} {
		if events[want] != 1 {
			t.Errorf("%d events %q: %v", events[want], want, events)
		}
	}
}

// TestServeEvents reads the event log of a server, of a session that ends well.
func TestServeEvents(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	file := filepath.Join(t.TempDir(), "run.jsonl")
	server := startServe(t, lab, "--events", file)
	benchIn(t, lab, "write 10.9.0.2 -s 2000 -n 30 --verify", exitOK)
	server.interrupt()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	var states []string
	var last, qpn uint32
	if err := events.Read(bytes.NewReader(text), func(e *events.Event) { counts[e.Type]++ }); err != nil {
		t.Errorf("it is no event log: %v", err)
	}
	for line := range bytes.Lines(text) {
		var s events.Served
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case s.Type == events.TypeQPState:
			states, last = append(states, s.From+"-"+s.State), s.QPN
		case s.Type == events.TypeQueuePair:
			qpn = s.QPN
			if s.Transport != "RC" || s.Peer != "10.9.0.1" || s.RemoteQPN == 0 || s.Length == nil || *s.Length == 0 {
				t.Errorf("%s", line)
			}
		case s.Type == events.TypeChecked && (*s.Messages != 30 || *s.Wrong != 0), s.Type == events.TypeSessionEnd && (*s.QPs != 1 || s.Error != ""):
			t.Errorf("%s", line)
		}
	}
	if got := strings.Join(states, " "); got != "RESET-INIT INIT-RTR RTR-RTS RTS-ERROR ERROR-RESET" || last != qpn {
		t.Errorf("QP %#x: %s; connected was %#x", last, got, qpn)
	}
	for _, want := range []string{"log", "session", "plan", "queue_pair", "checked", "session_end", "end"} {
		if counts[want] != 1 {
			t.Errorf("%d lines %q:\n%s", counts[want], want, text)
		}
	}
}

// TestBenchErrors is each way in which a peer is not what was hoped for: a sentence, and an exit code.
func TestBenchErrors(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	for _, c := range []struct {
		line, want string
		code       ExitCode
	}{
		{"write 10.9.0.2", "nobody listens there: start \"rocescope serve\"", exitFailed},
		{"write 10.9.0.2 --perftest", "start ib_write_bw at the other end first", exitFailed},
		{"write 10.9.0.99 -R", "no answer to ARP", exitFailed},
		{"write 10.77.0.1", "no route", exitFailed},
		{"write 10.9.0.1", "this host's own", exitFailed},
		{"write peer.invalid", "nobody knows an address of that name", exitFailed},
		{"write 10.9.0.2 -i nowhere", "no such interface", exitUnavailable},
	} {
		p := benchIn(t, lab, c.line, c.code)
		if said := p.said.String(); !strings.Contains(said, c.want) {
			t.Errorf("bench %s says\n%s, want %q", c.line, said, c.want)
		}
	}
	server := startServe(t, lab, "--connections", "600")
	for _, c := range []struct{ line, want string }{
		{"write 10.9.0.2 -R -p 99", "refused the connection: invalid service ID"},
		{"write 10.9.0.2 -u 8 --hand qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000", "transport retry counter exceeded"},
		{"write 10.9.0.2 -s 2G", "--size"},
		{"write 10.9.0.2 -q 700 -n 1", "as many as are allowed"},
	} {
		code := exitFailed
		if c.want == "--size" {
			code = exitUsage
		}
		p := benchIn(t, lab, c.line, code)
		if said := p.said.String(); !strings.Contains(said, c.want) {
			t.Errorf("bench %s says\n%s, want %q", c.line, said, c.want)
		}
	}
	before := strings.Count(server.stdout.String(), "ready")
	gone := launchIn(t, lab.A, "bench", "write", "10.9.0.2", "-D", "60", "-s", "1M", "-u", "8")
	for strings.Count(server.stdout.String(), "ready") == before {
		select {
		case <-gone.gone:
			t.Fatalf("bench ended: %s", gone.said.String())
		case <-time.After(time.Millisecond):
		}
	}
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone.expect(exitFailed)
	if said := gone.said.String(); !strings.Contains(said, "the peer has gone") {
		t.Errorf("a peer that goes away: %s", said)
	}
}

// TestServeGarbage says nonsense to a server, and leaves sockets half open: it lives on.
func TestServeGarbage(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	server := startServe(t, lab)
	var half []net.Conn
	lab.A.Do(func() {
		for i := range 300 {
			c, err := net.Dial("tcp", "10.9.0.2:18515")
			if err != nil {
				t.Error(err)
				return
			}
			half = append(half, c)
			if i%2 == 0 {
				c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
			}
		}
	})
	for _, c := range half {
		c.Close()
	}
	benchIn(t, lab, "write 10.9.0.2 -n 20 --verify", exitOK)
	server.interrupt()
	if out := server.stdout.String(); !strings.Contains(out, `"GET /": the other side says something else`) {
		t.Errorf("serve:\n%s", out)
	}
}

// TestServeBenchFaults has rules at both ends, and then a device that damages data, which is found.
func TestServeBenchFaults(t *testing.T) {
	lab := newPeers(t, testkit.LabOptions{})
	server := startServe(t, lab, "--fault", "drop nth=2 when bth.opcode == RC_ACKNOWLEDGE")
	p := launchIn(t, lab.A, "bench", "write", "10.9.0.2", "-n", "50", "-s", "5000", "-t", "1", "--verify", "--seed", "77", "--fault", "drop nth=3 when bth.opcode == RC_RDMA_WRITE_MIDDLE")
	p.expect(exitOK)
	for _, want := range []string{"checked and right", "rules, from seed 77\n", "             1  of ", "packets sent: drop nth=3", "sequence NAK", "time-out"} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("bench does not say %q:\n%s", want, p.stdout.String())
		}
	}
	server.interrupt()
	if out := server.stdout.String(); !strings.Contains(out, "packets sent: drop nth=2") || !strings.Contains(out, "rules, from seed 1\n") || !strings.Contains(out, "             1  of ") {
		t.Errorf("serve does not count what its rule struck:\n%s", out)
	}
	server = startServe(t, lab, "--misbehave", "payload-damaged")
	p = benchIn(t, lab, "write 10.9.0.2 -n 10 -s 100 --verify", exitJudged)
	if out := p.stdout.String(); !strings.Contains(out, "WRONG DATA: 10 of 10 checked") {
		t.Errorf("damaged data was not found:\n%s", out)
	}
	server.interrupt()
}
