package db_test

import (
	"testing"
	"time"

	"countersign/db/dbtest"
)

func TestADatabaseSaysWhatItIs(t *testing.T) {
	engines(t, func(t on) {
		about, err := t.db.About(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Since(about.Now).Abs(); off > time.Minute {
			t.Errorf("its clock is off by %s", off)
		}
		engine := "sqlite"
		if isPostgres(t.db) {
			engine = "postgres"
		}
		if about.Engine != engine || about.Version == "" || (about.Login != "") != isPostgres(t.db) {
			t.Errorf("%+v", about)
		}
	})
}

// One that no migration made yet says so, too.
func TestAnEmptyDatabaseSaysWhatItIs(t *testing.T) {
	t.Parallel()
	d := open(t, dbtest.Postgres(t))
	if about, err := d.About(t.Context()); err != nil || about.Login == "" {
		t.Errorf("%+v %v", about, err)
	}
}
