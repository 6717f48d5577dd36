package registry

import (
	"slices"
	"time"
)

// Times of decision tokens.
const (
	TokenTTL    = 24 * time.Hour // how long one is good when nobody says
	MaxTokenTTL = 7 * 24 * time.Hour
)

// DecisionToken lets its holder signal one decision about one digest, once, in
// the name of the person who asked for it (R186).
type DecisionToken struct {
	TenantID  string    `json:"tenantId" bun:"tenant_id,pk"`
	TokenID   string    `json:"tokenId" bun:"token_id,pk"`
	ServerID  string    `json:"serverId" bun:"server_id"`
	Verb      Verb      `json:"verb" bun:"verb"`
	Digest    string    `json:"digest" bun:"digest"` // that the decision is about
	Subject   string    `json:"subject" bun:"subject"`
	Roles     []Role    `json:"roles" bun:"roles,type:text"`
	CreatedAt time.Time `json:"createdAt" bun:"created_at"`
	ExpiresAt time.Time `json:"expiresAt" bun:"expires_at"`
	UsedAt    time.Time `json:"usedAt,omitzero" bun:"used_at,nullzero"`
	UsedBy    string    `json:"usedBy" bun:"used_by"` // the signal that used it
}

// TokenVerbs lists the decisions that can be signalled with a token: those about
// a digest.
func TokenVerbs() []Verb { return []Verb{VerbApprove, VerbReject, VerbApproveLaunch} }

// TokenHash is what is kept of a token's secret.
func TokenHash(secret string) string { return digestBytes([]byte(secret)) }

// Covers says why a token is not for a ruling on a server.
func (k DecisionToken) Covers(serverID string, g Ruling) error {
	if k.ServerID != serverID || k.Verb != g.Verb || k.Digest == "" || k.Digest != g.about() || !slices.Contains(TokenVerbs(), g.Verb) {
		return Errorf(ReasonTokenMismatch, "decision token %s is for another server, digest or decision", k.TokenID)
	}
	return nil
}
