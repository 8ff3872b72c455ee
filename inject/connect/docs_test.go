package connect

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestDocs takes the examples of docs/connect.md at their word.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testkit.ModuleRoot(t), "docs", "connect.md"))
	must(t, err)
	page := regexp.MustCompile(`,\n +"memory"`).ReplaceAllString(string(b), `,"memory"`)
	lines := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(client|server)  (\{.*\})$`).FindAllStringSubmatch(page, -1) {
		lines[m[1]] += m[2] + "\n"
	}
	if strings.Count(lines["client"], "\n") != 3 || strings.Count(lines["server"], "\n") != 2 {
		t.Fatalf("the exchange's example: %q", lines)
	}
	app := &testApp{}
	s := Server{New: func(Via, net.Addr) (Application, error) { return app, nil }}
	if err := s.Answer(&script{pieces: []string{lines["client"]}}, nil); err != nil || len(app.remotes) != 1 || app.remotes[0].Memory.Length != 1<<20 {
		t.Errorf("%v, %+v", err, app.remotes)
	}
	own := ownQPs(1)
	own[0].MTU = 4096
	x := NewExchange(&script{pieces: []string{lines["server"]}}, 0)
	remote, err := x.Offer(own)
	must(t, err)
	must(t, x.Ready())
	if remote[0].QPN != 0x17 || remote[0].MTU != 1024 {
		t.Errorf("%+v", remote)
	}
	byHand := regexp.MustCompile(`(?m)^qpn=.*$`).FindString(page)
	if p, err := ParseParameters(byHand, Parameters{}); err != nil || p.String() != "qpn=0x11,psn=0x1b4c55,rkey=0x1234,va=0x7f0000001000,length=1048576,mtu=1024,addr=10.0.0.2,transport=rc" {
		t.Errorf("%q: %v, %v", byHand, p, err)
	}
	for i := range parameterKeys {
		if !strings.Contains(page, "`"+parameterKeys[i].name+"`") && !strings.Contains(byHand, parameterKeys[i].name+"=") {
			t.Errorf("the page does not know the key %s", parameterKeys[i].name)
		}
	}
}
