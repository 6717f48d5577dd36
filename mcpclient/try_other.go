//go:build !linux

package mcpclient

import (
	"context"

	"countersign/registry"
)

// TrySandbox says that there is none here.
func TrySandbox(context.Context, registry.Sandbox, []string) error {
	return registry.Errorf(registry.ReasonTransportUnsupported, "servers are started as processes on Linux only")
}
