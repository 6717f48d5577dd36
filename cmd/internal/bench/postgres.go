package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// backend is a Postgres server, seen from outside.
type backend struct {
	conn *pgx.Conn
	main int // process id of the one that the others are children of
}

// watchPostgres looks at the server of a database on this machine.
func watchPostgres(ctx context.Context, at string) (*backend, error) {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, err
	}
	var pid int
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return nil, err
	}
	fields, err := stat(pid)
	if err != nil {
		return nil, err
	}
	return &backend{conn, int(fields[1])}, nil
}

func (b *backend) close(ctx context.Context) {
	if b != nil {
		_ = b.conn.Close(ctx) // nothing is lost
	}
}

// cpu is what all of its processes used, those that ended as well.
func (b *backend) cpu() (time.Duration, error) {
	if b == nil {
		return 0, nil
	}
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		fields, err := stat(pid)
		switch {
		case err != nil: // it has just ended
		case pid == b.main:
			ticks += fields[11] + fields[12] + fields[13] + fields[14]
		case int(fields[1]) == b.main:
			ticks += fields[11] + fields[12]
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // Linux counts in hundredths of a second for programs
}

// stat reads the numbers of a process that follow its name and begin with its
// state, which is given as 0.
func stat(pid int) ([]int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	fields := make([]int64, len(words))
	for i, word := range words[1:] {
		fields[i+1], _ = strconv.ParseInt(word, 10, 64) // what is larger is no number that is wanted
	}
	if len(fields) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat is short", pid)
	}
	return fields, nil
}

// transactions are those that its databases ended up to now. Idle connections
// tell of theirs ten seconds late.
func (b *backend) transactions(ctx context.Context) (n int64, err error) {
	if b == nil {
		return 0, nil
	}
	time.Sleep(11 * time.Second)
	return n, b.conn.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
}
