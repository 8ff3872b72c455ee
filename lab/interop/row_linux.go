// Package interop is the interoperability table: what rocescope's software RNIC and the programs of Linux's RDMA stack do
// with each other in the laboratory, in both roles, and what must come of it.
//
// It owns the table (table_linux.go), running a row of it, and the page that the results make. The rows are data: a program in the
// guest, the part that rocescope plays, what the network does to the packets meanwhile, and what must hold. What must hold
// of every row is in judge_linux.go. The guest belongs to lab, rocescope's part in a row to lab/play.
package interop

import (
	"strings"
	"time"

	"github.com/rocescope/rocescope/lab"
)

// Role is what rocescope is in a row. Linux is the other.
type Role string

// The roles.
const (
	Client Role = "client"
	Server Role = "server"
)

// Row is one line of the table.
type Row struct {
	Subject  string // what it is about: rows of one subject stand together
	Role     Role
	Linux    string // program and arguments in the guest; see expand
	Script   string // the program's text, of Python, where it is not one of the guest's own
	Says     string // what the program must print, a regular expression
	Stays    bool   // the program does not end by itself; it is ended when ours is done
	Fails    bool   // the program must end with an error
	Listens  string // where a server in the guest is to be found before ours connects: "tcp" or "cm", or "says", when it says so; empty: it is not waited for
	Ours     part   // what rocescope does
	IPv6     bool
	Findings []string // what rocescope analyze must find in the packets besides notes, by name
	May      []string // … and what it may find
	Wire     Wire     // what happens to UDP packets on their way
	// Late is a program whose own acknowledgement time-out is too short for a busy machine's virtual one, and cannot be
	// set: what it sends again for that is not held against anybody.
	Late  bool
	Lacks string // why the row cannot be run, though it is wanted
	Smoke bool   // one of the few that are run before every change
}

// Wire is what tc's netem does, on the way out of the guest and into it. The zero value is a good wire.
type Wire struct{ Out, In string }

func (w Wire) good() bool { return w == Wire{} }

func (w Wire) String() string {
	switch {
	case w.good():
		return ""
	case w.Out == w.In:
		return w.Out + " both ways"
	case w.In == "":
		return w.Out + " from Linux"
	case w.Out == "":
		return w.In + " to Linux"
	default:
		return w.Out + " from Linux, " + w.In + " to Linux"
	}
}

// both is the same in both directions.
func both(what string) Wire { return Wire{what, what} }

// expand fills in what a command line is not to name: {us}, {it}: the addresses of rocescope and of Linux; {gid}: the index of
// Linux's address; {dev}: its device.
func (r *Row) expand(line string) string {
	us, it, gid := lab.Host.IP4, lab.Peer.IP4, lab.GIDIPv4
	if r.IPv6 {
		us, it, gid = lab.Host.IP6, lab.Peer.IP6, lab.GIDIPv6
	}
	return strings.NewReplacer(
		"{us}", us.Addr().String(), "{it}", it.Addr().String(), "{gid}", gid, "{dev}", lab.Device,
		"{us4}", lab.Host.IP4.Addr().String(), "{it4}", lab.Peer.IP4.Addr().String(),
	).Replace(line)
}

// timeout is the code of the acknowledgement time-out where it can be chosen: long for the slow machine that the guest is;
// on a bad wire short, lest the row takes minutes.
func (r *Row) timeout() int {
	if r.Wire.good() {
		return 20 // 4.3 s
	}
	return 14 // 67 ms
}

// Result is what came of a row.
type Result struct {
	Row
	Ran     bool
	Failed  string // why, empty if all holds
	Seconds float64
	Packets uint64 // RoCE packets on the wire
	Moved   string // error counters of Linux that moved, and by how much
	Console string // what Linux's program printed, for who looks into a failure
	Capture string // where the packets of a failed row are
}

// patience is how long a program in the guest may take.
const patience = 90 * time.Second

// String is the row in one line.
func (r *Row) String() string {
	if r.Lacks != "" {
		return r.Subject + ", rocescope as " + string(r.Role) + ": " + r.Lacks
	}
	s := "rocescope as " + string(r.Role) + ": " + r.expand(r.Linux)
	if r.IPv6 {
		s += ", IPv6"
	}
	if !r.Wire.good() {
		s += ", " + r.Wire.String()
	}
	return s
}
