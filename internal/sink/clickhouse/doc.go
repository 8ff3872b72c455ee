// Package clickhouse writes rows to ClickHouse, over its native protocol, in
// blocks, to one server or to the shards of a cluster. Which rows and columns
// there are is package sink's affair.
//
// # Shards
//
// The writer itself chooses the shard of a row, by run and connection: all that
// is known of a connection lies on one shard. Each shard is written to for
// itself, so that one that is away holds up nobody else. Distributed tables are
// for reading only.
//
// # Nothing lost, nothing doubled
//
// A block whose shard is away goes into that shard's spill file (sink.Spill) and
// from there to the shard when it is back, oldest first. Every block has a
// number that is the same whenever it is sent (column "batch"), and all its rows
// lie in one partition, so that the server takes all of them or none. When it is
// not known whether the server took a block (the connection broke, the process
// was killed), the server is asked for that number before the block is sent
// again. What even this does not catch (the same file exported twice, a server
// that takes a block after it was asked) the tables catch: all are
// ReplacingMergeTree, whose sorting key is the row's key; a row that comes again
// replaces the one before when parts are merged, and at once for queries with
// FINAL. Tables with rows that change while a capture goes on (connections,
// streams, findings) always need FINAL; messages and series need it only after a
// repeated export.
//
// # Old servers
//
// The tables use nothing that ClickHouse 18.16 does not have: no DateTime64 (a
// time is UInt64 nanoseconds beside a DateTime of whole seconds), no
// LowCardinality, no codecs.
package clickhouse
