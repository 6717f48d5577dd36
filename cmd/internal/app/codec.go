package app

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"

	"countersign/cmd/internal/config"
	"countersign/secrets"
	"countersign/workflows"
)

// Codec makes of the configuration what encrypts workflow data; nil without
// keys. A key is 32 bytes, in base64 or hexadecimal digits.
func Codec(ctx context.Context, conf config.Config) (*workflows.Codec, error) {
	resolver := references(conf)
	var keys []workflows.CodecKey
	for _, k := range conf.Temporal.CodecKeys {
		value, err := resolver.Resolve(ctx, k.Key)
		if err != nil {
			return nil, fmt.Errorf("temporal.codec_keys: key %q: %w", k.ID, err)
		}
		keys = append(keys, workflows.CodecKey{ID: k.ID, Secret: keyOf(value)})
	}
	return workflows.NewCodec(keys...)
}

// keyOf reads a key; what is none gives no bytes.
func keyOf(v secrets.Value) []byte {
	text := strings.TrimSpace(v.Reveal())
	if raw, err := hex.DecodeString(text); err == nil {
		return raw
	}
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return raw
}

// references resolves what the configuration refers to.
func references(conf config.Config) secrets.Resolver {
	return secrets.Resolver{Sources: map[string]secrets.Source{
		secrets.SchemeEnv: secrets.Env(os.LookupEnv), secrets.SchemeFile: secrets.Files(conf.Secrets.FileRoot),
	}}
}

// origin is that of a page at a URL, as browsers say it; empty without one.
func origin(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
