package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// An installation knows of a server that one of its tools works from a version
// on only; then it learns better, by an edit of a file and nothing else (R89).
func TestAnInstallationKnowsWhatAServerCannot(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	table, conf := filepath.Join(d.dir, "table.yaml"), filepath.Join(d.dir, "operator.yaml")
	know := func(since string) {
		t.Helper()
		text := `servers:
  - id: demo
    title: The demo server
    match: {reported: [countersign-demo]}
    capabilities:
      - key: demo.upper
        feature: Makes text upper case
        available: true
        since: {axis: product, version: ` + since + `}
        requires_args: [{tool: text_upper, arg: text}]
        gates: [text_upper]
`
		if err := errors.Join(os.WriteFile(table, []byte(text), 0o600), os.WriteFile(conf, []byte("capabilities: {table: "+table+"}\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	d.flags = []string{"--config", conf}

	// A table with faults is no table: they are told, each with its line.
	know("v2")
	d.launch(t)
	if d.awaitReady(t) {
		t.Fatal("it starts with a table that has faults")
	}
	if said := d.log.String() + d.out.String(); !strings.Contains(said, table+":9: since.version: must be dotted numbers") {
		t.Errorf("it says of the fault: %s", said)
	}

	know("2.0")
	d.start(t)
	bring(t, d.admin(), "demo", d.demoURL(), active)
	if err := d.admin().callable(t.Context(), "demo.hash_compute"); err != nil {
		t.Error(err)
	}
	switchedOff := func() error {
		answer, err := d.admin().registry.ResolveTool(t.Context(), &pb.ResolveToolRequest{ToolId: "demo.text_upper"})
		if err == nil && (answer.GetReason() != string(registry.ReasonToolUnavailable) || answer.GetDetail() != "capability:demo.upper") {
			err = fmt.Errorf("%v", answer)
		}
		return err
	}
	if err := switchedOff(); err != nil {
		t.Error(err)
	}
	admin := d.terminal(first, registry.RolePlatformAdmin)
	admin.server(t, "server", "update", "demo", "--product-version", "1.9")
	if err := switchedOff(); err != nil {
		t.Error(err)
	}
	report, _, code := admin.run(t, "server", "report", "demo")
	if code != 0 || !strings.Contains(report, "needs product version 2.0, and this is 1.9") || !strings.Contains(report, "Tools: 3\n") {
		t.Errorf("the report is, with code %d:\n%s", code, report)
	}

	// The limit is lifted.
	know("1.9")
	d.signal(t, syscall.SIGHUP)
	until(t, "the lifted limit is noticed", patience, func() error { return d.admin().callable(t.Context(), "demo.text_upper") })
	if keys, _, _ := admin.run(t, "server", "report", "demo", "-o", "name"); keys != "demo.upper\n" {
		t.Errorf("it can %q", keys)
	}
	know("soon") // and so the table stays as it was
	d.signal(t, syscall.SIGHUP)
	until(t, "the fault is logged", patience, func() error {
		if !strings.Contains(d.log.String(), "configuration not reloaded") {
			return errors.New("it is not")
		}
		return nil
	})
	if err := d.admin().callable(t.Context(), "demo.text_upper"); err != nil {
		t.Error(err)
	}
	d.stop(t)
}
