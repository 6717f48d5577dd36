package secrets

import (
	"strings"
	"unicode/utf8"

	"countersign/registry"
)

// plain begins what a variable of a process holds as it is.
const plain = "plain:"

// maxPlain bounds such a text, in bytes.
const maxPlain = 16 << 10

// CheckVariable says whether a text says what a variable of a process holds: a
// reference to a secret, or plain:TEXT for a text that is none, such as a port or
// a mode. That is everybody's to see: it stands in the target that people approve,
// and is not masked. It has at most 16 KiB of UTF-8 without NUL, and may be empty.
//
// The error, secret_reference_invalid or invalid_argument, does not repeat the
// text.
func CheckVariable(text string) error {
	_, _, err := constant(text)
	return err
}

// constant gives what a variable holds when that is no secret.
func constant(text string) (string, bool, error) {
	constant, ok := strings.CutPrefix(text, plain)
	switch {
	case !ok:
		if _, err := registry.ParseSecretRef(text); err != nil {
			e, _ := registry.AsError(err)
			return "", false, e.WithNext("%s; or write plain:TEXT for a text that is no secret", e.Next)
		}
		return "", false, nil
	case len(constant) > maxPlain:
		return "", false, registry.Errorf(registry.ReasonInvalidArgument, "a plain text is larger than 16 KiB")
	case strings.ContainsRune(constant, 0) || !utf8.ValidString(constant):
		return "", false, registry.Errorf(registry.ReasonInvalidArgument, "a plain text is not UTF-8, or has a NUL character in it")
	}
	return constant, true, nil
}
