package config_test

import (
	"strings"
	"testing"

	"countersign/cmd/internal/config"
)

func TestTheIssuerOfOursIsChecked(t *testing.T) {
	t.Parallel()
	const issuer, key = "workload_identity.issuer", "workload_identity.key"
	for name, c := range map[string]struct {
		set  map[string]any
		says string // "": it is taken
	}{
		"none":                   {map[string]any{}, ""},
		"as it should be":        {map[string]any{issuer: "https://cs.example.com/workload", key: "file:workload.pem"}, ""},
		"on loopback":            {map[string]any{issuer: "http://127.0.0.1:8080", key: "env:KEY"}, ""},
		"without a key":          {map[string]any{issuer: "https://cs.example.com"}, "go together"},
		"a key alone":            {map[string]any{key: "env:KEY"}, "go together"},
		"in the open":            {map[string]any{issuer: "http://cs.example.com", key: "env:KEY"}, "https://"},
		"with a query":           {map[string]any{issuer: "https://cs.example.com/?a=b", key: "env:KEY"}, "without a query"},
		"with the key itself":    {map[string]any{issuer: "https://cs.example.com", key: "-----BEGIN PRIVATE KEY-----"}, key},
		"tokens that live long":  {map[string]any{"workload_identity.token_lifetime": "2h"}, "30s to 1h"},
		"tokens that do not":     {map[string]any{"workload_identity.token_lifetime": "1s"}, "30s to 1h"},
		"not where we are found": {map[string]any{issuer: "ftp://cs.example.com", key: "env:KEY"}, issuer},
	} {
		_, err := config.Load(config.Default(), "", c.set)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "PRIVATE")):
			t.Errorf("%s: %v", name, err)
		}
	}
}
