package registry

import (
	"regexp"
	"slices"
	"time"
)

// DescriptorStatus is where a descriptor version stands.
type DescriptorStatus string

// The statuses. A version goes from draft to published to deprecated, or from
// draft to deprecated at once, and never back.
const (
	DescriptorDraft      DescriptorStatus = "draft"
	DescriptorPublished  DescriptorStatus = "published"
	DescriptorDeprecated DescriptorStatus = "deprecated"
)

// Descriptor is a version of a tool descriptor. All but its status is
// immutable: another class or text is another version.
type Descriptor struct {
	TenantID     string           `json:"tenantId" bun:"tenant_id,pk"`
	DescriptorID string           `json:"descriptorId" bun:"descriptor_id,pk"`
	Version      int64            `json:"version" bun:"version,pk"` // from 1
	Class        Class            `json:"class" bun:"class"`
	Description  string           `json:"description" bun:"description"`
	Status       DescriptorStatus `json:"status" bun:"status"`
	ServerID     string           `json:"serverId" bun:"server_id"` // whose approval published it; empty: it was drafted by hand
	SchemaHash   string           `json:"schemaHash" bun:"schema_hash"`
	CreatedAt    time.Time        `json:"createdAt" bun:"created_at"`
	CreatedBy    string           `json:"createdBy" bun:"created_by"`
	PublishedAt  time.Time        `json:"publishedAt" bun:"published_at,nullzero"`
	PublishedBy  string           `json:"publishedBy" bun:"published_by"`
	DeprecatedAt time.Time        `json:"deprecatedAt" bun:"deprecated_at,nullzero"`
	DeprecatedBy string           `json:"deprecatedBy" bun:"deprecated_by"`
}

// MaxDescription bounds what people write about a descriptor, in bytes.
const MaxDescription = 4096

// descriptorIDs are what canonical tool ids are made of, since an approval
// publishes under those.
var descriptorIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,510}$`)

// NewDescriptor is a draft, of the version that the transaction gives it.
func NewDescriptor(id string, class Class, description string) (Descriptor, error) {
	bad := Errorf(ReasonInvalidArgument, "the descriptor is not valid")
	if !descriptorIDs.MatchString(id) {
		bad.WithField("descriptor_id", "is 1 to 511 letters, digits, dots, hyphens and underscores, and begins with a letter or digit")
	}
	if !class.Valid() {
		bad.WithField("class", "is read, sandbox, shared_write or publication")
	}
	if len(description) > MaxDescription {
		bad.WithField("description", "is longer than %d bytes", MaxDescription)
	}
	if len(bad.Fields) > 0 {
		return Descriptor{}, bad
	}
	return Descriptor{DescriptorID: id, Class: class, Description: description, Status: DescriptorDraft}, nil
}

// Publish makes a draft one that approvals can name (R123). Again, it changes
// nothing: changed is false.
func (d *Descriptor) Publish(by Actor, now time.Time) (changed bool, err error) {
	switch d.Status {
	case DescriptorPublished:
		return false, nil
	case DescriptorDraft:
		d.Status, d.PublishedAt, d.PublishedBy = DescriptorPublished, now, by.Subject
		return true, nil
	case DescriptorDeprecated:
	}
	return false, Errorf(ReasonDescriptorStatus, "descriptor %s version %d is %s and cannot be published", d.DescriptorID, d.Version, d.Status).
		WithNext("draft a new version")
}

// Deprecate ends that approvals can name the version; a draft is given up so.
// Tools that are bound to it stay callable. Again, it changes nothing.
func (d *Descriptor) Deprecate(by Actor, now time.Time) (changed bool, err error) {
	if d.Status == DescriptorDeprecated {
		return false, nil
	}
	d.Status, d.DeprecatedAt, d.DeprecatedBy = DescriptorDeprecated, now, by.Subject
	return true, nil
}

// BoundServer is how a server is that has a tool bound to a descriptor.
type BoundServer struct {
	Health  Health
	Retired bool
}

// DescriptorHealth is what the servers of the tools that are bound to a
// descriptor version make of it (R147): the worst of them counts for health, a
// retired one is unhealthy, and the version is inactive once all of them are
// retired. Without such tools its health is unknown.
func DescriptorHealth(d *Descriptor, servers []BoundServer) (health Health, active bool) {
	if len(servers) == 0 {
		return Health{Level: LevelUnknown, Reason: "not_bound", Summary: "No tool is bound to it"}, d.Status == DescriptorPublished
	}
	retired := 0
	for i, s := range servers {
		if s.Retired {
			retired++
			s.Health = Health{
				Level: LevelUnhealthy, Reason: string(ReasonServerRetired), Summary: "The server of a tool that is bound to it is retired",
				Next: "Approve the tool at another server", Who: byGovernors, Since: s.Health.Since, Probing: ProbingNot,
			}
		}
		if i == 0 || badness(s.Health.Level) > badness(health.Level) {
			health = s.Health
		}
	}
	return health, d.Status == DescriptorPublished && retired < len(servers)
}

func badness(l Level) int {
	return slices.Index([]Level{LevelHealthy, LevelUnknown, LevelDegraded, LevelUnhealthy}, l)
}
