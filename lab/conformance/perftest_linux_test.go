package conformance

import (
	"errors"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/lab"
)

func TestPerftestArgs(t *testing.T) {
	psn := uint32(7)
	write := func(length, count int) []suite.Posted {
		return []suite.Posted{{Operation: "write", Length: length, Count: count}}
	}
	for _, x := range []struct {
		c    suite.Command
		want string // of the command line, or why there is none
		no   bool
	}{
		{suite.Command{MTU: 1024}, "-n 5 -m 1024 -s 65536 -F 10.77.0.1", false},
		{suite.Command{MTU: 4096, Posts: write(64, 6)}, "-n 6 -m 4096 -s 64 -F 10.77.0.1", false},
		{suite.Command{MTU: 1024, Transport: "UC", IPv6: true}, "-x 2 -p 18516 -n 5 -m 1024 -s 65536 -F -c UC 10.77.0.1", false},
		{suite.Command{MTU: 1024, Posts: write(64, 4)}, "5 messages at least", true},
		{suite.Command{MTU: 1024, Posts: write(0, 6)}, "no empty messages", true},
		{suite.Command{MTU: 1024, Posts: append(write(64, 6), write(64, 6)...)}, "one kind", true},
		{suite.Command{MTU: 1024, Posts: []suite.Posted{{Operation: "read", Length: 64, Count: 6}}}, "posts no read", true},
		{suite.Command{MTU: 1024, PSN: &psn}, "first PSN", true},
		{suite.Command{MTU: 1024, SRQ: true}, "receives", true},
		{suite.Command{MTU: 1024, Transport: "UD"}, "datagrams", true},
	} {
		args, _, err := perftestArgs(&x.c, lab.Host.IP4.Addr(), 18516)
		switch {
		case x.no && (!errors.Is(err, suite.ErrUnsupported) || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%+v: %v; want %q", x.c, err, x.want)
		case !x.no && (err != nil || !strings.HasSuffix(strings.Join(args, " "), x.want)):
			t.Errorf("%+v: %v, %v; want %q", x.c, args, err, x.want)
		}
	}
}

func TestPerftestCompletions(t *testing.T) {
	for _, x := range []struct {
		output string
		failed bool
		want   string
	}{
		{"all is well", false, "SUCCESS SUCCESS SUCCESS"},
		{" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", true, "RETRY_EXC_ERR"},
		{"Failed status 10: wr_id 0", true, "REM_ACCESS_ERR"},
		{"Couldn't connect", true, ""},
	} {
		var got []string
		for _, c := range perftestCompletions(3, x.output, x.failed) {
			got = append(got, c.Status)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%q: %v; want %s", x.output, got, x.want)
		}
	}
}
