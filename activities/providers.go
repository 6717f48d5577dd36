package activities

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"countersign/aep"
	"countersign/db"
	"countersign/registry"
)

// Extensions fetches descriptors; aep.Client does.
type Extensions interface {
	Fetch(ctx context.Context, base, want string) (aep.Found, error)
}

// Servers brings changes to the workflows of servers; workflows.Client does.
type Servers interface {
	Register(ctx context.Context, in RegisterInput) (RegisterOutput, error)
	Edit(ctx context.Context, name string, in EditInput) (registry.Server, error)
	Retire(ctx context.Context, name string, in RetireInput) (registry.Server, error)
	BeginDiscovery(ctx context.Context, name string, in BeginDiscoveryInput) (BeginDiscoveryOutput, error)
}

// SaveProvider makes a provider of the family AEP, or changes its configuration,
// once.
func (a *Activities) SaveProvider(ctx context.Context, in SaveProviderInput) (ProviderOutput, error) {
	store := a.DB.Tenant(in.Tenant)
	var claim *db.Claim
	if in.Key != "" {
		claim = &db.Claim{Operation: in.Operation.Name, Key: in.Key, BodyHash: in.BodyHash}
	}
	var (
		p        registry.Provider
		replayed bool
		err      error
	)
	check := func(c registry.ProviderConfig) error {
		if err := c.Check(a.Installation); err != nil {
			return err
		}
		return a.policyExists(ctx, in.Tenant, c.GovernancePolicyRef)
	}
	if in.Create != nil {
		if err = check(*in.Create); err == nil {
			p, replayed, err = store.CreateProvider(ctx, in.Name, *in.Create, in.Operation, claim)
		}
	} else {
		p, replayed, err = store.EditProvider(ctx, in.Name, in.Edit, in.Operation, claim, check)
	}
	if err != nil {
		return ProviderOutput{}, err
	}
	if !replayed {
		a.logProvider(ctx, in.Operation.Name, &p, slog.String("by", in.Operation.Actor.Subject))
	}
	return ProviderOutput{Provider: p, Replayed: replayed}, nil
}

func (a *Activities) logProvider(ctx context.Context, what string, p *registry.Provider, attrs ...slog.Attr) {
	a.Log.LogAttrs(ctx, slog.LevelInfo, what, append([]slog.Attr{slog.String("tenant", p.TenantID), slog.String("provider", p.Name)}, attrs...)...)
}

// BeginRefresh numbers a refresh, or joins the one that runs.
func (a *Activities) BeginRefresh(ctx context.Context, in BeginRefreshInput) (ProviderOutput, error) {
	in.Operation.Name = "refresh_provider"
	p, err := a.DB.Tenant(in.Tenant).BeginRefresh(ctx, in.Name, in.Running, in.Operation)
	return ProviderOutput{Provider: p}, err
}

// PlanRefresh fetches the descriptor, judges it, and takes what it declares in one
// transaction. Until that, nothing of a refresh is written (R44).
func (a *Activities) PlanRefresh(ctx context.Context, in PlanRefreshInput) (PlanRefreshOutput, error) {
	defer beating(ctx)()
	store := a.DB.Tenant(in.Tenant)
	v, err := store.Provider(ctx, in.Name)
	if err != nil {
		return PlanRefreshOutput{}, err
	}
	found, err := a.Extensions.Fetch(ctx, v.BaseURL, v.ExtensionID)
	if err != nil {
		return PlanRefreshOutput{}, err
	}
	servers, err := store.PlanRefresh(ctx, in.Name, in.Number, v.Config, declared(&found))
	return PlanRefreshOutput{Servers: servers}, err
}

func declared(found *aep.Found) db.Declared {
	d := db.Declared{
		URL: found.URL, Warnings: found.Warnings,
		Extension: registry.Extension{Name: found.Extension.Name, Version: found.Extension.Version, Description: found.Extension.Description},
	}
	for _, s := range found.Servers {
		d.Servers = append(d.Servers, registry.ProviderServer{ExternalID: s.ID, URL: s.URL})
	}
	d.Contributions = contributions(found)
	return d
}

func contributions(found *aep.Found) []registry.Contribution {
	out := make([]registry.Contribution, len(found.Tools))
	for i, c := range found.Tools {
		out[i] = registry.Contribution{ID: c.ID, Server: c.Server, Tool: c.Tool, DisplayName: c.DisplayName, Description: c.Description}
	}
	return out
}

// BringServer brings one server to what the descriptor declares, by way of its
// workflow as registrations do: it is registered, moved or retired; and one that
// stays is discovered. What the server, or its rules, refuse is the outcome and no
// error: the provider's other servers go on.
func (a *Activities) BringServer(ctx context.Context, in BringServerInput) (registry.ServerOutcome, error) {
	defer beating(ctx)()
	out, err := a.bring(ctx, in)
	out.ExternalID = in.Server.ExternalID
	if e, ours := registry.AsError(err); ours && !e.Code.Retryable() && ctx.Err() == nil {
		out.Reason, out.Message = e.Reason, e.Message
		return out, nil
	}
	return out, err
}

func (a *Activities) bring(ctx context.Context, in BringServerInput) (out registry.ServerOutcome, err error) {
	store, v := a.DB.Tenant(in.Tenant), in.Server
	view, err := store.Server(ctx, v.ServerID)
	missing := registry.ReasonOf(err) == registry.ReasonServerNotFound
	if err != nil && !missing {
		return out, err
	}
	switch {
	case !v.Declared && missing:
		return out, nil
	case !v.Declared:
		out.Counts.Unavailable = view.Counts.Available
		if view.Open() {
			_, err = a.Servers.Retire(ctx, v.Name, RetireInput{
				Tenant: in.Tenant, ServerID: v.ServerID, Operation: in.operation("retire"), Comment: "the extension declares the server no more",
			})
		}
		return out, err
	case missing:
		if err := a.registerDeclared(ctx, in); err != nil {
			return out, err
		}
		return a.discovered(ctx, in, 1)
	case !view.Open():
		return out, registry.Errorf(registry.ReasonServerRetired, "the server was retired, and the extension still declares it")
	}
	if view.Discovery.Status == registry.DiscoveryRunning { // it may have begun before the descriptor was taken
		if view, err = store.DiscoveryEnd(ctx, v.ServerID, view.Discovery.Number); err != nil {
			return out, err
		}
	}
	moved := view.Connection.URL != v.URL
	if moved && view.Connection.Owned() {
		_, err = a.Servers.Edit(ctx, v.Name, EditInput{
			Tenant: in.Tenant, ServerID: v.ServerID, Operation: in.operation("edit"), Edit: registry.Edit{URL: &v.URL},
		})
		if err != nil {
			return out, err
		}
		moved = false
	}
	begun, err := a.Servers.BeginDiscovery(ctx, v.Name, BeginDiscoveryInput{
		Tenant: in.Tenant, ServerID: v.ServerID, Operation: in.operation("begin_discovery"),
	})
	if err != nil {
		return out, err
	}
	out, err = a.discovered(ctx, in, begun.Number)
	if err == nil && moved && out.Reason == "" {
		out.Reason = registry.ReasonTargetChanged
		out.Message = fmt.Sprintf("the extension declares %s, and the server is reached by connection %s at %s", v.URL, view.Connection.Name, view.Connection.URL)
	}
	return out, err
}

// operation names one step of a refresh, so that a retry of it is a repeat.
func (in *BringServerInput) operation(name string) registry.Operation {
	return registry.Operation{
		ID: fmt.Sprintf("refresh/%s/%d/%s", in.Server.ProviderID, in.Number, name), Name: name, Actor: in.Actor, Origin: registry.OriginSystem,
	}
}

func (a *Activities) registerDeclared(ctx context.Context, in BringServerInput) error {
	p, err := a.DB.Tenant(in.Tenant).Provider(ctx, in.Provider)
	if err != nil {
		return err
	}
	v := in.Server
	g := registry.Registration{
		TenantID: in.Tenant, ServerID: v.ServerID, Name: v.Name, Direction: registry.DirectionConsumed, Transport: registry.TransportStreamableHTTP,
		URL: v.URL, Authentication: p.Authentication, ExceptionReason: p.ExceptionReason, GovernancePolicyRef: p.GovernancePolicyRef,
		ProtocolVersion: asked, ProviderID: v.ProviderID, Description: "server " + v.ExternalID + " of " + p.ExtensionID,
	}
	if len(g.Description) > registry.MaxDescriptionLength {
		g.Description = ""
	}
	if err := g.Check(a.Installation); err != nil {
		return err
	}
	_, err = a.Servers.Register(ctx, RegisterInput{
		Registration: g, Operation: in.operation("register"), Key: "provider/" + v.ServerID, BodyHash: registry.BodyHash([]byte(v.ServerID)),
	})
	return err
}

// discovered waits for a discovery, and says what became of it.
func (a *Activities) discovered(ctx context.Context, in BringServerInput, number int64) (out registry.ServerOutcome, err error) {
	view, err := a.DB.Tenant(in.Tenant).DiscoveryEnd(ctx, in.Server.ServerID, number)
	switch d := view.Discovery; {
	case err != nil:
	case d.Status == registry.DiscoveryFailed:
		out.Reason, out.Message = d.Reason, d.Message
	case view.Suspect == "": // a look that is not believed yet counts nothing
		out.Counts = d.Counts
	}
	return out, err
}

// EndRefresh records how a refresh ended.
func (a *Activities) EndRefresh(ctx context.Context, in EndRefreshInput) (ProviderOutput, error) {
	p, err := a.DB.Tenant(in.Tenant).EndRefresh(ctx, in.Name, in.Number, in.Failed, in.Servers)
	if err != nil {
		return ProviderOutput{}, err
	}
	c := p.Refresh.Counts
	a.logProvider(ctx, "refreshed", &p, slog.String("status", string(p.Refresh.Status)), slog.String("reason", string(p.Refresh.Reason)),
		slog.Int("new", c.New), slog.Int("changed", c.Changed), slog.Int("unavailable", c.Unavailable), slog.Int("total", c.Total))
	return ProviderOutput{Provider: p}, nil
}

// contributed gives a surface as the extension contributes it whose server this
// is, and by contribution the tool of the server; of other servers as it is.
func (a *Activities) contributed(ctx context.Context, s *registry.Server, surface registry.Surface) (registry.Surface, map[string]string, error) {
	if !s.Contributed() {
		return surface, nil, nil
	}
	list, err := a.DB.Tenant(s.TenantID).Contributions(ctx, s.ServerID)
	if err != nil {
		return surface, nil, err
	}
	return surface.Contributed(list), registry.Origins(list), nil
}

// asked is the protocol version that the servers of extensions are registered
// with; what is agreed on is each server's answer.
const asked = "2026-07-28"

// maxTestIssues bounds the contributions that a test names.
const maxTestIssues = 100

// TestProvider fetches the descriptor and does the whole discovery of each server
// that it declares, and writes nothing (R52, R107). What fails is the report, not
// an error.
func (a *Activities) TestProvider(ctx context.Context, in TestProviderInput) (ProviderTestReport, error) {
	defer beating(ctx)()
	v, err := a.DB.Tenant(in.Tenant).Provider(ctx, in.Name)
	if err != nil {
		return ProviderTestReport{}, err
	}
	began := time.Now()
	found, err := a.Extensions.Fetch(ctx, v.BaseURL, v.ExtensionID)
	if err != nil {
		e, ours := registry.AsError(err)
		if !ours {
			return ProviderTestReport{}, err
		}
		return ProviderTestReport{Reason: e.Reason, Message: e.Message, Next: e.Next, Faults: e.Fields, Duration: time.Since(began)}, nil
	}
	out := ProviderTestReport{
		OK: true, URL: found.URL, Warnings: found.Warnings, Duration: time.Since(began), Contributions: len(found.Tools),
		ExtensionName: found.Extension.Name, ExtensionVersion: found.Extension.Version,
	}
	all := contributions(&found)
	for _, declared := range found.Servers {
		report, names, err := a.testDeclared(ctx, &v, declared)
		if err != nil {
			return out, err
		}
		out.OK = out.OK && report.OK
		out.Servers = append(out.Servers, ProviderServerTest{ExternalID: declared.ID, URL: declared.URL, Report: report})
		for _, c := range registry.Of(all, declared.ID) {
			if !report.OK || names[c.Tool] {
				continue
			}
			out.OK = false
			if len(out.Issues) < maxTestIssues {
				out.Issues = append(out.Issues, ContributionIssue{
					ID: c.ID, Server: c.Server, Tool: c.Tool, Reason: registry.ReasonMCPToolNotFound, Message: "the server lists no tool of this name",
				})
			}
		}
	}
	return out, nil
}

// testDeclared tests a declared server: as it is registered, or as it would be.
func (a *Activities) testDeclared(ctx context.Context, p *db.ProviderView, declared aep.Server) (TestReport, map[string]bool, error) {
	view := db.ServerView{
		Server: registry.Server{
			TenantID: p.TenantID, Name: p.Name, Transport: registry.TransportStreamableHTTP, Authentication: p.Authentication,
		},
		Connection: registry.Connection{TenantID: p.TenantID, URL: declared.URL, AuthKind: registry.AuthKindNone, Authentication: p.Authentication},
	}
	for _, known := range p.Servers {
		if known.ExternalID != declared.ID {
			continue
		}
		v, err := a.DB.Tenant(p.TenantID).Server(ctx, known.ServerID)
		if err != nil && registry.ReasonOf(err) != registry.ReasonServerNotFound {
			return TestReport{}, nil, err
		}
		if err == nil && v.Open() {
			if url := v.Connection.URL; v.Connection.Owned() && url != declared.URL {
				v.Connection.URL = declared.URL // where a refresh would move it
			}
			view = v
		}
	}
	report, snapshot, err := a.look(ctx, view)
	names := map[string]bool{}
	if snapshot != nil {
		for _, item := range snapshot.Of(registry.KindTool) {
			names[item.Name] = true
		}
	}
	return report, names, err
}
