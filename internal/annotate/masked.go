package annotate

import (
	"io"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/engine"
)

// FrameWriter is a sink that writes the frames that it gets as pcapng, with comments, and nothing else of what the capture
// says: names of interfaces and hosts, filters and earlier comments may hold addresses.
type FrameWriter struct {
	Comments int // written

	w     *captures.Writer
	of    *Comments
	links map[frameLink]int // number of the interface to write
}

// frameLink is what an interface has to say.
type frameLink struct {
	iface int
	link  dissect.LinkType
}

// NewFrameWriter returns a sink that writes to w.
func NewFrameWriter(w io.Writer, program string, c *Comments) *FrameWriter {
	return &FrameWriter{w: captures.NewWriter(w, captures.WriterOptions{Application: program}), of: c, links: map[frameLink]int{}}
}

// Batch implements engine.Sink.
func (f *FrameWriter) Batch(b *engine.Batch) error {
	for i := range b.Frames {
		frame := b.Frames[i]
		k := frameLink{frame.Iface, frame.Link}
		at, ok := f.links[k]
		if !ok {
			at = f.w.AddInterface(captures.Interface{Link: frame.Link})
			f.links[k] = at
		}
		frame.Iface = at
		texts := f.of.Of(b.Packets[i].Number)
		f.Comments += len(texts)
		if err := f.w.Write(&frame, texts...); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes what is left.
func (f *FrameWriter) Flush() error { return f.w.Flush() }
