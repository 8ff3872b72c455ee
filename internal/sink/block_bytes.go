package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Parcel is a block on its way to a database.
type Parcel struct {
	*Block
	ID      uint64 // the same whenever the same rows are sent
	Version uint64 // of two rows with the same key, the one with the greater version holds
	Unsure  bool   // it may have arrived before
}

// The bytes of a parcel in a spill file: rows, id, version, whether it is unsure, table, columns; then of each column its name, its type, which values are
// missing, and the values. A table may have got other columns since: those of the same name and type are taken over.

var errBlockBytes = errors.New("a block does not read as one")

func encodeParcel(dst []byte, b *Parcel) []byte {
	text := func(s string) {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.Rows))
	dst = binary.LittleEndian.AppendUint64(dst, b.ID)
	dst = binary.LittleEndian.AppendUint64(dst, b.Version)
	dst = append(dst, truth(b.Unsure))
	text(b.Table.Name)
	dst = binary.AppendUvarint(dst, uint64(len(b.Cells)))
	for i := range b.Cells {
		column, c := &b.Table.Columns[i], &b.Cells[i]
		text(column.Name)
		dst = append(dst, byte(column.Type), byte(min(len(c.Nulls), 1)))
		for _, null := range c.Nulls {
			dst = append(dst, truth(null))
		}
		if column.Type == Text {
			for _, s := range c.Texts {
				text(s)
			}
			continue
		}
		for _, v := range c.Bits {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

func truth(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// rowsOf is how many rows an encoded block has.
func rowsOf(block []byte) uint64 {
	if len(block) < 4 {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(block))
}

// blockReader takes bytes apart; its first failure sticks.
type blockReader struct {
	left   []byte
	broken bool
}

func (r *blockReader) bytes(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.broken, r.left = true, nil
		return nil
	}
	out := r.left[:n]
	r.left = r.left[n:]
	return out
}

func (r *blockReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *blockReader) number() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.broken, r.left = true, nil
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *blockReader) text() string { return string(r.bytes(r.number())) }

// parcelHead is the length of what stands in front of the table's name.
const parcelHead = 4 + 8 + 8 + 1

func decodeParcel(bytes []byte) (*Parcel, error) {
	if len(bytes) < parcelHead {
		return nil, errBlockBytes
	}
	rows := int(rowsOf(bytes))
	r := &blockReader{left: bytes[parcelHead:]}
	table, err := Find(r.text())
	if err != nil {
		return nil, err
	}
	b := &Parcel{
		Block: NewBlock(table), ID: binary.LittleEndian.Uint64(bytes[4:]), Version: binary.LittleEndian.Uint64(bytes[12:]), Unsure: bytes[20] != 0,
	}
	b.Rows = rows
	for range r.number() {
		if r.broken {
			break
		}
		name, t, nulls := r.text(), Type(r.byte()), r.byte()
		var c Cells
		if nulls != 0 {
			for _, null := range r.bytes(uint64(rows)) {
				c.Nulls = append(c.Nulls, null != 0)
			}
		}
		for i := 0; i < rows && !r.broken; i++ {
			if t == Text {
				c.Texts = append(c.Texts, r.text())
			} else {
				c.Bits = append(c.Bits, r.number())
			}
		}
		at := slices.IndexFunc(table.Columns, func(x Column) bool { return x.Name == name && x.Type == t && x.Nullable == (nulls != 0) })
		if at >= 0 {
			b.Cells[at] = c
		}
	}
	if r.broken || len(r.left) > 0 {
		return nil, errBlockBytes
	}
	for i := range b.Cells {
		if column := &table.Columns[i]; len(b.Cells[i].Bits)+len(b.Cells[i].Texts) != rows {
			return nil, fmt.Errorf("a block of %s has no column %s: it was written by another version", table.Name, column.Name)
		}
	}
	return b, nil
}
