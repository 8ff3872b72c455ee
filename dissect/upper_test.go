package dissect

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// unhex reads bytes written by hand; blanks are for the reader.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sendOf is a SEND Only with a payload, decoded and told what that is.
func sendOf(payload []byte, u Upper) (*Packet, []byte) {
	frame := ether(0x0800, roce4(transport(OpRCSendOnly, payload)))
	p := decoded(LinkEthernet, frame)
	p.SetUpper(frame, u)
	return p, frame
}

// SMB Direct by hand, from the layouts of MS-SMBD 2.2.1 to 2.2.3 and MS-SMB2
// 2.2.1.2 and 2.2.19: no kernel that we can run has it.
const (
	smbdRequestBytes  = "0001 0001 0000 ff00 54050000 00200000 00001000"
	smbdResponseBytes = "0001 0001 0001 0000 ff00 ff00 0d0000c0 00008000 54050000 00200000 00001000"
	smb2ReadBytes     = "0a00 0500 0100 0000 00000000 18000000 80000000 00000000" + // data transfer: 10 wanted, 5 granted, response wanted, 128 bytes at 24
		"fe534d42 4000 0100 00000000 0800 2000 00000000 00000000 2a00000000000000 00000000 05000000 1122334455667788 00000000000000000000000000000000" +
		"3100 5000 00400000 0010000000000000 aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb 00000000 01000000 00000000 7000 1000" + // READ of 16 KiB, channel 1
		"0000cafe00000000 78563412 00400000" // buffer descriptor: offset, token, length
)

func TestSMBDirectByHand(t *testing.T) {
	for _, c := range []struct {
		name, bytes, line string
		fields            map[string]string
		facts             UpperFacts
	}{
		{
			"negotiate request", smbdRequestBytes, "SMB Direct Negotiate Request Credits=255",
			map[string]string{"smb_direct.version.min": "0x0100", "smb_direct.credits.requested": "255", "smb_direct.preferred_send_size": "1364", "smb_direct.max_receive_size": "8192", "smb_direct.max_fragmented_size": "1048576"},
			UpperFacts{Request: true, ID: 1<<64 - 1},
		},
		{
			"negotiate response", smbdResponseBytes, "SMB Direct Negotiate Response Credits=255: STATUS_INVALID_PARAMETER",
			map[string]string{"smb_direct.version.negotiated": "0x0100", "smb_direct.credits.granted": "255", "smb_direct.status": "0xc000000d"},
			UpperFacts{Response: true, Failed: true, ID: 1<<64 - 1},
		},
		{
			"read request", smb2ReadBytes, "SMB2 READ Request ID=42 Granted=5 Data=128",
			map[string]string{"smb_direct.flags.response_requested": "1", "smb_direct.data_offset": "24", "smb_direct.data_length": "128", "smb2.cmd": "8", "smb2.msg_id": "42", "smb2.credits.requested": "32", "smb2.tid": "0x00000005", "smb2.sesid": "0x8877665544332211"},
			UpperFacts{Request: true, ID: 42, Code: 8, NumKeys: 1, Keys: [MaxUpperKeys]uint32{0x12345678}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.bytes)
			checkUpper(t, b, UpperSMBDirect, c.line, c.fields, c.facts)
		})
	}
	if !isSMBDOpening(unhex(t, smbdRequestBytes)) || isSMBDOpening(unhex(t, smbdResponseBytes)) {
		t.Error("the signature is not that of the request only")
	}
}

func checkUpper(t *testing.T, b []byte, u Upper, line string, fields map[string]string, facts UpperFacts) {
	t.Helper()
	p, frame := sendOf(b, u)
	if got := string(p.AppendUpper(nil, frame)); got != line {
		t.Errorf("line %q, want %q", got, line)
	}
	if got := UpperFactsOf(b, u); got != facts {
		t.Errorf("facts %+v, want %+v", got, facts)
	}
	for name, want := range fields {
		got := ""
		for _, f := range LookupField(name) {
			if v, ok := f.AppendText(nil, p, frame); ok {
				got = string(v)
				break
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	p.SetUpper(frame, UpperNone)
	if p.Upper() != UpperNone || slices.ContainsFunc(slices.Collect(p.Listed), Layer.Upper) {
		t.Error("layers stay when they are taken away")
	}
}

// RPC-over-RDMA messages that the captures do not have, by RFC 8166: chunks of all
// lists (3.4 and 4), and errors (4.5).
func TestRPCRDMAByHand(t *testing.T) {
	call := "00000007 00000001 00000020 00000000" +
		"00000001 00000014 000000a1 00001000 0000000000010000" + "00000000" + // a read segment at position 20
		"00000001 00000002 000000b1 00000100 0000000000020000 000000b2 00000200 0000000000030000 00000000" + // a write chunk of two segments
		"00000001 00000001 000000c1 00000400 0000000000040000" + // a reply chunk
		"00000007 00000000 00000002 000186a3 00000003 00000007 00000000 00000000 00000000 00000000"
	checkUpper(t, unhex(t, call), UpperRPCRDMA, "NFSv3 WRITE call XID=0x7 Credits=32 read chunk of 4096 bytes write chunk of 768 bytes reply chunk of 1024 bytes",
		map[string]string{"rpcordma.reads_count": "1", "rpcordma.writes_count": "1", "rpcordma.reply_count": "1", "rpcordma.position": "20", "rpcordma.rdma_handle": "0x000000a1", "nfs.procedure_v3": "7"},
		UpperFacts{Request: true, ID: 7, Code: 7, NumKeys: 4, Keys: [MaxUpperKeys]uint32{0xa1, 0xb1, 0xb2, 0xc1}})
	checkUpper(t, unhex(t, "00000007 00000001 00000020 00000004 00000002"), UpperRPCRDMA, "RPC-over-RDMA RDMA_ERROR XID=0x7 Credits=32",
		map[string]string{"rpcordma.errcode": "2"}, UpperFacts{Response: true, Failed: true, ID: 7})
	if !isRPCOpening(unhex(t, call)) {
		t.Error("a call is not known by its signature")
	}
}

// iSER's Hello exchange, by RFC 7145, 9.3 and 9.4, which Linux does not use.
func TestISERByHand(t *testing.T) {
	hello := "20 11 0040" + strings.Repeat("00", 24)
	checkUpper(t, unhex(t, hello), UpperISER, "iSER Hello", map[string]string{"iser.ird": "0x0040"}, UpperFacts{})
	checkUpper(t, unhex(t, "31 11 0020"+strings.Repeat("00", 24)), UpperISER, "iSER HelloReply", map[string]string{"iser.ord": "0x0020", "iser.flags.rej": "1"}, UpperFacts{})
	if !isISEROpening(unhex(t, hello)) {
		t.Error("a Hello is not known by its signature")
	}
}

// NVMe statuses, by the Base Specification 2.0, 3.3.3.2.
func TestNVMeResponseByHand(t *testing.T) {
	checkUpper(t, unhex(t, "00000000 00000000 0500 0000 1700 0081"), UpperNVMeResponse, "NVMe response CID=23: LBA Out of Range, do not retry",
		map[string]string{"nvme.cqe.cid": "0x0017", "nvme.cqe.status.sc": "0x80", "nvme.cqe.sqhd": "0x0005", "nvme.cqe.status.dnr": "1"}, UpperFacts{Response: true, Failed: true, ID: 23})
}

// fuzzUpper: whatever the bytes are, nothing panics, layers lie in the frame, all
// fields can be read; and a signature is not found in what is cut before it ends.
func fuzzUpper(f *testing.F, kinds []Upper, seeds ...string) {
	for _, s := range seeds {
		f.Add(unhex(f, s), uint16(1500), uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, kept uint16, which uint8) {
		if len(b) > 4096 {
			return
		}
		u := kinds[int(which)%len(kinds)]
		frame := ether(0x0800, roce4(transport(OpRCSendOnly, b)))
		cut := slices.Clip(slices.Clone(frame[:min(len(frame), int(kept))]))
		var p Packet
		new(Decoder).Decode(LinkEthernet, cut, len(frame), &p)
		p.SetUpper(cut, u)
		checkReadable(t, &p, cut)
		payload := p.Payload(cut)
		p.AppendUpper(nil, cut)
		if facts := UpperFactsOf(payload, u); facts.Request && facts.Response || facts.NumKeys > MaxUpperKeys {
			t.Fatalf("%+v", facts)
		}
		if by := UpperBySignature(payload, true); by != NoUpper && len(payload) < 20 {
			t.Fatalf("%d bytes are taken for %v", len(payload), by)
		}
	})
}

func FuzzNVMe(f *testing.F) {
	fuzzUpper(f, []Upper{UpperNVMeCommand, UpperNVMeAdmin, UpperNVMeIO, UpperNVMeResponse, UpperNVMeConnectResponse, UpperNVMePropertyResponse, UpperNVMeConnect},
		"7f40 0000 01"+strings.Repeat("00", 19)+"0060651f000011ff 000400 55030000 4f 0000 0000 1f00 0000 88130000"+strings.Repeat("00", 12),
		"00000000 00000000 0500 0000 1700 0281")
}

func FuzzRPCRDMA(f *testing.F) {
	fuzzUpper(f, []Upper{UpperRPCRDMA}, "00000007 00000001 00000020 00000000 00000000 00000000 00000000 00000007 00000000 00000002 000186a3 00000003 00000007 00000000 00000000 00000000 00000000",
		"00000007 00000001 00000020 00000004 00000002")
}

func FuzzISER(f *testing.F) {
	fuzzUpper(f, []Upper{UpperISER}, "20 11 0040"+strings.Repeat("00", 24), "14"+strings.Repeat("00", 27)+"01c1"+strings.Repeat("00", 46))
}

func FuzzSMBDirect(f *testing.F) {
	fuzzUpper(f, []Upper{UpperSMBDirect, UpperSMBDirectPart}, smbdRequestBytes, smbdResponseBytes, smb2ReadBytes)
}
