package dissect_test

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

const lldpHead = "0180c200000e 020000000001 88cc"

// LLDP data units written by hand, from IEEE 802.1AB clause 8, IEEE 802.1Q annex D and IEEE 802.3 clause 79; the second
// one from the DCB capability exchange protocol base specification 1.01.
var lldpUnits = []string{
	// A switch port with all that 802.1Qaz has: PFC for priority 3, RoCE v2 in priority 3.
	lldpHead + `
	0207 04 0200000000aa
	0409 05 4574683130 2f3100
	0602 0078
	0806 757020746f20
	0a05 73772d3031
	0c0b 53776974636820 4f532031
	0e04 0014 0010
	100e 05 01 0a000001 02 00000007 02 2b06
	fe06 0080c2 01 0064
	fe0b 0080c2 03 0064 04 524f4345
	fe09 0080c2 03 00c8 02 4d47
	fe09 0080c2 07 03 00000005
	fe09 00120f 01 03 6c01 0036
	fe09 00120f 03 01 00000009
	fe06 00120f 04 2412
	fe19 0080c2 09 84 01234567 0a141e050f050f0f 0202000202020002
	fe19 0080c2 0a 00 00112233 32000032 00000000 0202020202020202
	fe06 0080c2 0b 88 08
	fe0e 0080c2 0c 00 618915 6312b7 c5001a
	0000`,
	// CEE, each feature with its head; PFC for priorities 3 and 4, RoCE v1 in priority 3, port 4791 in 3 and 4.
	lldpHead + `
	0205 07 686f7374
	0404 07 323434
	0602 0014
	fe3d 001b21 02
	  020a 00 00 00000005 00000004
	  0411 00 00 80 00 00010002 3c28000000000000 03
	  0606 01 00 c0 00 18 08
	  0810 00 00 80 00 8915 00 1b21 08 12b7 01 1b21 18
	0000`,
	// Addresses of the network, congestion notification.
	lldpHead + `
	0206 05 01 c0a80001
	0412 04 02 fe800000000000000000000000000001
	0602 ffff
	1018 11 02 fe800000000000000000000000000002 03 00000001 00
	fe06 0080c2 08 0c 04
	fe07 0080c2 02 06 0009
	fe0d 0080c2 04 08 0000424203000000
	0000`,
	lldpHead + `
	0212 05 02 fe800000000000000000000000000001
	0406 04 01 c0a80001
	0602 0078
	0000`,
	lldpHead + "0207 04 0200000000aa 0407 03 0200000000ab 0602 0078 0000",
}

func lldpFrames(t testing.TB) (frames [][]byte) {
	for _, u := range lldpUnits {
		frames = append(frames, fromHex(t, u))
	}
	return frames
}

func TestLLDPAgainstTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	names := known(t, ts, []string{"lldp.dcbx.", "lldp.tlv.", "lldp.chassis.", "lldp.port.", "lldp.mgn.", "lldp.ieee.802_1.", "lldp.ieee.802_1qau", "lldp.time_to_live", "lldp.orgtlv"},
		"lldp.mgn.obj.id", "lldp.mgn.addr.hex", "lldp.dcbx.feature.app.oui", "lldp.dcbx.feature.llink.type", "lldp.dcbx.feature.pg.reserved")
	same := compareAll(t, ts, pcapOf(t, dissect.LinkEthernet, lldpFrames(t)), "lldp", names, nil)
	for _, file := range testkit.Files(t, testkit.Public(t), "dcbx_*") {
		compareAll(t, ts, file, "lldp", names, nil)
	}
	for _, name := range names {
		if same[name] == 0 {
			t.Errorf("no frame has %s", name)
		}
	}
}
