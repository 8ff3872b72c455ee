package dissect

// listed is what a packet has beside the layers of its LayerSet: the headers
// around a tunnel's inner packet, those of the tunnels, and those of iWARP. Most
// packets have none, so that they cost a test only.
type listed struct {
	nlisted  uint8
	depth    uint8  // tunnels that the packet lies in
	tunnel   Layer  // the innermost tunnel's header; LayerFrame without, or where it has none
	tunnelID uint32 // what it says of whose traffic it carries: VNI, key, session
	context  uint32 // RDETH's end-to-end context, XRCETH's shared receive queue
	vcrc     ICRCStatus
	upper    Upper // valid where a layer of an upper protocol is listed
	list     [maxListed]place
}

// place is where a listed layer lies.
type place struct {
	layer Layer
	off   uint16
}

// maxListed bounds the list: two tunnels with all that they can have fit.
const maxListed = 16

// maxDepth is how many tunnels in each other are followed.
const maxDepth = 4

// find returns the offset of a listed layer, -1 without one.
func (p *listed) find(l Layer) int {
	for i := range p.list[:p.nlisted] {
		if p.list[i].layer == l {
			return int(p.list[i].off)
		}
	}
	return -1
}

// Listed returns the seldom layers that the frame has, in the order of the
// wire: outer headers, tunnels, and what lies in TCP.
func (p *Packet) Listed(yield func(Layer) bool) {
	for i := range p.list[:p.nlisted] {
		if !yield(p.list[i].layer) {
			return
		}
	}
}

// Depth is how many tunnels the packet lies in, mirrors included; 0 for most.
func (p *Packet) Depth() int { return int(p.depth) }

// Tunnel returns the innermost tunnel's kind and the number by which it tells
// whose traffic it carries: the VNI of VXLAN and GENEVE, the key of GRE, the
// session of ERSPAN. The kind is LayerOuterIPv4 or LayerOuterIPv6 for IP in IP.
func (p *Packet) Tunnel() (kind Layer, id uint32) { return p.tunnel, p.tunnelID }

// EEContext returns the end-to-end context that a packet of RD goes to. It is
// meaningful only where the packet has an RDETH.
func (p *Packet) EEContext() uint32 { return p.context }

// XRCSRQ returns the shared receive queue that a request of XRC is for. It is
// meaningful only where the packet has an XRCETH.
func (p *Packet) XRCSRQ() uint32 { return p.context }

// Uncommon reports whether the packet is none of the many: it lies in a tunnel,
// is a fragment, has iWARP's headers, or has anything wrong with it.
func (p *Packet) Uncommon() bool { return p.nlisted|p.problems != 0 }

// Fragmented reports whether the packet is a fragment of an IP datagram, the
// first or another.
func (p *Packet) Fragmented() bool { return p.problems != 0 && p.fragmented() }

// push lists a layer of n bytes at off if they are there.
func (p *Packet) push(b []byte, l Layer, off, n int) bool {
	if off+n > len(b) {
		p.short(b, off)
		return false
	}
	p.enlist(l, off)
	return true
}

func (p *Packet) enlist(l Layer, off int) {
	if p.nlisted < maxListed && off <= 0xFFFF {
		p.list[p.nlisted] = place{l, uint16(off)}
		p.nlisted++
	}
}

// outerOf says what becomes of a header that turns out to be around a tunnel,
// in the first tunnel and in one in it. In the order of the wire.
var outerOf = [...]struct {
	inner Layer
	outer [2]Layer
}{
	{LayerEthernet, [2]Layer{LayerOuterEthernet, LayerOuterEthernet2}},
	{LayerVLAN, [2]Layer{LayerOuterVLAN, LayerOuterVLAN2}},
	{LayerIPv4, [2]Layer{LayerOuterIPv4, LayerOuterIPv42}},
	{LayerIPv6, [2]Layer{LayerOuterIPv6, LayerOuterIPv62}},
	{LayerUDP, [2]Layer{LayerOuterUDP, LayerOuterUDP2}},
}

const wrapped LayerSet = 1<<LayerEthernet | 1<<LayerVLAN | 1<<LayerVLAN2 | 1<<LayerIPv4 | 1<<LayerIPv6 | 1<<LayerUDP | 1<<LayerPayload

// enter sets the headers so far aside as outer ones. It is false where there
// are too many tunnels in each other.
func (p *Packet) enter(off int) bool {
	if p.depth == maxDepth {
		p.note(ProblemExtensionLoop, off)
		return false
	}
	for i := range outerOf {
		if o := &outerOf[i]; p.depth < 2 && p.Has(o.inner) {
			p.enlist(o.outer[p.depth], int(p.off[o.inner]))
		}
	}
	p.depth++
	p.layers &^= wrapped
	p.payload, p.payloadLen = 0, 0
	p.SrcPort, p.DstPort = 0, 0
	return true
}

// outerFields are the rows of the headers around tunnels. They bear the names
// of the inner ones and stand in front of them, so that a name's first value is
// the outermost.
var outerFields = outerRows()

func outerRows() (rows []Field) {
	for level := range 2 {
		for _, o := range outerOf {
			for _, t := range [...][]Field{ethernetFields, vlanRows(LayerVLAN), ipv4Fields, ipv6Fields, udpFields} {
				for _, f := range t {
					if f.Layer == o.inner && f.Get == nil {
						f.Layer = o.outer[level]
						rows = append(rows, f)
					}
				}
			}
		}
	}
	return rows
}
