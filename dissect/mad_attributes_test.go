package dissect

import "testing"

func TestAttributeNames(t *testing.T) {
	for _, c := range []struct {
		class MADClass
		id    uint16
		want  string
	}{
		{ClassSubnLID, 0x15, "PortInfo"},
		{ClassSubnDirected, 0x11, "NodeInfo"},
		{ClassSubnAdm, 0x35, "PathRecord"},
		{ClassSubnAdm, 0x38, "MCMemberRecord"},
		{ClassPerf, 0x12, "PortCounters"},
		{ClassDevMgt, 0x10, "IOUnitInfo"},
		{ClassCongestion, 0x16, "CACongestionSetting"},
		{ClassCM, 0x10, "REQ"},
		{ClassBM, 0x01, "ClassPortInfo"},
		{ClassPerf, 0x35, ""},
		{0x30, 0x15, ""},
	} {
		if got := attributeName(c.class, c.id); got != c.want {
			t.Errorf("%v, %#x: %q, want %q", c.class, c.id, got, c.want)
		}
	}
	seen := map[uint32]bool{}
	for _, a := range attributes {
		if k := uint32(a.class)<<16 | uint32(a.id); seen[k] {
			t.Errorf("%v has %#x twice", a.class, a.id)
		} else {
			seen[k] = true
		}
	}
}
