package diff

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// Side is one of the two captures.
type Side struct {
	Name string // as the user calls it
	// Open begins to read it, from its start, each time.
	Open func() (captures.Source, error)
}

// maxDamage bounds how many damaged places of a file are passed over.
const maxDamage = 100

// feed reads a capture frame by frame.
type feed struct {
	src    captures.Source
	room   []captures.Frame
	dec    dissect.Decoder
	frames uint64
	prev   int64
	timed  bool
	damage []error
}

func open(s Side, icrc bool) (*feed, error) {
	src, err := s.Open()
	if err != nil {
		return nil, err
	}
	return &feed{src: src, room: make([]captures.Frame, 512), dec: dissect.Decoder{CheckICRC: icrc}}, nil
}

// next hands one read's frames to each; io.EOF at the end. A file's damage ends
// it like its end does, and is kept.
func (f *feed) next(ctx context.Context, each func(p *dissect.Packet, frame []byte)) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	n, err := f.src.ReadBatch(f.room)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		f.damage = append(f.damage, err)
		var at *captures.FileError
		if errors.As(err, &at) && at.Resumable && len(f.damage) < maxDamage {
			return nil
		}
		return io.EOF
	}
	err = captures.Guard(func() error {
		var p dissect.Packet
		for i := range f.room[:n] {
			fr := &f.room[i]
			if fr.HasTime {
				f.timed, f.prev = true, fr.Time
			}
			f.frames++
			f.dec.Decode(fr.Link, fr.Data, fr.WireLen, &p)
			p.Number, p.Time, p.NoTime, p.Iface = f.frames, f.prev, !fr.HasTime, uint16(fr.Iface)
			each(&p, fr.Data)
		}
		return nil
	})
	if err != nil {
		f.damage = append(f.damage, err)
		return io.EOF
	}
	return nil
}

// all reads to the end.
func (f *feed) all(ctx context.Context, each func(p *dissect.Packet, frame []byte)) error {
	for {
		switch err := f.next(ctx, each); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (f *feed) close() { f.src.Close() }

// DamageError is what is wrong with a capture that was compared as far as it
// could be read.
type DamageError struct{ Err error }

func (e *DamageError) Error() string {
	return fmt.Sprintf("compared as far as it could be read: %v", e.Err)
}
func (e *DamageError) Unwrap() error { return e.Err }
