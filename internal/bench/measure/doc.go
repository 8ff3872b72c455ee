// Package measure is what benchmarks measure with: processor time, medians and their spread, and a network namespace in which nobody
// else is. What is measured belongs to the commands of internal/bench, how it is told to internal/bench/page.
package measure
