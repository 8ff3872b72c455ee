package convert

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a line of the input.
const maxLine = 1 << 20

// lines reads lines and counts them.
type lines struct {
	in   *bufio.Scanner
	line int
}

func newLines(r io.Reader) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &lines{in: s}
}

// next is the next line without blanks around it; it is valid until the one after.
func (l *lines) next() ([]byte, error) {
	if !l.in.Scan() {
		err := l.in.Err()
		switch {
		case err == nil:
			return nil, io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			return nil, &LineError{l.line + 1, fmt.Errorf("it is longer than %d bytes", maxLine)}
		}
		return nil, fmt.Errorf("after line %d: %w", l.line, err)
	}
	l.line++
	return bytes.TrimSpace(bytes.TrimPrefix(l.in.Bytes(), []byte("\xEF\xBB\xBF"))), nil
}

func (l *lines) errorf(format string, args ...any) error {
	return &LineError{l.line, fmt.Errorf(format, args...)}
}

// csvReader is a table whose columns are signals.
type csvReader struct {
	lines
	comma byte
	names []string
	cells [][]byte
}

// row splits the next line that is no comment.
func (c *csvReader) row() error {
	for {
		b, err := c.next()
		if err != nil {
			return err
		}
		if len(b) == 0 || b[0] == '#' || b[0] == ';' {
			continue
		}
		if c.comma == 0 {
			c.comma = ','
			for _, s := range []byte(",\t;") {
				if bytes.IndexByte(b, s) >= 0 {
					c.comma = s
					break
				}
			}
		}
		c.cells = c.cells[:0]
		for len(b) > 0 || len(c.cells) == 0 {
			var cell []byte
			if cell, b, err = c.cell(b); err != nil {
				return err
			}
			c.cells = append(c.cells, cell)
		}
		return nil
	}
}

// cell takes a cell off a line.
func (c *csvReader) cell(b []byte) (cell, rest []byte, err error) {
	if b[0] == '"' {
		end := bytes.IndexByte(b[1:], '"')
		if end < 0 {
			return nil, nil, c.errorf("a quotation mark is not closed")
		}
		cell, b = b[1:1+end], b[2+end:]
		if at := bytes.IndexByte(b, c.comma); at >= 0 {
			return bytes.TrimSpace(cell), b[at+1:], nil
		}
		return bytes.TrimSpace(cell), nil, nil
	}
	cell, rest, _ = bytes.Cut(b, []byte{c.comma})
	return bytes.TrimSpace(cell), rest, nil
}

// CSV reads a logic analyzer's table: a line of names, then a line for each
// sample. Each line is a clock cycle, unless there is a column for the clock:
// then its rising edges are. Numbers are hexadecimal, unless a line of radices
// follows the names, as of integrated logic analyzers. It calls emit for each
// frame; the frame is valid until emit returns.
func CSV(r io.Reader, o Stream, emit func(*Frame) error) error {
	c := &csvReader{lines: *newLines(r)}
	if err := c.row(); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the table is empty: it needs a line with the names of the columns")
		}
		return err
	}
	for _, cell := range c.cells {
		c.names = append(c.names, string(cell))
	}
	at, err := o.resolve(c.names)
	if err != nil {
		return &LineError{c.line, err}
	}
	clock, err := o.clockOf(c.names)
	if err != nil {
		return &LineError{c.line, err}
	}
	a := assembler{o: &o, emit: emit}
	for s := range at {
		a.present[s] = at[s] >= 0
	}
	t := csvTable{csvReader: c, at: at, clock: clock, o: &o}
	for i := range t.radix {
		t.radix[i] = 16
	}
	return t.run(&a)
}

// csvTable is the table with its columns known.
type csvTable struct {
	*csvReader
	o     *Stream
	at    [numSignals]int
	clock timeColumn
	radix [numSignals]int
	now   [numSignals]value
	was   [numSignals]value // of the line before, which is what a rising edge takes
}

func (t *csvTable) run(a *assembler) error {
	clocked := t.at[sigClock] >= 0
	cycle, rows := uint64(0), uint64(0)
	for {
		if err := t.row(); err != nil {
			if errors.Is(err, io.EOF) {
				return a.close(t.line)
			}
			return err
		}
		if rows == 0 && t.radices() {
			continue
		}
		if err := t.read(); err != nil {
			return err
		}
		beat := &t.now
		if clocked {
			beat = &t.was
		}
		if !clocked || rows > 0 && t.now[sigClock].high() && !t.was[sigClock].high() {
			ns, err := t.time(cycle)
			if err != nil {
				return err
			}
			if err := a.beat(beat, cycle, ns, t.line); err != nil {
				return err
			}
			cycle++
		}
		if clocked {
			for s := range t.now {
				t.was[s].copyFrom(&t.now[s])
			}
		}
		rows++
	}
}

// radices takes a line that names the radix of each column.
func (t *csvTable) radices() bool {
	if !bytes.HasPrefix(bytes.ToLower(t.cells[0]), []byte("radix")) {
		return false
	}
	for s, at := range t.at {
		if at < 0 || at >= len(t.cells) {
			continue
		}
		switch strings.ToUpper(string(t.cells[at])) {
		case "BINARY":
			t.radix[s] = 2
		case "UNSIGNED", "SIGNED", "DECIMAL":
			t.radix[s] = 10
		}
	}
	return true
}

// read takes the signals of a line.
func (t *csvTable) read() error {
	for s, at := range t.at {
		if at < 0 {
			continue
		}
		if at >= len(t.cells) {
			return t.errorf("it has %d columns, so that %s is missing, which is column %d", len(t.cells), t.names[at], at+1)
		}
		if err := t.now[s].parse(t.cells[at], t.radix[s]); err != nil {
			return t.errorf("column %d, %s: %w", at+1, t.names[at], err)
		}
		if s == sigData {
			if w := vectorWidth(t.names[at]); w > 0 && (w+7)/8 != len(t.now[s].bits) {
				t.now[s].fit((w + 7) / 8)
			}
			if len(t.now[s].bits) > maxWidth {
				return t.errorf("column %d, %s: it is wider than %d bytes", at+1, t.names[at], maxWidth)
			}
		}
	}
	return nil
}

// fit makes the value n bytes long.
func (v *value) fit(n int) {
	if n > maxWidth {
		n = maxWidth + 1
	}
	for len(v.bits) < n {
		v.bits, v.unknown = append(v.bits, 0), append(v.unknown, 0)
	}
	v.bits, v.unknown = v.bits[:n], v.unknown[:n]
}

// vectorWidth is how many bits a name says its signal has, 0 where it does not.
func vectorWidth(name string) int {
	var hi, lo int
	i := strings.LastIndexByte(name, '[')
	if i < 0 {
		return 0
	}
	if n, _ := fmt.Sscanf(name[i:], "[%d:%d]", &hi, &lo); n != 2 || hi < lo || lo < 0 || hi > 8*maxWidth*8 {
		return 0
	}
	return hi - lo + 1
}

// parse reads a number; x, z and ? are undefined digits.
func (v *value) parse(b []byte, radix int) error {
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		radix, b = 16, b[2:]
	}
	if len(b) == 0 {
		return errors.New("it is empty")
	}
	switch radix {
	case 10:
		return v.parseDecimal(b)
	case 2:
		return v.parseDigits(b, 1)
	}
	return v.parseDigits(b, 4)
}

func (v *value) parseDigits(b []byte, width int) error {
	v.resize(len(b) * width)
	bit := 0
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '_' || b[i] == ' ' {
			continue
		}
		d, unknown := digit(b[i]), byte(0)
		if strings.IndexByte("xXzZ?-", b[i]) >= 0 {
			d, unknown = 0, 1<<width-1
		}
		if d >= 1<<width {
			return fmt.Errorf("%q is no digit of a %s number", b[i], map[int]string{1: "binary", 4: "hexadecimal"}[width])
		}
		v.bits[bit/8] |= d << (bit % 8)
		v.unknown[bit/8] |= unknown << (bit % 8)
		bit += width
	}
	n := (bit + 7) / 8
	v.bits, v.unknown = v.bits[:n], v.unknown[:n]
	return nil
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xFF
}

func (v *value) parseDecimal(b []byte) error {
	v.resize(8)
	for _, c := range b {
		d := digit(c)
		if d > 9 {
			return fmt.Errorf("%q is no digit of a decimal number", c)
		}
		carry := uint(d)
		for i := range v.bits {
			carry += uint(v.bits[i]) * 10
			v.bits[i] = byte(carry)
			carry >>= 8
		}
		if carry > 0 {
			if len(v.bits) > maxWidth {
				return fmt.Errorf("it is larger than %d bytes hold", maxWidth)
			}
			v.bits, v.unknown = append(v.bits, byte(carry)), append(v.unknown, 0)
		}
	}
	return nil
}
