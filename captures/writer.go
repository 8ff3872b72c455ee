package captures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// WriterOptions are what a pcapng section says of itself. All of it may be
// empty.
type WriterOptions struct {
	Hardware    string // shb_hardware
	OS          string // shb_os
	Application string // shb_userappl: the program that captured
	Comment     string // a remark on the whole section

	// Interfaces are described at the start, in this order. Of each, Name,
	// Description, Filter, Hardware, OS, Link, SnapLen, Speed and FCSLen (from 1
	// on) are written. Times are nanoseconds, whatever Resolution says.
	Interfaces []Interface
	// Remarks are comments on the interfaces, by index; there may be fewer.
	Remarks []string
}

// Writer writes a pcapng section. Each write to what lies below consists of
// whole blocks, so that a file which ends early, because the process was killed
// or the disk is full, is readable to its last whole block.
//
// It is for one goroutine, allocates nothing per frame, and writes when its
// buffer is full or on Flush. A [Recorder] does the same behind a queue.
type Writer struct {
	to     io.Writer
	buf    []byte
	ifaces int
	wrote  int64  // bytes below
	frames uint64 // and frames
	err    error
}

// writeBuffer is how much is written at a time.
const writeBuffer = 256 << 10

// NewWriter begins a section. Nothing is written before the first Flush.
func NewWriter(to io.Writer, o WriterOptions) *Writer {
	w := &Writer{to: to, buf: make([]byte, 0, writeBuffer)}
	w.buf = o.appendHeader(w.buf)
	w.ifaces = len(o.Interfaces)
	return w
}

// AddInterface describes one more interface and returns its index, for
// Frame.Iface.
func (w *Writer) AddInterface(i Interface) int {
	w.buf = appendInterface(w.buf, &i, "")
	w.ifaces++
	return w.ifaces - 1
}

// Write appends a frame, with comments on it. A frame's interface must have been
// described. A frame without a time is written as one where the format can say
// so (a Simple Packet Block), and with the time 0 elsewhere.
func (w *Writer) Write(f *Frame, comments ...string) error {
	if w.err != nil {
		return w.err
	}
	if f.Iface < 0 || f.Iface >= w.ifaces {
		return fmt.Errorf("captures: a frame of interface %d cannot be written: %d are described (from 0)", f.Iface, w.ifaces)
	}
	if len(w.buf) > 0 && len(w.buf)+packetLength(f, comments) > writeBuffer {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.buf = appendPacket(w.buf, f, comments)
	return nil
}

// Statistics appends what is counted of an interface; counts of -1 are left out.
// start and end are when counting began and ended, as Frame.Time.
func (w *Writer) Statistics(iface int, s InterfaceStats, start, end int64) error {
	if w.err != nil {
		return w.err
	}
	w.buf = appendStatistics(w.buf, iface, &s, start, end)
	return nil
}

// Flush writes what is buffered. After an error nothing more is written; the
// error repeats.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	whole, err := writeBlocks(w.to, w.buf, w.wrote)
	w.wrote += int64(whole)
	w.frames += countPackets(w.buf[:whole])
	w.buf = w.buf[:0]
	if err != nil {
		w.err = fmt.Errorf("captures: write: %w", err)
	}
	return w.err
}

// Written is how many frames are in what lies below, those not that wait to be
// flushed or could not be written.
func (w *Writer) Written() uint64 { return w.frames }

// writeBlocks writes buf, which is whole blocks, to a file that ends at offset
// at. It returns how many bytes of whole blocks are there now: of a block that
// was written in part, the part is taken back where what lies below is a file.
func writeBlocks(to io.Writer, buf []byte, at int64) (whole int, err error) {
	n, err := to.Write(buf)
	if err == nil && n < len(buf) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return n, nil
	}
	for whole+8 <= n {
		length := int(binary.LittleEndian.Uint32(buf[whole+4:]))
		if whole+length > n {
			break
		}
		whole += length
	}
	if f, ok := to.(*os.File); ok && whole < n {
		if st, serr := f.Stat(); serr == nil && st.Mode().IsRegular() {
			if terr := f.Truncate(at + int64(whole)); terr != nil {
				err = errors.Join(err, terr)
			}
		}
	}
	return whole, err
}

// countPackets counts the packets in whole blocks.
func countPackets(blocks []byte) (n uint64) {
	for len(blocks) >= 8 {
		switch binary.LittleEndian.Uint32(blocks) {
		case blockEPB, blockSPB:
			n++
		}
		blocks = blocks[binary.LittleEndian.Uint32(blocks[4:]):]
	}
	return n
}

// appendHeader appends the Section Header Block and the interfaces.
func (o *WriterOptions) appendHeader(dst []byte) []byte {
	at := len(dst)
	dst = beginBlock(dst, blockSHB)
	dst = put32(dst, byteOrderMagic)
	dst = put16(dst, 1) // version 1.0
	dst = put16(dst, 0)
	dst = put64(dst, ^uint64(0)) // how long the section is, nobody knows
	some := len(dst)
	dst = appendText(dst, optComment, o.Comment)
	dst = appendText(dst, optHardware, o.Hardware)
	dst = appendText(dst, optOS, o.OS)
	dst = appendText(dst, optUserAppl, o.Application)
	dst = endOptions(dst, some)
	dst = endBlock(dst, at)
	for i := range o.Interfaces {
		remark := ""
		if i < len(o.Remarks) {
			remark = o.Remarks[i]
		}
		dst = appendInterface(dst, &o.Interfaces[i], remark)
	}
	return dst
}

func appendInterface(dst []byte, i *Interface, remark string) []byte {
	at := len(dst)
	dst = beginBlock(dst, blockIDB)
	dst = put16(dst, uint16(i.Link))
	dst = put16(dst, 0)
	dst = put32(dst, uint32(i.SnapLen))
	some := len(dst)
	dst = appendText(dst, optComment, remark)
	dst = appendText(dst, optName, i.Name)
	dst = appendText(dst, optDescription, i.Description)
	if i.Speed != 0 {
		dst = put64(beginOption(dst, optSpeed, 8), i.Speed)
	}
	dst = append(beginOption(dst, optTsresol, 1), 9, 0, 0, 0)
	if i.Filter != "" {
		// The first octet says that text follows, not code.
		dst = beginOption(dst, optFilter, 1+len(i.Filter))
		dst = pad(append(append(dst, 0), i.Filter...), 1+len(i.Filter))
	}
	dst = appendText(dst, optIfOS, i.OS)
	if i.FCSLen > 0 {
		dst = append(beginOption(dst, optFCSLen, 1), byte(i.FCSLen), 0, 0, 0)
	}
	dst = appendText(dst, optIfHardware, i.Hardware)
	dst = endOptions(dst, some)
	return endBlock(dst, at)
}

// flagsLength is that of the option which tells a frame's direction.
const flagsLength = 8

// packetLength is an upper bound of what appendPacket appends.
func packetLength(f *Frame, comments []string) int {
	n := minEPB + len(f.Data) + 3 + flagsLength + 4
	for _, c := range comments {
		n += 4 + len(c) + 3
	}
	return n
}

func appendPacket(dst []byte, f *Frame, comments []string) []byte {
	at := len(dst)
	if !f.HasTime && f.Iface == 0 && f.Direction == InOut && len(comments) == 0 && len(f.Data) == f.WireLen {
		dst = beginBlock(dst, blockSPB)
		dst = put32(dst, uint32(f.WireLen))
		dst = pad(append(dst, f.Data...), len(f.Data))
		return endBlock(dst, at)
	}
	stamp := uint64(max(f.Time, 0))
	dst = beginBlock(dst, blockEPB)
	dst = put32(dst, uint32(f.Iface))
	dst = put32(dst, uint32(stamp>>32))
	dst = put32(dst, uint32(stamp))
	dst = put32(dst, uint32(len(f.Data)))
	dst = put32(dst, uint32(f.WireLen))
	dst = pad(append(dst, f.Data...), len(f.Data))
	some := len(dst)
	for _, c := range comments {
		dst = appendText(dst, optComment, c)
	}
	if f.Direction != InOut {
		dst = put32(beginOption(dst, optEPBFlags, 4), uint32(f.Direction)) // the same numbers
	}
	dst = endOptions(dst, some)
	return endBlock(dst, at)
}

func appendStatistics(dst []byte, iface int, s *InterfaceStats, start, end int64) []byte {
	at := len(dst)
	dst = beginBlock(dst, blockISB)
	dst = put32(dst, uint32(iface))
	dst = putStamp(dst, end)
	some := len(dst)
	dst = putStamp(beginOption(dst, optISBStart, 8), start)
	dst = putStamp(beginOption(dst, optISBEnd, 8), end)
	for _, c := range [...]struct {
		code  uint16
		count int64
	}{
		{optIfRecv, s.Received},
		{optIfDrop, s.Dropped},
		{optFilterAccept, s.FilterAccepted},
		{optOSDrop, s.OSDropped},
		{optUsrDeliv, s.Delivered},
	} {
		if c.count >= 0 {
			dst = put64(beginOption(dst, c.code, 8), uint64(c.count))
		}
	}
	dst = endOptions(dst, some)
	return endBlock(dst, at)
}

// Codes of options that only writing needs.
const (
	optISBStart = 2 // isb_
	optISBEnd   = 3
)

// maxOption is the longest text that an option's 16-bit length can say.
const maxOption = 1<<16 - 1

// beginBlock appends a block's type and room for its length.
func beginBlock(dst []byte, typ uint32) []byte { return put32(put32(dst, typ), 0) }

// endBlock completes the block that begins at at: both of its lengths.
func endBlock(dst []byte, at int) []byte {
	length := uint32(len(dst) - at + 4)
	binary.LittleEndian.PutUint32(dst[at+4:], length)
	return put32(dst, length)
}

func beginOption(dst []byte, code uint16, length int) []byte {
	return put16(put16(dst, code), uint16(length))
}

// appendText appends an option of text, unless it is empty.
func appendText(dst []byte, code uint16, text string) []byte {
	if text == "" {
		return dst
	}
	if len(text) > maxOption {
		text = text[:maxOption]
	}
	dst = beginOption(dst, code, len(text))
	return pad(append(dst, text...), len(text))
}

// endOptions ends the options that begin at from, if there are any.
func endOptions(dst []byte, from int) []byte {
	if len(dst) == from {
		return dst
	}
	return beginOption(dst, optEnd, 0)
}

// pad fills up to a multiple of 4 what has length bytes.
func pad(dst []byte, length int) []byte {
	for ; length%4 != 0; length++ {
		dst = append(dst, 0)
	}
	return dst
}

func put16(dst []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(dst, v) }
func put32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }
func put64(dst []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(dst, v) }

// putStamp appends a time: high half first.
func putStamp(dst []byte, nanos int64) []byte {
	v := uint64(max(nanos, 0))
	return put32(put32(dst, uint32(v>>32)), uint32(v))
}
