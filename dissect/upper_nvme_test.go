package dissect

import (
	"encoding/binary"
	"strings"
	"testing"
)

// capsule is a submission queue entry whose SGL names 4 KiB by the key 0x55.
func capsule(opcode byte, cid uint16, change map[int]byte) []byte {
	b := make([]byte, nvmeCommandSize)
	b[0], b[1] = opcode, 0x40
	binary.LittleEndian.PutUint16(b[2:], cid)
	b[33], b[35], b[39] = 0x10, 0x55, nvmeKeyedData<<4
	for at, v := range change {
		b[at] = v
	}
	return b
}

// connectData is what a Connect command carries.
func connectData() []byte {
	b := make([]byte, nvmeConnectData)
	copy(b, []byte("0123456789abcdef\xff\xff"))
	copy(b[256:], "nqn.2014-08.org.nvmexpress:storage")
	copy(b[512:], "nqn.2014-08.org.nvmexpress:host")
	return b
}

// Commands and responses by the Base Specification 2.0, 3.3.3 and 6, and the
// RDMA Transport Specification.
func TestNVMeCapsulesByHand(t *testing.T) {
	key := func(code uint32) UpperFacts {
		return UpperFacts{Request: true, ID: 7, Code: code, NumKeys: 1, Keys: [MaxUpperKeys]uint32{0x55}}
	}
	none := func(code uint32) UpperFacts { return UpperFacts{Request: true, ID: 7, Code: code} }
	const noData = 33 // the byte of the length
	connect := capsule(0x7F, 7, map[int]byte{4: 1, 42: 3, 44: 31, 33: 4, 35: 0, 39: 0x01})
	for _, c := range []struct {
		name   string
		as     Upper
		bytes  []byte
		line   string
		fields map[string]string
		facts  UpperFacts
	}{
		{
			"Read", UpperNVMeIO, capsule(0x02, 7, map[int]byte{4: 1, 40: 0x20, 48: 7}), "NVMe Read CID=7 NSID=0x1 LBA=0x20 Blocks=8 Len=4096 Key=0x55",
			map[string]string{"nvme.cmd.nsid": "0x00000001", "nvme.cmd.slba": "0x0000000000000020", "nvme.cmd.nlb": "7", "nvme.cmd.sgl1.len": "4096", "nvme.cmd.sgl1.key": "0x00000055", "nvme.cmd.dword10": "", "nvme.fabrics.cmd.fctype": ""},
			key(2),
		},
		{
			"Identify", UpperNVMeAdmin, capsule(0x06, 7, map[int]byte{40: 1, 39: 0x4F}), "NVMe Identify CID=7 NSID=0x0 Len=4096 Key=0x55",
			map[string]string{"nvme.cmd.dword10": "0x00000001", "nvme.cmd.slba": "", "nvme.cmd.sgl.subtype": "0x0f"},
			key(6),
		},
		{"of a queue that is not known", UpperNVMeCommand, capsule(0x02, 7, map[int]byte{noData: 0}), "NVMe Get Log Page or Read CID=7 NSID=0x0", map[string]string{"nvme.cmd.opc": "0x02"}, none(2)},
		{"Flush", UpperNVMeIO, capsule(0x00, 7, map[int]byte{noData: 0}), "NVMe Flush CID=7 NSID=0x0", map[string]string{"nvme.cmd.slba": ""}, none(0)},
		{"an opcode without a name", UpperNVMeIO, capsule(0xC3, 7, map[int]byte{noData: 0}), "NVMe 0xc3 CID=7 NSID=0x0", nil, none(0xC3)},
		{
			"Property Get", UpperNVMeAdmin, capsule(0x7F, 7, map[int]byte{4: 4, 40: 1, noData: 0}), "NVMe Property Get CID=7 CAP",
			map[string]string{"nvme.fabrics.cmd.fctype": "0x04", "nvme.fabrics.cmd.prop_get_set.attrib.size": "0x01", "nvme.fabrics.cmd.prop_get_set.offset": "0x00000000", "nvme.cmd.nsid": ""},
			none(NVMePropertyGetCode),
		},
		{
			"Property Set of 4 bytes", UpperNVMeAdmin, capsule(0x7F, 7, map[int]byte{44: 0x14, 48: 1, 52: 9, noData: 0}), "NVMe Property Set CID=7 CC=0x1",
			map[string]string{"nvme.fabrics.prop_get_set.data": "0100000009000000"},
			none(0x7F),
		},
		{"Property Set of 8 bytes", UpperNVMeAdmin, capsule(0x7F, 7, map[int]byte{40: 1, 44: 0x28, 48: 1, 52: 9, noData: 0}), "NVMe Property Set CID=7 ASQ=0x900000001", nil, none(0x7F)},
		{"Disconnect", UpperNVMeIO, capsule(0x7F, 7, map[int]byte{4: 8, noData: 0}), "NVMe Disconnect CID=7", nil, none(0x7F | 8<<8)},
		{
			"Connect with its data", UpperNVMeAdmin, join(connect, connectData()), "NVMe Connect CID=7 Queue=3",
			map[string]string{"nvme.fabrics.cmd.connect.qid": "3", "nvme.fabrics.cmd.connect.sqsize": "31", "nvme.fabrics.cmd.connect.data.subnqn": "nqn.2014-08.org.nvmexpress:storage", "nvme.fabrics.cmd.connect.data.hostnqn": "nqn.2014-08.org.nvmexpress:host", "nvme.cmd.sgl1.key": ""},
			none(NVMeConnectCode),
		},
		{"its data alone", UpperNVMeConnect, connectData(), "NVMe Connect data Subsystem=nqn.2014-08.org.nvmexpress:storage", map[string]string{"nvme.fabrics.cmd.connect.data.cntrlid": "0xffff"}, UpperFacts{}},
		{
			"response to Connect", UpperNVMeConnectResponse, unhex(t, "05000000 00000000 0500 0000 1700 0000"), "NVMe response CID=23: Successful Completion Controller=5",
			map[string]string{"nvme.fabrics.cqe.connect.cntrlid": "0x0005", "nvme.cqe.dword0": ""},
			UpperFacts{Response: true, ID: 23},
		},
		{
			"refused Connect", UpperNVMeConnectResponse, unhex(t, "05000000 00000000 0500 0000 1700 0883"), "NVMe response CID=23: Invalid Host, do not retry",
			map[string]string{"nvme.cqe.status.sct": "0x1"},
			UpperFacts{Response: true, Failed: true, ID: 23},
		},
		{"the same status of another command", UpperNVMeResponse, unhex(t, "05000000 00000000 0500 0000 1700 0883"), "NVMe response CID=23: status type 1 code 0x84, do not retry", map[string]string{"nvme.cqe.dword0": "0x00000005"}, UpperFacts{Response: true, Failed: true, ID: 23}},
		{"response to Property Get", UpperNVMePropertyResponse, unhex(t, "0100000002000000 0500 0000 1700 0000"), "NVMe response CID=23: Successful Completion Value=0x200000001", map[string]string{"nvme.fabrics.prop_get_set.data": "0100000002000000"}, UpperFacts{Response: true, ID: 23}},
		{"cut command", UpperNVMeIO, capsule(0x02, 7, nil)[:60], "", map[string]string{"nvme.cmd.cid": ""}, UpperFacts{}},
		{"cut response", UpperNVMeResponse, make([]byte, 15), "", map[string]string{"nvme.cqe.cid": ""}, UpperFacts{}},
		{"cut data of Connect", UpperNVMeConnect, make([]byte, 100), "", nil, UpperFacts{}},
	} {
		t.Run(c.name, func(t *testing.T) { checkUpper(t, c.bytes, c.as, c.line, c.fields, c.facts) })
	}
	if NVMeCommandOf(connect[:63]) != nil || !NVMeCommandOf(capsule(0x7F, 1, map[int]byte{4: 4})).IsPropertyGet() || NVMeCommandOf(connect).IsPropertyGet() || !IsNVMeResponse(16) || IsNVMeResponse(64) {
		t.Error("what a capsule is")
	}
	if q, ok := NVMeCommandOf(connect).ConnectQueue(); q != 3 || !ok {
		t.Errorf("Connect is for queue %d, %v", q, ok)
	}
}

// A first message of NVMe is a Connect command; each byte that has one possible value counts.
func TestNVMeSignature(t *testing.T) {
	inline := join(capsule(0x7F, 7, map[int]byte{4: 1, 33: 4, 35: 0, 39: 0x01}), connectData())
	keyed := capsule(0x7F, 7, map[int]byte{4: 1, 33: 4})
	for _, c := range []struct {
		name  string
		bytes []byte
		whole bool
		want  UpperProtocol
	}{
		{"with data", inline, true, NVMe},
		{"with data, of which the first packet has a part", inline[:64+768], false, NVMe},
		{"by a key", keyed, true, NVMe},
		{"by a key, but more is to come", keyed, false, NoUpper},
		{"another command of fabrics", changedAt(keyed, 4, 4), true, NoUpper},
		{"something where zeros belong", changedAt(keyed, 10, 1), true, NoUpper},
		{"another length", changedAt(keyed, 33, 5), true, NoUpper},
		{"no name of a subsystem", changedAt(inline, 64+256, 'x'), true, NoUpper},
		{"no name of a host", changedAt(inline, 64+512, 'x'), true, NoUpper},
	} {
		if got := UpperBySignature(c.bytes, c.whole); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for name, b := range map[string]string{"RPCRDMA": "00000007 00000001 00000020 00000000 00000000 00000000 00000000 00000007 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000", "ISER": "20 11 0040" + strings.Repeat("00", 24), "SMBDirect": smbdRequestBytes} {
		want := map[string]UpperProtocol{"RPCRDMA": RPCRDMA, "ISER": ISER, "SMBDirect": SMBDirect}[name]
		if got := UpperBySignature(unhex(t, b), true); got != want {
			t.Errorf("%v is taken for %v", want, got)
		}
	}
}

// What applications say in CM messages: RDMA Transport Specification, figures 2
// to 4; RFC 8797, 4; RFC 7145, 5.1.
func TestUpperPrivateData(t *testing.T) {
	for _, c := range []struct {
		name    string
		message CMAttribute
		at      int // of the private data in the message
		private string
		as      Upper
		values  map[string]string
	}{
		{"NVMe, request", CMAttrREQ, 140 + 36, "0000 0100 2000 1f00 ffff" + strings.Repeat("00", 22), UpperNVMePrivate, map[string]string{"nvme-rdma.cm.req.qid": "1", "nvme-rdma.cm.req.hrqsize": "32", "nvme-rdma.cm.req.hsqsize": "31", "nvme-rdma.cm.req.cntlid": "0xffff"}},
		{"NVMe, accept", CMAttrREP, 36, "0000 8000", UpperNVMePrivate, map[string]string{"nvme-rdma.cm.rsp.crqsize": "128"}},
		{"NVMe, reject", CMAttrREJ, 84, "0000 0600", UpperNVMePrivate, map[string]string{"nvme-rdma.cm.rej.status": "0x0006"}},
		{"RPC-over-RDMA, request", CMAttrREQ, 140 + 36, "f6ab0e18 01 01 03 00", UpperRPCPrivate, map[string]string{"rpcordma.private.remote_invalidate": "1", "rpcordma.private.send_size": "3", "rpcordma.private.recv_size": "0"}},
		{"RPC-over-RDMA, but with another number in front", CMAttrREP, 36, "f6ab0e19 01 01 03 00", UpperRPCPrivate, map[string]string{"rpcordma.private.send_size": ""}},
		{"iSER, accept", CMAttrREP, 36, "c0000000", UpperISERPrivate, map[string]string{"iser.private.zbva_not_used": "1", "iser.private.send_inval_not_used": "1"}},
		{"a message without private data of applications", CMAttrMRA, 10, "0000 0600", UpperNVMePrivate, map[string]string{"nvme-rdma.cm.rej.status": "", "nvme-rdma.cm.req.qid": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := cmFrame(c.message)
			if c.message == CMAttrREQ {
				CMREQ(frame[madAt+madHeaderSize:]).SetServiceID(IPCMServiceID(PortSpaceTCP, 4420))
			}
			copy(frame[madAt+madHeaderSize+c.at:], unhex(t, c.private))
			p := decoded(LinkEthernet, frame)
			p.SetUpper(frame, c.as)
			for name, want := range c.values {
				if got := fieldIn(name, p, frame); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if UpperFactsOf(nil, c.as) != (UpperFacts{}) || len(p.AppendUpper(nil, frame)) != 0 {
				t.Error("private data says more than its fields")
			}
		})
	}
	if q, ok := NVMeQueueOf(unhex(t, "0000 0100 2000 1f00")); q != 1 || !ok {
		t.Errorf("queue %d, %v", q, ok)
	}
	if _, ok := NVMeQueueOf(unhex(t, "0100 0100 2000 1f00")); ok {
		t.Error("another record format is read")
	}
}

// Protocols by name, port and service.
func TestUpperProtocols(t *testing.T) {
	keys := UpperKeys()
	if strings.Join(keys, " ") != "nvme rpcrdma iser smbdirect" {
		t.Errorf("keys %q", keys)
	}
	for _, k := range keys {
		if u, ok := UpperByKey(k); !ok || u.Key() != k || u.String() == "none" {
			t.Errorf("%s is %v", k, u)
		}
	}
	if u, ok := UpperByKey("nfs"); ok || u != NoUpper || NoUpper.Key() != "" || NoUpper.String() != "none" || UpperProtocol(99).Key() != "" {
		t.Error("what is none")
	}
	for s, want := range map[ServiceID]UpperProtocol{
		IPCMServiceID(PortSpaceTCP, 4420): NVMe, IPCMServiceID(PortSpaceTCP, 20049): RPCRDMA, IPCMServiceID(PortSpaceTCP, 3260): ISER, IPCMServiceID(PortSpaceTCP, 445): SMBDirect,
		IPCMServiceID(PortSpaceTCP, 5445): SMBDirect, IPCMServiceID(PortSpaceUDP, 4420): NoUpper, IPCMServiceID(PortSpaceTCP, 80): NoUpper, 4420: NoUpper,
	} {
		if got := UpperByService(s); got != want {
			t.Errorf("%v is %v, want %v", s, got, want)
		}
	}
	for u := UpperNVMeCommand; u < numUppers; u++ {
		if u.Protocol() == NoUpper || u.String() == "" || u.String() == "unknown" {
			t.Errorf("%d is %v of %v", u, u, u.Protocol())
		}
	}
	if UpperNone.Protocol() != NoUpper || numUppers.Protocol() != NoUpper || numUppers.String() != "unknown" || UpperNone.String() != "none" {
		t.Error("what is none of them")
	}
}
