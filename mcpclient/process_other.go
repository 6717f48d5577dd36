//go:build !linux

package mcpclient

import (
	"context"

	"countersign/registry"
)

// process does not exist here: keeping a process from the machine, and ending it
// with all that it started, is done by means of Linux.
type process struct {
	noise noise
}

type noise struct{}

func (noise) seen() (int, string) { return 0, "" }

func start(context.Context, *Keeper, *Command, registry.Limits) (*process, *registry.Error) {
	return nil, registry.Errorf(registry.ReasonTransportUnsupported, "servers are started as processes on Linux only")
}

func (*process) send(context.Context, []byte) *registry.Error  { return nil }
func (*process) hear(*pulse)                                   {}
func (*process) next() ([]byte, *registry.Error)               { return nil, nil }
func (*process) stop(bool)                                     {}
func (*process) close(context.Context)                         {}
func (*process) explain(fault *registry.Error) *registry.Error { return fault }
