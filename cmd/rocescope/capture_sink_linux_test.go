package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCaptureSink captures live into a cluster from two probes, and into files. The rows add up to what was sent, connections
// are brought up to date while the capture goes on, and the counters for Prometheus say the same.
func TestCaptureSink(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := testkit.NewExchange(testkit.ExchangeOptions{})
	for range 50 {
		sent.B.Answer(sent.A.Write(2 * 1024))
	}
	frames := sent.Frames()

	t.Run("files", func(t *testing.T) {
		lab.B.Do(func() {
			lo, err := netlink.LinkByName("lo")
			if err == nil {
				err = netlink.LinkSetUp(lo)
			}
			if err != nil {
				t.Error(err)
			}
		})
		file := filepath.Join(t.TempDir(), "rows.jsonl")
		p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "--sink", "jsonl:"+file, "--sink-interval", "100ms", "--metrics", "127.0.0.1:0")
		url := ""
		for line := range p.lines {
			if _, found, ok := strings.Cut(line, "Prometheus: "); ok {
				url = found
				break
			}
		}
		lab.A.NewSender().Send(frames[:len(frames)/2])
		page := ""
		lab.B.Do(func() {
			page = awaitMetric(t, url, fmt.Sprintf("rocescope_packets_total{transport=\"RC\"} %d", len(frames)/2))
		})
		for _, want := range []string{
			`rocescope_messages_total{operation="write",status="IBV_WC_SUCCESS"} 25`,
			`rocescope_message_bytes_total{operation="write"} 51200`,
			`rocescope_message_latency_seconds_count 25`,
			`rocescope_captured_packets_total 75`,
			`rocescope_dropped_packets_total{stage="ring"} 0`,
			`rocescope_marked_packets_total{mark="nak"} 0`,
		} {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("the page has no line %s:\n%s", want, page)
			}
		}
		checkDashboard(t, page, func(metric string) bool { return !strings.HasPrefix(metric, "rocescope_sink_") })
		lab.A.NewSender().Send(frames[len(frames)/2:])
		lab.B.Do(func() { awaitMetric(t, url, fmt.Sprintf("rocescope_packets_total{transport=\"RC\"} %d", len(frames))) })
		p.cmd.Process.Signal(os.Interrupt)
		p.expect(exitInterrupted)
		count := map[string]int{}
		packets := map[string]uint64{}
		for _, line := range strings.Split(strings.TrimSpace(string(mustRead(t, file))), "\n") {
			var r struct {
				Record  string
				Packets uint64
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			count[r.Record]++
			packets[r.Record] += r.Packets
		}
		if count["connections"] != 1 || count["streams"] != 2 || count["messages"] != 50 {
			t.Errorf("rows: %v", count)
		}
		if n := uint64(len(frames)); packets["streams"] != n || packets["series"] != n {
			t.Errorf("streams have %d packets and series %d, of %d", packets["streams"], packets["series"], n)
		}
	})

	t.Run("cluster", func(t *testing.T) {
		cluster := testkit.StartClickHouse(t, 2)
		var probes []*process
		for _, name := range []string{"one", "two"} {
			p := &process{t: t}
			p.cmd = exec.Command(os.Args[0])
			p.cmd.Args = []string{"rocescope", "capture", "-i", "lo", "-Q", "in", "--sink", cluster.URL("live"), "--sink-interval", "100ms", "--probe", name, "--spill", t.TempDir()}
			p.start()
			probes = append(probes, p)
		}
		sendOnLoopback(t, frames)
		// While they go on, all is there already.
		want, got := fmt.Sprintf("2 %d", 2*len(frames)), ""
		for range 200 {
			if got = chQuery(t, cluster.Shards[0], "live", "SELECT uniq(run), sum(packets) FROM streams_all FINAL")[0]; got == want {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if got != want {
			t.Errorf("while the captures go on there are runs and packets: %s, want %s", got, want)
		}
		for _, p := range probes {
			p.cmd.Process.Signal(os.Interrupt)
			p.expect(exitInterrupted)
		}
		for query, want := range map[string]string{
			"SELECT uniq(run), count(), sum(packets) FROM streams_all FINAL":                     fmt.Sprintf("2 4 %d", 2*len(frames)),
			"SELECT count(), sum(bytes), sum(failed), uniq(probe) FROM messages_all":             fmt.Sprintf("100 %d 0 2", 100*2048),
			"SELECT sum(packets), sum(messages) FROM series_all":                                 fmt.Sprintf("%d 100", 2*len(frames)),
			"SELECT count(), sum(connection), min(a_qpn), max(b_qpn) FROM connections_all FINAL": "2 2 17 18",
		} {
			if rows := chQuery(t, cluster.Shards[1], "live", query); rows[0] != want {
				t.Errorf("%s: %s, want %s", query, rows[0], want)
			}
		}
	})
}

// start starts a process in the test's own namespace, and waits until it captures.
func (p *process) start() {
	p.t.Helper()
	p.gone = make(chan struct{})
	r, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.cmd.Process.Kill() })
	captures := make(chan struct{})
	go func() {
		defer close(p.gone)
		s := bufio.NewScanner(r)
		for first := true; s.Scan(); first = false {
			p.said.WriteString(s.Text() + "\n")
			if first {
				close(captures)
			}
		}
	}()
	select {
	case <-captures:
	case <-p.gone:
		p.t.Fatalf("it ended: %s", p.said.String())
	}
}

// sendOnLoopback sends frames through lo of the test's own namespace.
func sendOnLoopback(t *testing.T, frames []testkit.Frame) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs root: %v", err)
	}
	defer unix.Close(fd)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := unix.Sendto(fd, f.Data, 0, &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: lo.Index}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitMetric scrapes until a line is there, and returns the page.
func awaitMetric(t *testing.T, url, line string) (page string) {
	t.Helper()
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/metrics$`).MatchString(url) {
		t.Errorf("counters are at %q", url)
		return ""
	}
	for range 200 {
		b, err := scrape(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics"))
		if err != nil {
			t.Error(err)
			return ""
		}
		if page = string(b); strings.Contains(page, line+"\n") {
			return page
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("the page never has %s:\n%s", line, page)
	return ""
}

// scrape gets the page on the goroutine that calls, which may be in a namespace.
func scrape(addr string) ([]byte, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(c)
	_, page, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	return page, err
}
