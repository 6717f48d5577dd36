package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// defined is what has a definition: a tool, or an item of a review.
type defined interface {
	GetTitle() string
	GetDescription() string
	GetDefinitionJson() string
	GetQuarantineReason() string
}

// writeDefinition writes all that a server says of a tool, whole: whoever
// approves it must have seen every word that a model will read.
func writeDefinition(s *sheet, indent string, t defined) {
	if title := t.GetTitle(); title != "" {
		s.unseen(indent, title)
		s.linef("%stitle (of the server): %s", indent, title)
	}
	if text := t.GetDescription(); text != "" {
		s.linef("%sdescription (of the server):", indent)
		s.block(indent+"  ", text)
	}
	raw := t.GetDefinitionJson()
	if raw == "" {
		return
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &parts); err != nil || t.GetQuarantineReason() != "" { // it may have a key twice
		s.unseen(indent, unescaped(json.RawMessage(raw)))
		s.linef("%sdefinition (of the server): %s", indent, raw)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		if key == "name" || key == "title" && t.GetTitle() != "" || key == "description" && t.GetDescription() != "" {
			continue // said above
		}
		label := key
		if key == "annotations" {
			label = "hints (of the server, not to be trusted)"
		}
		s.unseen(indent, unescaped(parts[key]))
		s.linef("%s%s: %s", indent, label, compact(parts[key]))
	}
}

// jsonEscapes are those of characters by their number.
var jsonEscapes = regexp.MustCompile(`(?:\\u[0-9a-fA-F]{4})+`)

// unescaped gives JSON with the characters that it names by number, to be
// looked at only.
func unescaped(raw json.RawMessage) string {
	return jsonEscapes.ReplaceAllStringFunc(string(raw), func(escapes string) string {
		var text string
		if json.Unmarshal([]byte(`"`+escapes+`"`), &text) != nil {
			return escapes
		}
		return text
	})
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// drift names the digests in which a tool differs from what was approved.
func drift(t tool) []string {
	was, is := t.GetApprovedDigests(), t.GetDigests()
	if was.GetContract() == "" {
		return nil
	}
	var out []string
	for _, d := range []struct{ name, was, is string }{
		{"contract", was.GetContract(), is.GetContract()},
		{"text", was.GetText(), is.GetText()},
		{"behaviour", was.GetBehaviour(), is.GetBehaviour()},
	} {
		if d.was != d.is {
			out = append(out, d.name)
		}
	}
	return out
}
