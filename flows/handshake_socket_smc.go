package flows

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// smcFormat is the CLC exchange, by which the two sides of an SMC-R connection
// find out over its TCP connection whether they have RDMA in common, and tell
// each other their queue pairs and buffers (RFC 7609, 4.4 and A.2; version 2
// has the same at the same places). The client proposes, the server accepts,
// the client confirms; either declines.
type smcFormat struct{}

// "SMCR" in EBCDIC, with which each message begins and ends.
const smcEyecatcher = 0xE2D4C3D9

// Types of CLC messages.
const (
	clcProposal = 1 + iota
	clcAccept
	clcConfirm
	clcDecline
)

// shortestCLC is the length of the shortest message of a type.
var shortestCLC = [...]int{clcProposal: 52, clcAccept: 68, clcConfirm: 68, clcDecline: 28}

// clcFirstContact is a flag of Accept: the queue pairs are new. Without it the
// connection takes a place in buffers of an older one.
const clcFirstContact = 0x08

func smcBegins(b []byte) bool {
	return len(b) >= 4 && b[0] == smcEyecatcher>>24 && binary.BigEndian.Uint32(b) == smcEyecatcher
}

func (smcFormat) what() string { return "SMC-R CLC accept and confirm" }

func (smcFormat) next(b []byte, _ role) (told socketTold, n int) {
	if len(b) < 8 {
		return told, 0
	}
	kind, n := int(b[4]), int(binary.BigEndian.Uint16(b[5:]))
	if !smcBegins(b) || kind < clcProposal || kind >= clcDecline || n < shortestCLC[kind] || n > maxMessage {
		return told, -1
	}
	if len(b) < n {
		return told, 0
	}
	if !smcBegins(b[n-4:]) {
		return told, -1
	}
	if kind == clcProposal {
		return told, n
	}
	told.own = socketText{
		form: textSMC,
		gid:  dissect.Addr{Hi: binary.BigEndian.Uint64(b[16:]), Lo: binary.BigEndian.Uint64(b[24:])},
		qpn:  uint24(b[38:]), rkey: binary.BigEndian.Uint32(b[41:]),
		va: binary.BigEndian.Uint64(b[52:]), psn: dissect.PSN(uint24(b[61:])),
	}
	told.hasOwn, told.by = told.own.qpn > 1, clientRole
	if kind == clcAccept {
		told.by = serverRole
		told.own.inUse = b[7]&clcFirstContact == 0
	}
	if mtu := int8(b[50] & 0xF); pathMTU(mtu) != 0 {
		told.ownMTU = mtu
	}
	return told, n
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
