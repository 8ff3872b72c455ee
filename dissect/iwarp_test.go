package dissect

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// inTCP is a TCP segment over IPv4 and Ethernet.
func inTCP(payload []byte) []byte {
	return ether(0x0800, ip4(6, 0x4000, nil, join(be(40000), be(5201), make([]byte, 8), []byte{0x50, 0x10, 1, 0, 0, 0, 0, 0}, payload)))
}

// fpdu is an FPDU around a ULPDU, with its CRC-32C.
func fpdu(ulpdu []byte) []byte {
	b := join(be(uint16(len(ulpdu))), ulpdu)
	b = append(b, make([]byte, -len(b)&3)...)
	return binary.LittleEndian.AppendUint32(b, FPDUCRC(b))
}

// ddp is an untagged segment: the last one of message msn in a queue.
func ddp(op RDMAPOpcode, queue, msn uint32, body []byte) []byte {
	b := []byte{0x41, 0x40 | byte(op), 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, queue)
	b = binary.BigEndian.AppendUint32(b, msn)
	return append(append(b, 0, 0, 0, 0), body...)
}

// valuesOf are the texts of fields, "" of those that the packet does not have.
func valuesOf(p *Packet, frame []byte, names ...string) (values []string) {
	for _, n := range names {
		values = append(values, fieldIn(n, p, frame))
	}
	return values
}

// Start-up frames by RFC 5044, 7.1.1 and RFC 6581, 4.1.
func TestMPAStartUp(t *testing.T) {
	private := []byte{0xC0, 0x10, 0x40, 0x20, 'h', 'i'} // peer to peer, RTR by SEND or READ; IRD 16, ORD 32
	for _, c := range []struct {
		name          string
		key           string
		flags, rev    byte
		private       []byte
		layer         Layer
		request, sure bool
		values        string // markers, CRC, rejected, revision, length, IRD, ORD
	}{
		{"request of revision 1", MPARequestKey, 0x40, 1, []byte("hi"), LayerMPARequest, true, true, "0 1 0 1 2  "},
		{"request of revision 2, enhanced", MPARequestKey, 0x50, 2, private, LayerMPARequest, true, true, "0 1 0 2 6 16 32"},
		{"reply that refuses, and wants markers", MPAReplyKey, 0xB0, 2, private, LayerMPAReply, false, true, "1 0 1 2 6 16 32"},
		{"another key", "MPA ID Rap Frame", 0x40, 1, nil, LayerMPAReply, false, false, "      "},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := inTCP(join([]byte(c.key), []byte{c.flags, c.rev}, be(uint16(len(c.private))), c.private))
			p := decoded(LinkEthernet, frame)
			if p.Has(c.layer) != c.sure {
				t.Fatalf("has %v: %v, want %v", c.layer, p.Has(c.layer), c.sure)
			}
			names := []string{"iwarp_mpa.marker_flag", "iwarp_mpa.crc_flag", "iwarp_mpa.rej_flag", "iwarp_mpa.rev", "iwarp_mpa.pdlength", "iwarp_mpa.ird", "iwarp_mpa.ord"}
			if got := strings.Join(valuesOf(p, frame, names...), " "); got != c.values {
				t.Errorf("%q, want %q", got, c.values)
			}
			if !c.sure {
				return
			}
			h := MPAFrame(frame[p.Offset(c.layer):])
			if h.IsRequest() != c.request || h.IsReply() == c.request || h.Reserved() != 0 || h.Enhanced() != (c.flags&0x10 != 0) {
				t.Errorf("request %v, reply %v, reserved %#x, enhanced %v", h.IsRequest(), h.IsReply(), h.Reserved(), h.Enhanced())
			}
		})
	}
	e := MPAEnhanced(private)
	if !e.PeerToPeer() || !e.ZeroSend() || e.ZeroWrite() || !e.ZeroRead() || e.IRD() != 16 || e.ORD() != 32 {
		t.Errorf("of the enhanced head: %v %v %v %v %d %d", e.PeerToPeer(), e.ZeroSend(), e.ZeroWrite(), e.ZeroRead(), e.IRD(), e.ORD())
	}
}

// Each kind of message, by figures 3 to 9 of RFC 5040 and 2 to 4 of RFC 7306.
func TestRDMAPMessages(t *testing.T) {
	read := unhex(t, "000000a1 0000000000001000 00002000 000000b2 0000000000003000")
	fetch := unhex(t, "00000000 00000007 000000c3 0000000000004000 0000000000000005 0000000000000000 0000000000000000 0000000000000000")
	swap := unhex(t, "00000002 00000008 000000c3 0000000000004000 0000000000000005 ffffffffffffffff 0000000000000006 ffffffffffffffff")
	invalidate := ddp(RDMAPSendInvalidate, 0, 3, []byte("data"))
	binary.BigEndian.PutUint32(invalidate[2:], 0xD4)
	for _, c := range []struct {
		name   string
		ulpdu  []byte
		layer  Layer
		values map[string]string
	}{
		{
			"Write", join([]byte{0xC1, 0x40}, unhex(t, "000000a1 0000000000001000"), []byte("data")), LayerDDPTagged,
			map[string]string{"iwarp_ddp.stag": "0x000000a1", "iwarp_ddp.tagged_offset": "0x0000000000001000", "iwarp_ddp.last_flag": "1", "iwarp_mpa.ulpdulength": "18", "iwarp_ddp.qn": ""},
		},
		{"Send with Invalidate", invalidate, LayerDDPUntagged, map[string]string{"iwarp_rdma.inval_stag": "212", "iwarp_ddp.qn": "0", "iwarp_ddp.msn": "3", "iwarp_ddp.mo": "0", "iwarp_ddp.stag": ""}},
		{"Send", ddp(RDMAPSend, 0, 4, []byte("data")), LayerDDPUntagged, map[string]string{"iwarp_rdma.inval_stag": "", "iwarp_ddp.msn": "4"}},
		{
			"Read Request", ddp(RDMAPReadRequest, 1, 1, read), LayerRDMAPReadRequest,
			map[string]string{"iwarp_rdma.sinkstag": "0x000000a1", "iwarp_rdma.sinkto": "0x0000000000001000", "iwarp_rdma.rdmardsz": "8192", "iwarp_rdma.srcstag": "0x000000b2", "iwarp_rdma.srcto": "0x0000000000003000"},
		},
		{
			"Terminate", ddp(RDMAPTerminate, 2, 1, unhex(t, "01018000")), LayerRDMAPTerminate,
			map[string]string{"iwarp_rdma.term_etype_rdma": "0x01", "iwarp_rdma.term_errcode_rdma": "0x01", "iwarp_rdma.term_hdrct_m": "1", "iwarp_rdma.term_errcode_llp": "", "iwarp_rdma.term_errcode_ddp_tagged": ""},
		},
		{
			"Atomic Request: fetch and add", ddp(RDMAPAtomicRequest, 1, 2, fetch), LayerRDMAPAtomicRequest,
			map[string]string{"iwarp_rdma.atomic.opcode": "0", "iwarp_rdma.atomic.request_identifier": "7", "iwarp_rdma.atomic.add_data": "5", "iwarp_rdma.atomic.swap_data": ""},
		},
		{
			"Atomic Request: compare and swap", ddp(RDMAPAtomicRequest, 1, 3, swap), LayerRDMAPAtomicRequest,
			map[string]string{"iwarp_rdma.atomic.opcode": "2", "iwarp_rdma.atomic.swap_data": "5", "iwarp_rdma.atomic.add_data": "", "iwarp_rdma.atomic.compare_data": "6"},
		},
		{
			"Atomic Response", ddp(RDMAPAtomicResponse, 3, 1, unhex(t, "00000007 000000000000002a")), LayerRDMAPAtomicResponse,
			map[string]string{"iwarp_rdma.atomic.original_request_identifier": "7", "iwarp_rdma.atomic.original_remote_data_value": "42"},
		},
		{"Immediate Data", ddp(RDMAPImmediate, 0, 5, unhex(t, "0123456789abcdef")), LayerRDMAPImmediate, map[string]string{"iwarp_rdma.immediate": "0x0123456789abcdef"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := inTCP(fpdu(c.ulpdu))
			p := decoded(LinkEthernet, frame)
			if !p.Has(LayerFPDU) || !p.Has(c.layer) {
				t.Fatalf("layers %v", slices.Collect(p.Listed))
			}
			for name, want := range c.values {
				if got := fieldIn(name, p, frame); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			h := DDP(c.ulpdu)
			if info := h.Opcode().Info(); info == nil || !strings.HasPrefix(c.name, info.Name) || info.Tagged != h.Tagged() || h.Size() != len(c.ulpdu) && h.Size() > info.Size {
				t.Errorf("opcode %v", h.Opcode())
			}
			changed := inTCP(changedAt(fpdu(c.ulpdu), 6, 0x55)) // whose CRC is wrong, then
			if p := decoded(LinkEthernet, changed); p.Has(LayerFPDU) {
				t.Error("it is taken for an FPDU with a wrong CRC")
			}
		})
	}
	if h := RDMAPAtomic(swap); h.Data() != 5 || h.Compare() != 6 {
		t.Errorf("swap %d if it is %d", h.Data(), h.Compare())
	}
	if RDMAPOpcode(12).Info() != nil || RDMAPOpcode(12).String() != "reserved opcode 12" {
		t.Errorf("opcode 12 is %v", RDMAPOpcode(12))
	}
}

func TestTerminations(t *testing.T) {
	for v, want := range map[Terminated]string{
		0x0000: "RDMAP: local catastrophic error",
		0x0100: "RDMAP: remote protection error: invalid STag",
		0x0206: "RDMAP: remote operation error: unexpected opcode",
		0x1101: "DDP: tagged buffer error: base or bounds violation",
		0x1202: "DDP: untagged buffer error: invalid MSN: no buffer available",
		0x2002: "MPA: MPA error: received CRC does not match the calculated one",
		0x2107: "MPA: type 1: code 7",
		0x1199: "DDP: tagged buffer error: code 153",
		0x3405: "layer 3, type 4, code 5",
	} {
		if v.String() != want {
			t.Errorf("%#x is %q, want %q", uint16(v), v, want)
		}
	}
	if m := DDP(ddp(RDMAPTerminate, 2, 1, unhex(t, "11020000"))); m.Terminated() != 0x1102 || m.Terminated().Code() != 2 {
		t.Errorf("Terminated is %#x", m.Terminated())
	}
}

// All FPDUs of a segment have their turn, one that is damaged ends it, and behind
// it the packet is as it was.
func TestEachFPDU(t *testing.T) {
	one, two, three := fpdu(ddp(RDMAPSend, 0, 1, []byte("one"))), fpdu(ddp(RDMAPSend, 0, 2, []byte("twenty"))), fpdu(ddp(RDMAPReadRequest, 1, 3, make([]byte, 28)))
	turns := func(segment []byte, stop int) (msns []string, p *Packet, frame []byte) {
		frame = inTCP(segment)
		p = decoded(LinkEthernet, frame)
		p.EachFPDU(frame, func() bool {
			msns = append(msns, fieldIn("iwarp_ddp.msn", p, frame))
			return len(msns) != stop
		})
		return msns, p, frame
	}
	for _, c := range []struct {
		name    string
		segment []byte
		stop    int
		want    []string
	}{
		{"three", join(one, two, three), 0, []string{"1", "2", "3"}},
		{"stopped at the second", join(one, two, three), 2, []string{"1", "2"}},
		{"the second is damaged", join(one, changedAt(two, 20, 0xFF), three), 0, []string{"1"}},
		{"the second is no FPDU", join(one, []byte("other bytes altogether")), 0, []string{"1"}},
		{"the third goes on in the next segment", join(one, two, three[:30]), 0, []string{"1", "2", "3"}},
		{"a byte of the second", join(one, two[:1]), 0, []string{"1"}},
		{"no FPDU", []byte("GET / HTTP/1.1"), 0, []string{""}},
	} {
		got, p, frame := turns(c.segment, c.stop)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if after := fieldIn("iwarp_ddp.msn", p, frame); after != c.want[0] {
			t.Errorf("%s: afterwards the packet is that of message %q", c.name, after)
		}
	}
	if !LayerFPDU.InFPDU() || !LayerRDMAPImmediate.InFPDU() || LayerMPAReply.InFPDU() || LayerLLDP.InFPDU() {
		t.Error("the layers of an FPDU are others")
	}
}

// Without a CRC (zero) FPDUs have to fill the segment to its last byte.
func TestFPDUsWithoutCRC(t *testing.T) {
	bare := func(b []byte) []byte { return append(b[:len(b)-4:len(b)-4], 0, 0, 0, 0) }
	a, b := bare(fpdu(ddp(RDMAPSend, 0, 1, []byte("one")))), bare(fpdu(ddp(RDMAPSend, 0, 2, []byte("two"))))
	for _, c := range []struct {
		name    string
		segment []byte
		want    bool
	}{
		{"one", a, true},
		{"two", join(a, b), true},
		{"and something behind it", join(a, []byte("more of a text")), false},
		{"and one with a CRC behind it", join(a, fpdu(ddp(RDMAPSend, 0, 2, nil))), false},
		{"and a part of one", join(a, b[:20]), false},
	} {
		if got := decoded(LinkEthernet, inTCP(c.segment)).Has(LayerFPDU); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
