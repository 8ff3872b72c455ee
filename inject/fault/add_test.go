package fault

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestInjected: crafted packets are whole, have the addresses of the one that was struck, and go where they should.
func TestInjected(t *testing.T) {
	frames := writes(3, 64)
	of := decode(frames[1])
	for _, c := range []struct {
		rule string
		at   int // of what was injected among what arrived; the others are the frames
		want func(p *dissect.Packet) bool
	}{
		{"inject packet=ack nth=2", 2, func(p *dissect.Packet) bool {
			return p.Opcode == dissect.OpRCAcknowledge && p.PSN == 1 && p.Syndrome == 0x1f && p.DestQP == of.DestQP
		}},
		{"inject packet=nak-sequence bth.psn=-1 aeth.msn=7 place=before nth=2", 1, func(p *dissect.Packet) bool {
			return p.Opcode == dissect.OpRCAcknowledge && p.PSN == 0 && p.Syndrome == 0x60 && p.MSN == 7
		}},
		{"inject packet=cnp bth.destqp=0x77 nth=2", 2, func(p *dissect.Packet) bool {
			return p.Opcode == dissect.OpCNP && p.DestQP == 0x77 && p.BECN() && p.PSN == 0 && p.PayloadLen() == 16
		}},
		{"inject packet=RC_SEND_ONLY payload=33 nth=2", 2, func(p *dissect.Packet) bool {
			return p.Opcode == dissect.OpRCSendOnly && p.PayloadLen() == 33 && p.PadCount == 3 && p.PSN == 1
		}},
		{"inject packet=RC_RDMA_READ_REQUEST reth.dmalen=64 reth.r_key=9 nth=2", 2, func(p *dissect.Packet) bool {
			return p.Opcode == dissect.OpRCReadRequest && p.DMALen == 64 && p.RKey == 9
		}},
	} {
		got := through(t, frames, 0, c.rule)
		if len(got) != 4 {
			t.Errorf("%s: %s", c.rule, dump(got))
			continue
		}
		p := decode(got[c.at])
		if !c.want(p) || p.ICRC != dissect.ICRCValid || p.Malformed() || p.Src != of.Src || p.Dst != of.Dst || p.SrcPort != of.SrcPort {
			t.Errorf("%s: %+v", c.rule, p)
		}
		rest := append(got[:c.at:c.at], got[c.at+1:]...)
		for i := range frames {
			if !bytes.Equal(rest[i], frames[i]) {
				t.Errorf("%s: frame %d was touched", c.rule, i)
			}
		}
	}
	if got := through(t, frames, 0, "inject packet=ack place=instead nth=2"); len(got) != 3 || decode(got[1]).Opcode != dissect.OpRCAcknowledge {
		t.Errorf("instead: %s", dump(got))
	}
	raw := strings.Repeat("ab", 60)
	if got := through(t, frames, 0, "inject frame=0x"+raw+" n=2 nth=3"); len(got) != 5 || hex.EncodeToString(got[4]) != raw || hex.EncodeToString(got[3]) != raw {
		t.Errorf("a whole frame: %s", dump(got))
	}
}

// TestBack: what is sent back comes in where the packet came from, with the addresses turned round.
func TestBack(t *testing.T) {
	frames := writes(1, 64)
	r := newRig(t, rules(t, "inject packet=nak-invalid back=yes bth.destqp=0x11 way=out"))
	r.send(frames[0], nil)
	got := drain(t, r.port)
	if len(got) != 1 {
		t.Fatalf("%d frames came back", len(got))
	}
	p, of := decode(got[0]), decode(frames[0])
	if p.Src != of.Dst || p.Dst != of.Src || p.DestQP != 0x11 || p.Syndrome != 0x61 || p.ICRC != dissect.ICRCValid || !bytes.Equal(got[0][:6], frames[0][6:12]) {
		t.Errorf("%+v", p)
	}
	if got := r.arrived(); len(got) != 1 || !bytes.Equal(got[0], frames[0]) {
		t.Errorf("the packet itself: %s", dump(got))
	}
	// And out, for what came in.
	r = newRig(t, rules(t, "inject packet=cnp back=yes bth.destqp=0x11 way=in"))
	var slots [1]uint32
	r.far.Take(slots[:])
	if err := r.far.Send([]port.Out{{Slot: slots[0], Len: int32(copy(r.far.Room(slots[0]), frames[0]))}}); err != nil {
		t.Fatal(err)
	}
	drain(t, r.port)
	if err := r.port.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := r.arrived(); len(got) != 1 || decode(got[0]).Opcode != dissect.OpCNP {
		t.Errorf("out: %s", dump(got))
	}
}

func TestPauseFrames(t *testing.T) {
	frames := writes(1, 64)
	got := through(t, frames, 0, "pause priority=3 quanta=0x1234 n=2")
	if len(got) != 3 || len(got[1]) != 60 || !bytes.Equal(got[1], got[2]) || !bytes.Equal(got[1][6:12], frames[0][6:12]) {
		t.Fatalf("%s", dump(got))
	}
	h := decode(got[1]).MACControl(got[1])
	for priority := range 8 {
		q, ok := h.Quanta(priority)
		if want := priority == 3; ok != want || ok && q != 0x1234 {
			t.Errorf("priority %d: %d, %v", priority, q, ok)
		}
	}
	got = through(t, frames, 0, "pause quanta=0")
	if q, ok := decode(got[1]).MACControl(got[1]).Quanta(0); !ok || q != 0 || hex.EncodeToString(got[1][:6]) != "0180c2000001" {
		t.Errorf("%x", got[1])
	}
}

// TestTshark: fields that were set, and packets that were crafted, are what tshark reads.
func TestTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	frames := writes(1, 64)
	var all []testkit.Frame
	var want []string
	for _, c := range [][3]string{
		{"set bth.psn=0x123456", "infiniband.bth.psn", "1193046"},
		{"set bth.destqp=0xabcdef", "infiniband.bth.destqp", "0xabcdef"},
		{"set bth.p_key=0x9234", "infiniband.bth.p_key", "37428"},
		{"set bth.opcode=RC_SEND_ONLY", "infiniband.bth.opcode", "4"},
		{"set reth.va=0x1122334455667788", "infiniband.reth.va", "0x1122334455667788"},
		{"set reth.dmalen=77", "infiniband.reth.dmalen", "77"},
		{"set ip.ttl=9", "ip.ttl", "9"},
		{"set ip.src=192.0.2.1", "ip.src", "192.0.2.1"},
		{"set ip.dsfield.dscp=26", "ip.dsfield.dscp", "26"},
		{"set ip.id=0x1234", "ip.id", "0x1234"},
		{"set udp.srcport=777", "udp.srcport", "777"},
		{"set udp.checksum=right", "udp.checksum.status", "1"},
		{"set eth.src=02:00:00:00:00:77", "eth.src", "02:00:00:00:00:77"},
		{"ecn", "ip.dsfield.ecn", "3"},
		{"tag id=77 pcp=5", "vlan.id", "77"},
		{"options n=8", "ip.hdr_len", "28"},
		{"inject packet=nak-access place=instead", "infiniband.aeth.syndrome.error_code", "2"},
		{"inject packet=cnp place=instead", "infiniband.bth.opcode", "129"},
		{"set bth.opcode=RC_RDMA_READ_REQUEST", "ip.checksum.status", "1"},
	} {
		for _, f := range through(t, frames, 0, c[0]) {
			all = append(all, testkit.Frame{Data: f, WireLen: len(f), Link: dissect.LinkEthernet})
			want = append(want, c[1], c[2])
		}
	}
	file := testkit.WriteCapture(t, "faults.pcap", all)
	fields := []string{}
	for i := 0; i < len(want); i += 2 {
		if !slices.Contains(fields, want[i]) {
			fields = append(fields, want[i])
		}
	}
	rows, err := ts.Query(testkit.TsharkQuery{File: file, Fields: fields, Args: []string{"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if got := row[slices.Index(fields, want[2*i])]; got != want[2*i+1] {
			t.Errorf("frame %d: %s is %q, want %q", i+1, want[2*i], got, want[2*i+1])
		}
	}
}
