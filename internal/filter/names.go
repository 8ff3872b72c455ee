package filter

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// row is one place that a name's value can come from: a row of dissect's field
// tables, of flows' field table, or a header as a whole. One of f, g and
// (where both are nil) layer is meant.
type row struct {
	f     *dissect.Field
	g     *flows.Field
	layer dissect.Layer
}

// symbol is what a name means.
type symbol struct {
	name  string // as the tables write it
	text  string // one line of help
	kind  dissect.Kind
	rows  []row
	whole bool // a protocol or a header: bytes without a type of their own

	once   sync.Once
	worded *words
}

// whole names are protocols and headers: there or not, sliced and searched as
// bytes. Names of one kind of header that has several layers have several
// rows.
var wholes = []struct {
	name   string
	layers []dissect.Layer
}{
	{"frame", []dissect.Layer{dissect.LayerFrame}},
	{"eth", []dissect.Layer{dissect.LayerOuterEthernet, dissect.LayerOuterEthernet2, dissect.LayerEthernet}},
	{"sll", []dissect.Layer{dissect.LayerSLL, dissect.LayerSLL2}},
	{"loopback", []dissect.Layer{dissect.LayerNull}},
	{"vlan", []dissect.Layer{dissect.LayerOuterVLAN, dissect.LayerOuterVLAN2, dissect.LayerVLAN, dissect.LayerVLAN2}},
	{"macc", []dissect.Layer{dissect.LayerMACControl}},
	{"lldp", []dissect.Layer{dissect.LayerLLDP}},
	{"lldp.dcbx", []dissect.Layer{dissect.LayerDCBX, dissect.LayerCEE}},
	{"ip", []dissect.Layer{dissect.LayerOuterIPv4, dissect.LayerOuterIPv42, dissect.LayerIPv4}},
	{"ipv6", []dissect.Layer{dissect.LayerOuterIPv6, dissect.LayerOuterIPv62, dissect.LayerIPv6}},
	{"udp", []dissect.Layer{dissect.LayerOuterUDP, dissect.LayerOuterUDP2, dissect.LayerUDP}},
	{"tcp", []dissect.Layer{dissect.LayerTCP}},
	{"erf", []dissect.Layer{dissect.LayerERF}},
	{"mpls", []dissect.Layer{dissect.LayerMPLS, dissect.LayerMPLS2}},
	{"pppoes", []dissect.Layer{dissect.LayerPPPoE}},
	{"gre", []dissect.Layer{dissect.LayerGRE}},
	{"erspan", []dissect.Layer{dissect.LayerERSPAN2, dissect.LayerERSPAN3}},
	{"vxlan", []dissect.Layer{dissect.LayerVXLAN}},
	{"geneve", []dissect.Layer{dissect.LayerGENEVE}},
	{"iwarp_mpa", []dissect.Layer{dissect.LayerMPARequest, dissect.LayerMPAReply, dissect.LayerFPDU}},
	{"iwarp_ddp_rdmap", []dissect.Layer{dissect.LayerDDPTagged, dissect.LayerDDPUntagged}},
	{"nvme", []dissect.Layer{dissect.LayerNVMeCommand, dissect.LayerNVMeResponse}},
	{"nvme-rdma", []dissect.Layer{dissect.LayerNVMeRequest, dissect.LayerNVMeAccept, dissect.LayerNVMeReject}},
	{"rpcordma", []dissect.Layer{dissect.LayerRPCRDMA}},
	{"rpc", []dissect.Layer{dissect.LayerRPC}},
	{"iser", []dissect.Layer{dissect.LayerISER}},
	{"iscsi", []dissect.Layer{dissect.LayerISCSI}},
	{"smb_direct", []dissect.Layer{dissect.LayerSMBDNegotiate, dissect.LayerSMBDAnswer, dissect.LayerSMBDData}},
	{"smb2", []dissect.Layer{dissect.LayerSMB2}},
	{"infiniband_link", []dissect.Layer{dissect.LayerIBLink}},
	{"infiniband", []dissect.Layer{wholeTransport}},
	{"infiniband.lrh", []dissect.Layer{dissect.LayerLRH}},
	{"infiniband.grh", []dissect.Layer{dissect.LayerGRH}},
	{"infiniband.bth", []dissect.Layer{dissect.LayerBTH}},
	{"infiniband.rdeth", []dissect.Layer{dissect.LayerRDETH}},
	{"infiniband.xrceth", []dissect.Layer{dissect.LayerXRCETH}},
	{"infiniband.deth", []dissect.Layer{dissect.LayerDETH}},
	{"infiniband.feth", []dissect.Layer{dissect.LayerFETH}},
	{"infiniband.reth", []dissect.Layer{dissect.LayerRETH}},
	{"infiniband.atomiceth", []dissect.Layer{dissect.LayerAtomicETH}},
	{"infiniband.aeth", []dissect.Layer{dissect.LayerAETH}},
	{"infiniband.atomicacketh", []dissect.Layer{dissect.LayerAtomicAckETH}},
	{"infiniband.rmpp", []dissect.Layer{dissect.LayerRMPP}},
	{"infiniband.smplid", []dissect.Layer{dissect.LayerSMP}},
	{"infiniband.smpdirected", []dissect.Layer{dissect.LayerSMPDirected}},
	{"infiniband.sa", []dissect.Layer{dissect.LayerSA}},
	{"infiniband.cm", []dissect.Layer{
		dissect.LayerCMREQ, dissect.LayerCMMRA, dissect.LayerCMREJ, dissect.LayerCMREP, dissect.LayerCMRTU, dissect.LayerCMDREQ,
		dissect.LayerCMDREP, dissect.LayerCMSIDRREQ, dissect.LayerCMSIDRREP, dissect.LayerCMLAP, dissect.LayerCMAPR,
	}},
}

// wholeTransport stands, in a row, for an InfiniBand packet from its first
// InfiniBand header to the ICRC.
const wholeTransport = dissect.Layer(0xFF)

const prefix = "infiniband."

// symbolTable is every name, with and without "infiniband." in front; order
// lists those with it as the tables do.
type symbolTable struct {
	byName map[string]*symbol
	order  []*symbol
}

var symbols = sync.OnceValue(buildSymbols)

func buildSymbols() *symbolTable {
	t := &symbolTable{byName: map[string]*symbol{}}
	add := func(s *symbol) {
		if t.byName[s.name] == nil {
			t.byName[s.name] = s
			t.order = append(t.order, s)
		}
	}
	for _, w := range wholes {
		s := &symbol{name: w.name, kind: dissect.Bytes, whole: true}
		for _, l := range w.layers {
			s.rows = append(s.rows, row{layer: l})
		}
		switch {
		case w.layers[0] == wholeTransport:
			s.text = "InfiniBand transport, as a whole"
		case w.name == "infiniband.cm":
			s.text = "Communication management message, as a whole"
		default:
			l := 0
			for w.layers[l] >= dissect.LayerOuterEthernet && w.layers[l] <= dissect.LayerOuterUDP2 {
				l++ // named by the inner header
			}
			s.text = w.layers[l].String() + ", as a whole"
		}
		add(s)
	}
	all := dissect.Fields()
	for i := range all {
		if t.byName[all[i].Name] == nil {
			add(fieldSymbol(all[i].Name, dissect.LookupField(all[i].Name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dissect.FieldUnions())) {
		s := fieldSymbol(name, dissect.LookupField(name))
		s.text = strings.Join(dissect.FieldUnions()[name], " or ")
		add(s)
	}
	tracked := flows.Fields()
	for i := range tracked {
		g := &tracked[i]
		add(&symbol{name: g.Name, text: g.Text, kind: g.Kind, rows: []row{{g: g}}})
	}
	for _, s := range t.order {
		if short, ok := strings.CutPrefix(s.name, prefix); ok && t.byName[short] == nil {
			t.byName[short] = s
		}
	}
	return t
}

func fieldSymbol(name string, fs []*dissect.Field) *symbol {
	s := &symbol{name: name, text: fs[0].Text, kind: fs[0].Kind}
	for _, f := range fs {
		s.rows = append(s.rows, row{f: f})
	}
	return s
}

// lookup finds a name, nil without.
func lookup(name string) *symbol { return symbols().byName[name] }

// values is the first of the rows' functions that say what a number means.
func (s *symbol) values() func(uint64) string {
	for _, r := range s.rows {
		switch {
		case r.f != nil && r.f.Values != nil:
			return r.f.Values
		case r.g != nil && r.g.Values != nil:
			return r.g.Values
		}
	}
	return nil
}

// width is the widest row's number of bits, 0 where the tables do not say.
func (s *symbol) width() (bits int) {
	if s.kind == dissect.Bool {
		return 1
	}
	for _, r := range s.rows {
		if r.f == nil || r.f.Get != nil || r.f.Width == 0 || r.f.Width > 64 {
			return 0
		}
		bits = max(bits, int(r.f.Width))
	}
	return bits
}

// max is the largest number that the field can hold.
func (s *symbol) max() uint64 {
	if w := s.width(); w > 0 && w < 64 {
		return 1<<w - 1
	}
	return 1<<64 - 1
}

// byteWidth is the number of bytes of fields whose bytes are compared, 0 where
// it varies.
func (s *symbol) byteWidth() int {
	if s.kind == dissect.String {
		return 0
	}
	n := -1
	for _, r := range s.rows {
		w := 0
		if r.f != nil && r.f.Width%8 == 0 {
			w = int(r.f.Width / 8)
		}
		if n >= 0 && n != w {
			return 0
		}
		n = w
	}
	return max(n, 0)
}

// tracked reports whether the name comes from tracking.
func (s *symbol) tracked() bool { return s.rows[0].g != nil }

// need is what must be known of a packet for its value of the name.
func (s *symbol) need() Need {
	switch r := s.rows[0]; {
	case r.g != nil && r.g.AtEnd:
		return NeedEnd
	case r.g != nil, r.f != nil && r.f.Layer.Upper(), s.whole && r.layer != wholeTransport && r.layer.Upper():
		return NeedFlow
	}
	return NeedPacket
}

// ranked reports whether the words of a Text field have an order.
func (s *symbol) ranked() bool {
	return s.name == "finding.severity" || s.name == "flow.established_by"
}

// raw returns the bytes of a row.
func (r *row) raw(p *dissect.Packet, frame []byte) (b []byte, ok bool) {
	if r.f != nil {
		return r.f.Raw(p, frame)
	}
	lo, hi := 0, 0
	switch l := r.layer; l {
	case wholeTransport:
		if lo, hi = transportSpan(p); lo < 0 {
			return nil, false
		}
	case dissect.LayerFrame:
		hi = len(frame)
	default:
		if !p.Has(l) {
			return nil, false
		}
		lo = p.Offset(l)
		hi = lo + l.Size()
		if lo+13 <= len(frame) {
			switch l { // headers that say their own length
			case dissect.LayerIPv4:
				hi = lo + max(20, int(frame[lo]&15)*4)
			case dissect.LayerTCP:
				hi = lo + max(20, int(frame[lo+12]>>4)*4)
			}
		}
	}
	hi = min(hi, len(frame))
	if lo >= hi {
		return nil, false
	}
	return frame[lo:hi:hi], true
}

// has reports whether the frame has a whole (a row of a protocol or header).
func (r *row) has(p *dissect.Packet) bool {
	if r.layer == wholeTransport {
		return p.Has(dissect.LayerBTH) || p.Has(dissect.LayerLRH) || p.Has(dissect.LayerGRH)
	}
	return p.Has(r.layer)
}

func transportSpan(p *dissect.Packet) (lo, hi int) {
	lo = -1
	for _, l := range [...]dissect.Layer{dissect.LayerLRH, dissect.LayerGRH, dissect.LayerBTH} {
		if p.Has(l) {
			if lo < 0 {
				lo = p.Offset(l)
			}
			hi = p.Offset(l) + l.Size()
		}
	}
	if p.Has(dissect.LayerBTH) {
		hi = max(hi, p.Offset(dissect.LayerPayload)+p.PayloadLen())
	}
	if p.Has(dissect.LayerICRC) {
		hi = p.Offset(dissect.LayerICRC) + 4
	}
	return lo, hi
}

// findingTitle is what a finding is, in a few words.
func findingTitle(id uint64) string {
	if checks := flows.Checks(); id < uint64(len(checks)) {
		return checks[id].Title
	}
	return ""
}
