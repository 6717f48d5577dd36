package aep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// object reads a JSON object with the exact spelling of its keys. A key that is
// there twice is a fault: two readers would read two descriptors (H17).
func (p *parser) object(raw []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') {
		return nil, errors.New("it does not begin with a brace")
	}
	out := map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, errors.New("a key cannot be read")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errors.New("a value cannot be read")
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("the key %q is there twice", key)
		}
		out[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("it does not end")
	}
	if dec.More() {
		return nil, errors.New("something follows it")
	}
	return out, nil
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
