package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// What the programs that made the captures do: from their command lines, their output, and how they are written.

func truthOfSample(s samples.Sample) truth {
	want := truth{
		client: endOfSample(s.Sides.Client), server: endOfSample(s.Sides.Server),
		transport: s.Truth.Transport, mtu: s.Truth.PathMTU, dscp: -1,
		timeout:   dissect.AckTimeout(uint8(s.Truth.TimeoutCode)),
		icrcValid: s.Capture.RoCEv2Packets - s.Capture.ICRCWrong, icrcBad: s.Capture.ICRCWrong,
	}
	switch server := strings.Join(s.Sides.Server.Commands, " "); {
	case strings.HasPrefix(server, "rdmatool") && s.Truth.Messages == nil: // made by hand, and too short to tell
	case strings.HasPrefix(server, "rdmatool"):
		want.establishedBy = "inferred" // its exchange over TCP is no text that others use
	case s.Truth.EstablishedBy == "cm" || s.Truth.EstablishedBy == "socket":
		want.establishedBy = s.Truth.EstablishedBy
	}
	if s.Truth.Messages != nil {
		want.messages = []expectation{}
	}
	lossy := s.Truth.Transport == "UC" && len(s.Faults) > 0
	for _, m := range s.Truth.Messages {
		e := expectation{from: m.From, qpn: uint32(m.QPN), op: m.Op, bytes: uint64(m.Bytes), least: m.Count, most: m.Count, status: m.Status, imm: anyKey, inv: anyKey}
		if lossy {
			e.status = "lossy"
		}
		want.messages = append(want.messages, e)
	}
	return want
}

func endOfSample(s samples.Side) end {
	e := end{address: s.Address}
	for _, q := range s.QueuePairs {
		p := testkit.QueuePair{QPN: uint32(q.QPN), PSN: uint32(q.PSN)}
		if q.RKey != nil && q.VA != nil {
			p.RKey, p.VA = uint32(*q.RKey), uint64(*q.VA)
		}
		e.qps = append(e.qps, p)
	}
	return e
}

// truthOfEntry reads what an entry of the manifest says: its truth, and the command lines and the output of its programs.
func truthOfEntry(t *testing.T, e testkit.Entry) truth {
	r := e.Truth
	want := truth{
		client: end{e.Client.IP, e.Client.QueuePairs()}, server: end{e.Server.IP, e.Server.QueuePairs()},
		transport: r.Transport, mtu: r.MTU, vlan: r.VLAN, timeout: dissect.AckTimeout(uint8(r.TimeoutCode)), multicast: r.Multicast, marked: r.CEEvery, dscp: -1,
		connections: max(r.QPs, r.Connections), icrcValid: e.Observed.ICRCOK, icrcBad: r.ICRCBad,
	}
	if strings.Contains(r.Netem, "corrupt") {
		want.icrcBad = e.Observed.ICRCBad // as many as the random number generator wanted
	}
	if len(e.Client.Runs) == 0 {
		t.Fatal("the manifest has no program of the client")
	}
	if r.TOS+r.TrafficClass > 0 {
		want.dscp = (r.TOS + r.TrafficClass) >> 2
	}
	if strings.Contains(e.Client.Runs[0].Command, " -g 2") || strings.Contains(e.Client.Runs[0].Command, " -x 2") {
		for _, of := range []*end{&want.client, &want.server} { // the second GID, which the programs print in three ways
			of.address = "fd77::" + of.address[strings.LastIndexAny(of.address, ".:")+1:]
		}
	}
	run := e.Client.Runs[0]
	want.ended = strings.Contains(run.Output, "[exit 0]") && strings.Contains(e.Server.Runs[0].Output, "[exit 0]")
	program, _, _ := strings.Cut(run.Command, " ")
	switch {
	case program == "rdmatool":
		want.establishedBy = "inferred" // its exchange over TCP is no text that others use
		want.messages = toolMessages(t, run.Output)
		if r.Transport == "UC" { // one way, and nothing tells who sends
			want.establishedBy, want.client.qps = "unpaired", nil
			for i := range want.messages {
				want.messages[i].qpn = 0
			}
		}
		if r.Sizes != nil {
			checkSizes(t, r.Sizes, want.messages)
		}
		for _, psn := range []struct {
			want string
			of   end
		}{{r.ClientPSN, want.client}, {r.ServerPSN, want.server}} {
			if psn.want != "" && fmt.Sprintf("%#x", psn.of.qps[0].PSN) != psn.want {
				t.Fatalf("the manifest contradicts itself on %s", psn.want)
			}
		}
	case strings.HasPrefix(program, "ib_"):
		want.establishedBy = "socket"
		perftest(&want, r, run.Command, program)
	case strings.HasPrefix(program, "ibv_"):
		want.establishedBy = "socket"
		pingpong(&want, r, run.Command, program)
	case program == "rping", e.File == "probe_hand_made_cm_rping.pcap":
		want.messages = []expectation{}
		if r.Iterations > 0 {
			want.establishedBy = "cm"
			want.messages = rping(r)
		}
	case r.Op != "": // rdma_client, ucmatose, udaddy, mckey: as many messages as the truth says, of the size that it says, each way
		n := max(r.Messages, 1)
		want.add("client", r.Op, *r.MessageBytes, n, n)
		if r.Multicast == "" {
			want.add("server", r.Op, *r.MessageBytes, n, n)
		}
		if r.Transport == "RC" {
			want.establishedBy = "cm"
		}
	}
	if want.transport == "UD" {
		want.establishedBy = "" // the datagrams themselves say it, or a SIDR exchange
		want.connections = 0
	}
	if r.Transport == "UC" && r.Netem == "" && strings.HasPrefix(program, "ib") {
		want.establishedBy = "socket"
	}
	if program == "udaddy" || program == "mckey" { // they send their QPN as immediate data
		for i := range want.messages {
			want.messages[i].imm = anyKey
		}
	}
	return want
}

var operationOf = map[string]string{
	"RDMA_WRITE": "write", "RDMA_READ": "read", "SEND": "send", "FETCH_AND_ADD": "fetch_add", "CMP_AND_SWAP": "compare_swap",
	"write": "write", "mwwrite": "write", "badrkey": "write", "writeimm": "write", "send": "send", "rnr": "send", "sendimm": "send", "sendinv": "send",
	"read": "read", "faa": "fetch_add", "cas": "compare_swap",
}

func (want *truth) add(from, op string, bytes, least, most int) {
	want.messages = append(want.messages, expectation{from: from, op: operationOf[op], bytes: uint64(bytes), least: least, most: most, status: "ok"})
}

// option is the value of an option on a command line: the last one given, as getopt has it.
func option(command, name string) (value int, ok bool) {
	for _, m := range regexp.MustCompile(` `+name+`[ =]?(\d+)`).FindAllStringSubmatch(command, -1) {
		value, _ = strconv.Atoi(m[1])
		ok = true
	}
	return value, ok
}

// perftest is what ib_write_bw and its kin do: -n messages of -s bytes on each of -q queue pairs, by the client; by both
// sides with -b, and in the latency tests but that of READ. There is no warm-up unless one asks for it (-C for GPUs, -w in
// seconds with -D). With -R and -z they talk beforehand over a queue pair of rdma_cm that they do not name.
func perftest(want *truth, r testkit.Truth, command, program string) {
	op := r.Op
	if op == "" {
		op = map[string]string{"ib_write": "RDMA_WRITE", "ib_read": "RDMA_READ", "ib_send": "SEND"}[strings.TrimSuffix(strings.TrimSuffix(program, "_bw"), "_lat")]
	}
	bytes, n := 0, 0
	if r.MessageBytes != nil {
		bytes = *r.MessageBytes
	} else {
		bytes, _ = option(command, "-s")
	}
	if r.MessagesPerQP != nil {
		n = *r.MessagesPerQP
	} else {
		n, _ = option(command, "-n")
	}
	qps := max(r.QPs, 1)
	want.connections = qps
	if regexp.MustCompile(` -c UC`).MatchString(command) {
		want.transport = "UC"
	}
	// Stopped by hand, or by the clock: how many messages there were nobody knows.
	least, most := n*qps, n*qps
	open := strings.Contains(command, " -D ") || !want.ended
	if open {
		least, most = 1, 1<<30
	}
	status := "ok"
	switch {
	case want.transport == "UC" && r.Netem != "":
		status = "lossy"
	case open && n > 0:
		status = ""
	}
	want.add("client", op, bytes, least, most)
	if r.PingPong || r.Bidirectional {
		want.add("server", op, bytes, least, most)
	}
	for i := range want.messages {
		want.messages[i].status = status
	}
	if strings.Contains(command, " -R") || strings.Contains(command, " -z") {
		want.others = true
		want.establishedBy = "cm"
		if strings.Contains(command, " -z") {
			want.establishedBy = "inferred"
		}
		want.psnUnused = want.establishedBy == "cm"
		if open && len(want.client.qps) == 0 {
			want.messages, want.connections = nil, 0 // no queue pair is named
		}
	}
}

// pingpong is what ibv_rc_pingpong and its kin do: -n messages of -s bytes each way. The SRQ program posts the next one
// when any of its queue pairs got one, and counts only those that completed in time.
func pingpong(want *truth, r testkit.Truth, command, program string) {
	bytes, _ := option(command, "-s")
	n, _ := option(command, "-n")
	if r.MessageBytes != nil {
		bytes, n = *r.MessageBytes, *r.MessagesPerQP
	}
	want.transport = strings.ToUpper(strings.Split(program, "_")[1])
	want.connections = 1
	most := n
	if want.transport == "SRQ" {
		qps, _ := option(command, "-q")
		want.transport, want.connections, most = "RC", qps, n+qps
	}
	want.add("client", "SEND", bytes, n, most)
	want.add("server", "SEND", bytes, n, most)
	if mtu, ok := option(command, "-m"); ok {
		want.mtu = mtu
	}
}

// rping is what rping does in each iteration: the client SENDs where its buffer is (16 bytes), the server READs it and
// SENDs "go on"; the client SENDs where its other buffer is, the server WRITEs into it and SENDs "done".
func rping(r testkit.Truth) []expectation {
	const info = 16
	var want truth
	bytes := 64 // rping's own size
	if r.MessageBytes != nil {
		bytes = *r.MessageBytes
	}
	n := r.Iterations
	want.add("client", "SEND", info, 2*n, 2*n)
	want.add("server", "SEND", info, 2*n, 2*n)
	want.add("server", "RDMA_READ", bytes, n, n)
	want.add("server", "RDMA_WRITE", bytes, n, n)
	if r.MessageBytes == nil { // rping writes back the text that it got, which was made by hand
		want.messages[3].bytes = anySize
	}
	return want.messages
}

// anySize stands for a size that is not known.
const anySize = ^uint64(0)

// anyKey stands for immediate data that is not known.
var anyKey = new(uint32)

// toolMessages are the work requests that our own tool posted, with how each completed.
func toolMessages(t *testing.T, output string) []expectation {
	type event struct {
		Event  string `json:"event"`
		Of     string `json:"of"`
		Side   string `json:"side"`
		Op     string `json:"op"`
		WRID   int    `json:"wr_id"`
		Len    uint64 `json:"len"`
		RAddr  string `json:"raddr"`
		RKey   string `json:"rkey"`
		ImmInv string `json:"imm_or_inv"`
		Status string `json:"status"`
		QPN    string `json:"qpn"`
	}
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		if err != nil {
			t.Fatalf("%q is no number", s)
		}
		return n
	}
	var list []expectation
	byID := map[int]int{}
	qpn := uint32(0)
	for _, line := range strings.Split(output, "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var v event
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch v.Event {
		case "qp":
			if v.Of == v.Side {
				qpn = uint32(number(v.QPN))
			}
		case "post":
			e := expectation{from: "client", qpn: qpn, op: operationOf[v.Op], bytes: v.Len, least: 1, most: 1}
			if e.op == "" {
				t.Fatalf("the tool did %q: what is that?", v.Op)
			}
			if e.op != "send" {
				va, rkey := number(v.RAddr), uint32(number(v.RKey))
				e.va, e.rkey = &va, &rkey
			}
			switch key := uint32(number(v.ImmInv)); {
			case strings.HasSuffix(v.Op, "imm"):
				e.imm = &key
			case strings.HasSuffix(v.Op, "inv"):
				e.inv = &key
			}
			byID[v.WRID] = len(list)
			list = append(list, e)
		case "wc":
			if i, ok := byID[v.WRID]; ok && v.Side == "client" {
				list[i].status = v.Status
				if v.Status == "Work Request Flushed Error" {
					list[i].least = 0 // it may never have left the machine
				}
			}
		}
	}
	return list
}

// checkSizes sees to it that the manifest's list of sizes is what the tool did.
func checkSizes(t *testing.T, sizes []int, messages []expectation) {
	for _, op := range []string{"write", "send", "read"} {
		var got []int
		for _, m := range messages {
			if m.op == op {
				got = append(got, int(m.bytes))
			}
		}
		slices.SortFunc(got, cmp.Compare)
		if !slices.Equal(got, sizes) {
			t.Fatalf("the manifest contradicts itself on the sizes of %s: %v", op, got)
		}
	}
}
