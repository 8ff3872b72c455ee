package convert

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// Format is a file format of captures.
type Format string

// The formats.
const (
	Pcap   Format = "pcap"
	Pcapng Format = "pcapng"
)

// FormatOf is the format and the compression, "" or one of its endings, that
// the end of a file's name asks for.
func FormatOf(name string) (f Format, compression string, err error) {
	name = strings.ToLower(filepath.Base(name))
	for _, c := range []string{".gz", ".zst"} {
		if rest, ok := strings.CutSuffix(name, c); ok {
			name, compression = rest, c
			break
		}
	}
	switch filepath.Ext(name) {
	case ".pcap", ".cap":
		return Pcap, compression, nil
	case ".pcapng", ".ntar":
		return Pcapng, compression, nil
	}
	return "", "", fmt.Errorf("%s: the name has to end in .pcap or .pcapng, then .gz or .zst if it is to be compressed", name)
}

// Compress returns a writer of what w gets compressed, and plainly for "".
// Close ends the compression only.
func Compress(w io.Writer, compression string) (io.WriteCloser, error) {
	switch compression {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return plainWriter{w}, nil
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// Output writes frames in a format.
type Output interface {
	AddInterface(i captures.Interface) int
	Write(f *captures.Frame, comments ...string) error
	Flush() error
}

// NewOutput begins a capture. A pcap file has one link type, whole times and no
// comments: those are left out, and what does not fit is an error.
func NewOutput(w io.Writer, f Format, program string) Output {
	if f == Pcap {
		return &pcapWriter{w: bufio.NewWriterSize(w, 256<<10)}
	}
	return captures.NewWriter(w, captures.WriterOptions{Application: program})
}

// pcapWriter writes a pcap file with nanoseconds.
type pcapWriter struct {
	w       *bufio.Writer
	link    dissect.LinkType
	ifaces  int
	snapLen int
	begun   bool
}

func (p *pcapWriter) AddInterface(i captures.Interface) int {
	if !p.begun {
		p.link = i.Link
	}
	p.ifaces++
	p.snapLen = max(p.snapLen, i.SnapLen)
	return p.ifaces - 1
}

// begin writes the file's header.
func (p *pcapWriter) begin() error {
	if p.begun {
		return nil
	}
	p.begun = true
	var h [24]byte
	le := binary.LittleEndian
	le.PutUint32(h[0:], 0xA1B23C4D)
	le.PutUint16(h[4:], 2)
	le.PutUint16(h[6:], 4)
	le.PutUint32(h[16:], uint32(max(p.snapLen, 256<<10)))
	le.PutUint32(h[20:], uint32(p.link))
	_, err := p.w.Write(h[:])
	return err
}

func (p *pcapWriter) Write(f *captures.Frame, _ ...string) error {
	if !p.begun {
		p.link = f.Link
	}
	if err := p.begin(); err != nil {
		return err
	}
	const second = 1e9
	switch {
	case f.Link != p.link:
		return fmt.Errorf("frames begin with %v and with %v, which a pcap file cannot hold; write a pcapng file", p.link, f.Link)
	case f.Time < 0 || f.Time/second > 1<<32-1:
		return errors.New("the time of a frame lies outside the years 1970 to 2106, which a pcap file cannot hold; write a pcapng file")
	case !f.HasTime:
		return errors.New("a frame has no time, which a pcap file cannot hold; write a pcapng file")
	}
	var h [16]byte
	le := binary.LittleEndian
	le.PutUint32(h[0:], uint32(f.Time/second))
	le.PutUint32(h[4:], uint32(f.Time%second))
	le.PutUint32(h[8:], uint32(len(f.Data)))
	le.PutUint32(h[12:], uint32(f.WireLen))
	if _, err := p.w.Write(h[:]); err != nil {
		return err
	}
	_, err := p.w.Write(f.Data)
	return err
}

func (p *pcapWriter) Flush() error {
	return errors.Join(p.begin(), p.w.Flush())
}

// Frames writes all frames of a capture, and says how many.
func Frames(out Output, src captures.Source) (n uint64, err error) {
	described := 0
	room := make([]captures.Frame, 512)
	for {
		got, err := src.ReadBatch(room)
		if err != nil {
			if flushed := out.Flush(); flushed != nil {
				return n, flushed
			}
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		for _, i := range src.Interfaces()[described:] {
			out.AddInterface(i)
			described++
		}
		err = captures.Guard(func() error {
			for i := range room[:got] {
				if err := out.Write(&room[i]); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			return n, err
		}
	}
}
