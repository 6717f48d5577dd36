package config

import (
	"fmt"
	"net/netip"

	"countersign/secrets"
)

// Secrets says where references lead, and who may use which.
type Secrets struct {
	FileRoot string `koanf:"file_root"` // directory of file:NAME; empty: there are none
	// Tenants lets connections of tenants use references; without an entry none may.
	Tenants []SecretRule `koanf:"tenants"`
	Vault   Vault        `koanf:"vault"`
}

// SecretRule lets tenants use the references that begin so.
type SecretRule struct {
	Tenants  []string `koanf:"tenants"` // empty: all
	Prefixes []string `koanf:"prefixes"`
}

// Vault says where vault:MOUNT/PATH#FIELD leads; empty address: nowhere.
type Vault struct {
	Address       string          `koanf:"address"`
	Namespace     string          `koanf:"namespace"`
	KVVersion     int             `koanf:"kv_version"`
	CAFile        string          `koanf:"ca_file"`
	AllowNetworks []string        `koanf:"allow_networks"`
	TokenFile     string          `koanf:"token_file"`
	Kubernetes    VaultKubernetes `koanf:"kubernetes"`
	AppRole       VaultAppRole    `koanf:"approle"`
}

// VaultKubernetes logs in with the token of the pod's service account.
type VaultKubernetes struct {
	Role      string `koanf:"role"`
	Mount     string `koanf:"mount"`
	TokenFile string `koanf:"token_file"`
}

// VaultAppRole logs in with a role and a secret id.
type VaultAppRole struct {
	RoleID       string `koanf:"role_id"`
	SecretIDFile string `koanf:"secret_id_file"`
	Mount        string `koanf:"mount"`
}

// Networks are where Vault may be although it is not public.
func (v Vault) Networks() ([]netip.Prefix, error) {
	return prefixes("secrets.vault.allow_networks", v.AllowNetworks)
}

func (s Secrets) validate() error {
	for _, rule := range s.Tenants {
		for _, prefix := range rule.Prefixes {
			if err := secrets.CheckPrefix(prefix); err != nil {
				return fmt.Errorf("secrets.tenants: prefix %q: %w", prefix, err)
			}
		}
	}
	if s.Vault.KVVersion < 0 || s.Vault.KVVersion > 2 {
		return fmt.Errorf("secrets.vault.kv_version must be 1 or 2, not %d", s.Vault.KVVersion)
	}
	_, err := s.Vault.Networks()
	return err
}
