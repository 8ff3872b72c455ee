package flows

import (
	"bytes"
	"encoding/binary"
)

// The common header and the messages of the communication manager
// (IBA 13.4.2, 12.6).
const (
	madHeader  = 24
	methodSend = 0x03

	attrREQ     = 0x10
	attrMRA     = 0x11
	attrREJ     = 0x12
	attrREP     = 0x13
	attrRTU     = 0x14
	attrDREQ    = 0x15
	attrDREP    = 0x16
	attrSIDRReq = 0x17
	attrSIDRRep = 0x18
	attrLAP     = 0x19
	attrAPR     = 0x1A
)

// cmMessages says of each message what it is called, how many bytes of it must
// be there, and where its private data begins.
var cmMessages = [...]struct {
	name          string
	need, private int
}{
	{"REQ", 96, 140}, {"MRA", 10, 10}, {"REJ", 12, 84}, {"REP", 28, 36}, {"RTU", 8, 8}, {"DREQ", 12, 12},
	{"DREP", 8, 8}, {"SIDR_REQ", 16, 16}, {"SIDR_REP", 24, 96}, {"LAP", 16, 64}, {"APR", 10, 84},
}

func cmName(attr uint16) string {
	if i := int(attr) - attrREQ; i >= 0 && i < len(cmMessages) {
		return cmMessages[i].name
	}
	return "unknown"
}

// cmData is what was captured of a message's 232 bytes.
type cmData []byte

func (m cmData) u16(o int) uint16 { return binary.BigEndian.Uint16(m[o:]) }
func (m cmData) u24(o int) uint32 { return uint32(m[o])<<16 | uint32(m.u16(o+1)) }
func (m cmData) u32(o int) uint32 { return binary.BigEndian.Uint32(m[o:]) }
func (m cmData) u64(o int) uint64 { return binary.BigEndian.Uint64(m[o:]) }

func (m cmData) local() uint32  { return m.u32(0) }
func (m cmData) remote() uint32 { return m.u32(4) }

func (m cmData) need(attr uint16) int {
	if i := int(attr) - attrREQ; i >= 0 && i < len(cmMessages) {
		return cmMessages[i].need
	}
	return 8
}

func (m cmData) privateLen(attr uint16) int {
	i := int(attr) - attrREQ
	if i < 0 || i >= len(cmMessages) || len(m) < cmMessages[i].private {
		return 0
	}
	return len(bytes.TrimRight(m[cmMessages[i].private:], "\x00"))
}
