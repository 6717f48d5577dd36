package main

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// enum is a generated enum type.
type enum interface {
	~int32
	protoreflect.Enum
}

// word gives the short lower-case word of an enum value, such as
// streamable_http, or nothing when it is not said.
func word[E enum](value E) string {
	values := value.Descriptor().Values()
	found := values.ByNumber(value.Number())
	switch {
	case found == nil:
		return strconv.Itoa(int(value.Number()))
	case value.Number() == 0:
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(string(found.Name()), prefix(values)))
}

// words lists the words of an enum, in its order.
func words[E enum]() []string {
	var zero E
	var out []string
	values := zero.Descriptor().Values()
	for i := range values.Len() {
		if w := word(E(values.Get(i).Number())); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// parseWord gives the value of a word that a flag has.
func parseWord[E enum](flag, text string) (E, error) {
	var zero E
	values := zero.Descriptor().Values()
	if found := values.ByName(protoreflect.Name(prefix(values) + strings.ToUpper(text))); found != nil && found.Number() != 0 {
		return E(found.Number()), nil
	}
	return zero, usagef("%s %q: there is %s", flag, text, strings.Join(words[E](), ", "))
}

// prefix is what all names of an enum begin with.
func prefix(values protoreflect.EnumValueDescriptors) string {
	return strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
}

// authentications are the short words of --auth.
var authentications = map[string]registryv1.McpAuthentication{
	"oauth2":   registryv1.McpAuthentication_MCP_AUTHENTICATION_OAUTH2_PROTECTED_RESOURCE,
	"workload": registryv1.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY,
	"none":     registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION,
}

func parseAuthentication(text string) (registryv1.McpAuthentication, error) {
	if value, ok := authentications[text]; ok {
		return value, nil
	}
	if value, err := parseWord[registryv1.McpAuthentication]("--auth", text); err == nil {
		return value, nil
	}
	if text == "" {
		return 0, usagef("--auth is required: oauth2, workload or none")
	}
	return 0, usagef("--auth %q: there is oauth2, workload, none", text)
}

// authenticationWords lists what --auth takes.
func authenticationWords() []string { return []string{"oauth2", "workload", "none"} }

// classWords names the side-effect classes in their order.
func classWords() string {
	all := words[registryv1.SideEffectClass]()
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

func isClass(text string) bool { return slices.Contains(words[registryv1.SideEffectClass](), text) }
