package connect

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// The texts that tell a queue pair: x stands for a hexadecimal digit, all else for itself.
const (
	pingpongShape = "xxxx:xxxxxx:xxxxxx:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\x00"
	keyShape      = "xxxx:xxxx:xxxxxx:xxxxxx:xxxxxxxx:xxxxxxxxxxxxxxxx:" +
		"xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xxxxxxxx:\x00"
	keySize       = len(keyShape)      // 108
	pingpongSize  = len(pingpongShape) // 52
	binaryKeySize = 56
)

// doneText ends a conversation of either kind.
const doneText = "done\x00"

func fits(shape string, b []byte) bool {
	if len(b) < len(shape) {
		return false
	}
	for i := range len(shape) {
		if shape[i] == 'x' != isHex(b[i]) || shape[i] != 'x' && shape[i] != b[i] {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// hexAt reads the digits of a text that fits its shape.
func hexAt(b []byte, from, n int) uint64 {
	v, _ := strconv.ParseUint(string(b[from:from+n]), 16, 64) // never fails
	return v
}

// appendPingpong appends the text of the ibv_*_pingpong programs: LID, QPN, PSN, GID.
func appendPingpong(b []byte, p *Parameters) []byte {
	gid := p.Address.As16()
	return append(fmt.Appendf(b, "%04x:%06x:%06x:%032x", 0, p.QPN, uint32(p.PSN), gid[:]), 0)
}

func parsePingpong(b []byte) (p Parameters, err error) {
	const what = "the text of a pingpong program, LID:QPN:PSN:GID"
	if !fits(pingpongShape, b) {
		return p, garbage(b, what)
	}
	var gid [16]byte
	for i := range gid {
		gid[i] = byte(hexAt(b, 19+2*i, 2))
	}
	p = Parameters{QPN: uint32(hexAt(b, 5, 6)), PSN: dissect.PSN(hexAt(b, 12, 6))}
	return p, p.fromGID(gid, what)
}

// fromGID sets the address and checks what a text told.
func (p *Parameters) fromGID(gid [16]byte, what string) error {
	if gid == [16]byte{} {
		return fmt.Errorf("%s: there is no GID in it, which RoCE needs: let the program use a GID index (perftest -x, pingpong -g): %w", what, ErrGarbage)
	}
	p.Address = netip.AddrFrom16(gid).Unmap()
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s: %w: %w", what, err, ErrGarbage)
	}
	return nil
}

// appendKey appends perftest's key message: LID, outstanding READs, QPN, PSN, R_Key, VA, GID, SRQN.
func appendKey(b []byte, p *Parameters) []byte {
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", 0, p.ResponderResources, p.QPN, uint32(p.PSN), p.Memory.RKey, p.Memory.VA)
	for _, c := range p.Address.As16() {
		b = fmt.Appendf(b, "%02x:", c)
	}
	return append(b, "00000000:\x00"...)
}

const keyWhat = "perftest's key message, LID:READs:QPN:PSN:R_Key:VA:GID:SRQN"

func parseKey(b []byte) (p Parameters, err error) {
	if !fits(keyShape, b) {
		return p, garbage(b, keyWhat)
	}
	var gid [16]byte
	for i := range gid {
		gid[i] = byte(hexAt(b, 50+3*i, 2))
	}
	p = keyed(hexAt(b, 5, 4), hexAt(b, 10, 6), hexAt(b, 17, 6), hexAt(b, 24, 8), hexAt(b, 33, 16))
	return p, p.fromGID(gid, keyWhat)
}

// keyed is what both forms of the key message tell. perftest tells how many READs it can answer and will have outstanding by
// one number; a test of SENDs has no R_Key, and its address is nobody's to write to.
func keyed(reads, qpn, psn, rkey, va uint64) Parameters {
	depth := uint8(min(reads, 255))
	p := Parameters{QPN: uint32(qpn), PSN: dissect.PSN(psn), ResponderResources: depth, InitiatorDepth: depth}
	if rkey != 0 {
		p.Memory = Memory{RKey: uint32(rkey), VA: va}
	}
	return p
}

// appendBinaryKey appends the key message that perftest -R sends over a queue pair: the same in binary, and the GID's index.
func appendBinaryKey(b []byte, p *Parameters) []byte {
	for _, v := range [...]uint32{0, uint32(p.ResponderResources), p.QPN, uint32(p.PSN), p.Memory.RKey, 0} {
		b = be.AppendUint32(b, v)
	}
	b = be.AppendUint64(b, p.Memory.VA)
	gid := p.Address.As16()
	b = append(b, gid[:]...)
	return append(b, 0, 0, 0, 0, 0, 0, 0, 1)
}

func parseBinaryKey(b []byte) (p Parameters, err error) {
	if len(b) != binaryKeySize {
		return p, garbage(b, keyWhat)
	}
	word := func(i int) uint64 { return uint64(be.Uint32(b[4*i:])) }
	if word(2) > max24 || word(3) > max24 {
		return p, garbage(b, keyWhat)
	}
	p = keyed(word(1), word(2), word(3), word(4), be.Uint64(b[24:]))
	return p, p.fromGID([16]byte(b[32:48]), keyWhat)
}
