// Program bench measures the product as it is built and run: `go run ./cmd/internal/bench NAME...` prints a table of each.
// A measurement is a file with one entry in `suites` (table.go), which gives rows; load and what is served are processes
// of their own, on loopback, bounded in count and time. The facts of the machine and the table are written by -out DIR.
package main
