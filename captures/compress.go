package captures

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// First bytes of compressed files, read big-endian.
const (
	magicGzip = 0x1f8b     // two bytes
	magicZstd = 0x28b52ffd // four
)

// zstdMaxWindow is how far back a zstd stream may refer, and so how much memory
// it takes: what `zstd --long` uses and what the zstd command accepts unasked.
const zstdMaxWindow = 128 << 20

// decompressor returns a stream of what r, which begins with head, holds
// compressed, and a function that releases it.
func decompressor(head []byte, r io.Reader) (io.Reader, func(), error) {
	if magic(head) == magicZstd {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdMaxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	return z, func() { z.Close() }, nil
}

// readError says what an error of reading the input means; not io.EOF.
func (r *reader) readError(err error) error {
	switch {
	case errors.Is(err, ErrTruncated): // ours already
		err = r.c.damage("%w", err)
	case !r.decompressed:
		err = r.c.damage("cannot be read: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = r.c.damage("%w: the compressed stream ends before its end mark; was the file copied whole?", ErrTruncated)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		err = r.c.damage("%w: zstd compression with a window of more than %d MiB; decompress it first with zstd -d --long=31", ErrUnsupported, zstdMaxWindow>>20)
	default:
		err = r.c.damage("%w: the compressed stream cannot be read on: %w", ErrMalformed, err)
	}
	return r.fileError(err)
}
