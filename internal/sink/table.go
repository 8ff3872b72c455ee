package sink

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Type is the type of a column.
type Type uint8

// The types. A Time is nanoseconds since the Unix epoch.
const (
	Bool Type = iota
	Uint16
	Uint32
	Uint64
	Int64
	Float64
	Text
	Time
	numTypes
)

var typeNames = [numTypes]string{"bool", "uint16", "uint32", "uint64", "int64", "float64", "text", "time"}

func (t Type) String() string { return typeNames[t%numTypes] }

// Column is one column of a table.
type Column struct {
	Name     string
	Type     Type
	Nullable bool
	Unit     string // "bytes", "ns", "bit/s"; "" = a plain number or word
	Doc      string
}

// Table is one kind of record.
type Table struct {
	Name    string
	Doc     string
	Columns []Column
	Key     []string // columns that name a row: a later row with the same ones takes its place
	Time    string   // the column by whose hour files are parted
	Day     string   // a time that is the same in all rows of a key, by whose day a database parts them
	QPN     string   // the column by whose hash files are parted
	Once    bool     // a row is written once and never replaced
}

// Column returns the index of a column.
func (t *Table) Column(name string) int {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("table %s has no column %s", t.Name, name))
	}
	return i
}

// Tables returns all tables, in the order in which they are documented.
func Tables() []*Table {
	return []*Table{connections().Table, streams().Table, messages().Table, findings().Table, series().Table}
}

// names returns the names of all tables.
func names() []string {
	var names []string
	for _, t := range Tables() {
		names = append(names, t.Name)
	}
	return names
}

// Find returns a table by its name.
func Find(name string) (*Table, error) {
	for _, t := range Tables() {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("there is no table %q: there are %s", name, strings.Join(names(), ", "))
}

// Cells are the values of one column of a block.
type Cells struct {
	Bits  []uint64 // every type but Text; Int64 and Time as two's complement, Float64 by its bits
	Texts []string // Text
	Nulls []bool   // of nullable columns: the value is missing
}

// Int returns a value of Int64 or Time.
func (c *Cells) Int(row int) int64 { return int64(c.Bits[row]) }

// Float returns a value of Float64.
func (c *Cells) Float(row int) float64 { return math.Float64frombits(c.Bits[row]) }

// Null says whether a value is missing.
func (c *Cells) Null(row int) bool { return c.Nulls != nil && c.Nulls[row] }

// Block is rows of one table, column by column.
type Block struct {
	Table *Table
	Rows  int
	Cells []Cells // by the table's columns
}

// NewBlock makes an empty block.
func NewBlock(t *Table) *Block { return &Block{Table: t, Cells: make([]Cells, len(t.Columns))} }

// Reset empties the block, and keeps its room.
func (b *Block) Reset() {
	b.Rows = 0
	for i := range b.Cells {
		c := &b.Cells[i]
		c.Bits, c.Texts, c.Nulls = c.Bits[:0], c.Texts[:0], c.Nulls[:0]
	}
}

// AppendRows copies rows of another block of the same table, column by column.
func (b *Block) AppendRows(from *Block, rows []int32) {
	for i := range b.Cells {
		c, f := &b.Cells[i], &from.Cells[i]
		if b.Table.Columns[i].Type == Text {
			c.Texts = pick(c.Texts, f.Texts, rows)
		} else {
			c.Bits = pick(c.Bits, f.Bits, rows)
		}
		if b.Table.Columns[i].Nullable {
			c.Nulls = pick(c.Nulls, f.Nulls, rows)
		}
	}
	b.Rows += len(rows)
}

func pick[T any](to, from []T, rows []int32) []T {
	to = slices.Grow(to, len(rows))
	for _, row := range rows {
		to = append(to, from[row])
	}
	return to
}

// Writer takes rows somewhere. It serves one goroutine.
type Writer interface {
	// Write takes a block, which is borrowed for the call.
	Write(b *Block) error
	// Replaces says whether a later row takes the place of an earlier one with the same key. To a writer that cannot, rows
	// that change are given only once, when they are final.
	Replaces() bool
	// Close finishes what was begun.
	Close() error
}

// column is a column and how a record of type R fills it.
type column[R any] struct {
	Column
	put func(c *Cells, r *R)
}

// table is a Table and how records of type R become its rows.
type table[R any] struct {
	*Table
	puts []func(c *Cells, r *R)
}

func newTable[R any](t Table, columns ...[]column[R]) *table[R] {
	made := &table[R]{Table: &t}
	for _, group := range columns {
		for _, c := range group {
			t.Columns = append(t.Columns, c.Column)
			made.puts = append(made.puts, c.put)
		}
	}
	return made
}

// add appends a record to a block of the table.
func (t *table[R]) add(b *Block, r *R) {
	for i, put := range t.puts {
		put(&b.Cells[i], r)
	}
	b.Rows++
}

// number is a column of a number or a time.
func number[R any](name string, t Type, unit, doc string, get func(r *R) uint64) column[R] {
	return column[R]{Column{name, t, false, unit, doc}, func(c *Cells, r *R) { c.Bits = append(c.Bits, get(r)) }}
}

// maybe is a column of a number or a time that may be missing.
func maybe[R any](name string, t Type, unit, doc string, get func(r *R) (uint64, bool)) column[R] {
	return column[R]{Column{name, t, true, unit, doc}, func(c *Cells, r *R) {
		v, ok := get(r)
		if !ok {
			v = 0
		}
		c.Bits, c.Nulls = append(c.Bits, v), append(c.Nulls, !ok)
	}}
}

// yes is a column that is true or false.
func yes[R any](name, doc string, get func(r *R) bool) column[R] {
	return column[R]{Column{name, Bool, false, "", doc}, func(c *Cells, r *R) {
		v := uint64(0)
		if get(r) {
			v = 1
		}
		c.Bits = append(c.Bits, v)
	}}
}

// word is a column of text.
func word[R any](name, doc string, get func(r *R) string) column[R] {
	return column[R]{Column{name, Text, false, "", doc}, func(c *Cells, r *R) { c.Texts = append(c.Texts, get(r)) }}
}

// float is a column of a broken number.
func float[R any](name, unit, doc string, get func(r *R) float64) column[R] {
	return column[R]{Column{name, Float64, false, unit, doc}, func(c *Cells, r *R) {
		c.Bits = append(c.Bits, math.Float64bits(get(r)))
	}}
}
