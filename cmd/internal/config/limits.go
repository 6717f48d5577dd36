package config

import (
	"fmt"

	"countersign/registry"
)

// Limits bound how often a process is asked, on all of its listeners together.
type Limits struct {
	Principal Rate `koanf:"principal"` // of each caller
	Tenant    Rate `koanf:"tenant"`    // of all callers of a tenant
	Resolve   Rate `koanf:"resolve"`   // of McpRegistryService, of a tenant, instead of the two others
	Changes   Rate `koanf:"changes"`   // of requests that change something, of a tenant, besides the first two

	Concurrent int `koanf:"concurrent"` // requests of one tenant under way at once; 0: no limit
}

// Rate is a token bucket.
type Rate struct {
	RequestsPerSecond float64 `koanf:"requests_per_second"` // 0: no limit
	Burst             int     `koanf:"burst"`               // at once
}

func (l Limits) validate() error {
	for key, r := range map[string]Rate{"principal": l.Principal, "tenant": l.Tenant, "resolve": l.Resolve, "changes": l.Changes} {
		if r.RequestsPerSecond < 0 || r.RequestsPerSecond > 0 && r.Burst < 1 {
			return fmt.Errorf("limits.%s: requests_per_second must be 0 or more, and then burst at least 1", key)
		}
	}
	if l.Concurrent < 0 {
		return fmt.Errorf("limits.concurrent must be 0 or more, not %d", l.Concurrent)
	}
	return nil
}

// Quotas bound what a tenant may have; 0 is no bound. Reloaded on SIGHUP.
type Quotas struct {
	Servers         int64 `koanf:"servers"`
	Tools           int64 `koanf:"tools"`
	Connections     int64 `koanf:"connections"`
	DefinitionBytes int64 `koanf:"definition_bytes"`
}

func (q Quotas) validate() error {
	if min(q.Servers, q.Tools, q.Connections, q.DefinitionBytes) < 0 {
		return fmt.Errorf("quotas must be 0 or more")
	}
	return nil
}

// Registry gives the quotas as the database takes them.
func (q Quotas) Registry() registry.Quotas { return registry.Quotas(q) }
