package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			exit(part(os.Args[2:]))
		}
	}
	full := flag.Bool("full", false, "all sizes, which takes long")
	rounds := flag.Int("rounds", 5, "of which the median is told")
	dsn := flag.String("postgres", os.Getenv("COUNTERSIGN_TEST_POSTGRES"), "`URL` of a Postgres where databases may be made; empty: SQLite only")
	out := flag.String("out", "", "`DIR` to write the tables to, one file for each measurement")
	calls := flag.Int("calls", 0, "of each round, in place of the measurement's own `NUMBER`")
	tenants := flag.Int("tenants", 0, "with a thousand tools each, in place of the measurement's own `NUMBER`")
	servers := flag.Int("servers", 0, "in place of the measurement's own `NUMBER`")
	profile := flag.String("profile", "", "where profiles of the processor go, a `PREFIX` of files")
	flag.Usage = usageText
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(measure(ctx, flag.Args(), *out, options{full: *full, rounds: max(*rounds, 1), dsn: *dsn, log: os.Stderr, calls: *calls, tenants: *tenants, servers: *servers, profile: *profile}))
}

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func usageText() {
	fmt.Fprintln(os.Stderr, "usage: bench [flags] [NAME...]")
	for _, s := range suites {
		fmt.Fprintf(os.Stderr, "  %-12s %s\n", s.name, s.about)
	}
	flag.PrintDefaults()
}

// parts are the processes that measurements start of this program, by their
// first argument.
var parts = map[string]func(args []string) error{}

// measure runs the measurements of these names; none: all.
func measure(ctx context.Context, names []string, out string, o options) error {
	for _, name := range names {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
			return fmt.Errorf("there is no measurement %q", name)
		}
	}
	for _, s := range suites {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		started := time.Now()
		tables, err := s.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		var text strings.Builder
		for i := range tables {
			text.WriteString(tables[i].markdown() + "\n")
		}
		fmt.Fprintf(&text, "%s. Took %v.\n", machine(), time.Since(started).Round(time.Second))
		if _, err := io.WriteString(os.Stdout, text.String()); err != nil {
			return err
		}
		if out == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(out, s.name+".md"), []byte(text.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}
