package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// decoder reads JSON that may hold duplicate names and broken Unicode inside:
// those are faults of an item, which others judge. Its nesting ends at 10,000.
func decoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

var (
	errNoObject = errors.New("it is no JSON object")
	errNoArray  = errors.New("it is no JSON array")
)

// members gives the values of the known names of an object, as they were sent.
// Two parsers must not read two things in an envelope, so a known name that
// comes twice, or that comes in another case, refuses the whole; unknown names
// are passed over.
func members(raw []byte, known ...string) (map[string]jsontext.Value, error) {
	out := make(map[string]jsontext.Value, len(known))
	err := each(raw, func(name string, value jsontext.Value) error {
		for _, k := range known {
			if name != k {
				if strings.EqualFold(name, k) {
					return fmt.Errorf("the name %q comes in another case", k)
				}
				continue
			}
			if _, twice := out[k]; twice {
				return fmt.Errorf("the name %q comes twice", k)
			}
			out[k] = value
		}
		return nil
	})
	return out, err
}

// each calls f for every member of exactly one object.
func each(raw []byte, f func(name string, value jsontext.Value) error) error {
	d := decoder(raw)
	if d.PeekKind() != '{' {
		return firstError(d, errNoObject)
	}
	if _, err := d.ReadToken(); err != nil {
		return syntax(err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return syntax(err)
		}
		key := name.String() // before the decoder moves on
		value, err := next(d, raw)
		if err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return syntax(err)
	}
	return end(d)
}

// elements gives the elements of exactly one array, as they were sent.
func elements(raw []byte) ([][]byte, error) {
	d := decoder(raw)
	if d.PeekKind() != '[' {
		return nil, firstError(d, errNoArray)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	var out [][]byte
	for d.PeekKind() != ']' {
		value, err := next(d, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	return out, end(d)
}

// next reads one value and gives its bytes within raw, which the decoder does
// not own.
func next(d *jsontext.Decoder, raw []byte) (jsontext.Value, error) {
	value, err := d.ReadValue()
	if err != nil {
		return nil, syntax(err)
	}
	to := d.InputOffset()
	from := to - int64(len(value))
	return jsontext.Value(raw[from:to:to]), nil
}

// end makes sure that nothing follows the value.
func end(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

// firstError tells a value of another kind from no JSON at all.
func firstError(d *jsontext.Decoder, otherKind error) error {
	if err := d.SkipValue(); err != nil {
		return syntax(err)
	}
	return otherKind
}

// syntax words an error of the decoder without the bytes that it met.
func syntax(err error) error {
	var at *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("its JSON breaks off")
	case errors.As(err, &at) && strings.Contains(err.Error(), "max depth"):
		return errors.New("its JSON is nested more than 10,000 levels deep")
	case errors.As(err, &at):
		return fmt.Errorf("its JSON is broken at byte %d", at.ByteOffset)
	}
	return errors.New("its JSON cannot be read")
}

// text gives the string that a value is; false when it is something else.
func text(value jsontext.Value) (string, bool) {
	var s string
	if value.Kind() != '"' || json.Unmarshal(value, &s) != nil {
		return "", false
	}
	return s, true
}
