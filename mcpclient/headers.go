package mcpclient

import (
	"context"
	"net/http"
	"strings"

	"countersign/secrets"
)

// Headers is a [Credential] of header fields, each of whose values is a secret, as a
// whole.
type Headers struct {
	values map[string]secrets.Value
	mask   *secrets.Mask
}

// leastPart is the shortest word of a header's value that is masked by itself, in
// bytes.
const leastPart = 8

// NewHeaders gives the credential of header fields by their names. The values must
// be such as a header can have.
func NewHeaders(values map[string]secrets.Value) *Headers {
	var hidden []secrets.Value
	for _, value := range values {
		hidden = append(hidden, value)
		// Who is told "Bearer TOKEN" may say TOKEN.
		for part := range strings.FieldsSeq(value.Reveal()) {
			if len(part) >= leastPart {
				hidden = append(hidden, secrets.Secret(part))
			}
		}
	}
	return &Headers{values, secrets.NewMask(hidden...)}
}

// Authorize implements [Credential].
func (h *Headers) Authorize(_ context.Context, r *http.Request) error {
	for name, value := range h.values {
		r.Header.Set(name, value.Reveal())
	}
	return nil
}

// Refused implements [Credential]: a second attempt would show the same.
func (*Headers) Refused(context.Context, *http.Response) (again bool, err error) {
	return false, nil
}

// Mask implements [Credential].
func (h *Headers) Mask(text string) string { return h.mask.String(text) }
