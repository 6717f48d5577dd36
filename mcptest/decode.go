package mcptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decoder fills in the structs of a script file from JSON. Unlike encoding/json
// it refuses unknown and repeated keys and knows the case of letters, keeps raw
// values byte by byte, and says where in the file something is wrong.
type decoder struct{ transport string }

// fromText is a value that may be written as a JSON string.
type fromText interface{ fromText(text string) error }

// duration is written as Go writes it: "1.5s".
type duration time.Duration

func (d *duration) fromText(text string) error {
	v, err := time.ParseDuration(text)
	if err == nil && v < 0 {
		err = errors.New("a duration cannot be negative")
	}
	*d = duration(v)
	return err
}

// at puts the place in a script before an error.
func at(path, format string, args ...any) error {
	if path == "" {
		path = "the file"
	}
	return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
}

// syntax says whether a text is JSON at all, with the line if not.
func syntax(text []byte) error {
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:min(int(wrong.Offset), len(text))]
		return fmt.Errorf("line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
	}
	return err
}

func (d decoder) decode(path string, raw json.RawMessage, into reflect.Value) error {
	raw = bytes.TrimSpace(raw)
	if into.Type() == reflect.TypeFor[json.RawMessage]() {
		into.SetBytes(bytes.Clone(raw))
		return nil
	}
	if string(raw) == "null" {
		return at(path, "null is no value here; leave the key out")
	}
	if text, ok := reflect.TypeAssert[fromText](into.Addr()); ok && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return at(path, "%v", err)
		}
		if err := text.fromText(s); err != nil {
			return at(path, "%v", err)
		}
		return nil
	}
	if into.Type() == reflect.TypeFor[duration]() {
		return at(path, `not a number of seconds but a text such as "5s"`)
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return d.decode(path, raw, into.Elem())
	case reflect.Struct:
		return d.object(path, raw, func(key string, value json.RawMessage) error {
			field, name, ok := member(into, key)
			if !ok {
				return at(path, "unknown key %q; it knows %s", key, strings.Join(members(into.Type()), ", "))
			}
			if only := name.Tag.Get("on"); only != "" && !slices.Contains(strings.Split(only, ","), d.transport) {
				return at(join(path, key), "not for the transport %s, only for %s", d.transport, only)
			}
			return d.decode(join(path, key), value, field)
		})
	case reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		return d.object(path, raw, func(key string, value json.RawMessage) error {
			v := reflect.New(into.Type().Elem()).Elem()
			err := d.decode(fmt.Sprintf("%s[%q]", path, key), value, v)
			into.SetMapIndex(reflect.ValueOf(key), v)
			return err
		})
	case reflect.Slice:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return at(path, "not an array")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
		for i, item := range items {
			if err := d.decode(fmt.Sprintf("%s[%d]", path, i), item, into.Index(i)); err != nil {
				return err
			}
		}
		return nil
	default:
		if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
			return at(path, "not %s", kindName(into.Type()))
		}
		return nil
	}
}

// object calls each for every member of an object.
func (decoder) object(path string, raw json.RawMessage, each func(string, json.RawMessage) error) error {
	if raw[0] != '{' {
		return at(path, "not an object")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the brace
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return at(path, "%v", err)
		}
		key, _ := token.(string) // an object's keys are strings
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return at(path, "%v", err)
		}
		if seen[key] {
			return at(path, "the key %q comes twice", key)
		}
		seen[key] = true
		if err := each(key, value); err != nil {
			return err
		}
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// member finds a struct's field by its name in JSON, embedded structs included.
func member(v reflect.Value, key string) (reflect.Value, reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.Anonymous && f.Tag.Get("json") == key {
			return v.FieldByIndex(f.Index), f, true
		}
	}
	return reflect.Value{}, reflect.StructField{}, false
}

func members(t reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			out = append(out, f.Tag.Get("json"))
		}
	}
	slices.Sort(out)
	return out
}

// kindName is how the documentation calls a type.
func kindName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return "any JSON"
	case reflect.TypeFor[duration]():
		return "a duration"
	case reflect.TypeFor[content]():
		return "a content"
	case reflect.TypeFor[names]():
		return "a text or texts"
	}
	switch t.Kind() { //nolint:exhaustive // the kinds that occur
	case reflect.Pointer:
		return kindName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "by name"
	case reflect.Struct:
		return "an object"
	}
	return "a text"
}
