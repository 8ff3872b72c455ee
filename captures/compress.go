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

// How far back a zstd stream may refer, and so how much memory it takes, for a
// stream claims it in its first bytes: at most what `zstd --long` uses and the
// zstd command accepts unasked, at least what RFC 8878 (3.1.1.1.2) asks of every
// decoder, and between them no more than a file of that size has use for.
const (
	zstdLeastWindow = 8 << 20
	zstdMostWindow  = 128 << 20
	zstdBestRatio   = 1024
)

// zstdWindow is the largest window for a compressed file of size bytes, 0 where
// that is not known.
func zstdWindow(size int64) uint64 {
	if size <= 0 || size >= zstdMostWindow/zstdBestRatio {
		return zstdMostWindow
	}
	return max(uint64(size)*zstdBestRatio, zstdLeastWindow)
}

// decompressor returns a stream of what r, which begins with head and has size
// bytes (0: unknown), holds compressed, and a function that releases it.
func decompressor(head []byte, r io.Reader, size int64) (io.Reader, func(), error) {
	if magic(head) == magicZstd {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow(size)))
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
		err = r.c.damage("%w: zstd compression with a window of more than %d MiB; decompress it first with zstd -d --long=31", ErrUnsupported, zstdWindow(r.total())>>20)
	default:
		err = r.c.damage("%w: the compressed stream cannot be read on: %w", ErrMalformed, err)
	}
	return r.fileError(err)
}
