package fault

import (
	"slices"
	"strings"
	"testing"
)

// rowIDs are the rows of the project's fault catalogue: the list has each of them, once, in this order.
var rowIDs = strings.Fields(`
ETH-01 ETH-02 ETH-03 ETH-04 ETH-05 ETH-06 ETH-07 ETH-08 ETH-09 VLAN-01 VLAN-02 VLAN-03 VLAN-04 PFC-01 PFC-02 IP-01 IP-02 IP-03
IP-04 IP-05 IP-06 IP-07 IP-08 IP-09 IP-10 IP-11 IP-12 IP-13 IP-14 IP-15 IP-16 IP-17 IP-18 UDP-01 UDP-02 UDP-03 UDP-04 UDP-05
UDP-06 UDP-07 UDP-08 UDP-09 BTH-01 BTH-02 BTH-24 BTH-03 BTH-04 BTH-05 BTH-06 BTH-07 BTH-08 BTH-09 BTH-10 BTH-11 BTH-12 BTH-13
BTH-14 BTH-15 BTH-16 BTH-17 BTH-18 BTH-19 BTH-20 BTH-21 BTH-22 BTH-23 RETH-01 RETH-02 RETH-03 RETH-04 RETH-05 RETH-06 RETH-07
RETH-08 RETH-09 RETH-10 RETH-11 RETH-12 RETH-13 RETH-14 RETH-15 ATM-01 ATM-02 ATM-03 ATM-04 ATM-05 ATM-06 ATM-07 IMM-01 IETH-01
DETH-01 DETH-02 DETH-03 DETH-04 AETH-01 AETH-02 AETH-03 AETH-04 AETH-05 LEN-01 LEN-02 LEN-03 LEN-04 LEN-05 LEN-06 LEN-07 TRUNC-01
TRUNC-02 ICRC-01 ICRC-02 ICRC-03 ICRC-04 ICRC-05 ICRC-06 ICRC-07 PSN-01 PSN-02 PSN-03 PSN-04 PSN-05 PSN-06 PSN-07 PSN-08 PSN-09
PSN-10 PSN-11 PSN-12 PSN-13 PSN-14 PSN-15 PSN-16 PSN-17 PSN-18 PSN-19a PSN-19b PSN-20 PSN-21 SEQ-01 SEQ-02 SEQ-03 SEQ-04 SEQ-05
SEQ-06 RES-01 RES-02 RES-03 RES-04 RES-05 RES-06 RD-01 UC-01 UC-02 ACK-01 ACK-02 ACK-03 ACK-04 ACK-05 ACK-06 ACK-07 ACK-08 ACK-09
ACK-10 ACK-11 NAK-01 NAK-02 NAK-03 NAK-04 NAK-05 NAK-06 NAK-07 NAK-08 RNR-01 RNR-02 RNR-03 RSP-01 RSP-02 RSP-03 RSP-04 RSP-05
RSP-06 RSP-07 RSP-08 RSP-09 CC-01 CC-02 CC-03 CC-04 CC-05 CC-06 CC-07 LOAD-01 LOAD-02 LOAD-03 LOAD-04 LOAD-05 LIFE-01 LIFE-02
LIFE-03 LIFE-04
`)

func TestCatalogueHasEveryRow(t *testing.T) {
	var have []string
	for _, f := range Catalogue() {
		have = append(have, f.ID)
	}
	if !slices.Equal(have, rowIDs) {
		t.Errorf("the list has %d faults, the catalogue %d:\n%v\nwant\n%v", len(have), len(rowIDs), have, rowIDs)
	}
}

// TestCatalogueIsWhole: each fault says what it is, what is required and how it comes about, and its rule can be read.
func TestCatalogueIsWhole(t *testing.T) {
	for _, f := range Catalogue() {
		switch {
		case f.What == "" || f.Outcome == "" || f.Section == "":
			t.Errorf("%s: what, outcome or section is missing", f.ID)
		case !strings.Contains("RQB", f.Role) || len(f.Role) != 1:
			t.Errorf("%s: role %q", f.ID, f.Role)
		case (f.Rule == "") == (f.Otherwise == ""):
			t.Errorf("%s: a rule makes it, or something else does: %q, %q", f.ID, f.Rule, f.Otherwise)
		case f.Source == "" && f.Open == "" && !strings.Contains(f.Outcome, "IMPL"):
			t.Logf("%s has no source", f.ID)
		}
		if f.Rule == "" {
			continue
		}
		r, err := Parse(f.ID)
		if err != nil {
			t.Errorf("%s: %v", f.ID, err)
			continue
		}
		if r.Fault != f.ID || r.Name != f.ID {
			t.Errorf("%s: the rule calls itself %q, %q", f.ID, r.Fault, r.Name)
		}
		if len(f.Params()) == 0 && strings.Contains(f.Rule, "=") && !strings.HasPrefix(f.Rule, "drop when") && !strings.HasPrefix(f.Rule, "swap when") {
			t.Errorf("%s: no parameters in %q", f.ID, f.Rule)
		}
	}
}
