package testkit

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ClickHouse is a cluster of ClickHouse servers on loopback, one shard each, whose name is "fabric". They run in a folder of
// the test's, and end with it.
type ClickHouse struct {
	Shards []*ClickHouseServer
}

// ClickHouseServer is one of them.
type ClickHouseServer struct {
	Addr string // of the native protocol
	dir  string
	http int
	cmd  *exec.Cmd
}

// clickHouseProgram finds Debian's clickhouse-server, which lies where users' paths do not lead.
func clickHouseProgram() (string, error) {
	for _, name := range []string{"clickhouse-server", "/usr/sbin/clickhouse-server", "/usr/bin/clickhouse-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// StartClickHouse starts a cluster, or skips the test where there is no clickhouse-server.
func StartClickHouse(tb testing.TB, shards int) *ClickHouse {
	tb.Helper()
	program, err := clickHouseProgram()
	if err != nil {
		tb.Skip("needs clickhouse-server (Debian package clickhouse-server)")
	}
	ports := freePorts(tb, 3*shards)
	c := &ClickHouse{}
	var remote strings.Builder
	for i := range shards {
		fmt.Fprintf(&remote, "<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>", ports[3*i])
	}
	for i := range shards {
		s := &ClickHouseServer{Addr: fmt.Sprintf("127.0.0.1:%d", ports[3*i]), dir: tb.TempDir(), http: ports[3*i+1]}
		s.configure(tb, ports[3*i:3*i+3], remote.String())
		s.cmd = exec.Command(program, "--config-file="+filepath.Join(s.dir, "config.xml"))
		tb.Cleanup(s.Kill)
		s.Start(tb)
		c.Shards = append(c.Shards, s)
	}
	return c
}

// URL names the cluster's servers and a database.
func (c *ClickHouse) URL(database string) string {
	var addrs []string
	for _, s := range c.Shards {
		addrs = append(addrs, s.Addr)
	}
	return "clickhouse://" + strings.Join(addrs, ",") + "/" + database + "?cluster=fabric"
}

func (s *ClickHouseServer) configure(tb testing.TB, ports []int, shards string) {
	tb.Helper()
	config := fmt.Sprintf(`<?xml version="1.0"?>
<yandex>
    <logger><level>warning</level><log>%[1]s/log</log><errorlog>%[1]s/errors</errorlog></logger>
    <listen_host>127.0.0.1</listen_host>
    <tcp_port>%[2]d</tcp_port>
    <http_port>%[3]d</http_port>
    <interserver_http_port>%[4]d</interserver_http_port>
    <path>%[1]s/data/</path>
    <tmp_path>%[1]s/tmp/</tmp_path>
    <user_files_path>%[1]s/files/</user_files_path>
    <format_schema_path>%[1]s/formats/</format_schema_path>
    <users_config>%[1]s/users.xml</users_config>
    <default_profile>default</default_profile>
    <default_database>default</default_database>
    <mark_cache_size>67108864</mark_cache_size>
    <remote_servers><fabric>%[5]s</fabric></remote_servers>
</yandex>
`, s.dir, ports[0], ports[1], ports[2], shards)
	users := `<?xml version="1.0"?>
<yandex>
    <profiles><default><max_memory_usage>2000000000</max_memory_usage></default></profiles>
    <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
    <quotas><default></default></quotas>
</yandex>
`
	for name, text := range map[string]string{"config.xml": config, "users.xml": users} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

// Start starts the server (again), and waits until it answers.
func (s *ClickHouseServer) Start(tb testing.TB) {
	tb.Helper()
	s.cmd = &exec.Cmd{Path: s.cmd.Path, Args: s.cmd.Args, Dir: s.dir}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	for range 600 {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	why, _ := os.ReadFile(filepath.Join(s.dir, "errors"))
	tb.Fatalf("clickhouse-server does not answer at %s: %s", s.Addr, why)
}

// Kill ends the server at once, as a crash does.
func (s *ClickHouseServer) Kill() {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Spent is the processor time that the server took since it was started.
func (s *ClickHouseServer) Spent(tb testing.TB) time.Duration {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	// Behind the name in parentheses: state is field 3, utime 14 and stime 15, in hundredths of a second.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// freePorts finds TCP ports that nobody uses now.
func freePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
