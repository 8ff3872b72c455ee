package traffic

import (
	"bufio"
	"encoding/binary"
	"errors"
	"os"
)

// WriteFile writes n packets to a pcapng file with times in nanoseconds. With
// establish, those that make connections known come first, and do not count.
func (g *Generator) WriteFile(path string, n int, establish bool) error {
	return write(path, func(put func(frame []byte, at int64)) {
		for establish {
			frame, at := g.Establish()
			if frame == nil {
				break
			}
			put(frame, at)
		}
		for range n {
			put(g.Next())
		}
	})
}

// write makes a pcapng file of the frames that fill puts.
func write(path string, fill func(put func(frame []byte, at int64))) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(fileHeader)
	var head [28]byte
	fill(func(frame []byte, at int64) {
		le := binary.LittleEndian
		size := uint32(32 + (len(frame)+3)&^3)
		le.PutUint32(head[0:], 6) // Enhanced Packet Block
		le.PutUint32(head[4:], size)
		le.PutUint32(head[12:], uint32(uint64(at)>>32))
		le.PutUint32(head[16:], uint32(at))
		le.PutUint32(head[20:], uint32(len(frame)))
		le.PutUint32(head[24:], uint32(len(frame)))
		w.Write(head[:])
		w.Write(frame)
		w.Write(make([]byte, -len(frame)&3))
		w.Write(head[4:8])
	})
	return w.Flush()
}

// fileHeader is a section and an interface: Ethernet, nanoseconds.
var fileHeader = []byte{
	0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0,
	0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 28, 0, 0, 0,
	1, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
	9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0,
}
