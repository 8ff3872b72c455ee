package parquet

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rocescope/rocescope/internal/sink"
)

// goTypes are the Go types by which the library knows the columns' types.
var goTypes = map[sink.Type]reflect.Type{
	sink.Bool:    reflect.TypeFor[bool](),
	sink.Uint16:  reflect.TypeFor[uint16](),
	sink.Uint32:  reflect.TypeFor[uint32](),
	sink.Uint64:  reflect.TypeFor[uint64](),
	sink.Int64:   reflect.TypeFor[int64](),
	sink.Float64: reflect.TypeFor[float64](),
	sink.Text:    reflect.TypeFor[string](),
	sink.Time:    reflect.TypeFor[int64](),
}

// schemaOf is a table's schema. It goes by way of a struct type, for only that keeps the columns' order.
func schemaOf(t *sink.Table) *parquet.Schema {
	var fields []reflect.StructField
	for i, c := range t.Columns {
		tag := []string{c.Name}
		if c.Nullable {
			tag = append(tag, "optional")
		}
		switch c.Type {
		case sink.Time:
			tag = append(tag, "timestamp(nanosecond)")
		case sink.Text:
			tag = append(tag, "dict")
		}
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: goTypes[c.Type], Tag: reflect.StructTag(`parquet:"` + strings.Join(tag, ",") + `"`),
		})
	}
	return parquet.NewSchema(t.Name, parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

// metadata are the definitions of a table's columns.
func metadata(t *sink.Table) []parquet.WriterOption {
	all := []parquet.WriterOption{parquet.KeyValueMetadata("rocescope.table", t.Name+": "+t.Doc)}
	for _, c := range t.Columns {
		text := c.Type.String()
		if c.Unit != "" {
			text += ", " + c.Unit
		}
		all = append(all, parquet.KeyValueMetadata("rocescope.column."+c.Name, text+": "+c.Doc))
	}
	return all
}

// values appends cells of a column, those of some rows, as the library takes them. It reads levels only where a value may be
// missing.
func values(to []parquet.Value, c *sink.Column, cells *sink.Cells, rows []int32, column int) []parquet.Value {
	switch c.Type {
	case sink.Bool:
		to = pick(to, cells.Bits, rows, func(v uint64) parquet.Value { return parquet.BooleanValue(v != 0) })
	case sink.Uint16, sink.Uint32:
		to = pick(to, cells.Bits, rows, func(v uint64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case sink.Uint64, sink.Int64, sink.Time:
		to = pick(to, cells.Bits, rows, func(v uint64) parquet.Value { return parquet.Int64Value(int64(v)) })
	case sink.Float64:
		to = pick(to, cells.Bits, rows, func(v uint64) parquet.Value { return parquet.DoubleValue(math.Float64frombits(v)) })
	case sink.Text:
		to = pick(to, cells.Texts, rows, func(v string) parquet.Value { return parquet.ByteArrayValue(unsafeBytes(v)) })
	}
	if !c.Nullable {
		return to
	}
	for i, row := range rows {
		if cells.Nulls[row] {
			to[i] = parquet.NullValue().Level(0, 0, column)
		} else {
			to[i] = to[i].Level(0, 1, column)
		}
	}
	return to
}

func pick[T any](to []parquet.Value, from []T, rows []int32, value func(T) parquet.Value) []parquet.Value {
	for _, row := range rows {
		to = append(to, value(from[row]))
	}
	return to
}
