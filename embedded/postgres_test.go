package embedded

import (
	"context"
	"database/sql"
	"log/slog"
	"net/url"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db/dbtest"
)

// A server on Postgres makes its databases, and finds there what one before left.
func TestAServerOnPostgres(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t)
	t.Cleanup(func() { dropBeside(t, dsn) })
	for n := range 2 {
		s, err := Start(context.Background(), Options{Postgres: dsn, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		t.Cleanup(func() {
			if !stopped {
				_ = s.Stop()
			}
		})
		c, err := client.DialContext(t.Context(), client.Options{
			HostPort: s.Address(), Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			_, err = c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
				Namespace: "kept", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
			})
		} else {
			_, err = c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "kept"})
		}
		if err != nil {
			t.Errorf("start %d: %v", n+1, err)
		}
		c.Close()
		stopped = true
		if err := s.Stop(); err != nil {
			t.Errorf("stop %d: %v", n+1, err)
		}
	}
	if _, err := Start(t.Context(), Options{Postgres: "nowhere"}); err == nil {
		t.Error("a DSN that is none is taken")
	}
}

// dropBeside removes the databases that the server made.
func dropBeside(t *testing.T, dsn string) {
	t.Helper()
	at, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := at.Path[1:]
	at.Path = "/postgres"
	db, err := sql.Open("pgx", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, after := range []string{"_temporal", "_temporal_visibility"} {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+after+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	}
}
