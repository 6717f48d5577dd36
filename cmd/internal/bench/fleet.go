package main

import (
	"context"
	"time"

	"countersign/registry"
)

func init() { parts["fleet"] = fillFleet } //nolint:gochecknoinits // a part is known by its file

// inhabited says what fillFleet makes.
type inhabited struct {
	Database, Tenant string
	Servers, Tools   int // tools of each server
}

// fillFleet fills the database of a process that does not run: one server in fifty waits
// for its approval, the others were probed once.
func fillFleet(args []string) error {
	in, err := arguments[inhabited](args)
	if err != nil {
		return err
	}
	ctx := context.Background()
	d, err := open(ctx, in.Database)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.Up(ctx); err != nil {
		return err
	}
	f, surface := filler{store: d.Tenant(in.Tenant)}, offer(in.Tools)
	window := time.Now().UTC().Truncate(5 * time.Minute)
	var probes []registry.Probe
	for n := range in.Servers {
		name := serverName(n)
		url := "https://" + name + ".example/mcp"
		if n%50 == 0 {
			if _, _, err := f.verified(ctx, name, url, surface); err != nil {
				return err
			}
			continue
		}
		s, err := f.active(ctx, name, url, surface)
		if err != nil {
			return err
		}
		p := registry.Probe{ServerID: s.ServerID, TenantID: in.Tenant, Window: window, At: window, Since: window, Outcome: registry.OutcomeOK, TargetDigest: s.TargetDigest, ToolsDigest: s.ToolsDigest, Differing: []string{}}
		if probes = append(probes, p); len(probes) == 500 || n == in.Servers-1 {
			if _, err := d.System().RecordProbes(ctx, probes, 0); err != nil {
				return err
			}
			probes = probes[:0]
		}
	}
	return nil
}
