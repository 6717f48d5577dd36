// Command longago lets a sink of events look as if it had failed for two days, in
// the SQLite database of a development process that runs: its next failures are
// dead letters. For tests of the console, which don't wait that long.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: longago DATABASE-FILE SINK")
		os.Exit(2)
	}
	if err := age(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func age(ctx context.Context, file, sink string) (err error) {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=rw&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	then := time.Now().UTC().Add(-48 * time.Hour).Format("2006-01-02 15:04:05-07:00")
	done, err := db.ExecContext(ctx, "UPDATE event_deliveries SET first_at = ? WHERE sink = ? AND state = 'pending' AND first_at IS NOT NULL", then, sink)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("no delivery to %s has failed yet", sink)
	}
	return err
}
