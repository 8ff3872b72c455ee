package rnic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// path is a way to another port, as the headers of the packets that go there.
type path struct {
	head     [maxHead]byte // up to and with the BTH
	network  uint8         // where the IP header begins
	bth      uint8
	is6      bool
	sum      uint16 // IPv4: header checksum while total length and identification are 0
	src, dst dissect.Addr
}

// The lengths of what stands around the payload. AtomicETH is longer than maxExt, and has no payload.
const (
	maxHead     = 14 + 4 + 40 + 8 + 12
	maxExt      = 16 + 4 // RETH and ImmDt
	maxOverhead = maxHead + maxExt + dissect.ICRCSize
)

// overhead is how many bytes stand around the payload of a device's longest packets.
func (o *Options) overhead() int {
	n := maxOverhead
	if o.VLAN == 0 {
		n -= 4
	}
	if !slices.ContainsFunc(o.Addrs, func(a netip.Addr) bool { return !dissect.AddrFrom(a).Is4() }) {
		n -= 20
	}
	return n
}

// sourcePort is the UDP source port of a flow label (annex A17 leaves it to the sender; this is what Linux does).
func sourcePort(label uint32) uint16 {
	label &= 0xFFFFF
	return 0xC000 | uint16(label&0x3FFF^label>>14)
}

// flowLabel is the label of two queue pairs that were given none: the same from both sides.
func flowLabel(a, b uint32) uint32 {
	v := uint64(a) * uint64(b)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v & 0xFFFFF)
}

// outer is what packets from the queue pair local to the queue pair remote go out in.
func (d *Device) outer(a *AHAttr, local, remote uint32) dissect.Outer {
	o := dissect.Outer{
		DstMAC: a.DstMAC, SrcMAC: d.opt.MAC, Src: d.opt.Addrs[a.SGIDIndex], Dst: a.Dst,
		TrafficClass: a.TrafficClass, HopLimit: a.HopLimit, FlowLabel: a.FlowLabel, SrcPort: a.SrcPort,
	}
	if d.opt.VLAN != 0 {
		o.VLANs = []uint16{d.opt.VLAN}
	}
	if o.SrcPort == 0 {
		label := a.FlowLabel
		if label == 0 {
			label = flowLabel(local, remote)
		}
		o.SrcPort = sourcePort(label)
	}
	return o
}

// pathTo makes the headers of packets from the queue pair local to the queue pair remote.
func (d *Device) pathTo(a *AHAttr, local, remote uint32) (p path) {
	o := d.outer(a, local, remote)
	p.src, p.dst = d.gids[a.SGIDIndex], dissect.AddrFrom(a.Dst)
	p.is6 = !p.src.Is4()
	p.network = 14
	if len(o.VLANs) > 0 {
		p.network += 4
	}
	head := o.AppendTo(p.head[:0])
	p.bth = uint8(len(head))
	bth := dissect.BTH(p.head[p.bth : p.bth+12])
	bth.SetMigReq(!d.opt.MigReqOff)
	bth.SetDestQP(remote)
	if !p.is6 {
		ip := dissect.IPv4(p.head[p.network : p.network+20])
		ip.SetID(0)
		ip.UpdateChecksum()
		p.sum = ip.Checksum()
	}
	return p
}

// AH is an address handle: where datagrams go.
type AH struct {
	pd   *PD
	path path
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(a AHAttr) (*AH, error) {
	if why := pd.dev.valid(&Attr{AH: a}, AttrAV); why != "" {
		return nil, errors.New("rnic: create an address handle: " + why)
	}
	return &AH{pd: pd, path: pd.dev.pathTo(&a, 0, 0)}, nil
}

// begin copies the headers of a packet into the room for it, with the opcode's extension headers zero, and returns where its BTH is
// and where its payload goes. A room is as long as the port's longest frame, which Open found to be enough.
func (p *path) begin(room []byte, op *dissect.OpInfo, q *QP, psn dissect.PSN) (bth dissect.BTH, payload []byte) {
	copy(room, p.head[:p.bth+12])
	b := room[p.bth:]
	bth = dissect.BTH(b[:op.Len])
	clear(b[12:op.Len])
	bth.SetOpcode(op.Code)
	bth.SetPKey(q.pkey)
	bth.SetPSN(psn)
	return bth, b[op.Len:]
}

// finish completes a packet whose payload of n bytes is in place: pad, lengths, checksum, ICRC. It returns the frame's length.
func (d *Device) finish(p *path, room []byte, op *dissect.OpInfo, n int, ipid *uint16) int {
	pad := -n & 3
	end := int(p.bth) + op.Len + n
	if pad > 0 {
		room[p.bth+1] |= byte(pad) << 4
		clear(room[end : end+pad])
		end += pad
	}
	whole := end + dissect.ICRCSize
	udp := dissect.UDP(room[p.bth-8 : p.bth])
	udp.SetLen(uint16(whole - int(p.bth) + 8))
	layer := dissect.LayerIPv6
	if p.is6 {
		dissect.IPv6(room[p.network:]).SetPayloadLen(uint16(whole - int(p.bth) + 8))
	} else {
		layer = dissect.LayerIPv4
		ip := dissect.IPv4(room[p.network : p.network+20])
		total := uint16(whole - int(p.network))
		*ipid++
		ip.SetTotalLen(total)
		ip.SetID(*ipid)
		sum := uint32(^p.sum) + uint32(total) + uint32(*ipid)
		sum = sum&0xFFFF + sum>>16
		ip.SetChecksum(^uint16(sum&0xFFFF + sum>>16))
	}
	crc := d.icrc.Sum(room[p.network:end], layer, int(p.bth-p.network))
	t := room[end:whole]
	t[0], t[1], t[2], t[3] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
	if d.do.spoil != nil {
		return d.do.spoil(room[:whole])
	}
	return whole
}

// opcodes finds the opcode of what a queue pair wants to say: dissect's table, turned around.
var opcodes = func() (t [4][dissect.Vendor + 1][5][4]*dissect.OpInfo) {
	for i := range 256 {
		op := dissect.Opcode(i).Info()
		if op.Transport <= dissect.UD && op.Defined() && (op.Family != dissect.Read || op.Role == dissect.Request) {
			t[op.Transport][op.Family][op.Position][op.Flags&(dissect.WithImm|dissect.WithInv)] = op
		}
	}
	return t
}()

// readResponses are the opcodes of the answer to a READ, by position.
var readResponses = func() (t [5]*dissect.OpInfo) {
	for _, p := range [...]dissect.Position{dissect.First, dissect.Middle, dissect.Last, dissect.Only} {
		code, ok := dissect.OpcodeOf(dissect.RC, dissect.Read, dissect.Response, p, 0)
		if !ok {
			panic(fmt.Sprint("rnic: the opcode table has no READ response ", p))
		}
		t[p] = code.Info()
	}
	return t
}()

// position returns the place of packet i of n in its message.
func position(i, n uint32) dissect.Position {
	switch {
	case n == 1:
		return dissect.Only
	case i == 0:
		return dissect.First
	case i == n-1:
		return dissect.Last
	}
	return dissect.Middle
}
