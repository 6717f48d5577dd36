package config_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"countersign/cmd/internal/config"
	"countersign/registry"
)

// keys lists every key of the struct with its default as the page shows it.
func keys(v reflect.Value, prefix string) map[string]string {
	out := map[string]string{}
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("koanf")
		field := v.Field(i)
		switch {
		case field.Kind() == reflect.Struct:
			maps.Copy(out, keys(field, key+"."))
		case field.Kind() == reflect.Slice, field.Kind() == reflect.String && field.String() == "":
			out[key] = ""
		default:
			out[key] = fmt.Sprint(field.Interface())
		}
	}
	return out
}

func TestThePageDescribesEveryKey(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "\n## ")
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:`([^`]*)`)? ?\\|").FindAllStringSubmatch(table, -1) {
		documented[m[1]] = m[2]
	}
	if diff := cmp.Diff(keys(reflect.ValueOf(config.Default()), ""), documented); diff != "" {
		t.Errorf("the code and docs/configuration.md differ (-code +page):\n%s", diff)
	}
}

// Keys of lists are in an example of the page, each once and no others.
func TestThePageDescribesEveryKeyOfAnIssuer(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Issuers\n")
	_, example, _ := strings.Cut(section, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^ {4}(?:- |  )([a-z_]+):|^ {8}([a-z_]+):").FindAllStringSubmatch(example, -1) {
		documented = append(documented, m[1]+m[2])
	}
	var known []string
	for field := range reflect.TypeFor[config.Issuer]().Fields() {
		known = append(known, field.Tag.Get("koanf"))
		if field.Type.Kind() == reflect.Struct {
			for key := range keys(reflect.New(field.Type).Elem(), "") {
				known = append(known, key)
			}
		}
	}
	slices.Sort(known)
	slices.Sort(documented)
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("the code and docs/configuration.md differ (-code +page):\n%s", diff)
	}
	// And it is one that is taken.
	c, err := config.Load(config.Default(), file(t, example), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]registry.Role{
		"mcp-admins": {registry.RolePlatformAdmin}, "mcp-developers": {registry.RoleAssetMaintainer, registry.RoleOperator},
	}
	if len(c.Auth.Issuers) != 1 || !cmp.Equal(c.Auth.Issuers[0].RoleMap, want) || c.Auth.Issuers[0].ClockSkew != 30*time.Second ||
		c.Auth.Issuers[0].Login.ClientID != "countersign-cli" {
		t.Errorf("it is read as %+v", c.Auth.Issuers)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	path := file(t, "listen: 127.0.0.1:1\nprobe: {interval: 1m, concurrency: 3}\noutbound: {allow_networks: [10.0.0.0/8]}\n")
	t.Setenv("COUNTERSIGN_PROBE_INTERVAL", "2m")
	t.Setenv("COUNTERSIGN_DATABASE_URL", "sqlite:x")
	t.Setenv("COUNTERSIGN_TOKEN", "of the client")
	t.Setenv("COUNTERSIGN_ALLOW_NONE_AUTHENTICATION_EXCEPTIONS", "true")
	c, err := config.Load(config.Default(), path, map[string]any{"listen": "127.0.0.1:2"})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Listen, want.Database.URL = "127.0.0.1:2", "sqlite:x"
	want.Probe = config.Probe{Interval: 2 * time.Minute, Concurrency: 3, SlowConcurrency: 256, PerHost: 4, DegradeAfter: 1, RecoverAfter: 1}
	want.Outbound.AllowNetworks = []string{"10.0.0.0/8"}
	want.AllowNoneAuthenticationExceptions = true
	if diff := cmp.Diff(want, c, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	t.Setenv("COUNTERSIGN_OUTBOUND_ALLOW_NETWORKS", "10.0.0.0/8,127.0.0.0/8")
	t.Setenv("COUNTERSIGN_OAUTH_REGISTRATION_ISSUERS", "https://a.example,https://b.example/tenant")
	if c, err = config.Load(config.Default(), "", nil); err != nil || len(c.Outbound.AllowNetworks) != 2 || len(c.OAuth.RegistrationIssuers) != 2 {
		t.Errorf("%v %v %v", c.Outbound, c.OAuth, err)
	}
}

// What is misspelled is named, in one line.
func TestUnknownKeysAreNamed(t *testing.T) {
	t.Parallel()
	path := file(t, "lissten: x\nprobe: {intervall: 1s}\n")
	_, err := config.Load(config.Default(), path, nil)
	want := "configuration (file " + path + "): there is no key lissten, probe.intervall; docs/configuration.md has all"
	if err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown key":                "lissten: x\n",
		"unknown nested key":         "probe: {intervall: 1s}\n",
		"not an address":             "listen: nowhere\n",
		"a timeout of 0":             "handshake_timeout_seconds: 0\n",
		"too short a window":         "probe: {interval: 1ms}\n",
		"not a network":              "outbound: {allow_networks: [localhost]}\n",
		"no listener":                "internal_listen: nowhere\n",
		"no network":                 "auth: {allow_networks: [localhost]}\n",
		"no key of an issuer":        "auth: {issuers: [{issuer: https://a, audience: b, audiences: [c]}]}\n",
		"half a version":             "worker: {build: x}\n",
		"half of TLS":                "tls: {cert_file: x}\n",
		"no certificate":             "tls: {client_ca_file: x}\n",
		"a burst of none":            "limits: {tenant: {requests_per_second: 1, burst: 0}}\n",
		"a rate below none":          "limits: {resolve: {requests_per_second: -1}}\n",
		"a quota below none":         "quotas: {tools: -1}\n",
		"a base path without end":    "console: {base_path: /registry}\n",
		"a base path with a script":  "console: {base_path: '/\"><script>/'}\n",
		"a base path of a host":      "console: {base_path: //evil.example.com/}\n",
		"half a sign-in":             "console: {client_id: x}\n",
		"a stranger's sign-in":       "console: {issuer: https://a, client_id: x}\n",
		"no origin":                  "console: {connect_origins: [https://a/path]}\n",
		"a policy":                   "console: {connect_origins: [\"https://a; script-src *\"]}\n",
		"a key without id":           "temporal: {codec_keys: [{key: env:X}]}\n",
		"an id twice":                "temporal: {codec_keys: [{id: a, key: env:X}, {id: a, key: env:Y}]}\n",
		"a key, not its name":        "temporal: {codec_keys: [{id: a, key: c2VjcmV0}]}\n",
		"not yaml":                   ":::\n- {",
		"no issuer to register at":   "oauth: {registration_issuers: [login.example]}\n",
		"a query of such an issuer":  "oauth: {registration_issuers: ['https://login.example/?a=b']}\n",
		"a secret in such an issuer": "oauth: {registration_issuers: ['https://u:p@login.example']}\n",
		"duration of nothing":        "probe: {interval: soon}\n",
	} {
		if _, err := config.Load(config.Default(), file(t, text), nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := config.Load(config.Default(), "/nonexistent", nil); err == nil {
		t.Error("a missing file is accepted")
	}
}

func TestWhereEventsGoIsChecked(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		"events: {source: https://a.example/registry, log: true}": true,
		"events: {source: ''}":                                                              false,
		"events: {source: 'https://u:p@a.example/'}":                                        false,
		"events: {nats: {url: 'nats://a:4222,tls://b:4222', token: 'env:NATS'}}":            true,
		"events: {nats: {url: 'nats://u:p@a:4222'}}":                                        false,
		"events: {nats: {url: 'http://a:4222'}}":                                            false,
		"events: {nats: {url: 'nats://a:4222', token: 'hunter2'}}":                          false,
		"events: {nats_inbound: {url: 'nats://a:4222', stream: IN, token: 'env:NATS'}}":     true,
		"events: {nats_inbound: {url: 'nats://a:4222'}}":                                    false,
		"events: {nats_inbound: {stream: IN}}":                                              false,
		"events: {nats_inbound: {url: 'nats://u:p@a:4222', stream: IN}}":                    false,
		"events: {nats_inbound: {url: 'nats://a:4222', stream: 'a.b'}}":                     false,
		"events: {nats_inbound: {url: 'nats://a:4222', stream: IN, consumer: ''}}":          false,
		"events: {nats_inbound: {url: 'nats://a:4222', stream: IN, prefix: '*'}}":           false,
		"events: {nats_inbound: {url: 'nats://a:4222', stream: IN, token: 'hunter2'}}":      false,
		"events: {nats: {prefix: 'a.>'}}":                                                   false,
		"events: {kafka: {brokers: ['a:9092'], topic: t, user: u, password: 'file:kafka'}}": true,
		"events: {kafka: {brokers: ['a:9092']}}":                                            false,
		"events: {kafka: {topic: t}}":                                                       false,
		"events: {kafka: {brokers: ['a:9092'], topic: t, user: u}}":                         false,
		"events: {kafka: {brokers: ['a:9092'], topic: t, user: u, password: 'hunter2'}}":    false,
	} {
		if _, err := config.Load(config.Default(), file(t, text), nil); (err == nil) != fine {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What repeats are answered from is kept as long as their keys.
func TestRetentionRefusesWhatWouldLoseAnswers(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		"retention: {}": true,
		"retention: {idempotency_keys: 24h, operations: 24h}":  true,
		"retention: {idempotency_keys: 48h, operations: 24h}":  false,
		"retention: {idempotency_keys: 0s, operations: 720h}":  false,
		"retention: {idempotency_keys: 0s, operations: 0s}":    true,
		"retention: {idempotency_keys: 168h, operations: 0s}":  true,
		"retention: {idempotency_keys: 23h, operations: 720h}": false,
		"retention: {snapshots: 47h}":                          false,
		"retention: {probes: 23h}":                             false,
		"retention: {events: 47h}":                             false,
		"retention: {events: 0s}":                              true,
	} {
		if _, err := config.Load(config.Default(), file(t, text), nil); (err == nil) != fine {
			t.Errorf("%s: %v", text, err)
		}
	}
}
