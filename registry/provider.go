package registry

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// ProviderFamily is the kind of a provider (R100).
type ProviderFamily string

// The families.
const (
	FamilyMCP ProviderFamily = "mcp" // one server, under the provider's name
	FamilyAEP ProviderFamily = "aep" // an extension, whose descriptor declares servers
)

// Provider is a source of servers and tools; plain registration makes one of
// the server's name (C13). What follows Enabled is the configuration of the
// family AEP, and how the last refresh went; of the family MCP the server has
// both.
type Provider struct {
	TenantID   string         `json:"tenantId" bun:"tenant_id,pk"`
	ProviderID string         `json:"providerId" bun:"provider_id,pk"`
	Name       string         `json:"name" bun:"name"` // never changes
	Family     ProviderFamily `json:"family" bun:"family"`
	Enabled    bool           `json:"enabled" bun:"enabled"` // tools of a disabled one do not resolve (R107)
	CreatedAt  time.Time      `json:"createdAt" bun:"created_at"`
	CreatedBy  string         `json:"createdBy" bun:"created_by"`
	Version    int64          `json:"version" bun:"version"` // moves with every accepted change and never with a refresh

	ProviderConfig

	Config  int64           `json:"config" bun:"config"` // the version that last changed what a refresh does
	Refresh ProviderRefresh `json:"refresh" bun:"refresh,type:text"`
}

// ProviderConfig is what people say of a provider of the family AEP.
type ProviderConfig struct {
	Description     string         `json:"description,omitempty" bun:"description"`
	BaseURL         string         `json:"baseUrl" bun:"base_url"`         // of the extension
	ExtensionID     string         `json:"extensionId" bun:"extension_id"` // that the descriptor must name (R101)
	Authentication  Authentication `json:"authentication" bun:"authentication"`
	ExceptionReason string         `json:"exceptionReason,omitempty" bun:"exception_reason"`
	// GovernancePolicyRef governs the extension's servers from their registration on.
	GovernancePolicyRef string `json:"governancePolicyRef" bun:"governance_policy_ref"`
}

// RefreshStatus says how the last refresh of a provider went.
type RefreshStatus string

// The states of a refresh.
const (
	RefreshNever     RefreshStatus = "never"
	RefreshRunning   RefreshStatus = "running"
	RefreshSucceeded RefreshStatus = "succeeded" // what could not be done with single servers or contributions is said there
	RefreshFailed    RefreshStatus = "failed"    // it touched nothing
)

// ProviderRefresh is the last refresh of a provider of the family AEP. Extension
// and URL are those of the last one that succeeded.
type ProviderRefresh struct {
	Number      int64         `json:"number"` // counts up
	Status      RefreshStatus `json:"status"`
	Config      int64         `json:"config"` // the version of the provider that it was for
	RequestedBy string        `json:"requestedBy,omitempty"`
	StartedAt   time.Time     `json:"startedAt,omitzero"`
	FinishedAt  time.Time     `json:"finishedAt,omitzero"`
	SucceededAt time.Time     `json:"succeededAt,omitzero"`
	Reason      Reason        `json:"reason,omitempty"`
	Message     string        `json:"message,omitempty"`
	Next        string        `json:"next,omitempty"`
	Faults      []Field       `json:"faults,omitempty"` // of the descriptor (R102)
	Counts      Counts        `json:"counts"`

	URL       string    `json:"url,omitempty"` // where the descriptor was
	Extension Extension `json:"extension"`
	Warnings  []Field   `json:"warnings,omitempty"` // what is odd in the descriptor, and does no harm
}

// Extension is what an extension says of itself. It is shown and never trusted.
type Extension struct {
	Name        string `json:"name,omitempty"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
}

// ProviderServer is a server that an extension declares, and what the last
// refresh could not do with it.
type ProviderServer struct {
	TenantID   string `json:"tenantId" bun:"tenant_id,pk"`
	ProviderID string `json:"providerId" bun:"provider_id,pk"`
	ExternalID string `json:"externalId" bun:"external_id,pk"` // its id in the descriptor
	ServerID   string `json:"serverId" bun:"server_id"`
	Name       string `json:"name" bun:"name"`
	URL        string `json:"url" bun:"url"`
	Declared   bool   `json:"declared" bun:"declared"` // in the last descriptor; else it is being retired
	Reason     Reason `json:"reason,omitempty" bun:"reason"`
	Message    string `json:"message,omitempty" bun:"message"`
}

// ServerOutcome is what a refresh came to with one server: a reason when something
// could not be done.
type ServerOutcome struct {
	ExternalID string `json:"externalId"`
	Reason     Reason `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	Counts     Counts `json:"counts"`
}

// MaxExtensionID bounds the id of an extension, in bytes.
const MaxExtensionID = 256

// ownProvider is the id of the provider that a plain registration makes.
func ownProvider(serverID string) string { return "prv_" + trimID(serverID) }

// Contributed says whether the server's tools are what an extension contributes,
// since another provider than one of its own has it.
func (s *Server) Contributed() bool { return s.ProviderID != ownProvider(s.ServerID) }

// Etag is the optimistic lock as callers see it.
func (p *Provider) Etag() string { return formatEtag(p.Version) }

// ProviderNotFound is what one is told of a provider that does not exist, was
// deleted, or is another tenant's.
func ProviderNotFound() *Error {
	return Errorf(ReasonProviderNotFound, "there is no such provider").
		WithNext("list the providers; names are those of the tenant")
}

// CheckProvider says everything that is wrong with a new provider of the family
// AEP, before anything is written or fetched.
func CheckProvider(name string, c ProviderConfig, inst Installation) error {
	e := Errorf(ReasonInvalidArgument, "the provider is not valid")
	if !ValidName(name) {
		e.WithField("name", "must be 1 to %d of a-z, 0-9, '_' and '-', beginning and ending with a letter or digit", MaxNameLength)
	}
	return c.check(e, inst)
}

// Check says everything that is wrong with a configuration.
func (c ProviderConfig) Check(inst Installation) error {
	return c.check(Errorf(ReasonInvalidArgument, "the provider is not valid"), inst)
}

func (c ProviderConfig) check(e *Error, inst Installation) error {
	if len(c.Description) > MaxDescriptionLength {
		e.WithField("description", "longer than %d bytes", MaxDescriptionLength)
	}
	if err := CheckEndpoint(c.BaseURL); err != nil {
		if ReasonOf(err) == ReasonSecretInRequest {
			return err
		}
		e.WithField("aep.base_url", "%s", err.Error())
	}
	if strings.TrimSpace(c.ExtensionID) == "" || len(c.ExtensionID) > MaxExtensionID || strings.ContainsFunc(c.ExtensionID, notGraphic) {
		e.WithField("aep.extension_id", "must be 1 to %d bytes that can be seen", MaxExtensionID)
	}
	if err := checkTrust(e, "aep.", c.Authentication, c.ExceptionReason, c.GovernancePolicyRef, inst); err != nil {
		return err
	}
	if len(e.Fields) > 0 {
		return e
	}
	return nil
}

func notGraphic(r rune) bool { return !unicode.IsGraphic(r) }

// ProviderEdit is a change of a provider's configuration; nil stays.
type ProviderEdit struct {
	Etag                string          `json:"etag,omitempty"`
	Description         *string         `json:"description,omitempty"`
	BaseURL             *string         `json:"baseUrl,omitempty"`
	ExtensionID         *string         `json:"extensionId,omitempty"`
	Authentication      *Authentication `json:"authentication,omitempty"`
	ExceptionReason     *string         `json:"exceptionReason,omitempty"`
	GovernancePolicyRef *string         `json:"governancePolicyRef,omitempty"`
}

// Edit gives the configuration after an edit, with the fields that differ.
func (c ProviderConfig) Edit(e ProviderEdit) (next ProviderConfig, fields []string) {
	next = c
	change(&fields, "description", &next.Description, e.Description)
	change(&fields, "base_url", &next.BaseURL, e.BaseURL)
	change(&fields, "extension_id", &next.ExtensionID, e.ExtensionID)
	change(&fields, "authentication", &next.Authentication, e.Authentication)
	change(&fields, "exception_reason", &next.ExceptionReason, e.ExceptionReason)
	change(&fields, "governance_policy_ref", &next.GovernancePolicyRef, e.GovernancePolicyRef)
	return next, fields
}

func change[T comparable](fields *[]string, name string, to, from *T) {
	if from != nil && *from != *to {
		*to = *from
		*fields = append(*fields, name)
	}
}

// CheckEtag compares a caller's etag with the provider's version; an empty one
// asks for nothing.
func (p *Provider) CheckEtag(etag string) error {
	if err := CheckEtag(etag, p.Version); err != nil {
		return Errorf(ReasonStaleEtag, "the provider is at etag %s, not %s", p.Etag(), etag).
			With("etag", p.Etag()).WithNext("read the provider again and repeat the change on what it is now")
	}
	return nil
}

// Begin begins a refresh, or joins the one that runs for the same configuration,
// and says whether it began one.
func (p *Provider) Begin(by string, running int64, now time.Time) bool {
	r := &p.Refresh
	if r.Status == RefreshRunning && r.Number == running && r.Config == p.Config {
		return false
	}
	r.Number, r.Status, r.Config, r.RequestedBy, r.StartedAt = r.Number+1, RefreshRunning, p.Config, by, now
	r.FinishedAt, r.Reason, r.Message, r.Next, r.Faults = time.Time{}, "", "", "", nil
	return true
}

// Fail ends a refresh that touched nothing.
func (r *ProviderRefresh) Fail(e *Error, now time.Time) {
	r.Status, r.FinishedAt, r.Reason, r.Message, r.Next, r.Faults = RefreshFailed, now, e.Reason, e.Message, e.Next, e.Fields
}

// Plus adds counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.New + d.New, c.Changed + d.Changed, c.Unchanged + d.Unchanged, c.Unavailable + d.Unavailable, c.Total + d.Total}
}

// String says counts in short.
func (c Counts) String() string {
	return fmt.Sprintf("%d new, %d changed, %d unchanged, %d unavailable, %d in all", c.New, c.Changed, c.Unchanged, c.Unavailable, c.Total)
}
