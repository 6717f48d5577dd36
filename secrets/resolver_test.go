package secrets_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
	"countersign/secrets"
)

// resolver gives one with a directory of files, and variables.
func resolver(t *testing.T, variables map[string]string) (secrets.Resolver, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}
	return secrets.Resolver{Sources: map[string]secrets.Source{
		registry.SchemeEnv: secrets.Env(lookup), registry.SchemeFile: secrets.Files(dir),
	}}, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReferencesAreResolved(t *testing.T) {
	t.Parallel()
	r, dir := resolver(t, map[string]string{"TOKEN": "from the environment\n"})
	files := map[string]struct{ holds, want string }{
		"plain":     {"a b", "a b"},
		"newline":   {"token\n", "token"},
		"windows":   {"token\r\n", "token"},
		"newlines":  {"token\n\n", "token\n"},
		"return":    {"token\r", "token\r"},
		"lines":     {"one\ntwo\n", "one\ntwo"},
		"binary":    {"\x00\xff", "\x00\xff"},
		"sub/token": {"below", "below"},
		"large":     {strings.Repeat("x", 64<<10) + "\r\n", strings.Repeat("x", 64<<10)},
	}
	must(t, os.Mkdir(dir+"/sub", 0o700))
	for name, file := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(file.holds), 0o600))
	}
	for name, file := range files {
		got, err := r.Resolve(t.Context(), "file:"+name)
		if err != nil || got.Reveal() != file.want {
			t.Errorf("%s: %.40q, %v", name, got.Reveal(), err)
		}
	}
	// Mounted secrets of Kubernetes are links to links.
	must(t, os.Mkdir(dir+"/..2026_11_30", 0o700))
	must(t, os.WriteFile(dir+"/..2026_11_30/mounted", []byte("linked"), 0o600))
	must(t, os.Symlink("..2026_11_30", dir+"/..data"))
	must(t, os.Symlink("..data/mounted", dir+"/mounted"))
	if got, err := r.Resolve(t.Context(), "file:mounted"); err != nil || got.Reveal() != "linked" {
		t.Errorf("%q, %v", got.Reveal(), err)
	}
	if got, err := r.Resolve(t.Context(), "env:TOKEN"); err != nil || got.Reveal() != "from the environment\n" {
		t.Errorf("%q, %v", got.Reveal(), err)
	}
}

// TestUnresolvedReferencesLookAlike: to people outside, whatever the cause is.
func TestUnresolvedReferencesLookAlike(t *testing.T) {
	t.Parallel()
	r, dir := resolver(t, map[string]string{"EMPTY": "", "HUGE": strings.Repeat("value", 64<<10)})
	outside := filepath.Join(filepath.Dir(dir), "outside")
	must(t, os.WriteFile(outside, []byte("value"), 0o600))
	must(t, os.WriteFile(dir+"/empty", nil, 0o600))
	must(t, os.WriteFile(dir+"/newline", []byte("\n"), 0o600))
	must(t, os.WriteFile(dir+"/huge", []byte(strings.Repeat("v", 64<<10+1)), 0o600))
	must(t, os.WriteFile(dir+"/file", []byte("value"), 0o600))
	must(t, os.Mkdir(dir+"/directory", 0o700))
	must(t, syscall.Mkfifo(dir+"/pipe", 0o600))
	must(t, os.Symlink("../outside", dir+"/escapes"))
	must(t, os.Symlink(outside, dir+"/absolute"))
	must(t, os.Symlink("..", dir+"/up"))
	must(t, os.Symlink("loop", dir+"/loop"))
	broken := secrets.Resolver{Sources: map[string]secrets.Source{
		registry.SchemeFile: secrets.Files(""),
		registry.SchemeEnv: func(context.Context, string) (string, error) {
			return "", registry.Errorf(registry.ReasonPermissionDenied, "the tenant may not")
		},
	}}
	for _, tt := range []struct {
		r   secrets.Resolver
		ref string
	}{
		{r, "env:MISSING"},
		{r, "env:EMPTY"},
		{r, "env:HUGE"},
		{r, "file:missing"},
		{r, "file:missing/file"},
		{r, "file:file/below"},
		{r, "file:empty"},
		{r, "file:newline"},
		{r, "file:huge"},
		{r, "file:directory"},
		{r, "file:pipe"},
		{r, "file:escapes"},
		{r, "file:absolute"},
		{r, "file:up/outside"},
		{r, "file:loop"},
		{broken, "file:file"},
		{broken, "env:FORBIDDEN"},
		{secrets.Resolver{}, "env:TOKEN"},
		{secrets.Resolver{Sources: map[string]secrets.Source{registry.SchemeFile: secrets.Files(dir + "/nowhere")}}, "file:file"},
	} {
		value, err := tt.r.Resolve(t.Context(), tt.ref)
		e, ok := registry.AsError(err)
		if !ok || value != (secrets.Value{}) {
			t.Errorf("%s: %v", tt.ref, err)
			continue
		}
		if diff := cmp.Diff(registry.Error{
			Code: registry.CodePrecondition, Reason: "secret_reference_unresolved",
			Message: "the secret " + tt.ref + " could not be resolved",
			Next:    "have the operator provide it where the worker runs; the worker's log says what is wrong",
			Facts:   []registry.Detail{{Key: "reference", Value: tt.ref}},
			Err:     e.Err,
		}, *e, cmp.Comparer(errors.Is)); diff != "" {
			t.Error(tt.ref, diff)
		}
		if e.Err == nil || strings.Contains(e.Err.Error(), "value") {
			t.Errorf("%s: its cause is %v", tt.ref, e.Err)
		}
		if e.Code.Retryable() {
			t.Errorf("%s is tried again", tt.ref)
		}
	}
}

// TestPassingFaultsPass: what a retry can help is told as it is.
func TestPassingFaultsPass(t *testing.T) {
	t.Parallel()
	away := registry.Errorf(registry.ReasonDependency, "the store is away")
	r := secrets.Resolver{Sources: map[string]secrets.Source{
		"env": func(context.Context, string) (string, error) { return "", away },
		"file": func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		},
	}}
	if _, err := r.Resolve(t.Context(), "env:A"); !errors.Is(err, away) {
		t.Error(err)
	}
	_, _, err := r.Environment(t.Context(), map[string]string{"A": "env:A"})
	e, _ := registry.AsError(err)
	if e.Reason != registry.ReasonDependency || e.Fact("variable") != "A" || len(away.Facts) > 0 {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(ctx, "file:a"); registry.ReasonOf(err) != registry.ReasonDeadline {
		t.Error(err)
	}
	if _, err := r.Resolve(t.Context(), "nothing"); registry.ReasonOf(err) != registry.ReasonSecretRefInvalid {
		t.Error(err)
	}
}

func TestAnEnvironmentIsResolved(t *testing.T) {
	t.Parallel()
	r, _ := resolver(t, map[string]string{"A": "alpha", "B": "beta=1"})
	env, mask, err := r.Environment(t.Context(), map[string]string{"Y": "env:A", "X": "env:B"})
	if diff := cmp.Diff([]string{"X=beta=1", "Y=alpha"}, env); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got := mask.String("alpha, beta=1, gamma"); got != "[masked], [masked], gamma" {
		t.Error(got)
	}
	env, mask, err = r.Environment(t.Context(), map[string]string{"Z": "plain:", "Y": "plain:env:A, alpha\n", "X": "env:A"})
	if diff := cmp.Diff([]string{"X=alpha", "Y=env:A, alpha\n", "Z="}, env); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got := mask.String("env:A, alpha"); got != "env:A, [masked]" {
		t.Errorf("what is no secret is masked: %s", got)
	}
	if env, mask, err := r.Environment(t.Context(), nil); len(env) > 0 || err != nil || mask.String("alpha") != "alpha" {
		t.Error(env, err)
	}
	for ref, want := range map[string]string{
		"env:MISSING": "variable X: the secret env:MISSING could not be resolved",
		"beta=1":      "variable X: a secret is not given by a reference",
		"plain:\x00":  "variable X: a plain text is not UTF-8, or has a NUL character in it",
	} {
		env, mask, err := r.Environment(t.Context(), map[string]string{"X": ref, "Y": "env:A"})
		e, ok := registry.AsError(err)
		if !ok || e.Message != want || e.Fact("variable") != "X" || env != nil || mask != nil {
			t.Errorf("%v", err)
		}
	}
}
