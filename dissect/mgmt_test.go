package dissect_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// inRoCE is a management datagram in RoCE v2, to QP 0 or 1.
func inRoCE(qp byte, mad []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0x01, 0x34, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	b = append(b, 0xC0, 0, 0x12, 0xB7, 0x01, 0x20, 0, 0)
	b = append(b, 0x64, 0, 0xFF, 0xFF, 0, 0, 0, qp, 0, 0, 0, 1)
	b = append(b, 0x80, 1, 0, 0, 0, 0, 0, qp)
	return append(append(b, mad...), 0, 0, 0, 0)
}

// someMAD is a datagram of an attribute whose data is random but the same in every run.
func someMAD(class dissect.MADClass, version, method byte, attribute uint16) []byte {
	r := rand.New(rand.NewPCG(uint64(class), uint64(attribute)))
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[0], b[1], b[2], b[3] = 1, byte(class), version, method
	b[4], b[5] = 0, 0
	binary.BigEndian.PutUint16(b[16:], attribute)
	binary.BigEndian.PutUint32(b[20:], 1)
	if class == dissect.ClassSubnAdm { // one segment
		copy(b[24:], []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}
	return b
}

// letters puts letters where an attribute has text.
func letters(qp byte, mad []byte) []byte {
	frame := inRoCE(qp, mad)
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	for i := range dissect.Fields() {
		f := &dissect.Fields()[i]
		if bit, ok := f.Place(&p, frame); ok && f.Kind == dissect.String {
			text := mad[bit/8-(len(frame)-4-len(mad)):][:f.Width/8]
			for k := range text {
				text[k] = 'a' + text[k]%26
			}
		}
	}
	return mad
}

// mgmtFrames are a datagram of each attribute that has fields, and the segments of RMPP; of Notice one of each trap.
func mgmtFrames() (frames [][]byte) {
	for _, a := range dissect.Attributes() {
		qp, version := byte(1), byte(1)
		switch a.Class {
		case dissect.ClassSubnLID:
			qp = 0
		case dissect.ClassSubnAdm, dissect.ClassCongestion:
			version = 2
		}
		m := letters(qp, someMAD(a.Class, version, 0x81, a.ID))
		frames = append(frames, inRoCE(qp, m))
		if a.Name != "Notice" || a.Class != dissect.ClassSubnLID && a.Class != dissect.ClassSubnAdm {
			continue
		}
		at := 64
		if a.Class == dissect.ClassSubnAdm {
			at = 56
		}
		for _, trap := range []uint16{64, 65, 66, 67, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259} {
			m := slices.Clone(m)
			m[at] |= 0x80
			binary.BigEndian.PutUint16(m[at+4:], trap)
			frames = append(frames, inRoCE(qp, m))
		}
	}
	frames = append(frames, inRoCE(0, someMAD(dissect.ClassSubnDirected, 1, 0x01, 0x11)), inRoCE(0, someMAD(dissect.ClassSubnDirected, 1, 0x81, 0x15)))
	for _, class := range []dissect.MADClass{dissect.ClassPerf, dissect.ClassSubnAdm, dissect.ClassDevMgt, dissect.ClassCongestion, dissect.ClassBM} {
		frames = append(frames, inRoCE(1, someMAD(class, 1, 0x81, 1)))
	}
	for kind := byte(1); kind <= 4; kind++ {
		m := someMAD(dissect.ClassSubnAdm, 2, 0x92, 0x35)
		copy(m[24:], []byte{1, kind, 0x1F, 0, 0, 0, 0, 1, 0, 0, 0, 220})
		frames = append(frames, inRoCE(1, m))
	}
	return frames
}

// mgmtUnlike is where we differ from tshark 4.0 on purpose.
func mgmtUnlike() []*unlike {
	class := func(classes ...dissect.MADClass) func(p *dissect.Packet, frame []byte) bool {
		return func(p *dissect.Packet, frame []byte) bool { return slices.Contains(classes, p.MAD(frame).Class()) }
	}
	theirs := func(_ *dissect.Packet, ours, _ string) bool { return ours == "" }
	return []*unlike{
		{
			field: "infiniband.notice.*", when: class(dissect.ClassDevMgt, dissect.ClassCongestion),
			reason: "tshark knows no attribute of device management and congestion control",
		},
		{
			field: "infiniband.classportinfo.*", when: class(dissect.ClassDevMgt, dissect.ClassCongestion, dissect.ClassBM),
			reason: "tshark knows ClassPortInfo of subnet administration and performance management only",
		},
		{
			field: "infiniband.trap.*", when: trapOf(259),
			reason: "tshark does not decode trap 259",
		},
		{
			field: "infiniband.notice.datadetails", when: trapOf(259),
			reason: "tshark does not decode trap 259",
		},
		{
			field:  "infiniband.multicastforwardingtable.portmask",
			same:   func(_ *dissect.Packet, ours, theirs string) bool { return strings.HasPrefix(ours, theirs+",") },
			reason: "tshark shows 16 of the 32 entries of a block",
		},
		{
			field: "infiniband.rmpp.rresptime",
			same:  func(_ *dissect.Packet, ours, theirs string) bool { return ours == "0x03" && theirs == "0x01" }, reason: rmppSplit,
		},
		{
			field: "infiniband.rmpp.rmppflags",
			same:  func(_ *dissect.Packet, ours, theirs string) bool { return ours == "0x07" && theirs == "0x0f" }, reason: rmppSplit,
		},
		{
			field: "infiniband.smpdirected.d", reason: directionBit,
			same: func(_ *dissect.Packet, ours, _ string) bool { return ours == "0x0000000000000001" },
		},
		{
			field: "infiniband.smpdirected.smpstatus", reason: directionBit,
			same: func(_ *dissect.Packet, ours, theirs string) bool { return ours == "0x0000" && theirs == "0x8000" },
		},
		{
			field: "infiniband.pathrecord.*", same: theirs, when: func(p *dissect.Packet, _ []byte) bool { return !p.Has(dissect.LayerSARecord) },
			reason: "tshark takes what ACK, STOP and ABORT carry for a record",
		},
	}
}

const directionBit = "the direction is the first bit of the status; tshark looks for it elsewhere, and leaves it in the status"

const rmppSplit = "IBA gives the response time five bits and the flags three; tshark takes four of each"

func trapOf(trap uint16) func(p *dissect.Packet, frame []byte) bool {
	return func(p *dissect.Packet, frame []byte) bool {
		v, ok := dissect.LookupField("infiniband.notice.trapnumberdeviceid")[0].Uint(p, frame)
		if !ok {
			v, ok = dissect.LookupField("infiniband.notice.trapnumberdeviceid")[1].Uint(p, frame)
		}
		return ok && v == uint64(trap)
	}
}

// Every field of the management classes that tshark has prints as tshark prints it: each attribute with data that
// leaves no bit out.
func TestManagementAgainstTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	var beginnings []string
	for _, b := range strings.Fields(`rmpp smplid smpdirected sa nodedescription nodeinfo switchinfo guidinfo portinfo p_keytable sltovlmappingtable
		vlarbitrationtable linearforwardingtable randomforwardingtable multicastforwardingtable sminfo vendordiag ledinfo informinfo informinforecord linkrecord
		pathrecord mcmemberrecord tracerecord multipathrecord serviceassociationrecord classportinfo notice trap portcounters portcounters_ext`) {
		beginnings = append(beginnings, "infiniband."+b+".")
	}
	names := known(t, ts, beginnings,
		"infiniband.classportinfo.reserved", "infiniband.p_keytable.p_keytableblock", // reserved, or others together
		"infiniband.rmpp.data1", "infiniband.rmpp.data2", "infiniband.rmpp.extendederrordata", "infiniband.rmpp.transferreddata",
		"infiniband.sa.drdlid", "infiniband.sa.subnetadmindata", "infiniband.smplid.smpdata",
		"infiniband.multipathrecord.gidscope", "infiniband.multipathrecord.sdgid", // newer texts have the service ID there
		"infiniband.switchinfo.guid", "infiniband.trap.comp_mask", "infiniband.trap.wait_for_repath") // not in IBA's tables
	except := mgmtUnlike()
	same := compareAll(t, ts, pcapOf(t, dissect.LinkEthernet, mgmtFrames()), "infiniband.mad", names, except)
	for _, file := range testkit.Files(t, testkit.Public(t), "ib-erf_*") {
		compareAll(t, ts, file, "infiniband.mad", names, except)
	}
	for _, u := range except {
		if !u.used && u.reason != directionBit { // that one needs the public capture
			t.Errorf("%s excuses nothing: %s", u.field, u.reason)
		}
	}
	for _, name := range names {
		if same[name] == 0 && !slices.ContainsFunc(except, func(u *unlike) bool { return strings.HasPrefix(name, strings.TrimSuffix(u.field, "*")) }) {
			t.Errorf("no frame has %s", name)
		}
	}
}
