package interop

import (
	_ "embed" // the text of a program
	"fmt"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// Table is the interoperability table.
var Table = together(slices.Concat(perftest, others, verbsRows()))

// together puts the rows of each subject behind its first one.
func together(rows []Row) []Row {
	first := map[string]int{}
	for i := range rows {
		if _, there := first[rows[i].Subject]; !there {
			first[rows[i].Subject] = i
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return first[a.Subject] - first[b.Subject] })
	return rows
}

// others are the programs whose part is played here.
var others = []Row{
	{Subject: "rping", Role: Server, Linux: "rping -c -a {us} -V -v -C 5", Says: "rdma-ping-4", Ours: rping(64, 5), Smoke: true},
	{Subject: "rping", Role: Client, Linux: "rping -s -a {it} -V -v -C 5", Listens: "cm", Ours: rping(64, 5), Smoke: true},
	{Subject: "rping", Role: Server, Linux: "rping -c -a {us} -V -v -C 3 -S 30001", Says: "rdma-ping-2", Ours: rping(30001, 3)},
	{Subject: "rping", Role: Client, Linux: "rping -s -a {it} -V -v -C 3 -S 30001", Listens: "cm", Ours: rping(30001, 3)},
	{Subject: "rping", Role: Server, Linux: "rping -c -a {us} -V -v -C 5", Says: "rdma-ping-4", Ours: rping(64, 5), IPv6: true, Smoke: true},
	{Subject: "rping", Role: Client, Linux: "rping -s -a {it} -V -v -C 5", Listens: "cm", Ours: rping(64, 5), IPv6: true},

	{Subject: "ucmatose", Role: Server, Linux: "ucmatose -s {us} -C 5 -S 100", Says: "return status 0", Ours: ucmatose(100, 5), Smoke: true},
	{Subject: "ucmatose", Role: Client, Linux: "ucmatose -C 5 -S 100", Listens: "cm", Says: "return status 0", Ours: ucmatose(100, 5)},
	{Subject: "ucmatose", Role: Server, Linux: "ucmatose -s {us} -C 3 -S 5001", Says: "return status 0", Ours: ucmatose(5001, 3)},
	{Subject: "ucmatose", Role: Client, Linux: "ucmatose -C 3 -S 5001", Listens: "cm", Says: "return status 0", Ours: ucmatose(5001, 3)},

	{Subject: "rdma_cm", Role: Client, Linux: "rping -s -a {it} -C 1 -p 9998", Listens: "cm", Stays: true, Ours: refused(), Findings: []string{"cm_reject"}},
	{Subject: "rdma_cm", Role: Server, Linux: "rping -c -a {us} -C 1 -p 9999", Fails: true, Ours: absent(), Findings: []string{"cm_reject"}, Smoke: true},

	{Subject: "pingpong", Role: Server, Linux: "ibv_rc_pingpong -d {dev} -g {gid} -s 4097 -n 20 -c {us4}", Says: "20 iters", Ours: pingpong(dissect.RC, 1024, 4097, 20), Late: true, Smoke: true},
	{Subject: "pingpong", Role: Client, Linux: "ibv_rc_pingpong -d {dev} -g {gid} -s 4097 -n 20 -c", Listens: "tcp", Says: "20 iters", Ours: pingpong(dissect.RC, 1024, 4097, 20), Late: true},
	{Subject: "pingpong", Role: Server, Linux: "ibv_uc_pingpong -d {dev} -g {gid} -s 3000 -n 20 -c {us4}", Says: "20 iters", Ours: pingpong(dissect.UC, 1024, 3000, 20)},
	{Subject: "pingpong", Role: Client, Linux: "ibv_uc_pingpong -d {dev} -g {gid} -s 3000 -n 20 -c", Listens: "tcp", Says: "20 iters", Ours: pingpong(dissect.UC, 1024, 3000, 20), Smoke: true},
	{Subject: "pingpong", Role: Server, Linux: "ibv_ud_pingpong -d {dev} -g {gid} -s 1001 -n 20 -c {us4}", Says: "20 iters", Ours: pingpong(dissect.UD, 0, 1001, 20), Smoke: true},
	{Subject: "pingpong", Role: Client, Linux: "ibv_ud_pingpong -d {dev} -g {gid} -s 1001 -n 20 -c", Listens: "tcp", Says: "20 iters", Ours: pingpong(dissect.UD, 0, 1001, 20)},
	{Subject: "pingpong", Role: Server, Linux: "ibv_rc_pingpong -d {dev} -g {gid} -s 2001 -n 20 -m 256 -c {us4}", Says: "20 iters", Ours: pingpong(dissect.RC, 256, 2001, 20), IPv6: true, Late: true},
	{Subject: "pingpong", Role: Client, Linux: "ibv_rc_pingpong -d {dev} -g {gid} -s 4097 -n 20 -c", Listens: "tcp", Says: "20 iters", Ours: pingpong(dissect.RC, 1024, 4097, 20), IPv6: true, Late: true},
	{Subject: "pingpong", Role: Client, Linux: "ibv_ud_pingpong -d {dev} -g {gid} -s 501 -n 20 -c", Listens: "tcp", Says: "20 iters", Ours: pingpong(dissect.UD, 0, 501, 20), IPv6: true},

	{Subject: "WRITE with immediate", Role: Client, Linux: "ucmatose -C 4 -S 100", Listens: "cm", Says: "return status 0", Ours: immediates(100, 4)},

	{Subject: "bad wire", Role: Server, Linux: "rping -c -a {us} -V -v -C 20 -S 30001", Says: "rdma-ping-19", Ours: rping(30001, 20), Wire: both("loss 2%"), Smoke: true},
	{Subject: "bad wire", Role: Client, Linux: "rping -s -a {it} -V -v -C 20 -S 30001", Listens: "cm", Ours: rping(30001, 20), Wire: both("loss 2%")},
	{Subject: "bad wire", Role: Server, Linux: "ibv_rc_pingpong -d {dev} -g {gid} -s 8000 -n 50 -c {us4}", Says: "50 iters", Ours: pingpong(dissect.RC, 1024, 8000, 50), Wire: both("loss 2%")},
	{Subject: "bad wire", Role: Client, Linux: "ibv_rc_pingpong -d {dev} -g {gid} -s 8000 -n 50 -c", Listens: "tcp", Says: "50 iters", Ours: pingpong(dissect.RC, 1024, 8000, 50), Wire: both("loss 2%")},
	{Subject: "bad wire", Role: Server, Linux: "rping -c -a {us} -V -v -C 10 -S 30001", Says: "rdma-ping-9", Ours: rping(30001, 10), Wire: both("duplicate 5%")},
	{Subject: "bad wire", Role: Client, Linux: "rping -s -a {it} -V -v -C 10 -S 30001", Listens: "cm", Ours: rping(30001, 10), Wire: both("duplicate 5%")},
	{Subject: "bad wire", Role: Server, Linux: "rping -c -a {us} -V -v -C 10 -S 30001", Says: "rdma-ping-9", Ours: rping(30001, 10), Wire: both("delay 3ms reorder 20% 50%")},
	{Subject: "bad wire", Role: Client, Linux: "rping -s -a {it} -V -v -C 10 -S 30001", Listens: "cm", Ours: rping(30001, 10), Wire: both("delay 3ms reorder 20% 50%")},
}

// verbsProgram is one side of rocescope's exchange in the guest, on Linux's verbs: for what no program of the distribution does or checks.
//
//go:embed verbs.py
var verbsProgram string

// verbsTests are its messages. Both sides check data: all of RC; of UC whole messages or none, with the completions that belong to them.
var verbsTests = []struct {
	subject, transport, operation string
	count, size                   int
	ipv6                          bool
	wire                          Wire
	smoke                         Role
}{
	{subject: "WRITE with immediate", transport: "RC", operation: "write-imm", count: 50, size: 3001, smoke: Server},
	{subject: "WRITE with immediate", transport: "RC", operation: "write-imm", count: 20, size: 3, ipv6: true},
	{subject: "WRITE with immediate", transport: "UC", operation: "write-imm", count: 50, size: 3001},
	{subject: "bad wire", transport: "RC", operation: "write-imm", count: 100, size: 3001, wire: both("loss 2%")},
	{subject: "bad wire", transport: "UC", operation: "write-imm", count: 100, size: 5001, wire: both("loss 2%"), smoke: Server},
	{subject: "bad wire", transport: "UC", operation: "send", count: 100, size: 5001, wire: both("loss 2%")},
	{subject: "bad wire", transport: "UC", operation: "write", count: 100, size: 5001, wire: both("loss 2%")},
}

func verbsRows() (rows []Row) {
	for _, t := range verbsTests {
		row := Row{Subject: t.subject, Script: verbsProgram, IPv6: t.ipv6, Wire: t.wire, Says: fmt.Sprintf("%d messages, 0 wrong, 0 lost", t.count)}
		if t.transport == "UC" && !t.wire.good() {
			row.Says = `\d messages, 0 wrong, [1-9]\d* lost`
		}
		server, client := row, row
		server.Role, server.Smoke, server.Ours = Server, t.smoke == Server, serve("")
		what := fmt.Sprintf("{gid} %s %s %d %d", t.transport, t.operation, t.count, t.size)
		server.Linux, client.Linux = fmt.Sprintf("verbs.py client {us4} %s %d", what, row.timeout()), "verbs.py server "+what
		client.Role, client.Smoke, client.Listens = Client, t.smoke == Client, "says"
		operation, imm, _ := strings.Cut(t.operation, "-")
		options := fmt.Sprintf("-n %d -s %d -t %d -m 1024 --verify -c %s", t.count, t.size, t.count, t.transport)
		if imm != "" {
			options += " --imm"
		}
		if t.transport == "RC" {
			options += fmt.Sprintf(" -u %d", row.timeout())
		}
		if t.ipv6 {
			options += " --ipv6"
		}
		client.Ours = bench(operation, options)
		rows = append(rows, server, client)
	}
	return rows
}
