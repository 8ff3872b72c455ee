package filter

import (
	"slices"
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		typed string
		want  string // some of what is offered, as the filter would read
		not   string // what is not
	}{
		{"", "ip.src|udp|flow.retransmission|infiniband.bth.psn|not", "bth.psn|and"},
		{"infiniband.bth.p", "infiniband.bth.psn|infiniband.bth.p_key|infiniband.bth.padcnt", "infiniband.bth.a"},
		{"bth.ps", "bth.psn", "infiniband.bth.psn"},
		{"BTH.PS", "bth.psn", ""},
		{"ip and flow.re", "ip and flow.retransmission|ip and flow.request", "ip and ip"},
		{"(udp.p", "(udp.port", ""},
		{"not !ip.s", "not !ip.src", ""},
		{"bth.psn ", "bth.psn ==|bth.psn in {|bth.psn <|bth.psn &|bth.psn and", "bth.psn contains"},
		{"msg.status ", "msg.status ==|msg.status matches", "msg.status <|msg.status &"},
		{"finding.severity ", "finding.severity >=", ""},
		{"payload c", "payload contains", "payload =="},
		{"bth.opcode == RC_RDMA_W", "bth.opcode == RC_RDMA_WRITE_FIRST|bth.opcode == RC_RDMA_WRITE_ONLY", "bth.opcode == RC_SEND_ONLY"},
		{"bth.opcode == rc_rdma_read_req", "bth.opcode == RC_RDMA_READ_REQUEST", ""},
		{"bth.opcode in {CNP, UD", "bth.opcode in {CNP, UD_SEND_ONLY", ""},
		{"bth.opcode in {CNP..", "bth.opcode in {CNP..RC_SEND_FIRST", ""},
		{"flow.direction == ", "flow.direction == a_to_b|flow.direction == b_to_a", ""},
		{"frame.protocol == \"RoCE", "frame.protocol == \"RoCE v2\"", "frame.protocol == TCP"},
		{"frame.protocol != ", "frame.protocol != \"RoCE v2\"|frame.protocol != TCP", ""},
		{"flow.retransmission == ", "flow.retransmission == 1", ""},
		{"bth.psn == 5 ", "bth.psn == 5 and|bth.psn == 5 or", "bth.psn == 5 =="},
		{"bth.psn == 5 or ud", "bth.psn == 5 or udp", ""},
		{"bth.psn in {1, 2} ", "bth.psn in {1, 2} and", ""},
		{"len(pay", "len(payload", ""},
		{"len(payload) ", "len(payload) ==", ""},
		{"eth.src[0:3] ", "eth.src[0:3] ==", ""},
		{"ip.src == 10.", "", "ip.src == 10.|ip.src == 10.and"},
		{"eth.src[0", "", "eth.src[0 =="},
		{"payload == \"abc", "", "payload == and"},
	} {
		var got []string
		for _, o := range Complete(c.typed) {
			if o.Start > len(c.typed) {
				t.Fatalf("%q: starts at %d", c.typed, o.Start)
			}
			got = append(got, c.typed[:o.Start]+o.Text)
		}
		for _, w := range strings.Split(c.want, "|") {
			if w != "" && !slices.Contains(got, w) {
				t.Errorf("%q: %q is not offered: %q", c.typed, w, got[:min(len(got), 20)])
			}
		}
		for _, w := range strings.Split(c.not, "|") {
			if w != "" && slices.Contains(got, w) {
				t.Errorf("%q: %q is offered", c.typed, w)
			}
		}
	}
}

// Fields and values that are offered compile.
func TestCompletionsCompile(t *testing.T) {
	for _, o := range Complete("bth.opcode == ") {
		if _, err := Compile("bth.opcode == " + o.Text); err != nil || o.Help == "" {
			t.Errorf("%s (%q): %v", o.Text, o.Help, err)
		}
	}
	for _, o := range Complete("") {
		if lookup(o.Text) == nil && o.Text != "not" && !strings.HasSuffix(o.Text, "(") {
			t.Errorf("%s is no field", o.Text)
		}
		if o.Help == "" {
			t.Errorf("%s has no help", o.Text)
		}
	}
}
