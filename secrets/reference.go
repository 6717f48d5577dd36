package secrets

import "countersign/registry"

// Reference says where a secret is, as SCHEME:NAME.
type Reference = registry.SecretRef

// The schemes.
const (
	SchemeEnv   = registry.SchemeEnv
	SchemeFile  = registry.SchemeFile
	SchemeVault = registry.SchemeVault
)

// Parse reads a reference; see [registry.ParseSecretRef].
func Parse(ref string) (Reference, error) { return registry.ParseSecretRef(ref) }

// CheckReference says whether a text is a reference, without resolving it.
func CheckReference(ref string) error {
	_, err := Parse(ref)
	return err
}
