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
		if got := fieldIn(name, p, frame); got != want {
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

// Replies, and messages that lie in chunks as a whole (RFC 8166, 3.5 and 4.2; RFC 5531, 9).
func TestRPCRDMARepliesByHand(t *testing.T) {
	const noLists = " 00000000 00000000 00000000 "
	for _, c := range []struct {
		name, bytes, line string
		fields            map[string]string
		facts             UpperFacts
	}{
		{
			"accepted", "00000007 00000001 00000010 00000000" + noLists + "00000007 00000001 00000000 00000000 00000004 aabbccdd 00000000", "RPC reply XID=0x7 Credits=16: success",
			map[string]string{"rpc.replystat": "0", "rpc.state_accept": "0"},
			UpperFacts{Response: true, ID: 7},
		},
		{
			"program unavailable", "00000007 00000001 00000010 00000000" + noLists + "00000007 00000001 00000000 00000000 00000000 00000001", "RPC reply XID=0x7 Credits=16: program unavailable",
			map[string]string{"rpc.replystat": "0", "rpc.state_accept": "1"},
			UpperFacts{Response: true, Failed: true, ID: 7},
		},
		{
			"denied", "00000007 00000001 00000010 00000000" + noLists + "00000007 00000001 00000001 00000001 00000005", "RPC reply XID=0x7 Credits=16: denied",
			map[string]string{"rpc.replystat": "1", "rpc.state_accept": ""},
			UpperFacts{Response: true, Failed: true, ID: 7},
		},
		{
			"a verifier that is too long", "00000007 00000001 00000010 00000000" + noLists + "00000007 00000001 00000000 00000000 00000fff 00000000", "RPC reply XID=0x7 Credits=16",
			map[string]string{"rpc.state_accept": ""},
			UpperFacts{Response: true, ID: 7},
		},
		{
			"call in a read chunk", "00000008 00000001 00000010 00000001 00000001 00000000 000000a1 00000800 0000000000001000 00000000 00000000 00000000", "RPC call in a chunk XID=0x8 Credits=16 read chunk of 2048 bytes",
			map[string]string{"rpcordma.msg_type": "1", "rpcordma.segment.list": "read", "rpcordma.rdma_length": "2048"},
			UpperFacts{Request: true, ID: 8, NumKeys: 1, Keys: [MaxUpperKeys]uint32{0xA1}},
		},
		{
			"reply in the reply chunk", "00000008 00000001 00000010 00000001 00000000 00000000 00000001 00000001 000000c1 00000400 0000000000002000", "RPC reply in a chunk XID=0x8 Credits=16 reply chunk of 1024 bytes",
			map[string]string{"rpcordma.segment.list": "reply", "rpcordma.rdma_offset": "0x0000000000002000", "rpcordma.position": ""},
			UpperFacts{Response: true, ID: 8},
		},
		{
			"call behind an alignment (RDMA_MSGP) of another program", "00000009 00000001 00000010 00000002 00000040 00001000" + noLists + "00000009 00000000 00000002 000186a5 00000003 00000001 00000000 00000000 00000000 00000000",
			"MOUNTv3 procedure 1 call XID=0x9 Credits=16",
			map[string]string{"rpc.program": "100005", "rpc.auth.flavor": "0"},
			UpperFacts{Request: true, ID: 9, Code: 1},
		},
		{
			"call of a program without a name", "00000009 00000001 00000010 00000000" + noLists + "00000009 00000000 00000002 00030d40 00000002 00000005 00000000 00000000 00000000 00000000",
			"program 200000 v2 procedure 5 call XID=0x9 Credits=16",
			map[string]string{"nfs.procedure_v3": ""},
			UpperFacts{Request: true, ID: 9, Code: 5},
		},
		{
			"callback", "0000000a 00000001 00000010 00000000" + noLists + "0000000a 00000000 00000002 40000000 00000001 00000001 00000000 00000000 00000000 00000000",
			"NFS callback v1 CB_COMPOUND call XID=0xa Credits=16", nil,
			UpperFacts{Request: true, ID: 10, Code: 1},
		},
		{
			"NFS version 4", "0000000b 00000001 00000010 00000000" + noLists + "0000000b 00000000 00000002 000186a3 00000004 00000001 00000000 00000000 00000000 00000000",
			"NFSv4 COMPOUND call XID=0xb Credits=16",
			map[string]string{"nfs.procedure_v4": "1"},
			UpperFacts{Request: true, ID: 11, Code: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) { checkUpper(t, unhex(t, c.bytes), UpperRPCRDMA, c.line, c.fields, c.facts) })
	}
	for name, bytes := range map[string]string{
		"a chunk that does not end":        "00000008 00000001 00000010 00000001 00000001 00000000 000000a1 00000800",
		"a list marked by neither 0 nor 1": "00000008 00000001 00000010 00000001 00000002 00000000 00000000",
		"more segments than there are":     "00000008 00000001 00000010 00000001 00000000 00000001 00000009 000000b1 00000100 0000000000020000",
		"no reply list":                    "00000008 00000001 00000010 00000001 00000000 00000000",
	} {
		b := unhex(t, bytes)
		if h := parseRPC(b); h.whole || isRPCOpening(b) {
			t.Errorf("%s: its header is taken for a whole one", name)
		}
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

// iSCSI behind iSER's header (RFC 7145, 9.2; RFC 7143, 11).
func TestISCSIByHand(t *testing.T) {
	pdu := func(iser string, change map[int]byte) []byte {
		b := unhex(t, iser)
		b = append(b, make([]byte, iserSize+iscsiSize-len(b))...)
		b[iserSize+19] = 9 // the task's tag
		for at, v := range change {
			b[iserSize+at] = v
		}
		return b
	}
	const read, write, neither = "1400 0000 00000000 0000000000000000 000000b1 0000000000002000", "1800 0000 000000a1 0000000000001000", "10"
	for _, c := range []struct {
		name   string
		bytes  []byte
		line   string
		fields map[string]string
		facts  UpperFacts
	}{
		{
			"READ(10)", pdu(read, map[int]byte{0: 1, 1: 0xC1, 22: 0x10, 32: 0x28}), "iSCSI SCSI Command: READ(10) ITT=0x9 Len=4096 ReadSTag=0xb1",
			map[string]string{"iser.flags.rsv": "1", "iser.read_stag": "0x000000b1", "iscsi.scsicommand.R": "1", "iscsi.scsicommand.W": "0", "scsi_sbc.opcode": "0x28"},
			UpperFacts{Request: true, ID: 9, Code: 1, NumKeys: 1, Keys: [MaxUpperKeys]uint32{0xB1}},
		},
		{
			"WRITE(10)", pdu(write, map[int]byte{0: 1, 1: 0xA1, 22: 0x10, 32: 0x2A}), "iSCSI SCSI Command: WRITE(10) ITT=0x9 Len=4096 WriteSTag=0xa1",
			map[string]string{"iser.flags.wsv": "1", "iser.write_base_offset": "0x0000000000001000", "iscsi.scsicommand.W": "1"},
			UpperFacts{Request: true, ID: 9, Code: 1, NumKeys: 1, Keys: [MaxUpperKeys]uint32{0xA1}},
		},
		{"good response", pdu(neither, map[int]byte{0: 0x21}), "iSCSI SCSI Response ITT=0x9: good", map[string]string{"iscsi.scsiresponse.status": "0x00", "iscsi.cmdsn": "", "iscsi.statsn": "0"}, UpperFacts{Response: true, ID: 9, Code: 0x21}},
		{"check condition, with sense data", pdu(neither, map[int]byte{0: 0x21, 3: 2, 7: 20}), "iSCSI SCSI Response ITT=0x9 Data=20: check condition", map[string]string{"iscsi.datasegmentlength": "20"}, UpperFacts{Response: true, Failed: true, ID: 9, Code: 0x21}},
		{"login refused", pdu(neither, map[int]byte{0: 0x23, 1: 0x87, 36: 2, 37: 1}), "iSCSI Login Response ITT=0x9 Status=0x201", map[string]string{"iscsi.login.status": "0x0201", "iscsi.login.T": "1", "iscsi.login.nsg": "0x03"}, UpperFacts{Response: true, Failed: true, ID: 9, Code: 0x23}},
		{"reject", pdu(neither, map[int]byte{0: 0x3F, 2: 4}), "iSCSI Reject ITT=0x9", map[string]string{"iscsi.reject.reason": "0x04"}, UpperFacts{Response: true, Failed: true, ID: 9, Code: 0x3F}},
		{"Data-In goes on with an answer", pdu(neither, map[int]byte{0: 0x25}), "iSCSI SCSI Data-In ITT=0x9", nil, UpperFacts{ID: 9, Code: 0x25}},
		{"Data-Out goes on with a question", pdu(neither, map[int]byte{0: 0x05}), "iSCSI SCSI Data-Out ITT=0x9", nil, UpperFacts{ID: 9, Code: 5}},
		{"a ping without a task", pdu(neither, map[int]byte{0: 0x40, 16: 0xFF, 17: 0xFF, 18: 0xFF, 19: 0xFF}), "iSCSI NOP-Out ITT=0xffffffff", map[string]string{"iscsi.I": "1"}, UpperFacts{ID: 0xFFFFFFFF}},
	} {
		t.Run(c.name, func(t *testing.T) { checkUpper(t, c.bytes, UpperISER, c.line, c.fields, c.facts) })
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
