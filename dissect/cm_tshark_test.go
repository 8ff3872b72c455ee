package dissect_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// notAsTshark lists where we differ from tshark on purpose, with the reason.
var notAsTshark = []struct {
	what, reason string
	covers       func(p *dissect.Packet, field string) bool
}{
	{
		"the RDMA IP CM header of SIDR_REQ", "tshark decodes no SIDR_REQ",
		func(p *dissect.Packet, field string) bool {
			return p.Has(dissect.LayerCMSIDRREQ) && strings.HasPrefix(field, "infiniband.cm.req.ip_cm")
		},
	},
	{
		"flow label, reserved bits and packet rate of a path",
		"tshark 4.0 takes the upper 12 bits of the 20-bit label only, and reads the other two from the label's first byte instead of its fourth",
		func(_ *dissect.Packet, field string) bool {
			for _, path := range []string{"prim", "alt"} {
				for _, f := range []string{"flowlabel", "reserved0", "pktrate"} {
					if field == "infiniband.cm.req."+path+"_"+f {
						return true
					}
				}
			}
			return false
		},
	},
}

// Every MAD and CM field that tshark has prints as tshark prints it: in the
// samples, and in the large captures where those are.
func TestCMAgainstTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	t.Run("samples", func(t *testing.T) {
		files := testkit.Files(t, filepath.Join(testkit.ModuleRoot(t), "captures", "samples"), "cm_*.pcap")
		compareCM(t, ts, files, dissect.CMAttrREQ, dissect.CMAttrREP, dissect.CMAttrRTU, dissect.CMAttrREJ, dissect.CMAttrDREQ, dissect.CMAttrDREP)
	})
	t.Run("captures", func(t *testing.T) {
		files := slices.Concat(testkit.Files(t, testkit.RXE(t), "[^i]*.pcap"), testkit.Files(t, testkit.Public(t), "rocev2_*"))
		compareCM(t, ts, files, dissect.CMAttrREQ, dissect.CMAttrREP, dissect.CMAttrRTU, dissect.CMAttrREJ, dissect.CMAttrDREQ, dissect.CMAttrDREP, dissect.CMAttrSIDRREQ, dissect.CMAttrSIDRREP)
	})
}

// compareCM compares the management datagrams of files; those messages must be
// among them.
func compareCM(t *testing.T, ts *testkit.Tshark, files []string, must ...dissect.CMAttribute) {
	var names []string
	for name := range ts.KnownFields(t) {
		if strings.HasPrefix(name, "infiniband.mad") || strings.HasPrefix(name, "infiniband.cm.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if dissect.LookupField(name) == nil {
			t.Errorf("no field %s", name)
		}
	}
	messages := map[dissect.CMAttribute]int{}
	for _, j := range testkit.Join(t, files) {
		t.Run(filepath.Base(j.Parts[0].File), func(t *testing.T) {
			type datagram struct {
				p     dissect.Packet
				frame []byte
			}
			var ours []datagram
			eachFrame(t, j.File, func(p *dissect.Packet, frame []byte) {
				if p.Has(dissect.LayerMAD) {
					ours = append(ours, datagram{*p, slices.Clone(frame)})
				}
			})
			if len(ours) == 0 {
				return
			}
			rows, err := ts.Query(testkit.TsharkQuery{File: j.File, Filter: "infiniband.mad", Fields: names})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(ours) {
				t.Fatalf("%d management datagrams, tshark has %d", len(ours), len(rows))
			}
			for i, row := range rows {
				p, frame := &ours[i].p, ours[i].frame
				if m, ok := p.CM(frame); ok {
					messages[m.Attribute]++
				}
				for j, name := range names {
					if got := fieldText(p, frame, name); got != row[j] && !excepted(p, name) {
						t.Errorf("frame %d: %s is %q, tshark says %q", p.Number, name, got, row[j])
					}
				}
			}
		})
	}
	for _, a := range must {
		if messages[a] == 0 {
			t.Errorf("no capture had a %s", a)
		}
	}
}

func excepted(p *dissect.Packet, field string) bool {
	for _, e := range notAsTshark {
		if e.covers(p, field) {
			return true
		}
	}
	return false
}

// fieldText is the field as -T fields prints it, "" where the packet has none.
func fieldText(p *dissect.Packet, frame []byte, name string) string {
	for _, f := range dissect.LookupField(name) {
		if text, ok := f.AppendText(nil, p, frame); ok {
			return string(text)
		}
	}
	return ""
}
