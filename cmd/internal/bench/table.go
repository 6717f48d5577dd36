package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// suite is one measurement: what it measures, and how.
type suite struct {
	name  string
	about string
	run   func(ctx context.Context, o options) ([]table, error)
}

// options of a run.
type options struct {
	full   bool   // all sizes; else those that take seconds
	rounds int    // of which the median is told
	dsn    string // postgres://… of a server where databases may be made; empty: SQLite only
	log    io.Writer
	// Sizes that replace those of a measurement, when they are set.
	calls, tenants, servers int
	// profile is where a profile of the processor goes of the part that is measured; empty: none.
	profile string
}

// suites are all that can be asked for.
var suites []suite

// table is what was measured, as it is printed.
type table struct {
	title   string
	columns []string
	rows    [][]string
	notes   []string
}

// markdown is the table as documents have it.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| %s |\n|%s\n", t.title, strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	for _, note := range t.notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}
