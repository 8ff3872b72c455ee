package engine

import (
	"context"
	"errors"
	"io"

	"github.com/rocescope/rocescope/captures"
)

// intake is the side of a pass that reads: it fills parts with frames, and
// settles what depends on their order, numbers and times.
type intake struct {
	p      *Pipeline
	src    captures.Source
	reader *reader     // where the source may block
	prompt func() bool // whether it would not, just now
	idle   func()      // serves requests for snapshots while the source waits
	most   uint64      // frames; 0 is no limit

	frames     uint64 // read so far
	base, prev int64  // time of the first frame, and of the last one
	hasTime    bool
}

// read fills pt from the source. The part's error is the source's; then it has no frames, as at the end, which is io.EOF.
func (in *intake) read(ctx context.Context, pt *part) {
	pt.frames, pt.readErr = pt.room, nil
	if in.most > 0 {
		pt.frames = pt.room[:min(uint64(len(pt.room)), in.most-in.frames)]
	}
	n := 0
	if len(pt.frames) == 0 {
		pt.readErr = io.EOF
	} else {
		n, pt.readErr = in.readBatch(ctx, pt.frames)
	}
	pt.frames = pt.frames[:n]
	in.order(pt)
}

// readBatch is ReadBatch for sources that do not block; for others it also serves
// requests for snapshots while it waits, and ends with the context. What is there
// already is read without a word to the other goroutine: at high rates that costs
// as much as tracking.
func (in *intake) readBatch(ctx context.Context, dst []captures.Frame) (int, error) {
	if in.reader == nil {
		return in.src.ReadBatch(dst)
	}
	if in.prompt() {
		select {
		case <-in.p.asked:
			in.idle()
		default:
		}
		return in.src.ReadBatch(dst)
	}
	in.reader.ask(dst)
	for {
		select {
		case got := <-in.reader.got:
			in.reader.answered()
			if got.fault != nil {
				panic(got.fault)
			}
			return got.n, got.err
		case <-in.p.asked:
			in.idle()
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// order numbers the part's frames. A frame without a time takes that of the frame before; in front of the first that has one,
// that one's.
func (in *intake) order(pt *part) {
	if in.frames == 0 {
		for i := range pt.frames {
			if pt.frames[i].HasTime {
				in.prev, in.base = pt.frames[i].Time, pt.frames[i].Time
				break
			}
		}
	}
	pt.first, pt.prev = in.frames+1, in.prev
	for i := range pt.frames {
		f := &pt.frames[i]
		switch {
		case !f.HasTime:
			f.Time = in.prev
		case !in.hasTime:
			in.hasTime, in.base = true, f.Time
		}
		in.prev = f.Time
	}
	pt.base = in.base
	in.frames += uint64(len(pt.frames))
}

// stop closes the source, and returns what is known of its interfaces.
func (in *intake) stop() []captures.Interface {
	if in.reader != nil {
		return in.reader.stop()
	}
	faces := append([]captures.Interface(nil), in.src.Interfaces()...)
	in.src.Close()
	return faces
}

// survived says whether reading goes on behind an error, of which there were so many before.
func survived(err error, before int) bool {
	var damage *captures.FileError
	return errors.As(err, &damage) && damage.Resumable && before < maxSourceErrors
}
