package shadow

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/replay"
	"github.com/rocescope/rocescope/internal/testkit"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asked lists the RC queue pairs of a capture that are asked.
func asked(t *testing.T, file string) (all []uint32) {
	seen := map[uint32]bool{}
	var d dissect.Decoder
	for _, f := range testkit.ReadCapture(t, file) {
		var p dissect.Packet
		if d.Decode(f.Link, f.Data, f.WireLen, &p); p.Proto == dissect.ProtoRoCEv2 && p.Op().Transport == dissect.RC && p.Op().Role == dissect.Request && !seen[p.DestQP] {
			seen[p.DestQP] = true
			all = append(all, p.DestQP)
		}
	}
	return all
}

// read reads a conversation; nil where a QPN is asked at both ends.
func read(t *testing.T, file string, qpn uint32) *replay.Conversation {
	t.Helper()
	src, err := captures.Open(file)
	must(t, err)
	defer src.Close()
	c, err := replay.Read(src, qpn)
	if err != nil && strings.Contains(err.Error(), replay.ErrMany.Error()) {
		return nil
	}
	must(t, err)
	return c
}

// unlike are captures that cannot be compared, and why.
var unlike = map[string]string{
	"tool_mw.pcap":            "memory windows are bound and invalidated by the responder itself, which no request tells",
	"probe_hand_made_rc.pcap": "its packets begin at PSNs that were not agreed on, some behind the start",
}

// Soft-RoCE and our RNIC answer alike in all captures of it, also with loss, but for what a responder may choose.
func TestSoftRoCEIsLikeUs(t *testing.T) {
	for _, file := range testkit.Files(t, testkit.RXE(t), "*.pcap") {
		info, err := os.Stat(file)
		must(t, err)
		if unlike[filepath.Base(file)] != "" || info.Size() > 8<<20 {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, qpn := range asked(t, file) {
				c := read(t, file, qpn)
				if c == nil {
					continue
				}
				r, err := Run(c)
				must(t, err)
				if r.Difference != nil {
					t.Errorf("QP %#x: frame %d (behind request %d), PSN %#x: %+v", qpn, r.Difference.Frame, r.Difference.Request, r.Difference.PSN, r.Difference.Fields)
				}
				t.Logf("QP %#x: %d requests, %d answers, allowed %v, %s", qpn, r.Requests, r.Compared, r.Allowed, r.Ended)
			}
		})
	}
}

// A copy whose answers were doctored is found at the frame, with the field.
func TestDoctoredAnswersAreFound(t *testing.T) {
	dir := testkit.RXE(t)
	for _, c := range []struct {
		name, file string
		is         func(p *dissect.Packet) bool
		change     func(op *dissect.OpInfo, bth, payload []byte)
		field      string
		later      int // how many are left as they are: they tell what memory held
	}{
		{
			"MSN", "write_bw_rc_1024.pcap", func(p *dissect.Packet) bool { return p.Opcode == dissect.OpRCAcknowledge },
			func(op *dissect.OpInfo, bth, _ []byte) {
				h := dissect.AETH(op.View(bth, dissect.LayerAETH))
				h.SetMSN(h.MSN().Add(1))
			}, "MSN", 0,
		},
		{
			"ACK of what was not asked", "write_bw_rc_1024.pcap", func(p *dissect.Packet) bool { return p.Opcode == dissect.OpRCAcknowledge },
			func(_ *dissect.OpInfo, bth, _ []byte) { h := dissect.BTH(bth); h.SetPSN(h.PSN().Add(3000)) }, "PSN", 0,
		},
		{
			"NAK", "write_bw_rc_1024.pcap", func(p *dissect.Packet) bool { return p.Opcode == dissect.OpRCAcknowledge },
			func(op *dissect.OpInfo, bth, _ []byte) {
				dissect.AETH(op.View(bth, dissect.LayerAETH)).SetSyndrome(0x62)
			}, "syndrome", 0,
		},
		{
			"payload", "read_bw_rc_10000.pcap", func(p *dissect.Packet) bool { return p.Op().Family == dissect.Read && p.Op().Role == dissect.Response },
			func(_ *dissect.OpInfo, _, payload []byte) { payload[7] ^= 1 }, "payload byte 7", 30,
		},
		{
			"opcode", "read_bw_rc_10000.pcap", func(p *dissect.Packet) bool { return p.Opcode == dissect.OpRCReadResponseFirst },
			func(_ *dissect.OpInfo, bth, _ []byte) { dissect.BTH(bth).SetOpcode(dissect.OpRCReadResponseOnly) }, "opcode", 0,
		},
		{
			"value before", "tool_atomics.pcap", func(p *dissect.Packet) bool { return p.Opcode == dissect.OpRCAtomicAcknowledge },
			func(op *dissect.OpInfo, bth, _ []byte) {
				h := dissect.AtomicAckETH(op.View(bth, dissect.LayerAtomicAckETH))
				h.SetOrig(h.Orig() + 1)
			}, "original value", 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, c.file)
			v := read(t, file, asked(t, file)[0])
			seen := map[string]bool{}
			count := 0
			for i := range v.Packets {
				p := &v.Packets[i]
				if p.Request || !c.is(&p.Packet) {
					continue
				}
				// Not the first: it says what memory held, and how many messages were before.
				if count++; count <= max(2, c.later) || seen[c.name] {
					continue
				}
				seen[c.name] = true
				frame := bytes.Clone(p.Frame)
				payload := p.Payload(frame)
				c.change(p.Op(), frame[p.Offset(dissect.LayerBTH):], payload)
				var craft dissect.Crafter
				must(t, craft.Reseal(p.Link, frame))
				number := p.Number
				d := dissect.Decoder{CheckICRC: true}
				d.Decode(p.Link, frame, len(frame), &p.Packet)
				p.Number, p.Frame = number, frame
				r, err := Run(v)
				must(t, err)
				if r.Difference == nil || r.Difference.Frame != number || r.Difference.Fields[0].Name != c.field {
					t.Errorf("frame %d was doctored; found: %+v", number, r.Difference)
				}
			}
			if !seen[c.name] {
				t.Fatal("nothing to doctor")
			}
		})
	}
}

// Memory may begin at the address 0: RNICs have zero-based regions.
func TestZeroBasedMemory(t *testing.T) {
	for _, name := range []string{"write_bw_rc_1024.pcap", "tool_atomics.pcap"} {
		file := filepath.Join(testkit.RXE(t), name)
		c := read(t, file, asked(t, file)[0])
		regions, err := c.Regions()
		must(t, err)
		d := dissect.Decoder{CheckICRC: true}
		var craft dissect.Crafter
		for i := range c.Packets {
			p := &c.Packets[i]
			op, bth := p.Op(), p.Frame[p.Offset(dissect.LayerBTH):]
			if h := dissect.RETH(op.View(bth, dissect.LayerRETH)); h != nil {
				h.SetVA(h.VA() - regions[0].VA)
			} else if h := dissect.AtomicETH(op.View(bth, dissect.LayerAtomicETH)); h != nil {
				h.SetVA(h.VA() - regions[0].VA)
			} else {
				continue
			}
			must(t, craft.Reseal(p.Link, p.Frame))
			number := p.Number
			d.Decode(p.Link, p.Frame, len(p.Frame), &p.Packet)
			p.Number = number
		}
		r, err := Run(c)
		must(t, err)
		if r.Difference != nil || r.Compared == 0 {
			t.Errorf("%s: %d compared, %+v", name, r.Compared, r.Difference)
		}
	}
}
