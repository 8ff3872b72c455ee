package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// These tests compare what analyze says with what the programs that made the traffic were told to do and printed.
// Nothing in them comes from looking at packets.

// truth is what is known of one capture.
type truth struct {
	client, server end
	transport      string // "" = not known, as with the next ones
	mtu            int
	connections    int    // that carry the messages below
	establishedBy  string // of those whose queue pairs are known
	vlan           int
	dscp           int  // of the client's stream; -1 = not known
	psnUnused      bool // the programs printed starting PSNs, but rdma_cm chose others
	multicast      string
	timeout        time.Duration // of the requester's queue pair; 0 = not known
	marked         int           // the client's network marks one packet in so many
	icrcValid      int           // -1 = not known
	icrcBad        int
	messages       []expectation
	// others says that the programs also exchanged messages that are not listed: on queue pairs that they did not name.
	others bool
	// ended says that all programs came to their own end.
	ended bool
}

// end is one of the two machines.
type end struct {
	address string
	qps     []testkit.QueuePair
}

// expectation is a number of work requests of one kind.
type expectation struct {
	from        string // "client", "server"
	qpn         uint32 // of the requester; 0 = any
	op          string
	bytes       uint64
	least, most int
	status      string // "" = not known; "ok" = success, or sent where nothing is acknowledged
	imm, inv    *uint32
	va          *uint64
	rkey        *uint32
}

func (e expectation) String() string {
	s := fmt.Sprintf("%s %s of %d bytes", e.from, e.op, e.bytes)
	if e.qpn != 0 {
		s += " " + report.QPN(e.qpn)
	}
	for name, v := range map[string]*uint32{"imm": e.imm, "inv": e.inv, "rkey": e.rkey} {
		if v != nil {
			s += fmt.Sprintf(" %s %#x", name, *v)
		}
	}
	if e.va != nil {
		s += fmt.Sprintf(" va %#x", *e.va)
	}
	return s + " " + e.status
}

func TestTruthOfSamples(t *testing.T) {
	dir := t.TempDir()
	for _, s := range samples.List() {
		t.Run(s.Name, func(t *testing.T) {
			data, err := samples.Open(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, s.Capture.File)
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			checkTruth(t, file, truthOfSample(s))
		})
	}
}

func TestTruthOfRXE(t *testing.T) {
	dir := testkit.RXE(t)
	for _, e := range testkit.RXEManifest(t).Captures {
		if strings.HasPrefix(e.File, "iwarp_") {
			continue
		}
		t.Run(strings.TrimSuffix(e.File, ".pcap"), func(t *testing.T) {
			checkTruth(t, filepath.Join(dir, e.File), truthOfEntry(t, e))
		})
	}
}

// analyzeFile is what `rocescope analyze` prints, in both of its JSON forms.
func analyzeFile(t *testing.T, file string) (*report.Document, []report.Message) {
	t.Helper()
	var d report.Document
	strict := json.NewDecoder(bytes.NewReader(runOK(t, "analyze", "--json", file)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&d); err != nil {
		t.Fatal(err)
	}
	var all []report.Message
	lines := json.NewDecoder(bytes.NewReader(runOK(t, "analyze", "--json", "--messages", file)))
	lines.DisallowUnknownFields()
	for lines.More() {
		var m report.Message
		if err := lines.Decode(&m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return &d, all
}

// runOK is what a command line prints on standard output, when it succeeds.
func runOK(t *testing.T, args ...string) []byte {
	t.Helper()
	out, errs, code := runLine(t, args...)
	if code != exitOK {
		t.Fatalf("rocescope %s: exit code %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

// runLine runs a command line in this process.
func runLine(t *testing.T, args ...string) (stdout, stderr []byte, code ExitCode) {
	t.Helper()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	out, errs := file("out"), file("err")
	code = run(t.Context(), args, os.Stdin, out, errs)
	read := func(f *os.File) []byte {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	stdout, stderr = read(out), read(errs)
	if code == exitOK || code == exitJudged {
		checkPrinted(t, args, stdout)
	}
	return stdout, stderr, code
}

// checkTruth analyzes a capture and compares.
func checkTruth(t *testing.T, file string, want truth) {
	d, messages := analyzeFile(t, file)
	if d.ICRC.Invalid != uint64(want.icrcBad) || d.ICRC.Unchecked != 0 || want.icrcValid >= 0 && d.ICRC.Valid != uint64(want.icrcValid) {
		t.Errorf("ICRC: %+v, want %d valid and %d invalid", d.ICRC, want.icrcValid, want.icrcBad)
	}
	checkRecordsAgree(t, d, messages)
	checkMessages(t, d, messages, want)
	checkQueuePairs(t, d, messages, want)
	checkConnections(t, d, want)
}

// checkRecordsAgree compares the two forms of the result with each other.
func checkRecordsAgree(t *testing.T, d *report.Document, messages []report.Message) {
	type key struct {
		conn   uint32
		stream string
		op     string
	}
	sum := map[key]report.MessageCounts{}
	for _, m := range messages {
		k := key{m.Connection, m.Stream, m.Operation}
		n := sum[k]
		n.Count++
		n.Bytes += m.Bytes
		sum[k] = n
	}
	for i := range d.Connections {
		c := &d.Connections[i]
		for stream, s := range map[string]*report.Stream{"a_to_b": &c.AToB, "b_to_a": &c.BToA} {
			for op, n := range s.Messages {
				k := key{c.ID, stream, op}
				if got := sum[k]; op != "atomic" && (got.Count != n.Count || got.Bytes != n.Bytes) {
					t.Errorf("connection %d %s %s: %d messages of %d bytes together, but --messages lists %d of %d", c.ID, stream, op, n.Count, n.Bytes, got.Count, got.Bytes)
				}
				if n.Completed+n.Failed > n.Count {
					t.Errorf("connection %d %s %s: %+v", c.ID, stream, op, n)
				}
				delete(sum, k)
			}
		}
	}
	for k, n := range sum {
		t.Errorf("--messages lists %d messages of %v, which no connection counts", n.Count, k)
	}
}

// requester and responder are the ends of a message.
func requester(d *report.Document, m *report.Message) (from, to report.QP) {
	for i := range d.Connections {
		if c := &d.Connections[i]; c.ID == m.Connection {
			if m.Stream == "a_to_b" {
				return c.A, c.B
			}
			return c.B, c.A
		}
	}
	return report.QP{}, report.QP{}
}

// checkMessages compares the work requests.
func checkMessages(t *testing.T, d *report.Document, messages []report.Message, want truth) {
	left := slices.Clone(want.messages)
	unlisted := map[string]int{}
	for i := range messages {
		m := &messages[i]
		if want.messages == nil {
			continue
		}
		from, _ := requester(d, m)
		if !takeExpected(left, want, d, from, m) {
			if want.others && !want.named(from) {
				continue
			}
			unlisted[describeMessage(from, m)]++
		}
	}
	for what, n := range unlisted {
		t.Errorf("%d messages that nobody asked for: %s", n, what)
	}
	for _, e := range left {
		if e.least > 0 {
			t.Errorf("%d messages are missing: %v", e.least, e)
		}
	}
}

// named reports whether a queue pair is one that its program named.
func (want truth) named(q report.QP) bool {
	for _, e := range []end{want.client, want.server} {
		if q.Address != nil && *q.Address == e.address && q.QPN != nil &&
			slices.ContainsFunc(e.qps, func(p testkit.QueuePair) bool { return p.QPN == *q.QPN }) {
			return true
		}
	}
	return false
}

// takeExpected takes one off the expectation that a message fulfils.
func takeExpected(left []expectation, want truth, d *report.Document, from report.QP, m *report.Message) bool {
	side := ""
	switch {
	case from.Address == nil:
	case *from.Address == want.client.address:
		side = "client"
	case *from.Address == want.server.address:
		side = "server"
	}
	for i := range left {
		e := &left[i]
		op := m.Operation
		if e.op == "atomic" && m.Atomic != nil {
			op = "atomic"
		}
		if e.most == 0 || e.from != side || e.op != op || !e.sizeFits(m) ||
			e.qpn != 0 && (from.QPN == nil || *from.QPN != e.qpn) ||
			e.imm != anyKey && !same(e.imm, m.Immediate) || e.inv != anyKey && !same(e.inv, m.Invalidated) ||
			e.va != nil && !same(e.va, m.VA) || e.rkey != nil && !same(e.rkey, m.RKey) {
			continue
		}
		if e.status != "" && !want.statusFits(e.status, m, d) {
			continue
		}
		e.least--
		e.most--
		return true
	}
	return false
}

// sizeFits compares sizes. That of an unreliable message whose first packet was lost, and with it the RETH, nobody knows:
// then what was seen is there.
func (e expectation) sizeFits(m *report.Message) bool {
	if e.status == "lossy" && m.VA == nil {
		return m.Bytes < e.bytes
	}
	return e.bytes == m.Bytes || e.bytes == anySize
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// statusFits compares a status with the words of ibv_wc_status_str.
func (want truth) statusFits(said string, m *report.Message, d *report.Document) bool {
	switch said {
	case "ok", "success":
		return m.Status == "IBV_WC_SUCCESS" || m.Status == "SENT"
	case "lossy": // an unreliable message, of which the network may have eaten a part
		return m.Status == "SENT" || m.Status == "incomplete"
	case "remote access error":
		return m.Status == "IBV_WC_REM_ACCESS_ERR"
	case "remote invalid request error":
		return m.Status == "IBV_WC_REM_INV_REQ_ERR"
	case "transport retry counter exceeded":
		// Silence proves it only when it is long: until four time-outs are over, the next try may still come.
		silence := *d.Capture.LastNS - *m.LastSentNS
		if want.timeout > 0 && silence < 4*want.timeout.Nanoseconds() {
			return m.Status == "open" && m.Resends > 0
		}
		return m.Status == "IBV_WC_RETRY_EXC_ERR" && m.Presumed
	case "Work Request Flushed Error":
		return m.Status == "IBV_WC_WR_FLUSH_ERR"
	}
	return false
}

func describeMessage(from report.QP, m *report.Message) string {
	address, qpn := "?", "?"
	if from.Address != nil {
		address = *from.Address
	}
	if from.QPN != nil {
		qpn = report.QPN(*from.QPN)
	}
	s := fmt.Sprintf("%s %s %s of %d bytes, %s", address, qpn, m.Operation, m.Bytes, m.Status)
	if m.Immediate != nil {
		s += fmt.Sprintf(", imm %#x", *m.Immediate)
	}
	if m.Invalidated != nil {
		s += fmt.Sprintf(", inv %#x", *m.Invalidated)
	}
	return s
}

// checkQueuePairs finds every queue pair that a program named, and compares its starting PSN and its memory.
func checkQueuePairs(t *testing.T, d *report.Document, messages []report.Message, want truth) {
	for _, e := range []end{want.client, want.server} {
		for _, q := range e.qps {
			found, right := false, want.psnUnused
			wrong := "not known"
			for i := range d.Connections { // a number may be used again by the next connection
				c := &d.Connections[i]
				for _, side := range []struct {
					qp   *report.QP
					sent *report.Stream
				}{{&c.A, &c.AToB}, {&c.B, &c.BToA}} {
					if side.qp.Address == nil || *side.qp.Address != e.address {
						continue
					}
					if side.qp.QPN == nil && side.qp.FirstPSN != nil && *side.qp.FirstPSN == q.PSN {
						found, right = true, true // who it is nothing tells, and it is the one
					}
					if side.qp.QPN == nil || *side.qp.QPN != q.QPN {
						continue
					}
					found = true
					switch first := side.qp.FirstPSN; {
					case first == nil: // fine for one that sends no requests, if nothing else tells
						handshake := c.Transport != "UD" && (c.EstablishedBy == "cm" || c.EstablishedBy == "socket")
						right = right || len(side.sent.Messages) == 0 && !handshake
					case *first == q.PSN:
						right = true
					default:
						wrong = report.PSN(*first)
					}
				}
			}
			switch {
			case !found:
				t.Errorf("%s %s is in no connection", e.address, report.QPN(q.QPN))
			case !right:
				t.Errorf("%s %s: first PSN %s, want %s", e.address, report.QPN(q.QPN), wrong, report.PSN(q.PSN))
			}
			if q.RKey != 0 {
				checkMemory(t, d, messages, e, q)
			}
		}
	}
}

// checkMemory compares key and address of what reads and writes a queue pair's memory with what its owner offered. The
// programs go through their memory as they like, so that only the offered address bounds it from below.
func checkMemory(t *testing.T, d *report.Document, messages []report.Message, e end, q testkit.QueuePair) {
	for i := range d.Connections {
		c := &d.Connections[i]
		for _, qp := range []*report.QP{&c.A, &c.B} {
			if qp.Address != nil && *qp.Address == e.address && qp.QPN != nil && *qp.QPN == q.QPN && qp.Negotiated != nil && qp.Negotiated.RKey != nil {
				if *qp.Negotiated.RKey != q.RKey || *qp.Negotiated.VA != q.VA {
					t.Errorf("%s %s offered rkey %#x and address %#x, but the document says %#x and %#x", e.address, report.QPN(q.QPN), q.RKey, q.VA, *qp.Negotiated.RKey, *qp.Negotiated.VA)
				}
			}
		}
	}
	for i := range messages {
		m := &messages[i]
		_, to := requester(d, m)
		if m.RKey == nil || to.Address == nil || *to.Address != e.address || to.QPN == nil || *to.QPN != q.QPN || m.Status == "IBV_WC_REM_ACCESS_ERR" {
			continue
		}
		if *m.RKey == q.RKey && (*m.VA < q.VA || *m.VA >= q.VA+16<<20) {
			t.Errorf("message %d of connection %d goes to address %#x, but the memory of its key begins at %#x", m.Index, m.Connection, *m.VA, q.VA)
		}
		if *m.RKey != q.RKey && *m.RKey < 0x08000000 { // memory windows have keys of their own
			t.Errorf("message %d of connection %d has rkey %#x, want %#x", m.Index, m.Connection, *m.RKey, q.RKey)
		}
	}
}

// checkConnections compares what is said of the connections that carry the messages.
func checkConnections(t *testing.T, d *report.Document, want truth) {
	n := 0
	for i := range d.Connections {
		c := &d.Connections[i]
		if len(c.AToB.Messages)+len(c.BToA.Messages) == 0 || want.others && !want.named(c.A) && !want.named(c.B) {
			continue
		}
		n++
		if want.transport != "" && c.Transport != want.transport {
			t.Errorf("connection %d is %s, want %s", c.ID, c.Transport, want.transport)
		}
		for name, q := range map[string]*report.QP{"a": &c.A, "b": &c.B} {
			if want.mtu != 0 && q.PathMTU != nil && *q.PathMTU != want.mtu {
				t.Errorf("connection %d: path MTU of %s is %d, want %d", c.ID, name, *q.PathMTU, want.mtu)
			}
			if want.vlan != 0 && (q.VLAN == nil || *q.VLAN != want.vlan) {
				t.Errorf("connection %d: VLAN of %s is %v, want %d", c.ID, name, q.VLAN, want.vlan)
			}
		}
		if want.establishedBy != "" && c.EstablishedBy != want.establishedBy {
			t.Errorf("connection %d is established by %s (%s), want %s", c.ID, c.EstablishedBy, c.Evidence, want.establishedBy)
		}
		if want.multicast != "" && (c.B.Address == nil || *c.B.Address != want.multicast) {
			t.Errorf("connection %d goes to %v, want %s", c.ID, c.B.Address, want.multicast)
		}
		sent := &c.AToB
		if c.A.Address == nil || *c.A.Address != want.client.address {
			sent = &c.BToA
		}
		if want.dscp >= 0 && (len(sent.DSCP) != 1 || sent.DSCP[0] != want.dscp) {
			t.Errorf("connection %d: DSCP %v, want %d", c.ID, sent.DSCP, want.dscp)
		}
		if want.marked > 0 {
			if got, all := int(sent.ECNCE), int(sent.Packets)/want.marked; got != all {
				t.Errorf("connection %d: %d packets with congestion experienced, want %d", c.ID, got, all)
			}
		}
	}
	if want.connections > 0 && n != want.connections {
		t.Errorf("%d connections carry messages, want %d", n, want.connections)
	}
}
