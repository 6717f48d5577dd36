package api

import (
	"fmt"
	"io"
	"log/slog"
)

// String implements [fmt.Stringer]: whose token it is, without the token.
func (t Token) String() string { return "token of " + t.Tenant + "/" + t.Subject }

// Format implements [fmt.Formatter], for verbs that look past String.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue implements [slog.LogValuer].
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }
