package config

import (
	"fmt"
	"time"

	"countersign/registry"
)

// Audit says how the audit trail is sealed.
type Audit struct {
	SealInterval time.Duration `koanf:"seal_interval"`
	// SigningKey refers to the private key that signs checkpoints; empty: there
	// are none.
	SigningKey string `koanf:"signing_key"`
	// PublicKeys check the checkpoints of other keys: of those that signed before,
	// and in an api that does not have the private one, of that.
	PublicKeys []string `koanf:"public_keys"`
}

func (a Audit) validate() error {
	if a.SealInterval < time.Second || a.SealInterval > time.Hour {
		return fmt.Errorf("audit.seal_interval must be 1s to 1h, not %s", a.SealInterval)
	}
	if a.SigningKey != "" {
		if _, err := registry.ParseSecretRef(a.SigningKey); err != nil {
			return fmt.Errorf("audit.signing_key: %w", err)
		}
	}
	_, err := a.Keys()
	return err
}

// Keys parses the public keys.
func (a Audit) Keys() ([]registry.AuditPublicKey, error) {
	var out []registry.AuditPublicKey
	for n, text := range a.PublicKeys {
		k, err := registry.ParseAuditPublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("audit.public_keys: key %d: %w", n+1, err)
		}
		out = append(out, k)
	}
	return out, nil
}
