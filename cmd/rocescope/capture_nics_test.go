package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestNICs looks at the table of drivers: each statement has its source, and docs/nics.md is what the table says.
func TestNICs(t *testing.T) {
	drivers := map[string]bool{}
	for _, f := range nicFamilies {
		if f.name == "" || len(f.drivers) == 0 || len(f.facts) == 0 || (f.noRoCE == "") != (f.roce == "") {
			t.Errorf("%+v lacks something", f)
		}
		for _, d := range f.drivers {
			if drivers[d] {
				t.Errorf("%s is there twice", d)
			}
			drivers[d] = true
			if nic := nicOf(d); nic == nil || nic.name != f.name {
				t.Errorf("%s is found as %v", d, nic)
			}
		}
		for _, fact := range f.facts {
			if !strings.HasPrefix(fact.source, "https://") || !strings.HasSuffix(fact.text, ".") {
				t.Errorf("%s: %+v", f.name, fact)
			}
		}
	}
	var page bytes.Buffer
	if err := writeNICs(&page); err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(filepath.Join(testkit.ModuleRoot(t), "docs", "nics.md"))
	if err != nil || !bytes.Equal(there, page.Bytes()) {
		t.Errorf("docs/nics.md is stale (%v): run make docs", err)
	}
}

// TestRDMACards judges cards that are not here.
func TestRDMACards(t *testing.T) {
	const off = "sudo devlink dev param set pci/0000:3b:00.0 name enable_roce value false cmode driverinit && sudo devlink dev reload pci/0000:3b:00.0"
	for _, c := range []struct {
		name string
		p    patient
		says []string
		not  []string
	}{
		{
			"a ConnectX that does RoCE",
			patient{rdma: []string{"mlx5_0"}, hard: true, card: card{bus: "0000:3b:00.0", roceKnown: true, roce: true}},
			[]string{"mlx5_0: this card takes RoCE (UDP 4791)", "NOT seen", "tcpdump -i mlx5_0 -U -w - | rocescope -", off, strings.Replace(off, "false", "true", 1), "Not seen: RoCE that this host's RDMA sends"},
			nil,
		},
		{
			"one whose RoCE is off",
			patient{card: card{bus: "0000:3b:00.0", roceKnown: true}},
			[]string{"switched off: RoCE packets reach the kernel", strings.Replace(off, "false", "true", 1) + "   (to have RDMA again)"},
			[]string{"NOT seen"},
		},
		{
			"an E810",
			patient{rdma: []string{"rocep1s0"}, hard: true, card: card{bus: "0000:07:00.0"}},
			[]string{"sudo devlink dev param set pci/0000:07:00.0 name enable_roce value false cmode runtime"},
			[]string{"reload"},
		},
		{"soft-RoCE", patient{rdma: []string{"rxe0"}}, []string{"rxe0 is software"}, []string{"NOT seen", "devlink"}},
		{
			"many queues, one of which gets all",
			patient{cores: 4, card: card{rx: 8, maxRX: 16, combined: 8, hashKnown: true, rules: 1}},
			[]string{"8 to receive, of 16", "packet with 4 rings, xdp with 8 threads", "sudo ethtool -L eth7 combined 4   (to undo: 8)", "sudo ethtool -N eth7 rx-flow-hash udp4 sdfn   (to undo: sd)", "1 rule for flows", "ethtool -n eth7"},
			nil,
		},
		{"queues for all", patient{cores: 8, card: card{rx: 8, combined: 8, hashKnown: true, hashPorts: true}}, []string{"queue pairs of two hosts are in different queues"}, []string{"ethtool"}},
		{"a small ring", patient{card: card{ring: 512, maxRing: 8192}}, []string{"512 of 8,192 descriptors", "sudo ethtool -G eth7 rx 8192   (to undo: 512)"}, nil},
		{"100 GbE", patient{cores: 8, card: card{rx: 8, speed: 100_000}}, []string{"8 cores and 8 queues", "100 Gbit/s carries 3.0 million packets/s of RoCE MTU 4096"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := captures.LiveInterface{Name: "eth7", MTU: 9000, Up: true, Driver: "mlx5_core"}
			if strings.Contains(c.name, "E810") {
				i.Driver = "ice"
			}
			c.p.LiveInterface = &i
			d := &diagnosis{}
			for _, look := range []func(*patient){d.mtu, d.rdmaCard, d.seen, d.queues, d.cardRing, func(p *patient) { d.rate(p, true) }} {
				look(&c.p)
			}
			var all strings.Builder
			for _, s := range d.all {
				all.WriteString(s.how + "\n" + s.next + "\n")
			}
			for _, says := range c.says {
				if !strings.Contains(all.String(), says) {
					t.Errorf("it does not say %q:\n%s", says, all.String())
				}
			}
			for _, not := range c.not {
				if strings.Contains(all.String(), not) {
					t.Errorf("it says %q:\n%s", not, all.String())
				}
			}
		})
	}
}
