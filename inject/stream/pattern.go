package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// patternSize is after how many bytes a payload begins anew. A message of many packets has so many templates in its middle
// that they make a whole pattern: what lands at a wrong place can be told.
const patternSize = 64 << 10

// Pattern is what payloads are made of: a message begins at its beginning, and goes over it again when it is longer.
type Pattern struct{ data []byte }

// patterns are those with names.
var patterns = map[string]func([]byte){
	"zero": func([]byte) {},
	// 32-bit words that count from 0, in network byte order.
	"counter": func(b []byte) {
		for i := 0; i < len(b); i += 4 {
			binary.BigEndian.PutUint32(b[i:], uint32(i/4))
		}
	},
	// PRBS-31 (x^31 + x^28 + 1, ITU-T O.150), most significant bit first, from a register of ones.
	"prbs": func(b []byte) {
		lfsr := uint32(1<<31 - 1)
		for i := range b {
			for range 8 {
				bit := (lfsr>>30 ^ lfsr>>27) & 1
				lfsr = lfsr<<1&(1<<31-1) | bit
				b[i] = b[i]<<1 | byte(bit)
			}
		}
	},
}

// Named returns the pattern zero, counter or prbs.
func Named(name string) (Pattern, error) {
	fill, ok := patterns[name]
	if !ok {
		return Pattern{}, fmt.Errorf("%q is no payload; there are zero, counter, prbs and file:NAME", name)
	}
	b := make([]byte, patternSize)
	if fill(b); name == "zero" {
		b = b[:0] // one template is enough for every middle
	}
	return Pattern{b}, nil
}

// PatternFile is a pattern from a file's first 64 KiB.
func PatternFile(name string) (Pattern, error) {
	f, err := os.Open(name)
	if err != nil {
		return Pattern{}, fmt.Errorf("payload: %w", err)
	}
	defer f.Close()
	b := make([]byte, patternSize)
	n, err := io.ReadFull(f, b)
	switch {
	case n == 0 && err == io.EOF:
		return Pattern{}, errors.New("payload: " + name + " is empty")
	case err != nil && err != io.ErrUnexpectedEOF:
		return Pattern{}, fmt.Errorf("payload: %w", err)
	}
	return Pattern{b[:n]}, nil
}

// ring is the payload of packets at 0, mtu, 2 mtu … of a message: so many that each is different.
type ring struct {
	data []byte
	mtu  int
	n    int
}

func (p Pattern) ring(mtu int) ring {
	n := max(1, len(p.data)/mtu)
	if len(p.data) > 0 && len(p.data)%mtu != 0 && len(p.data) < patternSize {
		n = max(n, patternSize/mtu) // a short file goes round within packets
	}
	r := ring{make([]byte, n*mtu), mtu, n}
	for at := 0; at < len(r.data) && len(p.data) > 0; {
		at += copy(r.data[at:], p.data)
	}
	return r
}

// at is the first n bytes of the payload of packet k.
func (r *ring) at(k, n int) []byte { return r.data[k%r.n*r.mtu:][:n:n] }
