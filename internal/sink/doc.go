// Package sink turns what the tracker knows into rows of tables, and says where
// they may go: connections, streams, messages, findings and series, each with
// one definition of its columns, from which every format, the database's tables
// and the documentation come.
//
//	flows → Collector → Block (rows by column) → Writer
//
// A Collector takes messages as they end, and everything else from snapshots:
// once at the end of a capture, or again and again while one goes on. A Writer
// is a format or a database; they live in packages of their own, because each
// brings its library along: text (JSON lines, CSV), parquet, clickhouse. The
// counters for Prometheus (package metrics) need no rows.
//
// Package sink also has the Spill, a bounded file in which blocks wait for a
// database that is away. It knows no format and no database; what the values
// mean is flows' affair.
package sink
