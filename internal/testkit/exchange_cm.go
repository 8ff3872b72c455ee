package testkit

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// The management datagrams here are written from the specification's tables (IBA 12.6), byte by byte and with nothing of
// dissect's own views of them: they are there to check those.

// CM message numbers (IBA 12.6.1).
const (
	cmREQ  = 0x10
	cmMRA  = 0x11
	cmREJ  = 0x12
	cmREP  = 0x13
	cmRTU  = 0x14
	cmDREQ = 0x15
	cmDREP = 0x16
)

// gsiPort is the UDP source port of management datagrams, as Linux' soft-RoCE chooses it.
const gsiPort = 55410

var be = binary.BigEndian

// cm sends a CM message: its 232 bytes, filled in by set.
func (e *End) cm(attribute uint16, set func(d []byte)) *Packet {
	mad := make([]byte, 256)
	mad[0], mad[1], mad[2], mad[3] = 1, 7, 2, 3 // base version, class CM, class version, method Send
	be.PutUint64(mad[8:], e.x.TransactionID)
	be.PutUint16(mad[16:], attribute)
	set(mad[24:])
	return e.MAD(mad)
}

// MAD sends a management datagram on QP 1.
func (e *End) MAD(mad []byte) *Packet {
	p := e.Packet(dissect.OpUDSendOnly, func(b *Build) {
		b.Outer.SrcPort = gsiPort
		b.BTH().SetDestQP(1)
		b.BTH().SetPSN(e.gsi)
		b.DETH().SetQKey(0x80010000)
		b.DETH().SetSrcQP(1)
		b.Payload = mad
	})
	e.gsi = e.gsi.Add(1)
	return p
}

func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

// commIDs are this end's communication identifier and the other's.
func (e *End) commIDs() (local, remote uint32) {
	if e == e.x.A {
		return e.x.CommIDA, e.x.CommIDB
	}
	return e.x.CommIDB, e.x.CommIDA
}

func (e *End) putIDs(d []byte) {
	local, remote := e.commIDs()
	be.PutUint32(d, local)
	be.PutUint32(d[4:], remote)
}

func mtuCode(mtu int) byte {
	code := byte(1)
	for 128<<code < mtu {
		code++
	}
	return code
}

// gid is an address as a GID: IPv4 mapped into IPv6.
func gid(a netip.Addr) []byte {
	b := a.As16()
	return b[:]
}

// REQ asks for the connection. Its starting PSN is the one that this end expects to receive first: the other's.
func (e *End) REQ() *Packet {
	x := e.x
	service := map[dissect.Transport]byte{dissect.RC: 0, dissect.UC: 1, dissect.RD: 2, dissect.XRC: 3}[x.Transport]
	return e.cm(cmREQ, func(d []byte) {
		local, _ := e.commIDs()
		be.PutUint32(d, local)
		be.PutUint64(d[8:], x.ServiceID)
		copy(d[16:], e.outer.SrcMAC[:]) // local CA GUID
		put24(d[32:], e.QPN)
		d[35], d[39] = x.ReadDepth, x.ReadDepth
		d[43] = 20<<3 | service<<1
		put24(d[44:], uint32(e.peer.Next))
		d[47] = 20<<3 | x.RetryCount&7
		be.PutUint16(d[48:], dissect.DefaultPKey)
		d[50] = mtuCode(x.MTU)<<4 | x.RNRRetryCount&7
		d[51] = 15 << 4
		if x.Transport == dissect.XRC {
			d[51] |= 1
		}
		be.PutUint16(d[52:], 0xFFFF)
		be.PutUint16(d[54:], 0xFFFF)
		copy(d[56:], gid(e.Addr))
		copy(d[72:], gid(e.peer.Addr))
		d[93] = 64
		d[95] = x.AckTimeout << 3
		e.ipPrivate(d[140:])
	})
}

// ipPrivate is the private header of the RDMA IP CM service (IBA annex A11), then the consumer's own.
func (e *End) ipPrivate(d []byte) {
	d[1] = 4 << 4
	if e.Addr.Is6() {
		d[1] = 6 << 4
	}
	be.PutUint16(d[2:], 40000)
	src, dst := e.Addr.As16(), e.peer.Addr.As16()
	if e.Addr.Is4() { // the last four bytes; the others are 0, not the mapped form
		src[10], src[11], dst[10], dst[11] = 0, 0, 0, 0
	}
	copy(d[4:], src[:])
	copy(d[20:], dst[:])
	copy(d[36:], e.x.CMPrivate)
}

// REP accepts. Its starting PSN is the one that this end expects to receive first.
func (e *End) REP() *Packet {
	return e.cm(cmREP, func(d []byte) {
		e.putIDs(d)
		put24(d[12:], e.QPN)
		put24(d[20:], uint32(e.peer.Next))
		d[24], d[25] = e.x.ReadDepth, e.x.ReadDepth
		d[26] = 15 << 3
		d[27] = e.x.RNRRetryCount << 5
		copy(d[28:], e.outer.SrcMAC[:])
	})
}

// RTU confirms.
func (e *End) RTU() *Packet { return e.cm(cmRTU, e.putIDs) }

// DREQ asks for the end of the connection.
func (e *End) DREQ() *Packet {
	return e.cm(cmDREQ, func(d []byte) {
		e.putIDs(d)
		put24(d[8:], e.peer.QPN)
	})
}

// DREP agrees to the end.
func (e *End) DREP() *Packet { return e.cm(cmDREP, e.putIDs) }

// MRA asks for patience with the answer to a REQ.
func (e *End) MRA() *Packet {
	return e.cm(cmMRA, func(d []byte) {
		e.putIDs(d)
		d[9] = 20 << 3
	})
}

// REJ refuses a REQ, for a reason: 8 nobody listens, 28 the application says no.
func (e *End) REJ(reason uint16) *Packet {
	return e.cm(cmREJ, func(d []byte) {
		e.putIDs(d)
		be.PutUint16(d[10:], reason)
	})
}

// Connect writes a whole CM handshake, asked for by A.
func (x *Exchange) Connect() {
	x.A.REQ()
	x.B.REP()
	x.A.RTU()
}

// Disconnect writes the end of a connection, asked for by A.
func (x *Exchange) Disconnect() {
	x.A.DREQ()
	x.B.DREP()
}
