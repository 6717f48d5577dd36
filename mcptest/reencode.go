package mcptest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf16"
)

// reencode writes the same items in another way: in another order, with the
// members of objects and the lists that mean sets in another order, with other
// escapes, other spellings of numbers, and other white space.
func reencode(items, how []string, random *rand.Rand) []string {
	e := encoder{random: random}
	for _, h := range how {
		switch h {
		case "keys":
			e.keys = true
		case "sets":
			e.sets = true
		case "escapes":
			e.escapes = true
		case "numbers":
			e.numbers = true
		case "space":
			e.space = true
		}
	}
	out := make([]string, len(items))
	for i, item := range items {
		dec := json.NewDecoder(strings.NewReader(item))
		dec.UseNumber()
		text, err := e.value(dec, "")
		if err != nil {
			text = item // what is no JSON stays as it is
		}
		out[i] = text
	}
	if slices.Contains(how, "order") {
		random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

type encoder struct {
	random                              *rand.Rand
	keys, sets, escapes, numbers, space bool
}

// value writes the next value of dec, which is a member called name.
func (e *encoder) value(dec *json.Decoder, name string) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	switch v := token.(type) {
	case json.Delim:
		var parts []string
		for dec.More() {
			part, err := e.part(dec, v, name)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		if _, err := dec.Token(); err != nil {
			return "", fmt.Errorf("end: %w", err)
		}
		set := name == "required" || name == "enum" || name == "type"
		if v == '{' && e.keys || v == '[' && e.sets && set {
			e.random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		}
		return v.String() + e.blank() + strings.Join(parts, ","+e.blank()) + e.blank() + string(v+2), nil // '[' + 2 is ']', '{' + 2 is '}'
	case string:
		return e.text(v), nil
	case json.Number:
		return e.number(string(v)), nil
	default:
		if v == nil {
			return "null", nil
		}
		return fmt.Sprint(v), nil // true, false
	}
}

// part writes an element of an array or a member of an object.
func (e *encoder) part(dec *json.Decoder, in json.Delim, name string) (string, error) {
	if in == '[' {
		return e.value(dec, "")
	}
	token, err := dec.Token()
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	key, _ := token.(string) // an object's keys are strings
	inner := key
	if name == "properties" || name == "$defs" { // a parameter may be called "required"
		inner = ""
	}
	value, err := e.value(dec, inner)
	return e.text(key) + e.blank() + ":" + e.blank() + value, err
}

func (e *encoder) blank() string {
	if !e.space {
		return ""
	}
	return []string{"", " ", "\n", "\t", "  "}[e.random.IntN(5)]
}

func (e *encoder) text(s string) string {
	if !e.escapes {
		return quote(s)
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case e.random.IntN(3) == 0 || r < ' ' || r == '"' || r == '\\':
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		case r == '/' && e.random.IntN(2) == 0:
			out.WriteString(`\/`)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func (e *encoder) number(s string) string {
	if !e.numbers || strings.ContainsAny(s, ".eE") {
		return s
	}
	return s + []string{"", ".0", "e0", "E+0", ".00"}[e.random.IntN(5)]
}
