package registry

import (
	"io/fs"
	"regexp"
	"strings"
	"unicode"
)

// SecretRef says where a secret is, as SCHEME:NAME. It is no secret itself.
type SecretRef struct {
	Scheme string
	Name   string
}

// String gives the reference as it was written.
func (r SecretRef) String() string { return r.Scheme + ":" + r.Name }

// The schemes.
const (
	SchemeEnv   = "env"   // a variable of the worker's environment
	SchemeFile  = "file"  // a file below a configured directory
	SchemeVault = "vault" // mount/path#field of a key-value engine
)

// secretGrammars says for each scheme which names it has.
var secretGrammars = map[string]func(name string) bool{
	SchemeEnv:   regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`).MatchString,
	SchemeFile:  isFileName,
	SchemeVault: isVaultName,
}

// maxSecretName bounds a name, in bytes.
const maxSecretName = 255

// isFileName says whether a name is a clean relative path: no "..", no ".", no
// empty part, nothing that cannot be printed.
func isFileName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxSecretName &&
		!strings.ContainsRune(name, '\\') &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

var vaultName = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+#[A-Za-z0-9_.-]{1,128}$`)

// isVaultName says whether a name is mount/path#field: at least one part of a
// path, all of letters, digits, "_", "-" and ".", and no part that walks.
func isVaultName(name string) bool {
	path, _, _ := strings.Cut(name, "#")
	return len(name) <= maxSecretName && vaultName.MatchString(name) && fs.ValidPath(path)
}

// ParseSecretRef reads a reference. The error (secret_reference_invalid) does
// not repeat the text: what is no reference may be the secret itself, put in the
// wrong place.
func ParseSecretRef(ref string) (SecretRef, error) {
	scheme, name, _ := strings.Cut(ref, ":")
	if valid := secretGrammars[scheme]; valid != nil {
		if valid(name) {
			return SecretRef{scheme, name}, nil
		}
		return SecretRef{}, invalidRef("a reference of the scheme %s does not name what it may", scheme)
	}
	return SecretRef{}, invalidRef("a secret is not given by a reference")
}

func invalidRef(format string, args ...any) error {
	return Errorf(ReasonSecretRefInvalid, format, args...).
		WithNext("write env:NAME for a variable of the environment (letters, digits and _), file:NAME for a file below the directory for secrets (a relative path without ..), or vault:MOUNT/PATH#FIELD")
}
