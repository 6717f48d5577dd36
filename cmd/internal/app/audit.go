package app

import (
	"context"
	"fmt"

	"countersign/cmd/internal/config"
	"countersign/registry"
	"countersign/worker"
)

// AuditKeys are those of the audit trail's checkpoints.
type AuditKeys struct {
	Signer *registry.AuditSigner // nil: this process issues none
	Others []registry.AuditPublicKey
}

// Public are the keys that checkpoints are checked with, the one that signs
// now first.
func (k AuditKeys) Public() []registry.AuditPublicKey {
	if k.Signer == nil {
		return k.Others
	}
	out := []registry.AuditPublicKey{k.Signer.Public()}
	for _, other := range k.Others {
		if other.ID != out[0].ID {
			out = append(out, other)
		}
	}
	return out
}

// Audit resolves the keys that the configuration has or refers to.
func Audit(ctx context.Context, conf config.Config) (AuditKeys, error) {
	others, err := conf.Audit.Keys()
	if err != nil || conf.Audit.SigningKey == "" {
		return AuditKeys{Others: others}, err
	}
	resolver, err := references(conf)
	if err != nil {
		return AuditKeys{}, err
	}
	value, err := resolver.Resolve(ctx, conf.Audit.SigningKey)
	if err != nil {
		return AuditKeys{}, fmt.Errorf("audit.signing_key: %w", err)
	}
	signer, err := registry.ParseAuditSigner(value.Reveal())
	if err != nil {
		return AuditKeys{}, fmt.Errorf("audit.signing_key: %w", err)
	}
	return AuditKeys{signer, others}, nil
}

// sealer seals the audit trail.
func (a App) sealer() worker.Sealer {
	return worker.Sealer{Store: a.DB.System(), Signer: a.Audit.Signer, Interval: a.Config.Audit.SealInterval, Log: a.Log}
}
