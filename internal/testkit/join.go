package testkit

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Joined is a capture file made of whole others, so that tshark, which takes longer to start than to read, is asked once.
type Joined struct {
	File  string
	Parts []Part
}

// Part is a file in a Joined: its packets follow those of the parts before it.
type Part struct {
	File    string
	Packets int
}

// Join joins the plain pcap files that say the same of themselves (byte order, time stamps, link type) into one, in the
// order given. Others, and damaged ones, stay as they are: a Joined of one part, which does not know its packets.
func Join(t testing.TB, files []string) []*Joined {
	t.Helper()
	var all []*Joined
	bodies := map[string]*bytes.Buffer{}
	joined := map[string]*Joined{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind, packets, whole := pcapRecords(data)
		if !whole {
			all = append(all, &Joined{file, []Part{{File: file}}})
			continue
		}
		if joined[kind] == nil {
			header := bytes.Clone(data[:24])
			copy(header[16:20], []byte{0, 4, 4, 0}) // a snap length that is enough, and the same in either byte order
			bodies[kind] = bytes.NewBuffer(header)
			joined[kind] = &Joined{File: filepath.Join(t.TempDir(), "joined.pcap")}
			all = append(all, joined[kind])
		}
		bodies[kind].Write(data[24:])
		joined[kind].Parts = append(joined[kind].Parts, Part{file, packets})
	}
	for kind, j := range joined {
		if err := os.WriteFile(j.File, bodies[kind].Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// pcapRecords counts the packets of a plain pcap file. kind is what its header says beside the snap length; whole is false
// for other files, and for those that do not end with a record.
func pcapRecords(data []byte) (kind string, packets int, whole bool) {
	if len(data) < 24 {
		return "", 0, false
	}
	var order binary.ByteOrder
	switch string(data[:4]) {
	case "\xD4\xC3\xB2\xA1", "\x4D\x3C\xB2\xA1":
		order = binary.LittleEndian
	case "\xA1\xB2\xC3\xD4", "\xA1\xB2\x3C\x4D":
		order = binary.BigEndian
	default:
		return "", 0, false
	}
	kind = string(data[:16]) + string(data[20:24])
	for data = data[24:]; len(data) > 0; packets++ {
		if len(data) < 16 {
			return "", 0, false
		}
		n := int(order.Uint32(data[8:]))
		if n > 1<<18 || n > len(data)-16 {
			return "", 0, false
		}
		data = data[16+n:]
	}
	return kind, packets, true
}
