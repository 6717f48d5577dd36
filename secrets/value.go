package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what a value shows of itself.
const hidden = "•••"

// Value is a secret. Printed, logged or encoded as text or JSON it is "•••", and
// it cannot be decoded from anything.
type Value struct {
	// Behind a pointer, or fmt would show it where a Value is a field that is not
	// exported: there it calls no methods.
	text *string
}

// Secret makes a value of a text that did not come by a reference, such as a
// token that was fetched.
func Secret(text string) Value { return Value{&text} }

// Reveal gives the secret itself; "" for the zero value.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// String implements [fmt.Stringer].
func (Value) String() string { return hidden }

// GoString implements [fmt.GoStringer].
func (Value) GoString() string { return hidden }

// Format implements [fmt.Formatter], for verbs that look past String.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue implements [slog.LogValuer].
func (Value) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler], by which also JSON is made.
func (Value) MarshalText() ([]byte, error) { return []byte(hidden), nil }
