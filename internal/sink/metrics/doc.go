// Package metrics serves counters to Prometheus, in its text format, on an
// address that the user names.
//
// The number of series is bounded: labels are transports, operations, statuses,
// checks and the like. Queue pairs and addresses belong to the tables (package
// sink), and are never in it.
//
// The text format is written here, in some forty lines: the client library costs
// every command two milliseconds to start, whether it serves counters or not.
package metrics
