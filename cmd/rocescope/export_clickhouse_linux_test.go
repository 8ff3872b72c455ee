package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/bench/traffic"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// chQuery asks one server of a cluster. Each row is its columns as text, joined by spaces.
func chQuery(t *testing.T, s *testkit.ClickHouseServer, database, query string) (rows []string) {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{s.Addr}, Auth: clickhouse.Auth{Database: database}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got driver.Rows
	if got, err = conn.Query(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer got.Close()
	for got.Next() {
		values := make([]any, len(got.ColumnTypes()))
		for i, c := range got.ColumnTypes() {
			values[i] = newOf(c)
		}
		if err := got.Scan(values...); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, v := range values {
			words = append(words, textOf(v))
		}
		rows = append(rows, strings.Join(words, " "))
	}
	if err := got.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return rows
}

// sums are what exported rows must add up to.
type sums struct {
	connections, packets, bytes, payload, messages, messageBytes, completed, failed, retransmitted uint64
	findings, found                                                                                uint64
}

// sumsOf adds up an analysis.
func sumsOf(t *testing.T, file string) (s sums, d report.Document) {
	t.Helper()
	if err := json.Unmarshal(runOK(t, "analyze", "--json", file), &d); err != nil {
		t.Fatal(err)
	}
	s.connections, s.findings = uint64(len(d.Connections)), uint64(len(d.Findings))
	for i := range d.Connections {
		for _, st := range []*report.Stream{&d.Connections[i].AToB, &d.Connections[i].BToA} {
			s.packets += st.Packets
			s.bytes += st.Bytes
			s.payload += st.PayloadBytes
			s.retransmitted += st.RetransmittedPackets
			for op, m := range st.Messages {
				if op != "atomic" { // the sum of its kinds
					s.messages += m.Count
					s.messageBytes += m.Bytes
					s.completed += m.Completed
					s.failed += m.Failed
				}
			}
		}
	}
	for i := range d.Findings {
		s.found += d.Findings[i].Count
	}
	return s, d
}

func (s sums) plus(o sums) sums {
	return sums{
		s.connections + o.connections, s.packets + o.packets, s.bytes + o.bytes, s.payload + o.payload, s.messages + o.messages,
		s.messageBytes + o.messageBytes, s.completed + o.completed, s.failed + o.failed, s.retransmitted + o.retransmitted,
		s.findings + o.findings, s.found + o.found,
	}
}

// inCluster adds up what a cluster holds, over all shards. The messages are asked without FINAL where nothing was sent twice.
func inCluster(t *testing.T, c *testkit.ClickHouse, database, where, final string) (s sums) {
	t.Helper()
	ask := func(query string, to ...*uint64) {
		t.Helper()
		rows := chQuery(t, c.Shards[0], database, query+where)
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows", query, len(rows))
		}
		for i, w := range strings.Fields(rows[0]) {
			fmt.Sscan(w, to[i])
		}
	}
	ask("SELECT count() FROM connections_all FINAL", &s.connections)
	ask("SELECT sum(packets), sum(bytes), sum(payload_bytes), sum(messages), sum(message_bytes), sum(messages_completed), sum(messages_failed), sum(retransmitted_packets) FROM streams_all FINAL",
		&s.packets, &s.bytes, &s.payload, &s.messages, &s.messageBytes, &s.completed, &s.failed, &s.retransmitted)
	ask("SELECT count(), sum(count) FROM findings_all FINAL", &s.findings, &s.found)
	var m sums
	ask("SELECT count(), sum(bytes) FROM messages_all "+final, &m.messages, &m.messageBytes)
	if m.messages != s.messages || m.messageBytes != s.messageBytes {
		t.Errorf("the table of messages has %d of %d bytes; streams say %d of %d", m.messages, m.messageBytes, s.messages, s.messageBytes)
	}
	return s
}

// writeTraffic writes a capture of so many messages of one packet each on 64 connections.
func writeTraffic(t *testing.T, path string, messages int, seed uint64) {
	t.Helper()
	g := traffic.New(traffic.Config{Connections: 64, Payload: 64, WritesOnly: true, Seed: seed})
	if err := g.WriteFile(path, 2*messages, true); err != nil {
		t.Fatal(err)
	}
}

// TestExportToCluster: two probes load into two shards; one shard is killed, at rest and in the middle of a load, and comes
// back. What the cluster holds is what analyze says of the captures, no more and no less.
func TestExportToCluster(t *testing.T) {
	cluster := testkit.StartClickHouse(t, 2)
	dir := t.TempDir()
	spill := t.TempDir()
	export := func(probe, database string, args ...string) []string {
		return append([]string{"export", "--to", "clickhouse", "--probe", probe, "--spill", spill}, append(args, cluster.URL(database))...)
	}
	one, two := filepath.Join(dir, "one.pcapng"), filepath.Join(dir, "two.pcapng")
	writeTraffic(t, one, 100_000, 1)
	lossy, err := samples.Open("lost_write_recovered")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(two, lossy, 0o644); err != nil {
		t.Fatal(err)
	}
	wantOne, _ := sumsOf(t, one)
	wantTwo, document := sumsOf(t, two)

	t.Run("kill and return", func(t *testing.T) {
		runOK(t, export("a", "rest", two)...)
		if got := inCluster(t, cluster, "rest", "", ""); got != wantTwo {
			t.Errorf("the cluster holds %+v, analyze says %+v", got, wantTwo)
		}
		checkRows(t, cluster, "rest", &document)

		cluster.Shards[1].Kill()
		_, said, code := runLine(t, export("b", "rest", "--patience", "0s", one)...)
		if code != exitFailed || !bytes.Contains(said, []byte("wait in its spill file")) {
			t.Fatalf("exit code %d with a shard away, and it says %s", code, said)
		}
		cluster.Shards[1].Start(t)
		runOK(t, export("b", "rest", "--drain")...)
		if got, want := inCluster(t, cluster, "rest", "", ""), wantOne.plus(wantTwo); got != want {
			t.Errorf("the cluster holds %+v, analyze says %+v", got, want)
		}
		if left, _ := filepath.Glob(filepath.Join(spill, "*")); len(left) > 0 {
			t.Errorf("spill files are left: %v", left)
		}
		for i, s := range cluster.Shards { // both have a share, and of each connection only one
			if n := chQuery(t, s, "rest", "SELECT count() > 20000 FROM messages")[0]; n != "1" {
				t.Errorf("shard %d has less than a fifth of the messages", i)
			}
		}
		if n := chQuery(t, cluster.Shards[0], "rest", "SELECT count(), uniq(run, connection) FROM connections_all FINAL")[0]; n != "65 65" {
			t.Errorf("connections and distinct ones: %s", n)
		}

		for _, part := range strings.Split(string(mustRead(t, "../../docs/fleet.md")), "```sql\n")[1:] {
			query, _, _ := strings.Cut(part, "```")
			if rows := chQuery(t, cluster.Shards[0], "rest", query); len(rows) == 0 && !strings.Contains(query, "WHERE failed") {
				t.Errorf("a query of the documentation finds nothing:\n%s", query)
			}
		}

		// The same again takes the place of what is there.
		runOK(t, export("b", "rest", one)...)
		if got, want := inCluster(t, cluster, "rest", "", "FINAL"), wantOne.plus(wantTwo); got != want {
			t.Errorf("exported twice, the cluster holds %+v, analyze says %+v", got, want)
		}
	})

	t.Run("killed within a load", func(t *testing.T) {
		p, in := startFed(t, export("c", "load", "--patience", "60s", "-")...)
		file := mustRead(t, one)
		feedIn(t, in, file[:len(file)/2])
		awaitRows(t, cluster.Shards[1], "load", "SELECT count() > 0 FROM messages")
		cluster.Shards[1].Kill()
		feedIn(t, in, file[len(file)/2:])
		in.Close()
		awaitFile(t, spill)
		cluster.Shards[1].Start(t)
		p.expect(exitOK)
		if got := inCluster(t, cluster, "load", "", ""); got != wantOne {
			t.Errorf("the cluster holds %+v, analyze says %+v", got, wantOne)
		}
	})

	t.Run("the exporter killed while it spills", func(t *testing.T) {
		cluster.Shards[1].Kill()
		p, in := startFed(t, export("d", "killed", "--patience", "60s", "-")...)
		feedIn(t, in, mustRead(t, one))
		awaitFile(t, spill) // at least a block is in it, and no more will come: the input stays open
		settle(t, spill)
		p.cmd.Process.Kill()
		p.wait()
		in.Close()
		cluster.Shards[1].Start(t)
		_, said, code := runLine(t, export("d", "killed", "--drain")...)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, said)
		}
		// What is lost is less than a block that was being filled, for the collector and for each shard.
		const unfinished = 16<<10 + 2*32<<10
		rows := chQuery(t, cluster.Shards[0], "killed", "SELECT count(), uniqExact(connection, index) FROM messages_all")[0]
		var n, distinct uint64
		fmt.Sscan(rows, &n, &distinct)
		if n != distinct || n+unfinished < wantOne.messages || n > wantOne.messages {
			t.Errorf("%d messages of which %d are distinct arrived, of %d", n, distinct, wantOne.messages)
		}
		if n := chQuery(t, cluster.Shards[1], "killed", "SELECT count() >= 32768, count() % 32768 FROM messages")[0]; n != "1 0" {
			t.Errorf("of the shard that was away, messages arrived, in whole blocks: %s", n)
		}
	})
}

// checkRows compares single rows of the small capture with the analysis.
func checkRows(t *testing.T, c *testkit.ClickHouse, database string, d *report.Document) {
	t.Helper()
	conn := &d.Connections[0]
	var want []string
	for _, st := range []struct {
		name string
		*report.Stream
	}{{"a_to_b", &conn.AToB}, {"b_to_a", &conn.BToA}} {
		want = append(want, fmt.Sprint(st.name, " ", st.Packets, " ", st.Retransmissions.NAK, " ", st.LostBeforeTap, " ", st.Acks, " ", st.NAKs.PSNSequenceError,
			" ", st.GoodputBPS, " ", textOf(st.Latency.P99), " ", textOf(st.RTT.Min)))
	}
	got := chQuery(t, c.Shards[0], database, "SELECT direction, packets, retransmissions_nak, lost_before_tap, acks, naks_psn_sequence_error, goodput_bps, latency_p99_ns, rtt_min_ns FROM streams_all FINAL ORDER BY direction")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("streams:\n%s\nanalyze says:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	want = nil
	for i := range d.Findings {
		f := &d.Findings[i]
		want = append(want, fmt.Sprint(f.ID, " ", f.Severity, " ", *f.Frame, " ", *f.TimeNS, " ", f.Count, " ", f.Summary))
	}
	got = chQuery(t, c.Shards[0], database, "SELECT finding, severity, frame, time_ns, count, summary FROM findings_all FINAL ORDER BY severity = 'error' DESC, severity = 'warning' DESC, frame, finding")
	if len(got) != len(want) || !sameSet(got, want) {
		t.Errorf("findings:\n%s\nanalyze says:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func sameSet(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// startFed starts the program with an input that the test writes.
func startFed(t *testing.T, args ...string) (*process, io.WriteCloser) {
	t.Helper()
	p := &process{t: t, lines: make(chan string), gone: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Args = append([]string{"rocescope"}, args...)
	p.cmd.Stderr = &p.said
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(p.gone) // nobody reads for it: Wait waits
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p, in
}

func feedIn(t *testing.T, to io.Writer, b []byte) {
	t.Helper()
	if _, err := to.Write(b); err != nil {
		t.Fatal(err)
	}
}

// awaitRows waits until a query gives 1.
func awaitRows(t *testing.T, s *testkit.ClickHouseServer, database, query string) {
	t.Helper()
	for range 4000 {
		if rows := chQuery(t, s, database, query); rows[0] == "1" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("never true: %s", query)
}

// spilled is how many bytes the spill files have.
func spilled(dir string) (n int64) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.spill"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}

// awaitFile waits until a spill file holds a block.
func awaitFile(t *testing.T, dir string) {
	t.Helper()
	for range 600 {
		if spilled(dir) > 1000 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("nothing was spilled")
}

// settle waits until nothing more is spilled.
func settle(t *testing.T, dir string) {
	t.Helper()
	for before := int64(-1); before != spilled(dir); time.Sleep(500 * time.Millisecond) {
		before = spilled(dir)
	}
}

// newOf makes room for a value of a column.
func newOf(c driver.ColumnType) any { return reflect.New(c.ScanType()).Interface() }

// textOf is a value as text, of a pointer what it points at.
func textOf(v any) string {
	at := reflect.ValueOf(v)
	for at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return "null"
		}
		at = at.Elem()
	}
	return fmt.Sprint(at.Interface())
}
