package api

import (
	"encoding/base64"
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

func TestPageSizes(t *testing.T) {
	t.Parallel()
	for asked, want := range map[int32]int{0: 50, 1: 1, 200: 200, 201: 200, -1: 50} {
		if got := pageSize(asked); got != want {
			t.Errorf("asked for %d, got %d, want %d", asked, got, want)
		}
	}
}
