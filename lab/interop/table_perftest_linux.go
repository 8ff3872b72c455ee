package interop

import (
	"fmt"
	"strings"
)

// perftest are the rows of perftest's programs, each in both roles: rocescope's commands play the other part.
var perftest = perftestRows()

// test is a program of perftest with options that both sides are given alike.
type test struct {
	program string // without its ib_
	options string // of both
	serve   string // options of rocescope serve besides
	bench   string // options of rocescope bench besides
	subject string
	ipv6    bool
	wire    Wire
	only    Role // the other role is not to be had: perftest's servers wait for ever for what is lost, and ib_read_lat tells nothing as server
	smoke   Role
}

var tests = []test{
	{program: "write_bw", options: "-n 100 -s 4096", subject: "WRITE", smoke: Server},
	{program: "write_bw", options: "-n 50 -s 1", subject: "WRITE"},
	{program: "write_bw", options: "-n 50 -s 3", subject: "WRITE"},
	{program: "write_bw", options: "-n 50 -s 1023", subject: "WRITE"},
	{program: "write_bw", options: "-n 20 -s 65537", subject: "WRITE"},
	{program: "write_bw", options: "-n 20 -s 4099 -m 256", subject: "WRITE"},
	{program: "write_bw", options: "-n 20 -s 4099 -m 512", subject: "WRITE"},
	{program: "write_bw", options: "-n 20 -s 16390 -m 2048", subject: "WRITE"},
	{program: "write_bw", options: "-n 20 -s 16390 -m 4096", subject: "WRITE", smoke: Client},
	{program: "write_bw", options: "-n 50 -s 3000 -q 4", subject: "WRITE"},
	{program: "write_bw", options: "-n 50 -s 5000 -c UC", subject: "WRITE"},
	{program: "write_bw", options: "-n 50 -s 3001", subject: "WRITE", ipv6: true},
	{program: "write_lat", options: "-n 200 -s 64", serve: "--program ib_write_lat -n 200 -s 64", bench: "--lat", subject: "WRITE"},

	{program: "read_bw", options: "-n 100 -s 4096", subject: "READ", smoke: Client},
	{program: "read_bw", options: "-n 50 -s 3", subject: "READ"},
	{program: "read_bw", options: "-n 20 -s 65537", subject: "READ"},
	{program: "read_bw", options: "-n 20 -s 4099 -m 256", subject: "READ"},
	{program: "read_bw", options: "-n 20 -s 16390 -m 4096", subject: "READ"},
	{program: "read_bw", options: "-n 50 -s 5000 -q 4", subject: "READ"},
	{program: "read_bw", options: "-n 50 -s 3001", subject: "READ", ipv6: true},

	{program: "send_bw", options: "-n 100 -s 4096", subject: "SEND", smoke: Server},
	{program: "send_bw", options: "-n 50 -s 1", subject: "SEND"},
	{program: "send_bw", options: "-n 20 -s 65537", subject: "SEND"},
	{program: "send_bw", options: "-n 20 -s 4099 -m 256", subject: "SEND"},
	{program: "send_bw", options: "-n 20 -s 16390 -m 4096", subject: "SEND"},
	{program: "send_bw", options: "-n 50 -s 3000 -q 4", subject: "SEND"},
	{program: "send_bw", options: "-n 50 -s 5000 -c UC", subject: "SEND"},
	{program: "send_bw", options: "-n 50 -s 1023 -c UD", subject: "SEND"},
	{program: "send_bw", options: "-n 50 -s 1021", subject: "SEND", ipv6: true},

	{program: "atomic_bw", options: "-n 100 -A FETCH_AND_ADD", subject: "atomics", smoke: Client},
	{program: "atomic_bw", options: "-n 100 -A CMP_AND_SWAP", subject: "atomics", smoke: Server},

	{program: "write_bw", options: "-n 50 -s 4096 -R", subject: "perftest over CM", smoke: Server},
	{program: "write_bw", options: "-n 50 -s 3000 -q 4 -R", subject: "perftest over CM"},
	{program: "read_bw", options: "-n 50 -s 4096 -R", subject: "perftest over CM", smoke: Client},
	{program: "send_bw", options: "-n 50 -s 3000 -R", subject: "perftest over CM"},
	{program: "send_bw", options: "-n 50 -s 900 -c UD -R", subject: "perftest over CM"},
	{program: "atomic_bw", options: "-n 50 -A FETCH_AND_ADD -R", subject: "perftest over CM"},
	{program: "write_bw", options: "-n 50 -s 3000 -z", subject: "perftest over CM"},
	{program: "send_bw", options: "-n 50 -s 3000 -c UC -z", subject: "perftest over CM"},
	{program: "send_bw", options: "-n 50 -s 900 -c UD -z", subject: "perftest over CM"},
	{program: "write_lat", options: "-n 200 -s 64 -R", serve: "--program ib_write_lat -n 200 -s 64", bench: "--lat", subject: "perftest over CM"},
	{program: "send_lat", options: "-n 200 -s 64 -R", serve: "--program ib_send_lat", bench: "--lat", subject: "perftest over CM"},
	{program: "read_lat", options: "-n 200 -s 64 -R", bench: "--lat", subject: "perftest over CM", only: Server},
	{program: "write_lat", options: "-n 200 -s 64 -z", serve: "--program ib_write_lat -n 200 -s 64", bench: "--lat", subject: "perftest over CM"},
	{program: "send_lat", options: "-n 200 -s 64 -z", serve: "--program ib_send_lat", bench: "--lat", subject: "perftest over CM"},

	{program: "write_bw", options: "-n 100 -s 4096", subject: "bad wire", wire: both("loss 2%")},
	{program: "write_bw", options: "-n 200 -s 5000 -c UC", subject: "bad wire", wire: both("loss 2%")},
	{program: "send_bw", options: "-n 200 -s 5000 -c UC", subject: "bad wire", wire: both("loss 2%"), only: Server},
	{program: "send_bw", options: "-n 200 -s 1000 -c UD", subject: "bad wire", wire: both("loss 2%"), only: Server},
	{program: "read_bw", options: "-n 100 -s 4096 -o 2", subject: "bad wire", wire: both("loss 2%")},
	{program: "send_bw", options: "-n 100 -s 4096", subject: "bad wire", wire: both("loss 2%")},
	{program: "atomic_bw", options: "-n 100 -A FETCH_AND_ADD", subject: "bad wire", wire: both("loss 2%")},
	{program: "write_bw", options: "-n 100 -s 4096", subject: "bad wire", wire: both("duplicate 5%")},
	{program: "read_bw", options: "-n 100 -s 4096 -o 4", subject: "bad wire", wire: both("duplicate 5%")},
	{program: "write_bw", options: "-n 100 -s 4096", subject: "bad wire", wire: both("delay 3ms reorder 20% 50%")},
	{program: "send_bw", options: "-n 100 -s 4096", subject: "bad wire", wire: both("delay 3ms reorder 20% 50%")},
}

func perftestRows() []Row {
	var rows []Row
	for _, t := range tests {
		row := Row{Subject: t.subject, IPv6: t.ipv6, Wire: t.wire, Says: `(?m)^ \d+ +\d+ +\d`}
		timeout := row.timeout()
		options, overCM := t.options, strings.HasSuffix(t.options, " -R") || strings.HasSuffix(t.options, " -z")
		if !strings.Contains(options, "-m ") && !strings.Contains(options, "UD") {
			options += " -m 1024"
		}
		if strings.Contains(options, "UC") || strings.Contains(options, "UD") {
			timeout = 0
		}
		address, listens, may := "-x {gid} ", "tcp", []string(nil)
		if strings.HasSuffix(t.options, " -R") {
			address = ""                // CM finds its own
			may = []string{"cm_reject"} // its server says that it is there, and then begins to listen
		}
		if overCM {
			listens = "cm"
		}
		linux := fmt.Sprintf("ib_%s -F -d {dev} %s%s", t.program, address, options)
		ours := options + " --perftest " + t.bench
		if t.ipv6 {
			ours += " --ipv6"
		}
		if timeout > 0 {
			linux += fmt.Sprintf(" -u %d", timeout)
			ours += fmt.Sprintf(" -u %d", timeout)
		}
		service := ""
		if at := strings.Index(t.options, "-c "); at >= 0 {
			service = t.options[at : at+len("-c UC")]
		}
		operation, _, _ := strings.Cut(t.program, "_")
		server, client := row, row
		server.Role, server.Linux, server.Ours, server.Smoke = Server, linux+" {us4}", serve(strings.TrimSpace(service+" "+t.serve)), t.smoke == Server
		client.Role, client.Linux, client.Ours, client.Smoke = Client, linux, bench(operation, strings.Join(strings.Fields(ours), " ")), t.smoke == Client
		client.Listens, client.May = listens, may
		if t.only != Client {
			rows = append(rows, server)
		}
		if t.only != Server {
			rows = append(rows, client)
		}
	}
	return rows
}
