package flows

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// textForm is the shape of a text that tells a queue pair over TCP.
type textForm uint8

const (
	noText        textForm = iota
	textPingpong           // ibv_*_pingpong
	textKeys               // perftest without a GID
	textKeysCheck          // … with data validation
	textKeysGID            // perftest
	textKeysGIDCheck
	textDone // ibv_*_pingpong: the client goes on
	numTextForms

	// What a messageFormat reads, and no shape tells.
	textSMC
	textDescribed
)

// The parts of perftest's texts: LID, outstanding READs, QPN, PSN, R_Key, VA,
// GID, SRQN. x stands for a hexadecimal digit, all else for itself.
const (
	shapeKeys = "xxxx:xxxx:xxxxxx:xxxxxx:xxxxxxxx:xxxxxxxxxxxxxxxx:"
	shapeGID  = "xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:xx:"
	shapeVA   = "xxxxxxxxxxxxxxxx:"
	shapeSRQN = "xxxxxxxx"
)

var textShapes = [numTextForms]string{
	textPingpong:     "xxxx:xxxxxx:xxxxxx:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\x00",
	textKeys:         shapeKeys + shapeSRQN + "\x00",
	textKeysCheck:    shapeKeys + shapeVA + shapeSRQN + "\x00",
	textKeysGID:      shapeKeys + shapeGID + shapeSRQN + ":\x00",
	textKeysGIDCheck: shapeKeys + shapeVA + shapeGID + shapeSRQN + ":\x00",
	textDone:         "done\x00",
}

// maxText is the length of the longest text.
const maxText = 125

// perftest reports whether the form is one of perftest's.
func (f textForm) perftest() bool { return f >= textKeys && f <= textKeysGIDCheck }

// sniffText looks for a text at the beginning of b. More says that b is too
// short to tell.
func sniffText(b []byte) (f textForm, more bool) {
	for g := textPingpong; g < numTextForms; g++ {
		shape := textShapes[g]
		if i := shapePrefix(shape, b); i == len(shape) {
			return g, false
		} else if i == len(b) {
			more = true
		}
	}
	return noText, more
}

// shapePrefix is how many bytes of b fit the shape.
func shapePrefix(shape string, b []byte) int {
	n := min(len(shape), len(b))
	for i := range n {
		if shape[i] == 'x' && hexDigit[b[i]] >= 0 {
			continue
		}
		if shape[i] != b[i] || shape[i] == 'x' {
			return i
		}
	}
	return n
}

var hexDigit = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range int8(10) {
		t['0'+i] = i
	}
	for i := range int8(6) {
		t['a'+i], t['A'+i] = 10+i, 10+i
	}
	return t
}()

func hexNumber(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<4 | uint64(hexDigit[c])
	}
	return v
}

// socketText is what a text tells of its sender's queue pair.
type socketText struct {
	form     textForm
	lid      uint16
	qpn      uint32
	psn      dissect.PSN // the first PSN that the sender will use
	rkey     uint32
	va       uint64
	gid      dissect.Addr
	frame    uint64 // where it ended
	fillings uint32 // this many texts in a row that tell nothing; 0 = a text that does
	noPSN    bool   // psn is not told
	inUse    bool   // the queue pair was in use before
}

// parseText reads a text of a known form.
func parseText(f textForm, b []byte) (t socketText) {
	t.form = f
	t.lid = uint16(hexNumber(b[:4]))
	if f == textPingpong {
		t.qpn, t.psn = uint32(hexNumber(b[5:11])), dissect.PSN(hexNumber(b[12:18]))
		t.gid = dissect.Addr{Hi: hexNumber(b[19:35]), Lo: hexNumber(b[35:51])}
	} else {
		t.qpn, t.psn = uint32(hexNumber(b[10:16])), dissect.PSN(hexNumber(b[17:23]))
		t.rkey, t.va = uint32(hexNumber(b[24:32])), hexNumber(b[33:49])
		gid := b[50:]
		if f == textKeysGIDCheck {
			gid = gid[len(shapeVA):]
		}
		if f == textKeysGID || f == textKeysGIDCheck {
			var raw [16]byte
			for i := range raw {
				raw[i] = byte(hexNumber(gid[3*i : 3*i+2]))
			}
			t.gid = dissect.Addr{Hi: binary.BigEndian.Uint64(raw[:8]), Lo: binary.BigEndian.Uint64(raw[8:])}
		}
	}
	// srq_pingpong sends a fixed number of texts and leaves the rest of them
	// zero; QPs 0 and 1 are nobody's to exchange; without GID and LID nobody
	// knows where the queue pair is.
	if t.qpn <= 1 || t.gid.IsZero() && t.lid == 0 {
		t.fillings = 1
	}
	return t
}

// addr is where the text's queue pair is: its GID, or its LID on InfiniBand.
func (t *socketText) addr() dissect.Addr {
	if t.gid.IsZero() {
		return dissect.Addr{Lo: uint64(t.lid)}
	}
	return t.gid
}

func (t *socketText) same(o *socketText) bool {
	return t.form == o.form && t.qpn == o.qpn && t.psn == o.psn && t.gid == o.gid && t.lid == o.lid && t.va == o.va && t.rkey == o.rkey
}

func (t *socketText) negotiated(mtu int) Negotiated {
	return Negotiated{
		Set: true, PathMTU: mtu, StartPSN: t.psn,
		RetryCount: -1, RNRRetryCount: -1, ResponderResources: -1, InitiatorDepth: -1, AckTimeout: -1,
		RKey: t.rkey, VA: t.va, HasMemory: t.rkey != 0, // perftest's tests of SEND leave the key 0
	}
}

// perftestMTU reads the path MTU code out of what stands before perftest's
// first text: 16 bytes of version text first, and right before the text, from
// version 5.31 on, one digit and a NUL. 0 is anything else.
func perftestMTU(start [16]byte, before [2]byte) int8 {
	if start[1] != '.' || start[4] != 0 || before[1] != 0 || before[0] < '1' || before[0] > '5' {
		return 0
	}
	for _, i := range [...]int{0, 2, 3} {
		if start[i] < '0' || start[i] > '9' {
			return 0
		}
	}
	if start[0] < '5' || start[0] == '5' && (start[2] < '3' || start[2] == '3' && start[3] < '1') {
		return 0
	}
	return int8(before[0] - '0')
}

// smallerMTU is the path MTU of a pair of perftest's: the smaller of both
// sides' codes, and unknown where one is.
func smallerMTU(a, b int8) int {
	if a == 0 || b == 0 {
		return 0
	}
	return pathMTU(min(a, b))
}
