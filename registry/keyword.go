package registry

import (
	"iter"
	"maps"
	"strings"
	"unicode/utf8"
)

// keyword is what a name means where a JSON Schema stands: what its value is,
// and with that whether it is contract or prose and what it must look like.
type keyword uint8

const (
	keyUnknown           keyword = iota // contract as it stands
	keySchema                           // a schema
	keyAdditional                       // a schema whose default is true
	keyItems                            // a schema, or a list of them
	keySchemas                          // a list of schemas
	keyNamed                            // an object of schemas: its names are no keywords
	keyDefinitions                      // likewise, before 2019-09
	keyPatterns                         // likewise, its names are patterns
	keyDependencies                     // an object of schemas or lists of names, before 2019-09
	keyDependentRequired                // an object of lists of names
	keyRequired                         // a set of names
	keyType                             // a type or a set of types
	keyEnum                             // a set of values
	keyLiteral                          // any value
	keyProse                            // a string that only people and models read
	keyExamples                         // likewise, a list
	keyDialect                          // $schema
	keyRef                              // a reference to another schema
	keyID                               // a base of references
	keyAnchor                           // a target of references
	keyNumber                           // a number
	keyBound                            // a number; a boolean in draft 4
	keyCount                            // a whole number that is not negative
	keyFlag                             // a boolean
	keyString                           // a string
	keyPattern                          // a regular expression
	keyHeader                           // x-mcp-header
	keyAdditionalItems                  // a schema, before 2020-12
	keyUnevaluated                      // a schema for properties that nothing else looked at
)

// keywords are those of JSON Schema draft 4 to 2020-12, and the protocol's own.
var keywords = map[string]keyword{
	"$anchor": keyAnchor, "$comment": keyProse, "$defs": keyNamed, "$dynamicAnchor": keyAnchor, "$dynamicRef": keyRef,
	"$id": keyID, "$recursiveAnchor": keyFlag, "$recursiveRef": keyRef, "$ref": keyRef, "$schema": keyDialect,
	"additionalItems": keyAdditionalItems, "additionalProperties": keyAdditional, "allOf": keySchemas, "anyOf": keySchemas,
	"const": keyLiteral, "contains": keySchema, "contentEncoding": keyString, "contentMediaType": keyString,
	"contentSchema": keySchema, "default": keyLiteral, "definitions": keyDefinitions, "dependencies": keyDependencies,
	"dependentRequired": keyDependentRequired, "dependentSchemas": keyNamed, "deprecated": keyFlag, "description": keyProse,
	"else": keySchema, "enum": keyEnum, "examples": keyExamples, "exclusiveMaximum": keyBound, "exclusiveMinimum": keyBound,
	"format": keyString, "if": keySchema, "items": keyItems, "maxContains": keyCount, "maxItems": keyCount, "maxLength": keyCount,
	"maxProperties": keyCount, "maximum": keyNumber, "minContains": keyCount, "minItems": keyCount, "minLength": keyCount,
	"minProperties": keyCount, "minimum": keyNumber, "multipleOf": keyNumber, "not": keySchema, "oneOf": keySchemas,
	"pattern": keyPattern, "patternProperties": keyPatterns, "prefixItems": keySchemas, "properties": keyNamed,
	"propertyNames": keySchema, "readOnly": keyFlag, "required": keyRequired, "then": keySchema, "title": keyProse,
	"type": keyType, "unevaluatedItems": keySchema, "unevaluatedProperties": keyUnevaluated, "uniqueItems": keyFlag,
	"writeOnly": keyFlag, "x-mcp-header": keyHeader,
}

// keywordOf gives what a name means where a schema stands.
func keywordOf(name []byte) keyword {
	for _, k := range keywordTable[keywordSlot(name)] {
		if k.name == string(name) {
			return k.key
		}
	}
	return keyUnknown
}

// keywordTable is keywords, faster: every name of every schema is looked up.
var keywordTable = func() (table [256][]struct {
	name string
	key  keyword
},
) {
	for name, key := range keywords {
		slot := &table[keywordSlot([]byte(name))]
		*slot = append(*slot, struct {
			name string
			key  keyword
		}{name, key})
	}
	return table
}()

func keywordSlot(name []byte) uint8 {
	if len(name) == 0 {
		return 0
	}
	return 31*uint8(len(name)) + 3*name[len(name)/2] + name[len(name)-1]
}

// isProse says whether only people and models read what the keyword holds.
func (k keyword) isProse() bool { return k == keyProse || k == keyExamples }

// variants finds names that differ from a known one only in case, also by the
// characters that case folding maps to ASCII (ſ, K). Two parsers could take the
// one for the other.
type variants map[string]string

func variantsOf(known iter.Seq[string]) variants {
	v := variants{}
	for name := range known {
		v[strings.ToLower(name)] = name
	}
	return v
}

// of gives the known name that this one is a variant of, "" when it is none or
// is that name itself.
func (v variants) of(name []byte) string {
	var lower [longestKnown]byte
	n := 0
	for i := 0; i < len(name); n++ {
		if n == longestKnown {
			return ""
		}
		r, size := utf8.DecodeRune(name[i:])
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r == 'ſ':
			r = 's'
		case r == '\u212a': // the sign for kelvin
			r = 'k'
		case r >= utf8.RuneSelf:
			return ""
		}
		lower[n], i = byte(r), i+size
	}
	if known := v[string(lower[:n])]; known != string(name) {
		return known
	}
	return ""
}

// longestKnown is longer than every known name.
const longestKnown = 32

var keywordVariants = variantsOf(maps.Keys(keywords))
