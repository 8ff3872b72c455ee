package suite

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocescope/rocescope/inject/rnic"
)

// Of a memory of gigabytes only marks are written and compared: eight bytes at the beginning of every so many, and at its end.
const markEvery = 1 << 20

// markAt is the mark at an offset: no two are the same, and none is what a memory is made with.
func markAt(offset int) uint64 { return uint64(offset)*2654435761 + 1 }

// marks are where a memory has marks.
func marks(n int) (all []int) {
	for at := 0; at+8 <= n; at += markEvery {
		all = append(all, at)
	}
	return append(all, n-8)
}

// roomFor is our memory for a message that does not fit into the usual one, marked.
func (l *link) roomFor(n int) (*rnic.MR, error) {
	if l.huge == nil || l.huge.Len() < n {
		mem := make([]byte, n)
		for _, at := range marks(n) {
			binary.LittleEndian.PutUint64(mem[at:], markAt(at))
		}
		var err error
		if l.huge, err = l.pd.RegMR(mem, rnic.LocalWrite); err != nil {
			return nil, err
		}
	}
	return l.huge, nil
}

// compareHuge looks for the marks at both ends.
func (r *runner) compareHuge(p *pair, n int) error {
	for _, at := range marks(n) {
		here := binary.LittleEndian.Uint64(r.l.huge.Bytes()[at:])
		a, err := r.l.ask(&Command{Do: "memory", QP: pairName(p.index), Memory: "huge", Offset: at, Length: 8})
		if errors.Is(err, ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		if far := binary.LittleEndian.Uint64(a.Data); far != markAt(at) || here != far {
			r.problem(Problem{
				Kind: "memory", Required: fmt.Sprintf("%#x at offset %d of the memory \"huge\", at both ends", markAt(at), at),
				Seen: fmt.Sprintf("%#x at the device, and %#x here", far, here),
			})
			return nil
		}
	}
	return nil
}
