package dissect

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// cmFrame is a whole CM message on QP 1, its data counting up.
func cmFrame(a CMAttribute) []byte {
	m := make(MAD, madSize)
	for i := range m {
		m[i] = byte(i)
	}
	m.SetBaseVersion(1)
	m.SetClass(ClassCM)
	m.SetClassVersion(2)
	m.SetMethod(MethodSend)
	m.SetTransactionID(0x1122334455667788)
	m.SetAttribute(uint16(a))
	return madFrame(m)
}

// madFrame carries a management datagram to QP 1.
func madFrame(m []byte) []byte {
	tr := transport(OpUDSendOnly, m)
	tr[5], tr[6], tr[7] = 0, 0, 1
	return ether(0x0800, roce4(tr))
}

const madAt = 14 + 20 + 8 + 12 + 8

// A row of a CM message yields a value in packets of that message only.
func TestCMRowsBelongToTheirMessage(t *testing.T) {
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		t.Run(a.String(), func(t *testing.T) {
			frame := cmFrame(a)
			p := decoded(LinkEthernet, frame)
			m, ok := p.CM(frame)
			if !ok || m.Attribute != a || m.TransactionID != 0x1122334455667788 || len(m.Data) != 232 || !m.Whole() || len(p.Problems()) != 0 {
				t.Fatalf("CM %v %v, problems %v", m.Attribute, ok, p.Problems())
			}
			readCM(m)
			for i := range cmFields {
				f := &cmFields[i]
				_, got := f.AppendText(nil, p, frame)
				want := f.Layer == a.Layer()
				if f.When != nil {
					want = want && f.When(p, frame)
				}
				if got != want {
					t.Errorf("%s: there is %v, want %v", f.Name, got, want)
				}
			}
			text, _ := LookupField("mad.attribute")[0].AppendText(nil, p, frame)
			if string(text) != a.String() {
				t.Errorf("attribute is named %q", text)
			}
		})
	}
}

// What a REQ of a real rdma_cm program holds, byte by byte.
func TestCMREQ(t *testing.T) {
	m := CMREQ(make([]byte, 232))
	m.SetLocalCommID(0x5B6EC921)
	m.SetServiceID(IPCMServiceID(PortSpaceTCP, 7174))
	m.SetLocalQPN(0x13)
	m.SetResponderResources(1)
	m.SetInitiatorDepth(2)
	m.SetRemoteResponseTimeout(20)
	m.SetLocalResponseTimeout(19)
	m.SetStartPSN(0x87708C)
	m.SetRetryCount(7)
	m.SetRNRRetryCount(6)
	m.SetPKey(0xFFFF)
	m.SetMTU(3)
	m.SetMaxCMRetries(15)
	m.SetSRQ(true)
	m.Primary().SetLocalGID(AddrFrom(netip.MustParseAddr("10.77.0.1")))
	m.Primary().SetRemoteGID(AddrFrom(netip.MustParseAddr("10.77.0.2")))
	m.Primary().SetFlowLabel(0x4E827)
	m.Primary().SetHopLimit(64)
	m.Primary().SetAckTimeout(19)
	h := IPCM(m.Private()[:36])
	h.SetIPVersion(4)
	h.SetSrcPort(0xABBF)
	h.SetSrc(AddrFrom(netip.MustParseAddr("10.77.0.1")))
	h.SetDst(AddrFrom(netip.MustParseAddr("10.77.0.2")))
	copy(m.Private()[36:], "hello")
	for at, want := range map[int]string{
		0: "5b6ec921", 8: "0000000001061c06", 32: "00001301", 36: "00000002", 40: "000000a0", 44: "87708c9f", 48: "ffff36f8",
		56: "00000000000000000000ffff0a4d0001", 72: "00000000000000000000ffff0a4d0002", 88: "4e8270000040", 95: "98",
		140: "0040abbf0000000000000000000000000a4d00010000000000000000000000000a4d000268656c6c6f00",
	} {
		if got := hex.EncodeToString(m[at : at+len(want)/2]); got != want {
			t.Errorf("bytes from %d are %s, want %s", at, got, want)
		}
	}
	mad := make(MAD, madSize)
	mad.SetClass(ClassCM)
	mad.SetAttribute(uint16(CMAttrREQ))
	copy(mad.Data(), m)
	frame := madFrame(mad)
	p := decoded(LinkEthernet, frame)
	if got := p.IPCM(frame); string(got) != string(h) || got.Src().String() != "10.77.0.1" || got.Dst().String() != "10.77.0.2" {
		t.Errorf("IP CM header %x", got)
	}
	if tr, ok := m.Transport(); tr != RC || !ok {
		t.Errorf("transport %v", tr)
	}
	if got := m.ConsumerPrivate(); len(got) != 56 || string(got[:5]) != "hello" {
		t.Errorf("consumer's private data %x", got)
	}
	for name, want := range map[string]string{
		"cm.req.serviceid": "TCP port 7174", "cm.req.pppmtu": "1024 bytes", "cm.req.remoteresptout": (4096 << 20 * time.Nanosecond).String(),
		"cm.req.rnrretrcount": "", "cm.req.transpsvctype": "RC", "cm.req.prim_localacktout": (4096 << 19 * time.Nanosecond).String(), "cm.req.alt_localacktout": "none",
		"mad.mgmtclass": "communication management",
	} {
		if got := LookupField(name)[0].Meaning(p, frame); got != want {
			t.Errorf("%s means %q, want %q", name, got, want)
		}
	}
}

func TestCMTransport(t *testing.T) {
	m := CMREQ(make([]byte, 232))
	for service, want := range []Transport{RC, UC, RD} {
		m.SetServiceType(uint8(service))
		if got, ok := m.Transport(); got != want || !ok {
			t.Errorf("type %d: %v, %v", service, got, ok)
		}
	}
	m.SetServiceType(3)
	if _, ok := m.Transport(); ok {
		t.Error("type 3 without an extended transport is none")
	}
	m.SetExtendedTransport(1)
	if got, ok := m.Transport(); got != XRC || !ok {
		t.Errorf("extended transport 1: %v, %v", got, ok)
	}
}

func TestIPCM(t *testing.T) {
	for _, a := range []CMAttribute{CMAttrREQ, CMAttrSIDRREQ} {
		for _, addresses := range [][2]string{{"10.1.2.3", "10.4.5.6"}, {"fd77::1", "fd77::2"}} {
			t.Run(fmt.Sprint(a, " ", addresses[0]), func(t *testing.T) {
				frame := cmFrame(a)
				data := frame[madAt+24 : madAt+256]
				put64(data[8:], uint64(IPCMServiceID(PortSpaceUDP, 4660)))
				p := decoded(LinkEthernet, frame)
				h := p.IPCM(frame)
				if h == nil {
					t.Fatal("no IP CM header")
				}
				src, dst := AddrFrom(netip.MustParseAddr(addresses[0])), AddrFrom(netip.MustParseAddr(addresses[1]))
				version := uint8(6)
				if src.Is4() {
					version = 4
				}
				h.SetIPVersion(version)
				h.SetSrc(src)
				h.SetDst(dst)
				h.SetVersion(1, 2)
				if h.IPVersion() != version || h.MajorVersion() != 1 || h.MinorVersion() != 2 || h.Src() != src || h.Dst() != dst {
					t.Errorf("header %x", h)
				}
				var got []string
				for _, f := range LayerFields(LayerIPCM) {
					if text, ok := f.AppendText(nil, p, frame); ok && f.Width > 0 {
						got = append(got, strings.TrimPrefix(f.Name, "infiniband.cm.req.ip_cm.")+"="+string(text))
					}
				}
				digit := string('0' + rune(version))
				sport := data[cmREQPrivate+2 : cmREQPrivate+4]
				if a == CMAttrSIDRREQ {
					sport = data[cmSIDRREQPrivate+2 : cmSIDRREQPrivate+4]
				}
				want := []string{"majv=0x01", "minv=0x02", "ipv=0x0" + digit, "reserved=" + fmt.Sprintf("0x%02x", h[1]&15), "sport=0x" + hex.EncodeToString(sport), "sip" + digit + "=" + addresses[0], "dip" + digit + "=" + addresses[1]}
				if !slices.Equal(got, want) {
					t.Errorf("fields %q, want %q", got, want)
				}
				for _, name := range []string{"infiniband.cm.req.private", "infiniband.cm.sidr_req.private"} {
					if text := fieldIn(name, p, frame); text != "" {
						t.Errorf("%s is there besides the IP CM header", name)
					}
				}
				protocol := "infiniband.cm." + strings.ToLower(a.String()) + ".serviceid.protocol"
				if text := fieldIn(protocol, p, frame); text != "0x11" {
					t.Errorf("%s is %q", protocol, text)
				}
			})
		}
	}
	t.Run("another service", func(t *testing.T) {
		frame := cmFrame(CMAttrREQ)
		p := decoded(LinkEthernet, frame)
		m, _ := p.CM(frame)
		if p.IPCM(frame) != nil || CMREQ(m.Data).IPCM() != nil || len(CMREQ(m.Data).ConsumerPrivate()) != 92 {
			t.Error("taken for IP CM")
		}
		if got := fieldIn("infiniband.cm.req.private", p, frame); len(got) != 2*92 {
			t.Errorf("private data %q", got)
		}
		for _, name := range []string{"infiniband.cm.req.serviceid.prefix", "infiniband.cm.req.serviceid.dport"} {
			if got := fieldIn(name, p, frame); got != "" {
				t.Errorf("%s is %q", name, got)
			}
		}
	})
}

// fieldIn is the text of the first field of a name that the packet has; "" without.
func fieldIn(name string, p *Packet, frame []byte) string {
	for _, f := range LookupField(name) {
		if text, ok := f.AppendText(nil, p, frame); ok {
			return string(text)
		}
	}
	return ""
}

func TestServiceID(t *testing.T) {
	for s, want := range map[ServiceID]string{
		IPCMServiceID(PortSpaceTCP, 4420): "TCP port 4420", IPCMServiceID(PortSpaceUDP, 1): "UDP port 1", IPCMServiceID(PortSpaceIB, 65535): "IB port 65535",
		IPCMServiceID(99, 1): "protocol 99 port 1", 0x1000000000000001: "0x1000000000000001", 0x0000000002061C06: "0x2061c06",
	} {
		if s.String() != want {
			t.Errorf("%#x is %q, want %q", uint64(s), s, want)
		}
	}
	if s := IPCMServiceID(PortSpaceTCP, 7174); s != 0x0000000001061C06 || s.Protocol() != 6 || s.Port() != 7174 {
		t.Errorf("%#x", uint64(s))
	}
}

// A message that the capture cut gives what was captured, and no more.
func TestCMCutAnywhere(t *testing.T) {
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		frame := cmFrame(a)
		put64(frame[madAt+24+8:], uint64(IPCMServiceID(PortSpaceTCP, 1)))
		whole := decoded(LinkEthernet, frame)
		for n := madAt; n < len(frame); n++ {
			var p Packet
			cut := frame[:n:n]
			new(Decoder).Decode(LinkEthernet, cut, len(frame), &p)
			m, ok := p.CM(cut)
			if ok != (n >= madAt+24) || ok && (m.Attribute != a || len(m.Data) != min(n-madAt-24, 232) || m.Whole() != (n >= madAt+256)) {
				t.Fatalf("%v, %d bytes captured: %v, %d bytes of data", a, n, ok, len(m.Data))
			}
			if p.Malformed() {
				t.Fatalf("%v, %d bytes captured: malformed: %v", a, n, p.Problems())
			}
			readCM(m)
			for i := range Fields() {
				f := &Fields()[i]
				text, ok := f.AppendText(nil, &p, cut)
				if ok && f.Layer >= LayerMAD && f.Layer <= LayerIPCM && f.When == nil {
					if all, _ := f.AppendText(nil, whole, frame); !strings.HasPrefix(string(all), string(text)) || f.Kind != Bytes && string(all) != string(text) {
						t.Fatalf("%v, %d bytes captured: %s is %s, whole it is %s", a, n, f.Name, text, all)
					}
				}
			}
		}
	}
}

func TestMADsThatAreNoCM(t *testing.T) {
	frame := cmFrame(CMAttrREQ)
	for name, c := range map[string]struct {
		frame []byte
		want  []ProblemCode
		mad   bool
	}{
		"of another class":           {changedAt(frame, madAt+1, 4), nil, true},
		"of attribute ClassPortInfo": {changedAt(changedAt(frame, madAt+16, 0), madAt+17, 1), nil, true},
		"of an unknown attribute":    {changedAt(frame, madAt+17, 0x1B), nil, true},
		"of 255 bytes":               {madFrame(frame[madAt : madAt+255]), []ProblemCode{ProblemMAD}, true},
		"of 24 bytes":                {madFrame(frame[madAt : madAt+24]), []ProblemCode{ProblemMAD}, true},
		"of 23 bytes":                {madFrame(frame[madAt : madAt+23]), []ProblemCode{ProblemMAD}, false},
		"of no bytes":                {madFrame(nil), []ProblemCode{ProblemMAD}, false},
		"to QP 0":                    {changedAt(frame, 14+20+8+7, 0), nil, true},
		"to QP 2":                    {changedAt(frame, 14+20+8+7, 2), nil, false},
	} {
		p := decoded(LinkEthernet, c.frame)
		if _, ok := p.CM(c.frame); ok {
			t.Errorf("%s: taken for CM", name)
		}
		if !slices.Equal(codes(p), c.want) || p.Has(LayerMAD) != c.mad || (p.MAD(c.frame) != nil) != c.mad {
			t.Errorf("%s: problems %v, MAD %v", name, p.Problems(), p.Has(LayerMAD))
		}
		checkReadable(t, p, c.frame)
	}
	t.Run("of more than 256 bytes", func(t *testing.T) {
		f := madFrame(join(frame[madAt:madAt+256], []byte{1, 2, 3, 4}))
		p := decoded(LinkEthernet, f)
		m, ok := p.CM(f)
		if !ok || len(m.Data) != 232 || !slices.Equal(codes(p), []ProblemCode{ProblemMAD}) {
			t.Errorf("%v, %d bytes of data, problems %v", ok, len(m.Data), p.Problems())
		}
	})
	t.Run("a copy of the datagram alone", func(t *testing.T) {
		if m, ok := MAD(frame[madAt : madAt+256]).CM(); !ok || m.Attribute != CMAttrREQ {
			t.Error("not read")
		}
		if _, ok := MAD(frame[madAt : madAt+23]).CM(); ok {
			t.Error("read without a whole header")
		}
		if _, ok := MAD(nil).CM(); ok {
			t.Error("read nothing")
		}
	})
}

func changedAt(frame []byte, at int, v byte) []byte {
	f := slices.Clone(frame)
	f[at] = v
	return f
}

func TestCMCommonIdentifiers(t *testing.T) {
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		frame := cmFrame(a)
		m, _ := decoded(LinkEthernet, frame).CM(frame)
		remote := uint32(0x1C1D1E1F)
		if a == CMAttrREQ || a == CMAttrSIDRREQ || a == CMAttrSIDRREP {
			remote = 0
		}
		if m.LocalCommID() != 0x18191A1B || m.RemoteCommID() != remote {
			t.Errorf("%v: %#x and %#x", a, m.LocalCommID(), m.RemoteCommID())
		}
	}
}

func TestCMNames(t *testing.T) {
	for a, want := range map[CMAttribute]string{0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ", 0x18: "SIDR_REP", 0x19: "LAP", 0x1A: "APR"} {
		if a.String() != want || !strings.HasPrefix(a.Layer().String(), "CM "+want+" - ") {
			t.Errorf("%#x is %v, layer %v", uint16(a), a, a.Layer())
		}
	}
	if CMAttribute(0x0F).Layer() != LayerMAD || CMAttribute(0x1B).Layer() != LayerMAD {
		t.Error("other attributes have no layer")
	}
	seen := map[string]bool{}
	for r := RejReason(0); r < 40; r++ {
		reserved := r == 0 || r == 34 || r > 35
		if (r.String() == "reserved") != reserved {
			t.Errorf("reason %d is %q", r, r)
		}
		if !reserved && seen[r.String()] {
			t.Errorf("reason %d has the words of another", r)
		}
		seen[r.String()] = true
	}
	for s := SIDRStatus(0); s < 8; s++ {
		if (s.String() == "reserved") != (s > 5) {
			t.Errorf("SIDR status %d is %q", s, s)
		}
	}
	for s := APStatus(0); s < 16; s++ {
		if (s.String() == "reserved") != (s > 13) {
			t.Errorf("AP status %d is %q", s, s)
		}
	}
	for c, want := range map[MADClass]string{0x01: "subnet management, LID routed", 0x07: "communication management", 0x0F: "vendor specific", 0x30: "vendor specific", 0x4F: "vendor specific", 0x50: "reserved"} {
		if c.String() != want {
			t.Errorf("class %#x is %q", uint8(c), c)
		}
	}
	for m, want := range map[MADMethod]string{0x01: "Get", 0x03: "Send", 0x81: "GetResp", 0x86: "ReportResp", 0x7F: "class specific"} {
		if m.String() != want {
			t.Errorf("method %#x is %q", uint8(m), m)
		}
	}
	for code, want := range map[uint64]string{0: "", 2: "2.5 Gb/s", 16: "100 Gb/s", 18: "300 Gb/s", 21: "400 Gb/s", 63: ""} {
		if got := rateName(code); got != want {
			t.Errorf("rate %d is %q", code, got)
		}
	}
}

// readCM calls every getter of a CM message.
func readCM(m CM) {
	m.Whole()
	m.LocalCommID()
	m.RemoteCommID()
	var v any
	switch m.Attribute {
	case CMAttrREQ:
		v = CMREQ(m.Data)
	case CMAttrMRA:
		v = CMMRA(m.Data)
	case CMAttrREJ:
		v = CMREJ(m.Data)
	case CMAttrREP:
		v = CMREP(m.Data)
	case CMAttrRTU:
		v = CMRTU(m.Data)
	case CMAttrDREQ:
		v = CMDREQ(m.Data)
	case CMAttrDREP:
		v = CMDREP(m.Data)
	case CMAttrSIDRREQ:
		v = CMSIDRREQ(m.Data)
	case CMAttrSIDRREP:
		v = CMSIDRREP(m.Data)
	case CMAttrLAP:
		v = CMLAP(m.Data)
	case CMAttrAPR:
		v = CMAPR(m.Data)
	default:
		return
	}
	readAll(reflect.ValueOf(v))
}

// readAll calls the methods without arguments of a view, and of the views that
// they return.
func readAll(v reflect.Value) {
	for i := range v.NumMethod() {
		if m := v.Method(i); m.Type().NumIn() == 0 {
			for _, out := range m.Call(nil) {
				if out.Kind() == reflect.Slice && out.NumMethod() > 0 && !(out.Type() == reflect.TypeFor[IPCM]() && out.IsNil()) {
					readAll(out)
				}
			}
		}
	}
}
