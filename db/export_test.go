package db

import "github.com/uptrace/bun"

// Watch shows every statement of all transactions from now on to a hook. Only
// tests have it.
func (d *DB) Watch(hook bun.QueryHook) {
	for _, pool := range []*bun.DB{d.writer, d.reader, d.system} {
		if pool != nil {
			pool.AddQueryHook(hook) //nolint:staticcheck // the pools are made already
		}
	}
}
