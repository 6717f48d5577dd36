package registry

import (
	"slices"
	"time"
)

// Role is what a person or program is in a tenant (R183).
type Role string

// The roles.
const (
	RolePlatformAdmin   Role = "PlatformAdmin"
	RoleAssetMaintainer Role = "AssetMaintainer"
	RoleOperator        Role = "Operator"
	RoleObserver        Role = "Observer"
	RoleAuditor         Role = "Auditor"
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{RolePlatformAdmin, RoleAssetMaintainer, RoleOperator, RoleObserver, RoleAuditor}
}

// Scope is what a credential may be used for (R182, R185).
type Scope string

// The scopes.
const (
	ScopeRead     Scope = "factory.tools.read"
	ScopeAdmin    Scope = "factory.tools.admin"
	ScopeInternal Scope = "factory.tools.internal" // McpRegistryService
)

// Principal is who calls: made in one place from a credential. There is no
// anonymous one.
type Principal struct {
	Tenant  string  `json:"tenant"`
	Subject string  `json:"subject"`
	Roles   []Role  `json:"roles"`
	Scopes  []Scope `json:"scopes"`

	Issuer  string    `json:"issuer,omitempty"` // of the credential; empty: the installation's own file
	Expires time.Time `json:"expires,omitzero"` // when the credential ends; zero: never
}

// Has says whether the principal has one of the roles.
func (p Principal) Has(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// May says whether the credential has the scope.
func (p Principal) May(scope Scope) bool { return slices.Contains(p.Scopes, scope) }

// Actor is the part of a principal that is recorded with what it did.
func (p Principal) Actor() Actor { return Actor{Subject: p.Subject, Roles: p.Roles} }

// Actor is who did something, as recorded.
type Actor struct {
	Subject string `json:"subject"`
	Roles   []Role `json:"roles,omitempty"`
}

// System is the actor of what the product does by itself.
func System(part string) Actor { return Actor{Subject: "system:" + part} }

// Has says whether the actor had one of the roles.
func (a Actor) Has(roles ...Role) bool { return Principal{Roles: a.Roles}.Has(roles...) }

// Origin is the way by which a change came.
type Origin string

// The origins.
const (
	OriginAPI            Origin = "api"             // an authenticated call, carried by a workflow update
	OriginSignal         Origin = "signal"          // a signal with a decision token
	OriginSignalUnsigned Origin = "signal_unsigned" // a signal without one
	OriginSystem         Origin = "system"          // a timer, a discovery, a probe
)

// Operation identifies one change so that it is applied once: the same server
// and id gets the recorded answer.
type Operation struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // what is done: approve, retire, ...
	Actor  Actor  `json:"actor"`
	Origin Origin `json:"origin"`
}
