package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// wrong are filters that are wrong, each in its own way; what is said of them
// stands in testdata/errors.golden.
var wrong = []string{
	// words
	`infiniband.bth.pns == 5`, `bth.pns == 5`, `psn == 5`, `infiniband.bth.psn.x`, `ip.scr == 10.0.0.1`, `tcp.flags.syn`, `retransmission`,
	`flow.retransmision`, `zzzzzzzz`, `5`, `"text"`, `5 == 5`, `foo(ip) == 1`, `bth.psn == bth.pns`,
	// syntax
	`(`, `(ip`, `ip)`, `()`, `ip and`, `and ip`, `ip and and udp`, `ip and )`, `ip udp`, `ip "x"`, `not`, `bth.psn ==`, `== 5`, `bth.psn = 5`,
	`bth.psn == 1 ==`, `ip | udp`, `ip AND udp`, `bth.psn + 1 == 2`, `bth.psn == $x`, `ip not udp`, `payload[0 == 1`, `payload == "abc`,
	`payload == "a\q"`, `payload == 'ab'`, `ip ; udp`, "ip \x80", `bth.psn..5`, `(ip and udp) == 1`, `bth.psn == (ip)`, `bth.psn == not ip`,
	// sets
	`bth.psn in {}`, `bth.psn in {1 2}`, `bth.psn in {1,}`, `bth.psn in {1`, `bth.psn in 5`, `bth.psn in {5..2}`, `bth.psn in {1..}`,
	`bth.psn in {aeth.msn}`, `msg.status in {open..SENT}`, `ip.src in {10.0.0.9..10.0.0.1}`,
	// types and values
	`eth.src == 5`, `eth.src == 02:00:00`, `eth.src == ip.src`, `ip.src == 02:00:00:00:00:01`, `ip.src == 10.77`, `ip.src == 10.0.0.0/33`,
	`ip.src == fe80::1`, `ipv6.src == 10.0.0.1`, `ipv6.src == fe80::/129`, `bth.psn == 16777216`, `bth.psn == -1`, `bth.psn == 09`,
	`bth.psn == 0x`, `bth.psn == 1.5`, `bth.psn == "5"`, `bth.psn == abc`, `bth.psn == 99999999999999999999`, `bth.destqp == 0x1000000`,
	`udp.port == 64KiB`, `udp.port == 5XB`, `bth.a == 2`, `bth.a == yes`, `bth.tver == 16`, `frame.time_relative > 5x`,
	`frame.time_relative > "yesterday"`, `frame.time_epoch > noon`, `bth.psn > ip.src`, `len(payload) == -1`, `len(payload) == x`,
	// enumerations
	`bth.opcode == RC_RDMA_WRITE_FRIST`, `bth.opcode == RC_SEND`, `bth.opcode == 256`, `bth.opcode == "Send Only"`, `bth.opcode == RC`,
	`ip.dsfield.ecn == ECT`, `ip.dsfield.ecn == 4`, `flow.direction == a_to_c`, `flow.direction == 0`, `msg.status == success`, `msg.op == sned`,
	`frame.protocol == roce`, `finding.id == psn_gp`, `finding.severity >= bad`,
	// operators
	`flow.direction > a_to_b`, `ip.src contains "a"`, `ipv6.src matches "fe"`, `bth.psn contains 1`, `bth.psn matches "1"`, `payload matches abc`,
	`payload matches "x(y"`, `payload matches "\xff"`, `payload matches "a{2000}"`, `payload contains ""`, `payload contains xyz`, `payload contains 255`,
	`"a" contains payload`, `ip.src contains ip.dst`, `any ip.addr === 10.0.0.1`, `any ip.addr`, `any all ip.addr == 10.0.0.1`, `ip.addr == any ip.src`,
	// slices and functions
	`bth.psn[0] == 1`, `eth.src[0:7] == 01`, `eth.src[6] == 01`, `eth.src[-7] == 01`, `eth.src[0:3] == 01:02`, `eth.src[a] == 1`, `payload[0:0] == 1`, `payload[3-1] == 1`,
	`payload[] == 1`, `payload[0][1] == 1`, `immdt == de:ad`, `len(bth.psn) == 3`, `len() == 3`, `len(payload, ip) == 3`, `len(payload)`,
	`count(payload[0]) == 1`, `len(len(payload)) == 1`,
	// masks
	`bth.psn &`, `payload & 1`, `bth.psn & aeth.msn`, `bth.psn & 0x1000000 == 1`, `frame.time_relative & 1`, `bth.a & 1`,
	// place
	"ip and\n\tbth.pns == 5\nand udp", `bth.psn == 1 and bth.psn == 2 and bth.psn == 3 and bth.psn == 4 and bth.psn == 5 and bth.pns == 6 and bth.psn == 7 and bth.psn == 8 and bth.psn == 9`,
	`frame contains "ä€" and bth.pns == 5`, `infiniband.` + strings.Repeat("long", 40),
}

func TestErrors(t *testing.T) {
	var out strings.Builder
	for _, src := range wrong {
		_, err := Compile(src)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if e.Pos < 0 || e.End < e.Pos || e.End > len(src) || e.Source != src {
			t.Errorf("%s: place %d…%d of %q", src, e.Pos, e.End, e.Source)
		}
		if strings.ContainsAny(e.Error(), "\n\t\x00") || e.Msg == "" {
			t.Errorf("%s: the error is not one sentence: %q", src, e.Error())
		}
		fmt.Fprintf(&out, "%s\n%v\n\n", e.Caret(), e)
	}
	testkit.Golden(t, "errors.golden", []byte(out.String()))
}
