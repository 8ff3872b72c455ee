package text

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/rocescope/rocescope/internal/sink"
)

// Schema is the name of the form of a line.
const Schema = "rocescope.record/1"

// JSONL writes an object per row, with the table's name as "record".
type JSONL struct {
	out   io.WriteCloser
	w     *bufio.Writer
	heads map[*sink.Table][][]byte // what stands in front of each value
	line  []byte
}

// NewJSONL writes to out, and closes it in the end.
func NewJSONL(out io.WriteCloser) *JSONL {
	return &JSONL{out: out, w: bufio.NewWriterSize(out, 256<<10), heads: map[*sink.Table][][]byte{}}
}

// Replaces implements sink.Writer: a line stays.
func (j *JSONL) Replaces() bool { return false }

// Write implements sink.Writer.
func (j *JSONL) Write(b *sink.Block) error {
	heads := j.heads[b.Table]
	if heads == nil {
		for i, c := range b.Table.Columns {
			head := `,"`
			if i == 0 {
				head = `{"schema":"` + Schema + `","record":"` + b.Table.Name + `","`
			}
			heads = append(heads, []byte(head+c.Name+`":`))
		}
		j.heads[b.Table] = heads
	}
	for row := range b.Rows {
		line := j.line[:0]
		for i := range b.Cells {
			line = append(line, heads[i]...)
			line = appendJSON(line, b.Table.Columns[i].Type, &b.Cells[i], row)
		}
		j.line = append(line, "}\n"...)
		if _, err := j.w.Write(j.line); err != nil {
			return err
		}
	}
	return j.w.Flush()
}

func appendJSON(dst []byte, t sink.Type, c *sink.Cells, row int) []byte {
	switch {
	case c.Null(row):
		return append(dst, "null"...)
	case t == sink.Text:
		return appendString(dst, c.Texts[row])
	case t == sink.Bool:
		return strconv.AppendBool(dst, c.Bits[row] != 0)
	case t == sink.Int64:
		return strconv.AppendInt(dst, c.Int(row), 10)
	case t == sink.Float64:
		return strconv.AppendFloat(dst, c.Float(row), 'f', -1, 64)
	case t == sink.Time:
		dst = append(dst, '"')
		dst = appendTime(dst, c.Int(row))
		return append(dst, '"')
	}
	return strconv.AppendUint(dst, c.Bits[row], 10)
}

// appendString quotes a text; nearly none needs more than quotes.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // of a string nothing can fail
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// Close implements sink.Writer.
func (j *JSONL) Close() error {
	err := j.w.Flush()
	if cerr := j.out.Close(); err == nil {
		err = cerr
	}
	return err
}
