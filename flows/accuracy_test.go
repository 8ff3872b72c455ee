package flows

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// The library of soft-RoCE captures has the truth beside each file: what the
// programs were told to do and said, and what both stacks counted. This test
// compares what a tracker makes of each file with it, number by number. Where
// the two differ, testdata/accuracy.json has the two numbers and the reason.
// docs/accuracy.md is the summary for people; -update writes it.

// knownDifferences is testdata/accuracy.json.
type knownDifferences struct {
	About       string            `json:"about"`
	Differences []knownDifference `json:"differences"`
	Findings    []knownFindings   `json:"findings_in_healthy_captures"`
}

type knownDifference struct {
	File    string `json:"file"`
	Machine string `json:"machine"`
	Counter string `json:"counter"`
	Stack   int64  `json:"stack"`
	Ours    int64  `json:"rocescope"`
	Reason  string `json:"reason"`
}

// knownFindings are findings above note in captures whose stacks counted no
// error, for what was done on purpose.
type knownFindings struct {
	File     string   `json:"file"`
	Findings []string `json:"findings"`
	Reason   string   `json:"reason"`
}

func (k *knownDifferences) difference(file, machine, counter string) *knownDifference {
	for i := range k.Differences {
		if d := &k.Differences[i]; d.File == file && d.Machine == machine && d.Counter == counter {
			return d
		}
	}
	return nil
}

func readKnown(t *testing.T) *knownDifferences {
	t.Helper()
	text, err := os.ReadFile("testdata/accuracy.json")
	if err != nil {
		t.Fatal(err)
	}
	var k knownDifferences
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil {
		t.Fatal(err)
	}
	for _, d := range k.Differences {
		if d.Reason == "" || d.Ours == d.Stack {
			t.Errorf("accuracy.json: %+v is no difference with a reason", d)
		}
	}
	return &k
}

// tally is what one machine did, as a tracker saw it.
type tally struct {
	packets                              int64
	sequenceNAKs, rnrSent, rnrReceived   int64
	goBacks, nakGoBacks, repeated        int64
	exhausted, sendsDone, receivesFilled int64
}

// counters are the stack's own, and what a tracker says to each. The others of
// its counters are of the device's inside.
var counters = []struct {
	name  string
	about string
	ours  func(*tally) int64
}{
	{"sent_pkts + rcvd_pkts", "packets of the machine at the tap", func(y *tally) int64 { return y.packets }},
	{"out_of_seq_request", "sequence NAKs sent", func(y *tally) int64 { return y.sequenceNAKs }},
	{"rcvd_seq_err", "go-backs behind a sequence NAK", func(y *tally) int64 { return y.nakGoBacks }},
	{"completer_retry_err", "go-backs behind a NAK, silence or a passed ACK", func(y *tally) int64 { return y.goBacks }},
	{"duplicate_request", "requests that came more than once", func(y *tally) int64 { return y.repeated }},
	{"send_rnr_err", "RNR NAKs sent", func(y *tally) int64 { return y.rnrSent }},
	{"rcvd_rnr_err", "RNR NAKs received", func(y *tally) int64 { return y.rnrReceived }},
	{"retry_exceeded_err", "messages given up", func(y *tally) int64 { return y.exhausted }},
	{"rdma_sends", "SENDs completed, management datagrams included", func(y *tally) int64 { return y.sendsDone }},
	{"rdma_recvs", "receive work requests used, management datagrams included", func(y *tally) int64 { return y.receivesFilled }},
}

// addresses of a machine: its own, that of its VLAN, and its IPv6 address,
// which ends as the others do.
func addresses(m testkit.Machine) []string {
	return []string{m.IP, strings.Replace(m.IP, "10.77.", "10.78.", 1), "fd77::" + m.IP[strings.LastIndex(m.IP, ".")+1:]}
}

// tallyOf counts what the machine with one of these addresses did.
func tallyOf(s *seen, addrs []string) *tally {
	var y tally
	mine := func(a dissect.Addr) bool { return slices.Contains(addrs, a.String()) }
	ends := map[uint32][2]dissect.Addr{}
	for i := range s.Connections {
		c := &s.Connections[i]
		ends[c.ID] = [2]dissect.Addr{c.A.Addr, c.B.Addr}
		for d := range c.Streams {
			st := &c.Streams[d]
			if mine(ends[c.ID][d]) {
				y.sequenceNAKs += int64(st.NAKs[dissect.NAKSequence])
				y.rnrSent += int64(st.RNRNAKs)
				y.nakGoBacks += int64(st.Retransmissions[CauseNAK])
				y.goBacks += int64(st.Retransmissions[CauseNAK] + st.Retransmissions[CauseTimeout] + st.Retransmissions[CauseSpurious])
				y.sendsDone += int64(st.Messages[OpSend].Completed)
			} else {
				y.rnrReceived += int64(st.RNRNAKs)
				y.repeated += int64(st.Duplicates)
			}
		}
	}
	for i := range s.messages {
		m := &s.messages[i]
		e := ends[m.Conn]
		if m.Status == StatusRetryExc && mine(e[m.Direction]) {
			y.exhausted++
		}
		if !mine(e[m.Direction]) && m.Flags&dissect.ConsumesReceive != 0 && (m.Status == StatusSuccess || m.Status == StatusSent) {
			y.receivesFilled++
		}
	}
	for i := range s.packets {
		p := &s.packets[i]
		if !p.Has(dissect.LayerBTH) {
			continue
		}
		from, to := mine(p.Src), mine(p.Dst)
		if from || to || p.Dst.String() == "239.1.1.1" {
			y.packets++
		}
		if p.Has(dissect.LayerMAD) {
			if from {
				y.sendsDone++
			} else {
				y.receivesFilled++
			}
		}
	}
	return &y
}

// errorCounters are those that a run without any fault leaves at 0.
var errorCounters = []string{"out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "duplicate_request", "send_rnr_err", "rcvd_rnr_err", "retry_exceeded_err"}

func healthy(e *testkit.Entry) bool {
	for _, delta := range e.CountersDelta {
		for _, name := range errorCounters {
			if delta[name] != 0 {
				return false
			}
		}
	}
	return true
}

func TestAccuracy(t *testing.T) {
	known := readKnown(t)
	used := map[*knownDifference]bool{}
	var page accuracyPage
	for _, e := range testkit.RXEManifest(t).Captures {
		if strings.HasPrefix(e.File, "iwarp_") {
			continue
		}
		t.Run(strings.TrimSuffix(e.File, ".pcap"), func(t *testing.T) {
			s := look(testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), e.File)))
			page.add(&e, s, compareMessages(t, &e, s))
			for _, name := range slices.Sorted(maps.Keys(e.CountersDelta)) {
				compareCounters(t, &e, name, s, known, used, &page)
			}
			compareFindings(t, &e, s, known)
		})
	}
	for i := range known.Differences {
		if d := &known.Differences[i]; !used[d] && !t.Failed() {
			t.Errorf("accuracy.json explains a difference that there is not: %s, %s of %s", d.File, d.Counter, d.Machine)
		}
	}
	if !t.Failed() {
		page.check(t)
	}
}

// compareCounters compares those of one machine.
func compareCounters(t *testing.T, e *testkit.Entry, name string, s *seen, known *knownDifferences, used map[*knownDifference]bool, page *accuracyPage) {
	machine := e.Client
	if e.Server.Name == name {
		machine = e.Server
	}
	ours := tallyOf(s, addresses(machine))
	delta := e.CountersDelta[name]
	atTap := strings.HasPrefix(e.CapturedAt, "client") == (name == "a") || name == "t"
	for _, c := range counters {
		theirs, is := delta[c.name], true
		if c.name == counters[0].name {
			theirs, is = delta["sent_pkts"]+delta["rcvd_pkts"], atTap
		}
		if !is {
			continue
		}
		got := c.ours(ours)
		d := known.difference(e.File, name, c.name)
		switch {
		case d == nil && got != theirs:
			t.Errorf("%s of %s: the stack says %d, rocescope %d, and accuracy.json gives no reason", c.name, name, theirs, got)
		case d != nil && (got != d.Ours || theirs != d.Stack):
			t.Errorf("%s of %s: the stack says %d, rocescope %d, but accuracy.json explains %d and %d", c.name, name, theirs, got, d.Stack, d.Ours)
		}
		if d != nil {
			used[d] = true
		}
		page.counter(name, c.name, theirs, d)
	}
}

// compareFindings expects nothing above note of a capture in which nothing went
// wrong.
func compareFindings(t *testing.T, e *testkit.Entry, s *seen, known *knownDifferences) {
	if !healthy(e) || e.Truth.Netem != "" {
		return
	}
	var want []string
	for _, k := range known.Findings {
		if k.File == e.File {
			want = k.Findings
		}
	}
	if got := s.grave(); !slices.Equal(got, want) {
		t.Errorf("nothing went wrong here, but the findings are %v, want %v\n%s", got, want, s.describe())
	}
}

// asked is a number of work requests of one kind that a program was told to
// post.
type asked struct {
	from        string // "client", "server"
	op          Operation
	bytes       int // -1 = any
	least, most int
	status      []Status // one of these
}

// programOperations are operations as the manifest and our lab's tool spell
// them.
var programOperations = map[string]Operation{
	"RDMA_WRITE": OpWrite, "RDMA_READ": OpRead, "SEND": OpSend, "FETCH_AND_ADD": OpFetchAdd, "CMP_AND_SWAP": OpCompareSwap,
	"write": OpWrite, "mwwrite": OpWrite, "badrkey": OpWrite, "writeimm": OpWrite, "send": OpSend, "rnr": OpSend, "sendimm": OpSend, "sendinv": OpSend,
	"read": OpRead, "faa": OpFetchAdd, "cas": OpCompareSwap,
	"ib_write_bw": OpWrite, "ib_read_bw": OpRead, "ib_send_bw": OpSend,
}

// completions are the words of ibv_wc_status_str. A requester that waits for
// the next try looks like one that has given up, so that is let pass as open.
var completions = map[string][]Status{
	"success": {StatusSuccess, StatusSent}, "remote access error": {StatusRemAccess}, "remote invalid request error": {StatusRemInvReq},
	"transport retry counter exceeded": {StatusRetryExc, StatusOpen}, "Work Request Flushed Error": {StatusFlushed},
}

// askedFor is what an entry's truth and command lines say of its messages.
// names is true where it says all of them; else there are others beside them.
func askedFor(t *testing.T, e *testkit.Entry) (list []asked, names bool) {
	run := e.Client.Runs[0]
	program, _, _ := strings.Cut(run.Command, " ")
	r := e.Truth
	option := func(name string) int {
		n := -1
		for _, m := range regexp.MustCompile(` `+name+` (\d+)`).FindAllStringSubmatch(run.Command, -1) {
			n, _ = strconv.Atoi(m[1])
		}
		return n
	}
	size, n := option("-s"), option("-n")
	if r.MessageBytes != nil {
		size = *r.MessageBytes
	}
	if r.MessagesPerQP != nil {
		n = *r.MessagesPerQP
	}
	ok := []Status{StatusSuccess, StatusSent}
	switch {
	case program == "rdmatool":
		return toolAsked(t, run.Output), true
	case strings.HasPrefix(program, "ib_"):
		op, known := programOperations[r.Op]
		if !known {
			op = programOperations[strings.Replace(program, "_lat", "_bw", 1)]
		}
		a := asked{"client", op, size, n * max(r.QPs, 1), n * max(r.QPs, 1), ok}
		ended := strings.Contains(run.Output, "[exit 0]") && strings.Contains(e.Server.Runs[0].Output, "[exit 0]")
		if r.Seconds > 0 || !ended {
			a.least, a.most = 1, 1<<30
			a.status = append(ok, StatusOpen, StatusRetryExc, StatusFlushed)
		}
		if strings.Contains(r.Netem, "loss") && strings.Contains(run.Command, "-c UC") {
			a.bytes, a.status = -1, append(ok, StatusIncomplete) // without its first packet nothing tells a WRITE's size
		}
		list = append(list, a)
		if r.PingPong || r.Bidirectional {
			a.from = "server"
			list = append(list, a)
		}
		return list, !strings.Contains(run.Command, " -R") && !strings.Contains(run.Command, " -z")
	case strings.HasPrefix(program, "ibv_"):
		a := asked{"client", OpSend, size, n, n, ok}
		if q := option("-q"); q > 0 { // each of its queue pairs posts the next one when any of them got one
			a.most += q
		}
		b := a
		b.from = "server"
		return []asked{a, b}, true
	case program == "rping" && r.Iterations > 0:
		if size < 0 {
			size = 64
		}
		i := r.Iterations
		return []asked{
			{"client", OpSend, 16, 2 * i, 2 * i, ok},
			{"server", OpSend, 16, 2 * i, 2 * i, ok},
			{"server", OpRead, size, i, i, ok},
			{"server", OpWrite, size, i, i, ok},
		}, true
	case r.Op != "": // rdma_client, ucmatose, udaddy; mckey one way
		n := max(r.Messages, 1)
		a := asked{"client", programOperations[r.Op], size, n, n, ok}
		b := a
		b.from = "server"
		if r.Multicast != "" {
			return []asked{a}, true
		}
		return []asked{a, b}, true
	}
	return nil, false
}

// toolAsked reads what our lab's own tool says that it posted, and how each
// completed.
func toolAsked(t *testing.T, output string) (list []asked) {
	byID := map[int]int{}
	for line := range strings.Lines(output) {
		var v struct {
			Event, Op, Status, Side string
			WRID                    int `json:"wr_id"`
			Len                     int
		}
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &v) != nil || v.Side != "client" {
			continue
		}
		switch i, ok := byID[v.WRID]; {
		case v.Event == "post":
			op, known := programOperations[v.Op]
			if !known {
				t.Fatalf("the tool did %q: what is that?", v.Op)
			}
			byID[v.WRID] = len(list)
			list = append(list, asked{"client", op, v.Len, 1, 1, []Status{StatusOpen, StatusSent}})
		case v.Event == "wc" && ok:
			if list[i].status = completions[v.Status]; list[i].status == nil {
				t.Fatalf("a work request completed with %q: what is that?", v.Status)
			}
			if v.Status == "Work Request Flushed Error" {
				list[i].least = 0 // it need not have left the machine
			}
		}
	}
	return list
}

// compareMessages compares the messages with those that the programs were told
// to send, and returns ours in words.
func compareMessages(t *testing.T, e *testkit.Entry, s *seen) string {
	want, all := askedFor(t, e)
	sides := map[uint32][2]string{}
	for i := range s.Connections {
		c := &s.Connections[i]
		for d, q := range []*QP{&c.A, &c.B} {
			pair := sides[c.ID]
			pair[d] = "server"
			if slices.Contains(addresses(e.Client), q.Addr.String()) {
				pair[d] = "client"
			}
			sides[c.ID] = pair
		}
	}
	summary := map[string]int{}
	left := slices.Clone(want)
next:
	for i := range s.messages {
		m := &s.messages[i]
		from := sides[m.Conn][m.Direction]
		summary[fmt.Sprintf("%v %v", m.Op, m.Status)]++
		for j := range left {
			a := &left[j]
			if a.most > 0 && a.from == from && a.op == m.Op && (a.bytes < 0 || uint64(a.bytes) == m.Bytes) && slices.Contains(a.status, m.Status) {
				a.least--
				a.most--
				continue next
			}
		}
		if want != nil && all {
			t.Errorf("nobody asked for %s %v of %d bytes, %v", from, m.Op, m.Bytes, m.Status)
		}
	}
	for _, a := range left {
		if a.least > 0 {
			t.Errorf("%d messages are missing: %s %v of %d bytes", a.least, a.from, a.op, a.bytes)
		}
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(summary)) {
		words = append(words, fmt.Sprintf("%d %s", summary[k], k))
	}
	return orNone(strings.Join(words, ", "))
}

// accuracyPage is docs/accuracy.md.
type accuracyPage struct {
	rows           []accuracyRow
	agree, compare int
}

type accuracyRow struct {
	e        *testkit.Entry
	messages string
	stack    []string // "a completer_retry_err 8"
	findings []string // those above note, and lossNotes
	grave    bool
	differ   []knownDifference
}

// lossNotes are the notes that tell of packets lost, repeated or doubled.
var lossNotes = []FindingID{findPSNGap, findNetworkDuplicate, findLostForGood, findCaptureLoss, findResponseGap, findRetransmission}

func (r *accuracyRow) quiet() bool { return len(r.stack) == 0 && len(r.differ) == 0 && !r.grave }

func (p *accuracyPage) add(e *testkit.Entry, s *seen, messages string) {
	r := accuracyRow{e: e, messages: messages, grave: len(s.grave()) > 0}
	var ids []FindingID // gravest first
	count := map[FindingID]uint64{}
	for i := range s.Findings {
		f := &s.Findings[i]
		if f.Severity() == Note && !slices.Contains(lossNotes, f.ID) {
			continue
		}
		if count[f.ID] == 0 {
			ids = append(ids, f.ID)
		}
		count[f.ID] += f.Count
	}
	for _, id := range ids {
		text := id.String()
		if n := count[id]; n > 1 {
			text = fmt.Sprintf("%s × %d", text, n)
		}
		r.findings = append(r.findings, text)
	}
	p.rows = append(p.rows, r)
}

func (p *accuracyPage) counter(machine, name string, theirs int64, d *knownDifference) {
	r := &p.rows[len(p.rows)-1]
	p.compare++
	if d != nil {
		r.differ = append(r.differ, *d)
	} else {
		p.agree++
	}
	if theirs != 0 && slices.Contains(errorCounters, name) {
		r.stack = append(r.stack, fmt.Sprintf("%s %s %d", machine, name, theirs))
	}
}

const accuracyHead = `# Accuracy

<!-- Generated by: go test ./flows -run TestAccuracy -update. Do not edit. -->

How far can you trust what rocescope says? This page compares it with the only ones who know: the RDMA stacks at both ends
of the wire. %[1]d captures were made with Linux soft-RoCE in two virtual machines; both stacks' own counters were read before
and after each, and what both programs were told to do, and printed, was kept. A test reads each capture with rocescope
and compares

- every message, by operation, size and status, with what the programs were told to do: all agree;
- ten counters of each machine with what rocescope counted in the capture: %[2]d of %[3]d agree exactly. Each of the %[4]d others is
  explained below. They are about what a tap beside the wire cannot see, or about what the stack means by its counter.

In the tables, ` + "`a` is the client, `b` the server, `t` the stack in captures whose other end was a script.\n"

func (p *accuracyPage) text() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, accuracyHead, len(p.rows), p.agree, p.compare, p.compare-p.agree)

	b.WriteString("\n## Captures in which something went wrong\n\n| capture | what was done | the stacks counted | rocescope's messages | rocescope's findings |\n|---|---|---|---|---|\n")
	for _, r := range p.rows {
		if !r.quiet() {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.name(), r.e.Description, orNone(strings.Join(r.stack, ", ")), r.messages, orNone(strings.Join(r.findings, ", ")))
		}
	}

	b.WriteString("\n## Where the counters differ\n\n| capture | counter | stack | rocescope | why |\n|---|---|---:|---:|---|\n")
	for _, r := range p.rows {
		for _, d := range r.differ {
			fmt.Fprintf(&b, "| %s | %s %s | %d | %d | %s |\n", r.name(), d.Machine, d.Counter, d.Stack, d.Ours, d.Reason)
		}
	}

	b.WriteString("\n## What is compared\n\n| counter of the stack | rocescope's |\n|---|---|\n")
	for _, c := range counters {
		fmt.Fprintf(&b, "| %s | %s |\n", c.name, c.about)
	}

	b.WriteString("\n## Captures in which nothing went wrong\n\nNo error counter moved, and rocescope found nothing above a note.\n\n| capture | messages |\n|---|---|\n")
	for _, r := range p.rows {
		if r.quiet() {
			fmt.Fprintf(&b, "| %s | %s |\n", r.name(), r.messages)
		}
	}
	return []byte(b.String())
}

func (r *accuracyRow) name() string { return strings.TrimSuffix(r.e.File, ".pcap") }

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// check compares the page with docs/accuracy.md, or writes it.
func (p *accuracyPage) check(t *testing.T) {
	file := filepath.Join(testkit.ModuleRoot(t), "docs", "accuracy.md")
	if testkit.Update() {
		if err := os.WriteFile(file, p.text(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(have), "\n"), strings.Split(string(p.text()), "\n")); diff != "" {
		t.Errorf("docs/accuracy.md is stale; go test ./flows -run TestAccuracy -update writes it:\n%s", diff)
	}
}
