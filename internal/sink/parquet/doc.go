// Package parquet writes rows as Parquet files, parted as query engines expect
// it: by table, hour and a hash of the QPN.
//
//	DIR/messages/hour=2026-11-30T06/qp=3/4503599627370495-0.parquet
//
// Files are compressed with zstd. A file has its name only when it is whole, and is
// called *.parquet.part before; it is made whole after half a million rows, or when
// some minutes have passed, so that a process that is killed loses no more.
// The definition of each column (type, unit, what it means) stands in the file's
// metadata, under "rocescope.column.NAME". Which columns there are is package
// sink's affair.
package parquet
