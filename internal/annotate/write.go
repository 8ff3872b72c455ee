package annotate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/rocescope/rocescope/captures"
)

// Inflate undoes the compression of a capture, if it has one.
func Inflate(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	begin, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return b, nil
}

// IsPcapng reports whether a capture begins as pcapng does.
func IsPcapng(begin []byte) bool { return bytes.HasPrefix(begin, []byte{0x0a, 0x0d, 0x0d, 0x0a}) }

// CopyFrames writes the frames of any capture as pcapng, with comments.
func CopyFrames(to io.Writer, src captures.Source, program string, c *Comments) (comments int, err error) {
	w := captures.NewWriter(to, captures.WriterOptions{Application: program})
	described := 0
	room := make([]captures.Frame, 512)
	frame := uint64(0)
	for {
		n, err := src.ReadBatch(room)
		if err != nil {
			if ferr := w.Flush(); ferr != nil {
				return comments, ferr
			}
			if errors.Is(err, io.EOF) {
				return comments, nil
			}
			return comments, err
		}
		for _, i := range src.Interfaces()[described:] {
			w.AddInterface(i)
			described++
		}
		err = captures.Guard(func() error {
			for i := range room[:n] {
				frame++
				texts := c.Of(frame)
				comments += len(texts)
				if err := w.Write(&room[i], texts...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return comments, err
		}
	}
}
