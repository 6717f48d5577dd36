package db_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"countersign/db"
)

// addRows adds so many rows to acme's trail by one statement.
func addRows(b *testing.B, d *db.DB, rows int) {
	b.Helper()
	exec(b, d, fmt.Sprintf(auditRows, rows, auditNames.Add(1)))
}

var auditNames atomic.Int64 // of statements, so that rows have ids of their own

const auditRows = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO audit (audit_id, tenant_id, at, actor, roles, origin, action, object_kind, object_id, object_name, operation_id, outcome, reason,
 version_before, version_after, digest_before, digest_after, note, detail)
SELECT 'a%d-' || i, 'acme', CURRENT_TIMESTAMP, 'ann', '["Operator"]', 'api', 'retire', 'server', 'srv_' || (i %% 50),
 'weather-' || (i %% 50), 'op', 'refused', 'permission_denied', 0, 0, '', '', 'no way', '{}' FROM n`

// Sealing takes a thousand rows in a transaction; rows/s is what one worker can
// do, and so what an installation may write for longer than a moment.
func BenchmarkSeal(b *testing.B) {
	const step = 1000
	for engine, open := range benchEngines {
		b.Run(engine, func(b *testing.B) {
			d := trail(b, open)
			for b.Loop() {
				b.StopTimer()
				addRows(b, d, step)
				settled(b, d)
				b.StartTimer()
				if out, err := d.System().SealAudit(b.Context(), "acme", step, signer.Sign); err != nil || out.Rows != step {
					b.Fatalf("%+v, %v", out, err)
				}
			}
			b.ReportMetric(step*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// What a write pays so that rows to be sealed, and those of a name, are found:
// two partial indexes, which are there or not. Write is a whole transaction
// with one row; Row is one of a hundred in a statement, where the transaction
// hides little.
func BenchmarkAuditIndexes(b *testing.B) {
	const many = 100
	for engine, open := range benchEngines {
		for _, indexes := range []string{"with", "without"} {
			b.Run(engine+"/"+indexes, func(b *testing.B) {
				d := trail(b, open)
				if indexes == "without" {
					exec(b, d, "DROP INDEX audit_unsealed", "DROP INDEX audit_name")
				}
				w := newWorld(b, d, "acme")
				b.Run("Write", func(b *testing.B) {
					for b.Loop() {
						w.audits(1)
					}
				})
				b.Run("Row", func(b *testing.B) {
					pool := raw(b, d)
					for b.Loop() {
						if _, err := pool.ExecContext(b.Context(), fmt.Sprintf(auditRows, many, auditNames.Add(1))); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/row")
				})
			})
		}
	}
}

var benchEngines = map[string]func(testing.TB) *db.DB{"SQLite": sqliteDB, "Postgres": postgresDB}

// trail is a database with 10,000 rows in a tenant's trail, all sealed.
func trail(b *testing.B, open func(testing.TB) *db.DB) *db.DB {
	b.Helper()
	d := open(b)
	addRows(b, d, 10_000)
	settled(b, d)
	for more := true; more; {
		out, err := d.System().SealAudit(b.Context(), "acme", 5000, signer.Sign)
		if err != nil {
			b.Fatal(err)
		}
		more = out.More
	}
	return d
}
