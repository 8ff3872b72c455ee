package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// Spill is a bounded file in which blocks wait until their database is back, first in, first out. Each is whole or not there:
// a process that is killed while it writes one leaves the others. When all are taken out, the file is empty again.
//
// The file begins with spillMagic and the offset of the oldest block. A block is its length, its CRC-32C, and its bytes.
type Spill struct {
	mu   sync.Mutex
	file *os.File
	most int64
	head int64 // offset of the oldest block
	tail int64 // where the next one goes
	n    int   // blocks
	rows uint64
}

// ErrSpillFull is what Put returns when a block finds no room.
var ErrSpillFull = errors.New("the spill file is full")

const (
	spillMagic  = "RSSPILL1"
	spillHeader = int64(len(spillMagic)) + 8
	spillFrame  = 8 // length and CRC
)

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// OpenSpill opens a spill file, or makes it. What an earlier process left in it is still there, but for a block that was
// not whole. most bounds the file's size in bytes.
func OpenSpill(path string, most int64) (*Spill, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the spill file: %w", err)
	}
	s := &Spill{file: f, most: most}
	if err := s.recover(); err != nil {
		f.Close()
		return nil, fmt.Errorf("spill file %s: %w", path, err)
	}
	return s, nil
}

func (s *Spill) recover() error {
	var head [spillHeader]byte
	n, err := s.file.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if k := min(n, len(spillMagic)); string(head[:k]) != spillMagic[:k] {
		return errors.New("it is no spill file; name another one")
	}
	if n < len(head) {
		return s.empty()
	}
	s.head = max(int64(binary.LittleEndian.Uint64(head[len(spillMagic):])), spillHeader)
	for s.tail = s.head; ; {
		block, err := s.readAt(s.tail)
		if err != nil {
			break // the end, or a block that was not finished
		}
		s.tail += spillFrame + int64(len(block))
		s.n++
		s.rows += rowsOf(block)
	}
	if s.n == 0 {
		return s.empty()
	}
	return s.file.Truncate(s.tail)
}

func (s *Spill) empty() error {
	s.head, s.tail, s.n, s.rows = spillHeader, spillHeader, 0, 0
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	_, err := s.file.WriteAt(s.start(), 0)
	return err
}

// start is the file's beginning.
func (s *Spill) start() []byte {
	return binary.LittleEndian.AppendUint64([]byte(spillMagic), uint64(s.head))
}

func (s *Spill) readAt(at int64) ([]byte, error) {
	var frame [spillFrame]byte
	if _, err := s.file.ReadAt(frame[:], at); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(frame[:])
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	if length == 0 || int64(length) > info.Size()-at-spillFrame { // a damaged file may claim anything
		return nil, io.ErrUnexpectedEOF
	}
	block := make([]byte, length)
	if _, err := s.file.ReadAt(block, at+spillFrame); err != nil {
		return nil, err
	}
	if crc32.Checksum(block, castagnoli()) != binary.LittleEndian.Uint32(frame[4:]) {
		return nil, io.ErrUnexpectedEOF
	}
	return block, nil
}

// Put appends a block. It is safe from a killed process when Put returns, and from a machine's crash.
func (s *Spill) Put(b *Parcel) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	framed := encodeParcel(make([]byte, spillFrame, 1<<16), b)
	body := framed[spillFrame:]
	if s.tail+int64(len(framed)) > s.most {
		return ErrSpillFull
	}
	binary.LittleEndian.PutUint32(framed, uint32(len(body)))
	binary.LittleEndian.PutUint32(framed[4:], crc32.Checksum(body, castagnoli()))
	if _, err := s.file.WriteAt(framed, s.tail); err != nil {
		return fmt.Errorf("write the spill file: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("write the spill file: %w", err)
	}
	s.tail += int64(len(framed))
	s.n++
	s.rows += uint64(b.Rows)
	return nil
}

// Oldest returns the block that waits longest, nil when there is none.
func (s *Spill) Oldest() (b *Parcel, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return nil, nil
	}
	bytes, err := s.readAt(s.head)
	if err == nil {
		b, err = decodeParcel(bytes)
	}
	if err != nil {
		err = fmt.Errorf("read the spill file: %w", err)
	}
	return b, err
}

// Drop takes the oldest block out, for it is where it belongs.
func (s *Spill) Drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	block, err := s.readAt(s.head)
	if err != nil {
		return fmt.Errorf("read the spill file: %w", err)
	}
	s.head += spillFrame + int64(len(block))
	s.n--
	s.rows -= rowsOf(block)
	if s.n == 0 {
		err = s.empty()
	} else {
		_, err = s.file.WriteAt(s.start(), 0)
	}
	if err != nil {
		return fmt.Errorf("write the spill file: %w", err)
	}
	return nil
}

// Waiting is how many blocks and rows are in the file.
func (s *Spill) Waiting() (blocks int, rows uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.rows
}

// Close closes the file, which stays if something is in it.
func (s *Spill) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		_ = os.Remove(s.file.Name()) // an empty one may stay, too
	}
	return s.file.Close()
}
