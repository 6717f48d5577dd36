// Package doctor looks at an installation as one of its processes would see it:
// what is reachable, what is set up, and what to do about the rest. It changes
// nothing.
package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"countersign/api"
	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/db"
	"countersign/registry"
)

// patience is how long one check may take.
const patience = 10 * time.Second

// Status of a check.
type Status string

// A warning is something that works and should not stay so; a failure is
// something that does not work.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is what came of one check.
type Finding struct {
	Check  string          `json:"check"`
	Status Status          `json:"status"`
	Found  string          `json:"found"`
	Reason registry.Reason `json:"reason,omitempty"`
	Fix    string          `json:"fix,omitempty"`
}

// examination is one run.
type examination struct {
	conf     config.Config
	store    *db.DB // that the process has open; nil: it is opened
	role     string // all, api or worker
	log      *slog.Logger
	findings []Finding
}

// Examine makes every check that concerns a process of a role: all, api or
// worker. What the log gets are the causes of failures.
func Examine(ctx context.Context, conf config.Config, role string, log *slog.Logger) []Finding {
	x := &examination{conf: conf, role: role, log: log}
	x.all(ctx)
	return x.findings
}

func (x *examination) all(ctx context.Context) {
	x.database(ctx)
	x.temporal(ctx)
	if x.role != "worker" {
		x.callers(ctx)
		x.certificates()
	}
	x.keys(ctx)
	if x.role != "api" {
		x.sandbox(ctx)
		x.outbound()
	}
}

// ForAPI makes the checks of an api that runs, on the database that it has open, as
// the API tells them.
func ForAPI(conf config.Config, store *db.DB, log *slog.Logger) func(context.Context) []api.Finding {
	return func(ctx context.Context) []api.Finding {
		var out []api.Finding
		x := &examination{conf: conf, store: store, role: "api", log: log}
		x.all(ctx)
		for _, f := range x.findings {
			out = append(out, api.Finding{Check: f.Check, Status: string(f.Status), Found: f.Found, Reason: f.Reason, Fix: f.Fix})
		}
		return out
	}
}

func (x *examination) okf(check, format string, args ...any) {
	x.findings = append(x.findings, Finding{Check: check, Status: OK, Found: fmt.Sprintf(format, args...)})
}

func (x *examination) warnf(check, fix, format string, args ...any) {
	x.findings = append(x.findings, Finding{Check: check, Status: Warn, Found: fmt.Sprintf(format, args...), Fix: fix})
}

func (x *examination) failf(check, fix, format string, args ...any) {
	x.findings = append(x.findings, Finding{Check: check, Status: Fail, Found: fmt.Sprintf(format, args...), Fix: fix})
}

// failed takes an error: its own next step is the fix, else the one given.
func (x *examination) failed(check, fix string, err error) {
	f := Finding{Check: check, Status: Fail, Found: err.Error(), Fix: fix}
	if e, ok := registry.AsError(err); ok {
		f.Reason = e.Reason
		if e.Next != "" {
			f.Fix = e.Next
		}
		x.log.Debug(check, slog.Any("error", err), slog.Any("cause", e.Err)) //nolint:sloglint // it has no context of its own
	}
	x.findings = append(x.findings, f)
}

// unseen are checks that could not be made, since what they ask is away.
func (x *examination) unseen(since string, checks ...string) {
	for _, check := range checks {
		x.warnf(check, "mend "+since+" first", "not checked: it is seen through %s", since)
	}
}

// keys are those that the configuration refers to.
func (x *examination) keys(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	audit, err := app.Audit(ctx, x.conf)
	switch {
	case err != nil:
		x.failed("audit", "see that the reference in audit.signing_key leads to a key", err)
	case x.role == "api":
		x.okf("audit", "%d keys check checkpoints", len(audit.Public()))
	case audit.Signer == nil:
		x.warnf("audit", "set audit.signing_key; see docs/audit.md", "no key signs checkpoints: a cut end of the audit trail would not show")
	default:
		x.okf("audit", "checkpoints are signed with %s", audit.Signer.Public().ID)
	}
	if _, err := app.Mint(ctx, x.conf); err != nil {
		x.failed("workload identity", "see that workload_identity.key leads to a private key", err)
	} else if x.conf.WorkloadIdentity.Issuer != "" {
		x.okf("workload identity", "this installation is the issuer %s", x.conf.WorkloadIdentity.Issuer)
	}
}
