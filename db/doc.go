// Package db keeps the registry: Bun on Postgres or SQLite, one code for both.
//
// [DB.Tenant] hands out a [Store], which sees and writes the rows of one tenant
// and no others. The few jobs that look at the whole installation use
// [DB.System], whose methods are all there is of that kind.
//
// A server changes by [Store.Apply] only: one transaction locks its row, lets
// the registry decide, and writes the row, its catalog, the audit row and the
// outbox rows together (R7). Each operation is applied once, and a repeat is
// told what was recorded.
//
// A retired server keeps its rows, and what it was called is free: names, tool
// ids and names of providers are unique among the live. Who asks for one of
// them is told of the live one, else of the last that had it.
//
// Every error that leaves is a registry.Error; it holds no SQL and no values,
// which are logged instead.
package db
