package api

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"countersign/registry"
)

func TestAPageTokenIsGoodForItsListOnly(t *testing.T) {
	t.Parallel()
	ours := list{tenant: "a", method: "servers", filter: "state=active", order: "name"}
	token := ours.token("key\x00of the last row")
	if after, err := ours.after(token); err != nil || after != "key\x00of the last row" {
		t.Errorf("the token gives %q, %v", after, err)
	}
	for name, other := range map[string]list{
		"another tenant": {tenant: "b", method: "servers", filter: "state=active", order: "name"},
		"another list":   {tenant: "a", method: "tools", filter: "state=active", order: "name"},
		"another filter": {tenant: "a", method: "servers", filter: "state=degraded", order: "name"},
		"another order":  {tenant: "a", method: "servers", filter: "state=active", order: "name desc"},
		"with retired":   {tenant: "a", method: "servers", filter: "state=active", order: "name", retired: true},
		"shifted parts":  {tenant: "a", method: "serversstate", filter: "=active", order: "name"},
	} {
		if after, err := other.after(token); registry.ReasonOf(err) != registry.ReasonInvalidPageToken {
			t.Errorf("%s reads the token as %q, %v", name, after, err)
		}
	}
}

func TestADamagedPageTokenIsRefused(t *testing.T) {
	t.Parallel()
	l := list{tenant: "a", method: "servers"}
	token := l.token("the key")
	for i := range token {
		bytes := []byte(token)
		bytes[i] ^= 1
		if after, err := l.after(string(bytes)); err == nil {
			t.Errorf("with byte %d changed it still reads as %q", i, after)
		}
	}
	for _, bad := range []string{"x", "%%%", token + "=", token[:8], base64.RawURLEncoding.EncodeToString([]byte(l.seal("")))} {
		if _, err := l.after(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if after, err := l.after(""); after != "" || err != nil {
		t.Errorf("no token gives %q, %v", after, err)
	}
	if l.token("") != "" {
		t.Error("the end of a list has a token")
	}
}

func TestPageTokensOfLongKeysFitTheirField(t *testing.T) {
	t.Parallel()
	l := list{tenant: "a", method: "tools"}
	for name, letters := range map[string]string{"markup": "<>&", "beyond ASCII": "äöüß漢字", "control characters": "\x01\x02\x03\x04\x05\x06\x07\x1b\x1f", "any": "abcdefghijklmnopqrstuvwxyz0123456789_-./"} {
		random := rand.New(rand.NewPCG(1, 2))
		runes := []rune(letters)
		for range 20 {
			var b strings.Builder
			for b.Len() < 500 {
				b.WriteRune(runes[random.IntN(len(runes))])
			}
			key, err := json.Marshal([]string{registry.ToolID("provider", b.String()), registry.ServerID(strings.Repeat("f", 32)), b.String()})
			if err != nil {
				t.Fatal(err)
			}
			token := l.token(string(key))
			if after, err := l.after(token); err != nil || after != string(key) || len(token) > 2048 {
				t.Fatalf("%s: a token of %d bytes, %v", name, len(token), err)
			}
		}
	}
}

func TestPageSizes(t *testing.T) {
	t.Parallel()
	for asked, want := range map[int32]int{0: 50, 1: 1, 200: 200, 201: 200, -1: 50} {
		if got := pageSize(asked); got != want {
			t.Errorf("asked for %d, got %d, want %d", asked, got, want)
		}
	}
}
