package peer

import (
	"bytes"
	"encoding/binary"

	"github.com/rocescope/rocescope/inject/connect"
)

// What rocescope puts into CM's private data, so that connections by CM know of memory: a word that tells it from what others put
// there, then R_Key, address and length, big endian.
var memoryWord = []byte("rocescp1")

const memorySize = 8 + 4 + 8 + 8

// AppendMemory appends what a REQ, REP or SIDR_REP says of memory.
func AppendMemory(b []byte, m connect.Memory) []byte {
	b = append(b, memoryWord...)
	b = binary.BigEndian.AppendUint32(b, m.RKey)
	b = binary.BigEndian.AppendUint64(b, m.VA)
	return binary.BigEndian.AppendUint64(b, m.Length)
}

// memoryOf reads it; another application's private data tells none.
func memoryOf(private []byte) (m connect.Memory) {
	if len(private) < memorySize || !bytes.HasPrefix(private, memoryWord) {
		return m
	}
	b := private[len(memoryWord):]
	return connect.Memory{RKey: binary.BigEndian.Uint32(b), VA: binary.BigEndian.Uint64(b[4:]), Length: binary.BigEndian.Uint64(b[12:])}
}
