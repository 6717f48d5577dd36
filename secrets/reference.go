package secrets

import (
	"io/fs"
	"regexp"
	"strings"
	"unicode"

	"countersign/registry"
)

// Reference says where a secret is, as SCHEME:NAME.
type Reference struct {
	Scheme string
	Name   string
}

// String gives the reference as it was written.
func (r Reference) String() string { return r.Scheme + ":" + r.Name }

// The schemes.
const (
	SchemeEnv  = "env"  // a variable of this program's environment
	SchemeFile = "file" // a file below a configured directory
)

// grammars says for each scheme which names it has.
var grammars = map[string]func(name string) bool{
	SchemeEnv:  regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`).MatchString,
	SchemeFile: isFileName,
}

// maxName bounds a name of a file, in bytes.
const maxName = 255

// isFileName says whether a name is a clean relative path: no "..", no ".", no
// empty part, nothing that cannot be printed.
func isFileName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxName &&
		!strings.ContainsRune(name, '\\') &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Parse reads a reference. The error (secret_reference_invalid) does not repeat
// the text: what is no reference may be the secret itself, put in the wrong place.
func Parse(ref string) (Reference, error) {
	scheme, name, _ := strings.Cut(ref, ":")
	if valid := grammars[scheme]; valid != nil {
		if valid(name) {
			return Reference{scheme, name}, nil
		}
		return Reference{}, invalid("a reference of the scheme %s does not name what it may", scheme)
	}
	return Reference{}, invalid("a secret is not given by a reference")
}

func invalid(format string, args ...any) error {
	return registry.Errorf(registry.ReasonSecretRefInvalid, format, args...).
		WithNext("write env:NAME for a variable of the environment (letters, digits and _), or file:NAME for a file below the directory for secrets (a relative path without ..)")
}

// CheckReference says whether a text is a reference, without resolving it.
func CheckReference(ref string) error {
	_, err := Parse(ref)
	return err
}
