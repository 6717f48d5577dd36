package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"countersign/cmd/internal/config"
	"countersign/db"
)

const password = "hunter2-secret"

func TestThePasswordOfADatabaseIsNeverShown(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://app:" + password + "@db.example:5432/countersign?sslmode=verify-full": "postgres://app:•••@db.example:5432/countersign?sslmode=verify-full",
		"postgres://app@db.example/countersign?password=" + password:                      "postgres://app@db.example/countersign?password=•••",
		"postgres://app:" + password + "@h1:1,h2:2/countersign":                           "postgres://app:•••@h1:1,h2:2/countersign",
		"postgres://app:%zz" + password + "@db.example/countersign":                       "postgres://•••",
		"host=db user=app password=" + password + " dbname=x":                             "host=db user=app password=••• dbname=x",
		"host=db password = '" + password + " x' dbname=x":                                "host=db password = ••• dbname=x",
		"sqlite:/var/lib/countersign.db":                                                  "sqlite:/var/lib/countersign.db",
		"":                                                                                "",
	} {
		c := config.Default()
		c.Database.URL, c.Database.SystemURL, c.Database.MigrateURL = config.DSN(dsn), config.DSN(dsn), config.DSN(dsn)
		if got := c.Database.URL.String(); got != want {
			t.Errorf("%q is shown as %q, want %q", dsn, got, want)
		}
		if got := c.Database.Options(nil).URL; got != dsn {
			t.Errorf("it is opened as %q", got)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "x", slog.Any("config", c), slog.Any("database", c.Database), slog.Any("url", c.Database.URL))
		slog.New(slog.NewTextHandler(&log, nil)).InfoContext(t.Context(), "x", slog.Any("config", c), slog.Any("database", c.Database), slog.Any("url", c.Database.URL))
		text, err := json.Marshal(c) //nolint:musttag // nothing does this but for somebody who looks
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range []string{log.String(), string(text), fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q %x", c, c, c.Database.URL, c.Database.URL, c.Database.URL)} {
			if strings.Contains(shown, password) || strings.Contains(shown, fmt.Sprintf("%x", password)) {
				t.Errorf("shown as %s", shown)
			}
		}
	}
}

func TestErrorsAndLogsOfADatabaseDoNotHaveItsPassword(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"nobody there":      "postgres://app:" + password + "@127.0.0.1:1/countersign?connect_timeout=2",
		"no such host":      "postgres://app:" + password + "@nowhere.invalid/countersign?connect_timeout=2",
		"cannot be read":    "postgres://app:" + password + "@127.0.0.1:port/countersign",
		"a wrong escape":    "postgres://app:%zz" + password + "@127.0.0.1/countersign",
		"a wrong parameter": "postgres://app:" + password + "@127.0.0.1/countersign?sslmode=perhaps",
		"another scheme":    "mysql://app:" + password + "@127.0.0.1/countersign",
		"words":             "host=127.0.0.1 password=" + password,
		"no directory":      "sqlite:/nonexistent/" + filepath.Base(t.Name()),
	} {
		var log bytes.Buffer
		_, err := db.Open(t.Context(), config.Database{URL: config.DSN(dsn)}.Options(slog.New(slog.NewTextHandler(&log, nil))))
		if err == nil {
			t.Fatalf("%s: it opened", name)
		}
		if text := fmt.Sprintf("%v %+v %s", err, err, log.String()); strings.Contains(text, password) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAConfigurationThatCannotBeReadDoesNotRepeatPasswords(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a list":          "database: {url: [postgres://app:" + password + "@db/x, y]}\n",
		"a map":           "database: {url: {password: " + password + "}}\n",
		"a list instead":  "database: [postgres://app:" + password + "@db/x]\n",
		"a text instead":  "database: postgres://app:" + password + "@db/x\n",
		"as a number":     "processes: postgres://app:" + password + "@db/x\n",
		"as a duration":   "shutdown_delay: " + password + "\n",
		"as a codec key":  "temporal: {codec_keys: [{id: one, key: " + password + "}]}\n",
		"as a codec list": "temporal: {codec_keys: [" + password + "]}\n",
		"as a key":        "auth: {" + password + ": x}\n",
		"broken YAML":     "database:\n  url: \"postgres://app:" + password + "@db/x\n",
	} {
		if _, err := config.Load(config.Default(), file(t, text), nil); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), password) && name != "as a key" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheConfigurationIsLoggedByItsKeys(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Default(), file(t, "temporal: {codec_keys: [{id: one, key: env:CODEC_KEY}]}\nquotas: {servers: 7}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).InfoContext(t.Context(), "x", slog.Any("config", c))
	for _, want := range []string{"config.quotas.servers=7", "config.probe.interval=5m0s", "config.limits.principal.burst=1000", "config.listen=127.0.0.1:8080", "env:CODEC_KEY"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, log.String())
		}
	}
}
