package clickhouse

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/rocescope/rocescope/internal/sink"
)

// room holds the columns of a block as the library takes them, and is used again.
type room struct {
	u8  []uint8
	u16 []uint16
	u32 []uint32
	i64 []int64
	f64 []float64

	pu16 []*uint16
	pu32 []*uint32
	pu64 []*uint64
	pi64 []*int64
	ptxt []*string
	u64  []uint64
}

// insert sends a block.
func (r *room) insert(ctx context.Context, conn driver.Conn, database string, b *sink.Parcel) error {
	var names []string
	for i := range b.Table.Columns {
		names = append(names, quote(name(&b.Table.Columns[i])))
	}
	sent, err := conn.PrepareBatch(ctx, fmt.Sprintf("INSERT INTO %s.%s (%s, `batch`, `version`)",
		quote(database), quote(b.Table.Name), strings.Join(names, ", ")))
	if err != nil {
		return err
	}
	defer sent.Close()
	for i := range b.Cells {
		if err := sent.Column(i).Append(r.column(&b.Table.Columns[i], &b.Cells[i])); err != nil {
			return fmt.Errorf("column %s: %w", b.Table.Columns[i].Name, err)
		}
	}
	for i, v := range []uint64{b.ID, b.Version} {
		if err := sent.Column(len(b.Cells) + i).Append(fill(&r.u64, b.Rows, v)); err != nil {
			return err
		}
	}
	return sent.Send()
}

// column is a column in the type that the library wants of it.
func (r *room) column(c *sink.Column, cells *sink.Cells) any {
	if c.Nullable {
		switch c.Type {
		case sink.Uint16:
			return pointers(&r.pu16, convert(&r.u16, cells.Bits), cells.Nulls)
		case sink.Uint32:
			return pointers(&r.pu32, convert(&r.u32, cells.Bits), cells.Nulls)
		case sink.Int64:
			return pointers(&r.pi64, convert(&r.i64, cells.Bits), cells.Nulls)
		case sink.Text:
			return pointers(&r.ptxt, cells.Texts, cells.Nulls)
		}
		return pointers(&r.pu64, cells.Bits, cells.Nulls)
	}
	switch c.Type {
	case sink.Bool:
		return convert(&r.u8, cells.Bits)
	case sink.Uint16:
		return convert(&r.u16, cells.Bits)
	case sink.Uint32:
		return convert(&r.u32, cells.Bits)
	case sink.Int64:
		return convert(&r.i64, cells.Bits)
	case sink.Float64:
		r.f64 = r.f64[:0]
		for row := range cells.Bits {
			r.f64 = append(r.f64, cells.Float(row))
		}
		return r.f64
	case sink.Text:
		return cells.Texts
	}
	return cells.Bits
}

func convert[T uint8 | uint16 | uint32 | int64](to *[]T, bits []uint64) []T {
	out := (*to)[:0]
	for _, v := range bits {
		out = append(out, T(v))
	}
	*to = out
	return out
}

func pointers[T any](to *[]*T, values []T, nulls []bool) []*T {
	out := (*to)[:0]
	for i := range values {
		if nulls[i] {
			out = append(out, nil)
		} else {
			out = append(out, &values[i])
		}
	}
	*to = out
	return out
}

func fill(to *[]uint64, n int, v uint64) []uint64 {
	out := (*to)[:0]
	for range n {
		out = append(out, v)
	}
	*to = out
	return out
}

// has asks whether the server took a block before.
func has(ctx context.Context, conn driver.Conn, database string, b *sink.Parcel) (bool, error) {
	day := b.Table.Column(b.Table.Day)
	var n uint64
	err := conn.QueryRow(ctx, fmt.Sprintf("SELECT count() FROM %s.%s WHERE toDate(%s) = toDate(toDateTime(%d, 'UTC')) AND run = %d AND batch = %d",
		quote(database), quote(b.Table.Name), quote(b.Table.Day), b.Cells[day].Int(0)/1e9, b.Cells[b.Table.Column("run")].Bits[0], b.ID)).Scan(&n)
	return n >= uint64(b.Rows), err
}
