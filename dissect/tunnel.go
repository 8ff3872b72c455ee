package dissect

// UDP destination ports and IP protocols of tunnels.
const (
	portVXLAN    = 4789
	portVXLANGPE = 4790
	portGENEVE   = 6081

	protoIPv4InIP = 4
	protoIPv6InIP = 41
	protoGRE      = 47
	protoEthernet = 143 // a frame in IPv6 segment routing (RFC 8986)
	protoMPLS     = 137 // MPLS in IP (RFC 4023)
)

// EtherTypes of tunnels, GRE's among them.
const (
	etherMPLS          = 0x8847
	etherMPLSMulticast = 0x8848
	etherPPPoE         = 0x8864
	etherBridging      = 0x6558 // a whole Ethernet frame
	etherERSPAN        = 0x88BE // types I and II
	etherERSPAN3       = 0x22EB
)

// maxLabels bounds an MPLS stack.
const maxLabels = 16

// inside goes on with the packet in a tunnel: what the EtherType t announces at
// off. id is what the tunnel's headers tell of whose traffic it carries. Of a
// fragment only the headers are shown: what it carries is not whole.
func (d *Decoder) inside(p *Packet, b []byte, id uint32, t uint16, off int, headers ...place) {
	whole := !p.fragmented()
	if whole && !p.enter(off) {
		return
	}
	for _, h := range headers {
		if !h.layer.outer() {
			p.enlist(h.layer, int(h.off))
		}
	}
	if !whole {
		return
	}
	p.tunnel, p.tunnelID = headers[len(headers)-1].layer, id
	if int(p.end) < len(b) {
		b = b[:p.end] // what lies behind is not the inner packet's
	}
	if t == etherBridging {
		d.ethernet(p, b, off)
		return
	}
	d.etherType(p, b, t, off)
}

func at(l Layer, off int) place { return place{l, uint16(off)} }

// outer reports whether the layer is an outer header, which stands for IP in IP.
func (l Layer) outer() bool { return l >= LayerOuterEthernet && l <= LayerOuterUDP2 }

// datagramTunnel goes on behind a UDP header whose destination port is a
// tunnel's. It is false where this is none.
func (d *Decoder) datagramTunnel(p *Packet, b []byte, off int) bool {
	if off+8 > len(b) {
		return false
	}
	h := b[off : off+8 : off+8]
	switch p.DstPort {
	case portVXLAN, portVXLANGPE:
		t := uint16(etherBridging)
		switch {
		case h[0]&0x08 == 0: // no valid VNI
			return false
		case p.DstPort == portVXLANGPE && h[0]&0x04 != 0:
			if t = gpeTypes[h[3]&3]; h[3] > 3 || t == 0 {
				return false
			}
		}
		d.inside(p, b, VXLAN(h).VNI(), t, off+8, at(LayerVXLAN, off))
		return true
	case portGENEVE:
		g := GENEVE(h)
		if g.Version() != 0 {
			return false
		}
		d.inside(p, b, g.VNI(), g.Protocol(), off+g.HeaderLen(), at(LayerGENEVE, off))
		return true
	}
	return false
}

// gpeTypes are the EtherTypes of VXLAN-GPE's next protocols.
var gpeTypes = [4]uint16{1: etherIPv4, 2: etherIPv6, 3: etherBridging}

// gre goes on with a GRE header (RFC 2784, 2890) at off.
func (d *Decoder) gre(p *Packet, b []byte, off int) {
	if off+4 > len(b) {
		p.short(b, off)
		return
	}
	h := GRE(b[off:])
	n := h.HeaderLen()
	if h.Version() != 0 || h.Routing() { // PPTP, and what nobody sends any more
		p.enlist(LayerGRE, off)
		return
	}
	if off+n > len(b) {
		p.enlist(LayerGRE, off)
		p.short(b, off)
		return
	}
	key, _ := h.Key()
	switch t := h.Protocol(); t {
	case etherERSPAN:
		if !h.HasSequence() { // type I has no header of its own
			d.inside(p, b, 0, etherBridging, off+n, at(LayerGRE, off))
			return
		}
		d.mirror(p, b, LayerERSPAN2, off, off+n, 8)
	case etherERSPAN3:
		d.mirror(p, b, LayerERSPAN3, off, off+n, 12)
	case etherIPv4, etherIPv6, etherBridging, etherMPLS, etherMPLSMulticast:
		d.inside(p, b, key, t, off+n, at(LayerGRE, off))
	default:
		p.enlist(LayerGRE, off)
	}
}

// mirror goes on with an ERSPAN header of type II or III behind GRE's.
func (d *Decoder) mirror(p *Packet, b []byte, kind Layer, gre, off, size int) {
	if off+size > len(b) {
		p.enlist(LayerGRE, gre)
		p.short(b, off)
		return
	}
	id := uint32(be16(b[off+2:]) & 0x3FF)
	if kind == LayerERSPAN3 {
		last := be16(b[off+10:])
		if last>>10&0x1F != 0 { // no Ethernet frame in it
			p.enlist(LayerGRE, gre)
			p.enlist(kind, off)
			return
		}
		if last&1 != 0 { // a subheader of the platform's
			size += 8
		}
	}
	d.inside(p, b, id, etherBridging, off+size, at(LayerGRE, gre), at(kind, off))
}

// mpls goes on with a stack of MPLS labels (RFC 3032) at off. What lies under
// the last label tells its kind by its first nibble; anything else than IP is
// left alone.
func (d *Decoder) mpls(p *Packet, b []byte, off int) {
	top := off
	var id uint32
	for n := range maxLabels {
		if off+4 > len(b) {
			p.short(b, off)
			return
		}
		v := be32(b[off:])
		switch n {
		case 0:
			id = v >> 12
			p.enlist(LayerMPLS, off)
		case 1:
			p.enlist(LayerMPLS2, off)
		}
		off += 4
		if v&0x100 == 0 { // not the bottom of the stack
			continue
		}
		if off >= len(b) {
			p.short(b, off)
			return
		}
		if p.tunnel == LayerFrame {
			p.tunnel, p.tunnelID = LayerMPLS, id
		}
		switch b[off] >> 4 {
		case 4:
			d.ipv4(p, b, off)
		case 6:
			d.ipv6(p, b, off)
		}
		return
	}
	p.note(ProblemExtensionLoop, top)
}

// pppoe goes on with a PPPoE session header (RFC 2516) at off.
func (d *Decoder) pppoe(p *Packet, b []byte, off int) {
	if !p.push(b, LayerPPPoE, off, 8) {
		return
	}
	h := PPPoE(b[off : off+8 : off+8])
	if h.Version() != 1 || h.Type() != 1 || h.Code() != 0 {
		return
	}
	if p.tunnel == LayerFrame {
		p.tunnel, p.tunnelID = LayerPPPoE, uint32(h.Session())
	}
	switch h.Protocol() {
	case 0x0021:
		d.ipv4(p, b, off+8)
	case 0x0057:
		d.ipv6(p, b, off+8)
	}
}
