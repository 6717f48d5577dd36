package config

import (
	"fmt"

	"countersign/registry"
)

// CodecKey is a key of workflow data.
type CodecKey struct {
	ID  string `koanf:"id"`  // stands beside what the key encrypted
	Key string `koanf:"key"` // a reference to the secret: 32 bytes in base64 or hexadecimal
}

func (t Temporal) validate() error {
	known := map[string]bool{}
	for n, k := range t.CodecKeys {
		if k.ID == "" || known[k.ID] {
			return fmt.Errorf("temporal.codec_keys: key %d needs an id that no other key has", n+1)
		}
		known[k.ID] = true
		if _, err := registry.ParseSecretRef(k.Key); err != nil {
			return fmt.Errorf("temporal.codec_keys: key %q: %w", k.ID, err)
		}
	}
	return nil
}
