package registry

import "strconv"

// role says what the value of a keyword of JSON Schema is to a walk.
type role int

const (
	roleOther        role = iota // a literal, or a keyword that this version does not know
	roleSchema                   // a schema, or a list of schemas
	roleNames                    // names mapped to schemas
	roleDependencies             // names mapped to schemas or to sets of names
	roleProse                    // read by people and models, no part of the contract
	roleSet                      // an array without an order
	roleSets                     // names mapped to arrays without an order
)

func roleOf(name string) role {
	switch keywordOf([]byte(name)) {
	case keySchema, keyAdditional, keyItems, keySchemas, keyAdditionalItems:
		return roleSchema
	case keyNamed, keyDefinitions, keyPatterns:
		return roleNames
	case keyDependencies:
		return roleDependencies
	case keyProse, keyExamples:
		return roleProse
	case keyRequired, keyType, keyEnum:
		return roleSet
	case keyDependentRequired:
		return roleSets
	default:
		return roleOther
	}
}

// below walks what stands one step below a schema and is a schema itself, and
// the other values of keywords that hold schemas by names.
func below(o object, at string, visit func(keyword, at string, v value)) {
	for _, m := range o {
		here := at + "/" + pointer(m.name)
		switch roleOf(m.name) {
		case roleSchema:
			list, ok := m.value.([]value)
			if !ok {
				visit(m.name, here, m.value)
			}
			for i, e := range list {
				visit(m.name, here+"/"+strconv.Itoa(i), e)
			}
		case roleNames, roleDependencies:
			named, _ := m.value.(object)
			for _, n := range named {
				visit(m.name, here+"/"+pointer(n.name), n.value)
			}
		default:
		}
	}
}

// clause says how a keyword is compared.
type clause int

const (
	clauseUnknown    clause = iota // not known to this version
	clauseNone                     // no part of the contract, or compared elsewhere
	clauseBound                    // a number that limits
	clauseSoft                     // limits values of the right type
	clauseHard                     // limits by schemas in a way that cannot be followed
	clauseIdentity                 // moves what references lead to
	clauseSchema                   // a schema that what it is about must fit
	clauseNames                    // schemas by patterns of names
	clauseDefault                  // what counts when nothing is given
	clauseDefinition               // schemas that references lead to
)

var clauses = map[string]clause{
	"$schema": clauseNone, "$comment": clauseNone, "description": clauseNone, "examples": clauseNone, "title": clauseNone,
	headerKeyword: clauseNone,

	// Compared together, before the others.
	"type": clauseNone, "enum": clauseNone, "const": clauseNone, "properties": clauseNone, "required": clauseNone,
	"additionalProperties": clauseNone, "$ref": clauseNone, "anyOf": clauseNone, "oneOf": clauseNone, "allOf": clauseNone,
	"items": clauseNone, "prefixItems": clauseNone, "additionalItems": clauseNone,

	"maximum": clauseBound, "minimum": clauseBound, "exclusiveMaximum": clauseBound, "exclusiveMinimum": clauseBound,
	"maxLength": clauseBound, "minLength": clauseBound, "maxItems": clauseBound, "minItems": clauseBound,
	"maxProperties": clauseBound, "minProperties": clauseBound, "maxContains": clauseBound, "minContains": clauseBound,

	"pattern": clauseSoft, "format": clauseSoft, "multipleOf": clauseSoft, "uniqueItems": clauseSoft,
	"contentEncoding": clauseSoft, "contentMediaType": clauseSoft,

	"not": clauseHard, "if": clauseHard, "then": clauseHard, "else": clauseHard, "contains": clauseHard,
	"contentSchema": clauseHard, "dependentSchemas": clauseHard, "dependencies": clauseHard,
	"dependentRequired": clauseHard, "unevaluatedItems": clauseHard, "unevaluatedProperties": clauseHard,

	"$id": clauseIdentity, "id": clauseIdentity, "$anchor": clauseIdentity, "$dynamicAnchor": clauseIdentity,
	"$dynamicRef": clauseIdentity, "$recursiveAnchor": clauseIdentity, "$recursiveRef": clauseIdentity,
	"$vocabulary": clauseIdentity,

	"propertyNames": clauseSchema, "patternProperties": clauseNames, "default": clauseDefault,
	"$defs": clauseDefinition, "definitions": clauseDefinition,
}

// headerKeyword is the keyword by which a server of 2026-07-28 asks clients to
// copy a parameter into an HTTP header.
const headerKeyword = "x-mcp-header"

// lowerBounds are the bounds that are tighter the greater they are.
var lowerBounds = map[string]bool{
	"minimum": true, "exclusiveMinimum": true, "minLength": true, "minItems": true, "minProperties": true, "minContains": true,
}

// boundDefaults are the bounds that mean nothing at this value.
var boundDefaults = map[string]number{"minLength": "0", "minItems": "0", "minProperties": "0", "minContains": "1"}

// kindOfType are the types as bits. An integer is a number, so number has two.
var kindOfType = map[string]types{
	"null": typeNull, "boolean": typeBoolean, "integer": typeInteger, "number": typeInteger | typeFraction,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// types is a set of JSON types.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeInteger
	typeFraction
	typeString
	typeArray
	typeObject

	typeAny = typeNull | typeBoolean | typeInteger | typeFraction | typeString | typeArray | typeObject
)

// about says which types a keyword has an effect on; all, when it is not here.
var about = map[string]types{
	"maximum": typeInteger | typeFraction, "minimum": typeInteger | typeFraction,
	"exclusiveMaximum": typeInteger | typeFraction, "exclusiveMinimum": typeInteger | typeFraction,
	"multipleOf": typeInteger | typeFraction,

	"maxLength": typeString, "minLength": typeString, "pattern": typeString, "format": typeString | typeInteger | typeFraction,
	"contentEncoding": typeString, "contentMediaType": typeString, "contentSchema": typeString,

	"items": typeArray, "prefixItems": typeArray, "additionalItems": typeArray, "unevaluatedItems": typeArray,
	"contains": typeArray, "maxContains": typeArray, "minContains": typeArray, "maxItems": typeArray,
	"minItems": typeArray, "uniqueItems": typeArray,

	"properties": typeObject, "required": typeObject, "additionalProperties": typeObject, "patternProperties": typeObject,
	"propertyNames": typeObject, "unevaluatedProperties": typeObject, "maxProperties": typeObject,
	"minProperties": typeObject, "dependentRequired": typeObject, "dependentSchemas": typeObject, "dependencies": typeObject,
}
