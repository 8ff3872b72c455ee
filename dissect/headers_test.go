package dissect

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// viewRow ties a field row to the view method that reads the same bits.
type viewRow struct {
	layer Layer
	view  func(b []byte) any
	rows  map[string]string // method → field name without the layer's prefix
	other string            // methods of the view that are no single field, separated by blanks
}

// ib puts what stands before the name in front of each field name.
func ib(prefix string, pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = prefix + pairs[i+1]
	}
	return m
}

func pathMethods(p string) map[string]string {
	return ib("infiniband.cm.req."+p+"_", "LocalLID", "locallid", "RemoteLID", "remotelid", "FlowLabel", "flowlabel", "PacketRate", "pktrate",
		"TrafficClass", "tfcclass", "HopLimit", "hoplim", "SL", "sl", "SubnetLocal", "subnetlocal", "AckTimeout", "localacktout", "LocalGID", "localgid", "RemoteGID", "remotegid")
}

// viewRows lists every header view. A method that is in neither list fails the
// test, so that a new getter cannot be forgotten here.
var viewRows = []viewRow{
	{LayerEthernet, func(b []byte) any { return Ethernet(b) }, ib("eth.", "Type", "type", "Dst", "dst", "Src", "src"), ""},
	{LayerVLAN, func(b []byte) any { return VLAN(b) }, ib("vlan.", "Type", "etype", "Priority", "priority", "DEI", "dei", "ID", "id"), "TCI"},
	{LayerIPv4, func(b []byte) any { return IPv4(b) }, ib("ip.", "Version", "version", "HeaderLen", "hdr_len", "TotalLen", "len", "TOS", "dsfield", "DSCP", "dsfield.dscp", "ECN", "dsfield.ecn", "ID", "id",
		"DontFragment", "flags.df", "MoreFragments", "flags.mf", "FragOffset", "frag_offset", "TTL", "ttl", "Protocol", "proto", "Checksum", "checksum", "Src", "src", "Dst", "dst"), "UpdateChecksum"},
	{LayerIPv6, func(b []byte) any { return IPv6(b) }, ib("ipv6.", "Version", "version", "DSCP", "tclass.dscp", "ECN", "tclass.ecn", "Src", "src", "Dst", "dst", "TrafficClass", "tclass", "FlowLabel", "flow", "PayloadLen", "plen", "NextHeader", "nxt", "HopLimit", "hlim"), ""},
	{LayerGRH, func(b []byte) any { return IPv6(b) }, ib("infiniband.grh.", "Version", "ipver", "TrafficClass", "tclass", "FlowLabel", "flowlabel", "PayloadLen", "paylen", "NextHeader", "nxthdr", "HopLimit", "hoplmt",
		"Src", "sgid", "Dst", "dgid"), "DSCP ECN"},
	{LayerUDP, func(b []byte) any { return UDP(b) }, ib("udp.", "SrcPort", "srcport", "DstPort", "dstport", "Len", "length", "Checksum", "checksum"), ""},
	{LayerLRH, func(b []byte) any { return LRH(b) }, ib("infiniband.lrh.", "LNH", "lnh", "DLID", "dlid", "PktLen", "pktlen", "SLID", "slid"), ""},
	{LayerBTH, func(b []byte) any { return BTH(b) }, ib("infiniband.bth.", "Opcode", "opcode", "SE", "se", "MigReq", "m", "PadCnt", "padcnt", "TVer", "tver", "PKey", "p_key",
		"FECN", "f", "BECN", "b", "DestQP", "destqp", "AckReq", "a", "PSN", "psn"), ""},
	{LayerRDETH, func(b []byte) any { return RDETH(b) }, ib("infiniband.rdeth.", "EEContext", "eecnxt"), ""},
	{LayerXRCETH, func(b []byte) any { return XRCETH(b) }, ib("infiniband.xrceth.", "SRQ", "srq"), ""},
	{LayerDETH, func(b []byte) any { return DETH(b) }, ib("infiniband.deth.", "QKey", "q_key", "SrcQP", "srcqp"), ""},
	{LayerFETH, func(b []byte) any { return FETH(b) }, ib("infiniband.feth.", "Placement", "placement", "Selectivity", "selectivity"), ""},
	{LayerRETH, func(b []byte) any { return RETH(b) }, ib("infiniband.reth.", "VA", "va", "RKey", "r_key", "DMALen", "dmalen"), ""},
	{LayerAtomicETH, func(b []byte) any { return AtomicETH(b) }, ib("infiniband.", "VA", "reth.va", "RKey", "reth.r_key", "SwapAdd", "atomiceth.swapdt", "Compare", "atomiceth.cmpdt"), ""},
	{LayerAETH, func(b []byte) any { return AETH(b) }, ib("infiniband.aeth.", "Syndrome", "syndrome", "MSN", "msn"), ""},
	{LayerAtomicAckETH, func(b []byte) any { return AtomicAckETH(b) }, ib("infiniband.atomicacketh.", "Orig", "origremdt"), ""},
	{LayerImmDt, func(b []byte) any { return ImmDt(b) }, ib("infiniband.", "Data", "immdt"), ""},
	{LayerIETH, func(b []byte) any { return IETH(b) }, ib("infiniband.", "RKey", "ieth"), ""},
	{LayerMAD, func(b []byte) any { return MAD(b) }, ib("infiniband.mad.", "BaseVersion", "baseversion", "Class", "mgmtclass", "ClassVersion", "classversion", "Method", "method",
		"Status", "status", "ClassSpecific", "classspecific", "TransactionID", "transactionid", "Attribute", "attributeid", "AttributeModifier", "attributemodifier", "Data", "data"), "CM"},
	{LayerCMREQ, func(b []byte) any { return CMREQ(b) }, ib("infiniband.cm.req", "LocalCommID", "", "VendorID", ".vendorid", "ServiceID", ".serviceid", "LocalCAGUID", ".localcaguid",
		"LocalQKey", ".localqkey", "LocalQPN", ".localqpn", "ResponderResources", ".responderres", "LocalEECN", ".localeecn", "InitiatorDepth", ".initdepth",
		"RemoteEECN", ".remoteeecn", "RemoteResponseTimeout", ".remoteresptout", "ServiceType", ".transpsvctype", "EndToEndFlowControl", ".e2eflowctrl", "StartPSN", ".startpsn",
		"LocalResponseTimeout", ".localresptout", "RetryCount", ".retrcount", "PKey", ".pkey", "MTU", ".pppmtu", "RDCExists", ".rdcexist", "RNRRetryCount", ".rnrretrcount",
		"MaxCMRetries", ".maxcmretr", "SRQ", ".srq", "ExtendedTransport", ".ext_transport", "SAP", ".alt_sap", "Private", ".private"), "Transport Primary Alternate IPCM ConsumerPrivate"},
	{LayerCMREQ, func(b []byte) any { return CMREQ(b).Primary() }, pathMethods("prim"), ""},
	{LayerCMREQ, func(b []byte) any { return CMREQ(b).Alternate() }, pathMethods("alt"), ""},
	{LayerCMREP, func(b []byte) any { return CMREP(b) }, ib("infiniband.cm.rep", "LocalCommID", "", "RemoteCommID", ".remotecommid", "LocalQKey", ".localqkey", "LocalQPN", ".localqpn",
		"LocalEECN", ".localeecn", "StartPSN", ".startpsn", "ResponderResources", ".respres", "InitiatorDepth", ".initdepth", "TargetAckDelay", ".tgtackdelay", "FailoverAccepted", ".failoveracc",
		"EndToEndFlowControl", ".e2eflowctrl", "RNRRetryCount", ".rnrretrcount", "SRQ", ".srq", "LocalCAGUID", ".localcaguid", "VendorID", ".vendorid", "Private", ".private"), ""},
	{LayerCMRTU, func(b []byte) any { return CMRTU(b) }, ib("infiniband.cm.rtu.", "LocalCommID", "localcommid", "RemoteCommID", "remotecommid", "Private", "private"), ""},
	{LayerCMMRA, func(b []byte) any { return CMMRA(b) }, ib("infiniband.cm.mra.", "LocalCommID", "localcommid", "RemoteCommID", "remotecommid", "Message", "msgmraed", "ServiceTimeout", "servicetout", "Private", "private"), ""},
	{LayerCMREJ, func(b []byte) any { return CMREJ(b) }, ib("infiniband.cm.rej.", "LocalCommID", "localcommid", "RemoteCommID", "remotecommid", "Message", "msgrej", "InfoLen", "rejinfolen",
		"Reason", "reason", "Info", "ari", "Private", "private"), ""},
	{LayerCMDREQ, func(b []byte) any { return CMDREQ(b) }, ib("infiniband.cm.", "LocalCommID", "dreq.localcommid", "RemoteCommID", "dreq.remotecommid", "RemoteQPN", "req.remoteqpneecn", "Private", "dreq.private"), ""},
	{LayerCMDREP, func(b []byte) any { return CMDREP(b) }, ib("infiniband.cm.drsp.", "LocalCommID", "localcommid", "RemoteCommID", "remotecommid", "Private", "private"), ""},
	{LayerCMSIDRREQ, func(b []byte) any { return CMSIDRREQ(b) }, ib("infiniband.cm.sidr_req.", "RequestID", "requestid", "PKey", "pkey", "ServiceID", "serviceid", "Private", "private"), "IPCM ConsumerPrivate"},
	{LayerCMSIDRREP, func(b []byte) any { return CMSIDRREP(b) }, ib("infiniband.cm.sidr_rep.", "RequestID", "requestid", "Status", "status", "InfoLen", "addinfolen", "VendorID", "vendorid", "QPN", "qpn",
		"ServiceID", "serviceid", "QKey", "qkey", "Info", "addinfo", "Private", "private"), ""},
	{LayerCMLAP, func(b []byte) any { return CMLAP(b) }, ib("infiniband.cm.lap.", "LocalCommID", "localcommid", "RemoteCommID", "remotecommid", "RemoteQPN", "remoteqpneecn", "RemoteResponseTimeout", "remoteresptout",
		"LocalLID", "alt_locallid", "RemoteLID", "alt_remotelid", "LocalGID", "alt_localgid", "RemoteGID", "alt_remotegid", "FlowLabel", "alt_flowlabel", "TrafficClass", "alt_tfcclass", "HopLimit", "alt_hoplim",
		"PacketRate", "alt_pktrate", "SL", "alt_sl", "SubnetLocal", "alt_subnetlocal", "AckTimeout", "alt_localacktout", "Private", "private"), ""},
	{LayerCMAPR, func(b []byte) any { return CMAPR(b) }, ib("infiniband.cm.apr.", "LocalCommID", "localcommid", "RemoteCommID", "remotecommid", "InfoLen", "addinfolen", "Status", "apstatus", "Info", "addinfo", "Private", "private"), ""},
	{LayerIPCM, func(b []byte) any { return IPCM(b) }, ib("infiniband.cm.req.ip_cm.", "MajorVersion", "majv", "MinorVersion", "minv", "IPVersion", "ipv", "SrcPort", "sport"), "Src Dst SetVersion"},
	{LayerMPARequest, func(b []byte) any { return MPAFrame(b) }, ib("iwarp_mpa.", "Markers", "marker_flag", "CRC", "crc_flag", "Reject", "rej_flag", "Revision", "rev", "PrivateLen", "pdlength"), "IsRequest IsReply Enhanced Reserved"},
	{LayerMPAReply, func(b []byte) any { return MPAFrame(b) }, ib("iwarp_mpa.", "Markers", "marker_flag", "CRC", "crc_flag", "Reject", "rej_flag", "Revision", "rev", "PrivateLen", "pdlength"), "IsRequest IsReply Enhanced Reserved"},
	{LayerDDPTagged, func(b []byte) any { return DDP(b) }, ib("iwarp_", "Tagged", "ddp.tagged_flag", "Last", "ddp.last_flag", "Version", "ddp.dv", "RDMAPVersion", "rdma.version", "Opcode", "rdma.opcode",
		"STag", "ddp.stag", "TO", "ddp.tagged_offset"), "Reserved QN MSN MO Size Terminated"},
	{LayerDDPUntagged, func(b []byte) any { return DDP(b) }, ib("iwarp_", "Tagged", "ddp.tagged_flag", "Last", "ddp.last_flag", "Version", "ddp.dv", "RDMAPVersion", "rdma.version", "Opcode", "rdma.opcode",
		"QN", "ddp.qn", "MSN", "ddp.msn", "MO", "ddp.mo"), "Reserved STag TO Size Terminated"},
	{LayerRDMAPReadRequest, func(b []byte) any { return RDMAPRead(b) }, ib("iwarp_rdma.", "SinkSTag", "sinkstag", "SinkTO", "sinkto", "Length", "rdmardsz", "SourceSTag", "srcstag", "SourceTO", "srcto"), ""},
	{LayerRDMAPAtomicRequest, func(b []byte) any { return RDMAPAtomic(b) }, ib("iwarp_rdma.atomic.", "Operation", "opcode", "ID", "request_identifier", "STag", "remote_stag", "TO", "remote_tagged_offset",
		"Compare", "compare_data"), "Data"},
}

// packetWith makes a packet that has the layer, and its offset in the frame.
func packetWith(l Layer) (p Packet, at int) {
	const odd = 5 // so that a getter that counts from the frame's start fails
	if l >= firstListed {
		p.enlist(l, odd)
		return p, p.Offset(l)
	}
	p.layers = 1 << l
	switch {
	case l < numBaseLayers:
		p.off[l] = odd
	case l < endExtLayers:
		p.off[LayerBTH] = odd
		p.layers |= 1 << LayerBTH
		for i := range opTable {
			if opTable[i].Has(l) {
				p.Opcode = Opcode(i)
				break
			}
		}
	default:
		p.payload, p.payloadLen = odd, madSize
		if l == LayerIPCM {
			p.layers |= 1 << LayerCMREQ
		}
	}
	return p, p.Offset(l)
}

// Getters read what the generic reader reads, setters write what it reads, and
// what the generic writer writes, getters read.
func TestViewsAgreeWithFieldRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, v := range viewRows {
		p, at := packetWith(v.layer)
		size := v.layer.Size()
		if v.layer == LayerMAD {
			size = madSize
		}
		frame := make([]byte, at+size)
		view := func() reflect.Value { return reflect.ValueOf(v.view(frame[at : at+size])) }
		name := fmt.Sprintf("%T", v.view(frame[at:at+size]))
		t.Run(name+" of "+v.layer.String(), func(t *testing.T) {
			methods := view().Type()
			for i := range methods.NumMethod() {
				m := methods.Method(i).Name
				if _, ok := v.rows[strings.TrimPrefix(m, "Set")]; !ok && v.rows[m] == "" && !strings.Contains(" "+v.other+" ", " "+strings.TrimPrefix(m, "Set")+" ") && !strings.Contains(" "+v.other+" ", " "+m+" ") {
					t.Errorf("method %s is tied to no field row", m)
				}
			}
			for method, field := range v.rows {
				f := rowOf(field, v.layer)
				if f == nil {
					t.Errorf("no row %s of layer %v", field, v.layer)
					continue
				}
				for range 50 {
					fill(r, frame)
					compareView(t, method, view(), f, &p, frame)
					set := view().MethodByName("Set" + method)
					if !set.IsValid() {
						continue
					}
					arg := randomOf(r, set.Type().In(0), f.Width)
					before := append([]byte(nil), frame...)
					set.Call([]reflect.Value{arg})
					compareView(t, "Set"+method+" then "+method, view(), f, &p, frame)
					if f.Get == nil {
						checkOnlyBits(t, "Set"+method, before, frame, at*8+int(f.Bit), int(f.Width))
					}
				}
				if f.Get == nil && f.Width > 0 && f.Width <= 64 {
					for range 20 {
						fill(r, frame)
						want := r.Uint64() >> (64 - f.Width)
						if f.When != nil && !f.When(&p, frame) {
							continue
						}
						if !f.Put(&p, frame, want) {
							t.Fatalf("%s: Put refused", field)
						}
						if got, _ := f.Uint(&p, frame); got != want {
							t.Errorf("%s: Put %#x, read %#x", field, want, got)
						}
						compareView(t, "Put, then "+method, view(), f, &p, frame)
					}
				}
			}
		})
	}
}

// rowOf is the row of a name for one layer, taking the one of IPv6 where a
// field has a second name for IPv4.
func rowOf(name string, l Layer) *Field {
	for _, f := range LookupField(name) {
		if f.Layer == l {
			return f
		}
	}
	return nil
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// numberOf turns what a getter returns into a number; ok is false for
// addresses and bytes.
func numberOf(v reflect.Value) (n uint64, ok bool) {
	switch {
	case v.CanUint():
		return v.Uint(), true
	case v.CanInt():
		return uint64(v.Int()), true
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func compareView(t *testing.T, what string, view reflect.Value, f *Field, p *Packet, frame []byte) {
	t.Helper()
	method := what[strings.LastIndexByte(what, ' ')+1:]
	got := view.MethodByName(method).Call(nil)[0]
	if n, ok := numberOf(got); ok {
		if want, ok := f.Uint(p, frame); !ok || n != want {
			t.Fatalf("%s is %#x, %s is %#x (%v)", what, n, f.Name, want, ok)
		}
		return
	}
	want, ok := f.Raw(p, frame)
	if !ok {
		t.Fatalf("%s: %s has no bytes", what, f.Name)
	}
	switch g := got.Interface().(type) {
	case []byte:
		if string(g) != string(want) {
			t.Fatalf("%s is %x, %s is %x", what, g, f.Name, want)
		}
	case Addr:
		if len(want) == 4 && g != addr4(be32(want)) || len(want) == 16 && g != (Addr{be64(want), be64(want[8:])}) {
			t.Fatalf("%s is %v, %s is %x", what, g, f.Name, want)
		}
	default:
		t.Fatalf("%s returns a %T, which this test cannot compare", what, g)
	}
}

func randomOf(r *rand.Rand, typ reflect.Type, width uint16) reflect.Value {
	v := reflect.New(typ).Elem()
	switch typ.Kind() {
	case reflect.Bool:
		v.SetBool(r.Uint32()&1 != 0)
	case reflect.Struct:
		v.Set(reflect.ValueOf(Addr{r.Uint64(), r.Uint64()}))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(r.Uint64() & 0xFF)
		}
	case reflect.Int: // a length in bytes that its field holds in larger units
		v.SetInt(int64(r.Uint64()>>32) * 8)
	default:
		v.SetUint(r.Uint64() >> (64 - width))
	}
	return v
}

// checkOnlyBits fails where anything outside of a field has changed.
func checkOnlyBits(t *testing.T, what string, before, after []byte, bit, width int) {
	t.Helper()
	for i := range len(before) * 8 {
		if i >= bit && i < bit+width {
			continue
		}
		if (before[i/8]^after[i/8])>>(7-i%8)&1 != 0 {
			t.Fatalf("%s changed bit %d of byte %d, outside of its field", what, i%8, i/8)
		}
	}
}

// The extension headers of IPv6 are found by number and length, as Decode walks
// them.
func TestIPv6Extensions(t *testing.T) {
	udp := udpPacket(4791, make([]byte, 20))
	fragment := []byte{17, 0, 0, 0, 0, 0, 0, 0}
	h := IPv6Fragment(fragment)
	h.SetOffset(1448)
	h.SetMore(true)
	h.SetID(0xCAFE0001)
	if h.Offset() != 1448 || !h.More() || h.ID() != 0xCAFE0001 || string(fragment) != "\x11\x00\x05\xa9\xca\xfe\x00\x01" {
		t.Errorf("offset %d, more %v, ID %#x in %x", h.Offset(), h.More(), h.ID(), fragment)
	}
	frame := ip6(ExtHopByHop, option6(ExtRouting, 0, option6(ExtAuthentication, 2, join([]byte{ExtDestination, 1}, make([]byte, 10), option6(ExtFragment, 1, join(fragment, udp))))))
	p := decoded(LinkRaw, frame)
	var got []string
	for kind, x := range p.IPv6Extensions(frame) {
		got = append(got, fmt.Sprintf("%d:%d>%d", kind, len(x), x.NextHeader()))
		x.SetNextHeader(x.NextHeader())
	}
	if want := "[0:8>43 43:24>51 51:12>60 60:16>44 44:8>17]"; fmt.Sprint(got) != want {
		t.Errorf("extension headers %v, want %s", got, want)
	}
	if !p.Fragment {
		t.Error("no fragment")
	}
	for cut := range frame { // whatever the capture kept, only whole headers
		for _, x := range decoded(LinkRaw, frame[:cut]).IPv6Extensions(frame[:cut]) {
			if len(x) < 8 {
				t.Errorf("cut at %d: a header of %d bytes", cut, len(x))
			}
		}
	}
	for range decoded(LinkRaw, roce4(udp)).IPv6Extensions(roce4(udp)) {
		t.Error("IPv4 has extension headers")
	}
}
