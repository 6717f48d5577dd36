package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// telling are the words in the names of what is secret, whatever its value is (R187).
var telling = regexp.MustCompile(`(?i)authorization|cookie|token|secret|password|api[-_]?key`)

// redacted stands in the log where a value of such a name would.
const redacted = "[redacted]"

// redact hides the values of attributes whose name, or whose group's name, tells that
// they are secret, and those of such headers and JSON properties inside of others. It
// is the last wall: nothing of ours logs what it would hide.
func redact(groups []string, a slog.Attr) slog.Attr {
	if telling.MatchString(a.Key) || slices.ContainsFunc(groups, telling.MatchString) {
		return slog.String(a.Key, redacted)
	}
	kind := a.Value.Kind()
	if kind == slog.KindAny {
		_, isError := a.Value.Any().(error)
		if _, isText := a.Value.Any().(fmt.Stringer); !isError && !isText {
			raw, err := json.Marshal(a.Value.Any())
			if err != nil {
				return a
			}
			if clean, found := redactJSON(raw); found {
				a.Value = slog.AnyValue(clean)
			}
			return a
		}
	}
	if kind == slog.KindString || kind == slog.KindAny {
		if clean, found := redactText(a.Value.String()); found {
			a.Value = slog.StringValue(clean)
		}
	}
	return a
}

// redactText hides what is secret in a text that is JSON.
func redactText(text string) (string, bool) {
	if trimmed := strings.TrimSpace(text); !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return "", false
	}
	clean, found := redactJSON([]byte(text))
	return string(clean), found
}

// redactJSON hides what is secret in JSON, and says whether there was any.
func redactJSON(raw []byte) (json.RawMessage, bool) {
	var value any
	if json.Unmarshal(raw, &value) != nil || !hide(value) {
		return nil, false
	}
	clean, err := json.Marshal(value)
	return clean, err == nil
}

// hide replaces the values of secret properties in place.
func hide(value any) (found bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if telling.MatchString(name) {
				value[name] = redacted
				found = true
				continue
			}
			found = hide(inner) || found
		}
	case []any:
		for _, inner := range value {
			found = hide(inner) || found
		}
	}
	return found
}
