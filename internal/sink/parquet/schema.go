package parquet

import (
	"fmt"
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
		tag := []string{c.Name, "zstd"}
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

// value is one cell as the library takes it.
func value(c *sink.Column, cells *sink.Cells, row, column int) parquet.Value {
	defined := 0
	if c.Nullable {
		if cells.Null(row) {
			return parquet.NullValue().Level(0, 0, column)
		}
		defined = 1
	}
	var v parquet.Value
	switch c.Type {
	case sink.Bool:
		v = parquet.BooleanValue(cells.Bits[row] != 0)
	case sink.Uint16, sink.Uint32:
		v = parquet.Int32Value(int32(cells.Bits[row]))
	case sink.Uint64, sink.Int64, sink.Time:
		v = parquet.Int64Value(int64(cells.Bits[row]))
	case sink.Float64:
		v = parquet.DoubleValue(cells.Float(row))
	case sink.Text:
		v = parquet.ByteArrayValue(unsafeBytes(cells.Texts[row]))
	}
	return v.Level(0, defined, column)
}
