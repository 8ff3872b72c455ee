package clickhouse

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/internal/sink"
)

// chTypes are ClickHouse's names of the types.
var chTypes = [...]string{
	sink.Bool: "UInt8", sink.Uint16: "UInt16", sink.Uint32: "UInt32", sink.Uint64: "UInt64", sink.Int64: "Int64",
	sink.Float64: "Float64", sink.Text: "String", sink.Time: "UInt64",
}

// name is a column's name in the database: that of a time ends with its unit, for the plain name is a DateTime.
func name(c *sink.Column) string {
	if c.Type == sink.Time {
		return c.Name + "_ns"
	}
	return c.Name
}

func chType(c *sink.Column) string {
	if c.Nullable {
		return "Nullable(" + chTypes[c.Type] + ")"
	}
	return chTypes[c.Type]
}

// DDL returns the statements that make the database and its tables, where they are not there. cluster, if not "", names the
// cluster that the tables NAME_all read from.
func DDL(database, cluster string) []string {
	db := quote(database)
	all := []string{"CREATE DATABASE IF NOT EXISTS " + db}
	for _, t := range sink.Tables() {
		all = append(all, createTable(db, t))
		if cluster != "" {
			all = append(all, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s AS %s.%s\nENGINE = Distributed(%s, %s, %s)",
				db, quote(t.Name+"_all"), db, quote(t.Name), quote(cluster), db, quote(t.Name)))
		}
	}
	return all
}

func createTable(db string, t *sink.Table) string {
	var lines []string
	for i := range t.Columns {
		c := &t.Columns[i]
		lines = append(lines, fmt.Sprintf("    %s %s", quote(name(c)), chType(c)))
		if c.Type == sink.Time {
			ns := quote(name(c))
			if c.Nullable {
				ns = "ifNull(" + ns + ", 0)"
			}
			lines = append(lines, fmt.Sprintf("    %s DateTime('UTC') DEFAULT toDateTime(intDiv(%s, 1000000000), 'UTC')", quote(c.Name), ns))
		}
	}
	lines = append(lines, "    `batch` UInt64", "    `version` UInt64")
	var key []string
	for _, k := range t.Key {
		key = append(key, quote(name(&t.Columns[t.Column(k)])))
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (\n%s\n)\nENGINE = ReplacingMergeTree(version)\nPARTITION BY toDate(%s)\nORDER BY (%s)",
		db, quote(t.Name), strings.Join(lines, ",\n"), quote(t.Day), strings.Join(key, ", "))
}

func quote(identifier string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(identifier) + "`"
}
