package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"countersign/cmd/internal/config"
)

// R187: whatever has the name of a secret is not shown, wherever the name stands.
func TestWhatHasTheNameOfASecretIsNotLogged(t *testing.T) {
	t.Parallel()
	const hidden = "canary-5c01"
	for name, attr := range map[string]slog.Attr{
		"authorization":    slog.String("authorization", hidden),
		"another case":     slog.String("Proxy-Authorization", hidden),
		"a cookie":         slog.String("Set-Cookie", hidden),
		"a token":          slog.Any("access_token", []byte(hidden)),
		"a secret":         slog.Any("clientSecret", errors.New(hidden)),
		"a password":       slog.String("db.password", hidden),
		"an API key":       slog.String("apikey", hidden),
		"with a dash":      slog.String("X-API-Key", hidden),
		"with a line":      slog.String("api_key", hidden),
		"a group":          slog.Group("tokens", slog.String("a", hidden)),
		"in a group":       slog.Group("request", slog.Group("headers", slog.String("Authorization", hidden))),
		"headers":          slog.Any("headers", http.Header{"Authorization": {hidden}, "Accept": {"shown"}}),
		"a map":            slog.Any("fields", map[string]string{"password": hidden}),
		"a struct":         slog.Any("request", struct{ Inner []struct{ APIKey string } }{[]struct{ APIKey string }{{hidden}}}),
		"JSON":             slog.Any("body", json.RawMessage(`{"a":[{"refresh_token":"`+hidden+`"}]}`)),
		"JSON in a text":   slog.String("body", ` {"a":{"secret":["`+hidden+`"]}}`),
		"JSON in an error": slog.Any("error", errors.New(`[{"token":"`+hidden+`"}]`)),
	} {
		for _, format := range []string{"text", "json"} {
			var out bytes.Buffer
			log := logger(config.Log{Format: format}, &out)
			log.LogAttrs(t.Context(), slog.LevelInfo, "asked", attr)
			log.With(attr).WithGroup("g").LogAttrs(t.Context(), slog.LevelInfo, "asked", attr)
			if got := out.String(); strings.Contains(got, hidden) || strings.Count(got, redacted) != 3 {
				t.Errorf("%s as %s: %s", name, format, got)
			}
		}
	}
}

// What has another name is logged as it is.
func TestWhatHasNoNameOfASecretIsLoggedAsItIs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logger(config.Log{Format: "json"}, &out)
	log.LogAttrs(t.Context(), slog.LevelInfo, "a token is refused", slog.String("reason", "secret_reference_unresolved"), slog.String("body", `{"b":1,"a":2}`),
		slog.Any("error", errors.New("the secret env:X could not be resolved")), slog.Any("n", map[string]int{"b": 1}), slog.String("odd", "{token"))
	for _, want := range []string{`"msg":"a token is refused"`, `"secret_reference_unresolved"`, `{\"b\":1,\"a\":2}`, "the secret env:X could not be resolved", `{"b":1}`, `"{token"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
}
