package text

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/internal/sink"
)

// CSV writes a file for each table: a line with the columns' names, then a line per row (RFC 4180). A missing value is an
// empty field.
type CSV struct {
	open  func(t *sink.Table) (io.WriteCloser, error)
	files map[*sink.Table]*csvFile
	line  []byte
}

type csvFile struct {
	out io.WriteCloser
	w   *bufio.Writer
}

// NewCSV opens a table's file with open, when its first row comes.
func NewCSV(open func(t *sink.Table) (io.WriteCloser, error)) *CSV {
	return &CSV{open: open, files: map[*sink.Table]*csvFile{}}
}

// Replaces implements sink.Writer: a line stays.
func (c *CSV) Replaces() bool { return false }

// Write implements sink.Writer.
func (c *CSV) Write(b *sink.Block) error {
	f, err := c.file(b.Table)
	if err != nil {
		return err
	}
	for row := range b.Rows {
		line := c.line[:0]
		for i := range b.Cells {
			if i > 0 {
				line = append(line, ',')
			}
			line = appendCSV(line, b.Table.Columns[i].Type, &b.Cells[i], row)
		}
		c.line = append(line, '\n')
		if _, err := f.w.Write(c.line); err != nil {
			return err
		}
	}
	return f.w.Flush()
}

func (c *CSV) file(t *sink.Table) (*csvFile, error) {
	if f := c.files[t]; f != nil {
		return f, nil
	}
	out, err := c.open(t)
	if err != nil {
		return nil, err
	}
	f := &csvFile{out, bufio.NewWriterSize(out, 256<<10)}
	c.files[t] = f
	var names []string
	for _, column := range t.Columns {
		names = append(names, column.Name)
	}
	_, err = f.w.WriteString(strings.Join(names, ",") + "\n")
	return f, err
}

func appendCSV(dst []byte, t sink.Type, c *sink.Cells, row int) []byte {
	switch {
	case c.Null(row):
		return dst
	case t == sink.Text:
		s := c.Texts[row]
		if !strings.ContainsAny(s, ",\"\r\n") {
			return append(dst, s...)
		}
		dst = append(dst, '"')
		dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
		return append(dst, '"')
	case t == sink.Bool:
		return strconv.AppendBool(dst, c.Bits[row] != 0)
	case t == sink.Int64:
		return strconv.AppendInt(dst, c.Int(row), 10)
	case t == sink.Float64:
		return strconv.AppendFloat(dst, c.Float(row), 'f', -1, 64)
	case t == sink.Time:
		return appendTime(dst, c.Int(row))
	}
	return strconv.AppendUint(dst, c.Bits[row], 10)
}

// Close implements sink.Writer.
func (c *CSV) Close() error {
	var all []error
	for _, f := range c.files {
		all = append(all, f.w.Flush(), f.out.Close())
	}
	return errors.Join(all...)
}
