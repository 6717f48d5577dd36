package doctor_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/doctor"
	"countersign/db"
	"countersign/db/dbtest"
	"countersign/embedded"
	"countersign/worker"
	"countersign/workflows"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// installation has everything that the doctor looks at: Postgres, Temporal, an
// issuer, a token file.
func installation(t *testing.T) config.Config {
	t.Helper()
	conf := config.Default()
	conf.Database.URL = config.DSN(dbtest.Postgres(t))
	store, err := db.Open(t.Context(), conf.Database.Options(quiet()))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	temporal, err := embedded.Start(context.Background(), embedded.Options{
		Namespace: "mine", SearchAttributes: worker.SearchAttributes(), Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = temporal.Stop() })
	conf.Temporal.Address, conf.Temporal.Namespace = temporal.Address(), "mine"
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("tokens:\n- {token: 0123456789abcdef0123, tenant: a, subject: ann, roles: [Operator]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf.Auth.TokensFile = tokens
	return conf
}

// found gives the worst status of each check.
func found(list []doctor.Finding) map[string]doctor.Status {
	out := map[string]doctor.Status{}
	for _, f := range list {
		if is := out[f.Check]; is != doctor.Fail && (is != doctor.Warn || f.Status == doctor.Fail) {
			out[f.Check] = f.Status
		}
	}
	return out
}

func TestTheDoctorLooksAtAnInstallation(t *testing.T) {
	t.Parallel()
	conf := installation(t)
	ctx := t.Context()
	engine, _, err := worker.Dial(worker.Address{HostPort: conf.Temporal.Address, Namespace: conf.Temporal.Namespace}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()

	// Nobody ever started a worker.
	list := doctor.Examine(ctx, conf, "all", quiet())
	want := map[string]doctor.Status{
		"database": doctor.OK, "schema": doctor.OK, "row security": doctor.OK, "database clock": doctor.OK,
		"workflow data": doctor.Warn, "Temporal": doctor.OK, "namespace": doctor.OK, "search attributes": doctor.OK,
		"schedule": doctor.Fail, "workers": doctor.Warn, "Temporal clock": doctor.OK,
		"callers": doctor.OK, "audit": doctor.Warn, "sandbox": doctor.OK, "outbound": doctor.OK,
	}
	got := found(list)
	if got["database"] == doctor.Warn && strings.Contains(list[0].Found, "fsync = off") {
		got["database"] = doctor.OK // tests may use a Postgres that is not safe
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, list)
	}
	for _, f := range list {
		if f.Found == "" || f.Status != doctor.OK && f.Fix == "" {
			t.Errorf("%+v does not say what was found, or what to do", f)
		}
	}

	// A worker's start makes the schedule.
	if err := worker.EnsureSchedule(ctx, engine, nil, conf.Probe.Interval); err != nil {
		t.Fatal(err)
	}
	w := worker.New(engine, nil, worker.Options{})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if got := found(doctor.Examine(ctx, conf, "worker", quiet())); got["schedule"] != doctor.OK || got["workers"] != doctor.OK || got["callers"] != "" {
		t.Errorf("%v", got)
	}
	other := conf
	other.Probe.Interval *= 2
	if got := found(doctor.Examine(ctx, other, "worker", quiet())); got["schedule"] != doctor.Warn {
		t.Errorf("another interval: %v", got)
	}

	// What was changed by hand.
	for _, damage := range []struct {
		check string
		edit  func(*config.Config)
		says  string
	}{
		{"namespace", func(c *config.Config) { c.Temporal.Namespace = "nobody's" }, "no namespace nobody's"},
		{"row security", func(c *config.Config) { c.Database.AppRole = "postgres" }, "postgres"},
		{"database", func(c *config.Config) { c.Database.URL = "postgres://nobody@127.0.0.1:1/none" }, ""},
		{"outbound", func(c *config.Config) { c.Outbound.AllowNetworks = []string{"169.254.0.0/16"} }, "169.254.169.254"},
		{"callers", func(c *config.Config) { c.Auth.TokensFile += ".not" }, "tokens.yaml.not"},
		{"audit", func(c *config.Config) { c.Audit.SigningKey = "env:NOT_SET_ANYWHERE" }, "audit.signing_key"},
		{"workflow data", func(c *config.Config) {
			c.Temporal.CodecKeys = []config.CodecKey{{ID: "k", Key: "env:NOT_SET_ANYWHERE"}}
		}, "codec_keys"},
		{"tls", func(c *config.Config) { c.TLS.CertFile, c.TLS.KeyFile = "/none.crt", "/none.key" }, "none.crt"},
		{"sandbox", func(c *config.Config) {
			c.Commands, c.Worker.StateDir = []config.Command{{Name: "x", Argv: []string{"/bin/true"}}}, "/not/there"
		}, "/not/there"},
	} {
		bad := conf
		damage.edit(&bad)
		list := doctor.Examine(ctx, bad, "all", quiet())
		said := false
		for _, f := range list {
			said = said || f.Check == damage.check && f.Status == doctor.Fail && strings.Contains(f.Found+f.Fix, damage.says)
		}
		if !said {
			t.Errorf("%s: %q is not said: %v", damage.check, damage.says, list)
		}
	}
}

// A namespace with none of our attributes, and a database that no migration made.
func TestTheDoctorLooksBeforeTheFirstMigration(t *testing.T) {
	t.Parallel()
	temporal, err := embedded.Start(context.Background(), embedded.Options{
		SearchAttributes: map[string]enumspb.IndexedValueType{workflows.AttributeState.GetName(): enumspb.INDEXED_VALUE_TYPE_INT}, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = temporal.Stop() })
	conf := config.Default()
	conf.Database.URL = config.DSN(dbtest.Postgres(t))
	conf.Temporal.Address, conf.Temporal.Namespace = temporal.Address(), "default"
	got := found(doctor.Examine(t.Context(), conf, "worker", quiet()))
	if got["schema"] != doctor.Fail || got["row security"] != doctor.Warn || got["search attributes"] != doctor.Fail {
		t.Errorf("%v", got)
	}
}

// An issuer that answers, and one that does not.
func TestTheDoctorAsksEachIssuer(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"` + server.URL + `","jwks_uri":"` + server.URL + `/keys"}`))
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","alg":"EdDSA","use":"sig","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	})
	conf := config.Default()
	conf.Temporal.Address = "127.0.0.1:1"
	conf.Auth.AllowNetworks = []string{"127.0.0.0/8"}
	conf.Auth.Issuers = []config.Issuer{{Issuer: server.URL, Audience: "a"}, {Issuer: server.URL + "/away", Audience: "a", SubjectPrefix: "away:"}}
	if _, err := app.Authenticator(conf, quiet()); err != nil {
		t.Fatal(err)
	}
	got := found(doctor.Examine(t.Context(), conf, "api", quiet()))
	if got["issuer "+server.URL] != doctor.OK || got["issuer "+server.URL+"/away"] != doctor.Fail || got["Temporal"] != doctor.Fail || got["database"] != doctor.Fail {
		t.Errorf("%v", got)
	}
}
