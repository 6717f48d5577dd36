package events

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"countersign/registry"
)

// words are the types whose values are one of a list.
var words = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[registry.Direction]():      oneOf(registry.DirectionConsumed, registry.DirectionExposed),
	reflect.TypeFor[registry.Transport]():      oneOf(registry.TransportStreamableHTTP, registry.TransportStdio),
	reflect.TypeFor[registry.Authentication](): oneOf(registry.AuthOAuth2, registry.AuthWorkloadIdentity, registry.AuthNoneException),
	reflect.TypeFor[registry.State]():          oneOf(registry.States()...),
	reflect.TypeFor[registry.Class]():          oneOf(registry.Classes()...),
	reflect.TypeFor[registry.ToolSwitch]():     oneOf(registry.SwitchEnabled, registry.SwitchRequiresApproval),
	reflect.TypeFor[registry.ItemKind]():       oneOf(registry.KindTool, registry.KindResource, registry.KindPrompt),
	reflect.TypeFor[registry.DescriptorStatus](): oneOf(
		registry.DescriptorDraft, registry.DescriptorPublished, registry.DescriptorDeprecated),
	reflect.TypeFor[registry.Verb](): oneOf(
		registry.VerbApprove, registry.VerbReject, registry.VerbRequestReview, registry.VerbWithdrawServer,
		registry.VerbApproveLaunch, registry.VerbQuarantine, registry.VerbRenew),
	reflect.TypeFor[registry.ProviderChange](): oneOf(
		registry.ProviderCreated, registry.ProviderUpdated, registry.ProviderEnabled, registry.ProviderDisabled,
		registry.ProviderRefreshed, registry.ProviderDeleted),
}

func oneOf[W ~string](words ...W) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

// PayloadSchema makes the JSON Schema of a type's payload from the Go type. A
// version 1 may get more properties later, so others than those named are
// allowed.
func PayloadSchema(k registry.EventKind) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(reflect.TypeOf(k.Payload), &jsonschema.ForOptions{TypeSchemas: words})
	if err != nil {
		return nil, err
	}
	opened(s)
	s.Title, s.Description = string(k.Type), k.About
	return s, nil
}

// opened lets later versions add properties, and says that lists of ours are
// never null.
func opened(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		opened(p)
	}
	if s.Items != nil {
		opened(s.Items)
	}
}

// SchemaName is the file of a type's schema.
func SchemaName(t registry.EventType) string { return string(t) + ".schema.json" }

// Documents makes everything that is published about events, by the name of the
// file: a schema for each payload, and asyncapi.json.
func Documents() (map[string][]byte, error) {
	out := map[string][]byte{}
	api := asyncAPI{
		AsyncAPI: "3.0.0",
		Info: object{
			"title": "Countersign events", "version": "1.0.0",
			"description": "What Countersign tells and takes in, as CloudEvents 1.0 in structured JSON. Made from the code.",
		},
		DefaultContentType: ContentType,
		Channels:           object{}, Operations: object{},
		Components: components{Messages: object{}, Schemas: map[string]any{"envelope": envelopeSchema()}},
	}
	for _, direction := range []struct {
		action string
		kinds  []registry.EventKind
	}{{"send", registry.EventKinds()}, {"receive", registry.InboundEventKinds()}} {
		for _, k := range direction.kinds {
			s, err := PayloadSchema(k)
			if err != nil {
				return nil, err
			}
			name := k.Type.Name()
			api.Components.Schemas[name] = s
			api.Components.Messages[name] = object{
				"name": k.Type, "title": name, "summary": k.About, "contentType": ContentType,
				"payload": object{"allOf": []any{
					object{"$ref": "#/components/schemas/envelope"},
					object{"type": "object", "properties": object{"type": object{"const": k.Type}, "data": object{"$ref": "#/components/schemas/" + name}}},
				}},
			}
			api.Channels[name] = object{"address": k.Type, "messages": object{name: object{"$ref": "#/components/messages/" + name}}}
			api.Operations[name] = object{"action": direction.action, "channel": object{"$ref": "#/channels/" + name}, "summary": k.About}
			alone := *s
			alone.Schema = "https://json-schema.org/draft/2020-12/schema"
			if out[SchemaName(k.Type)], err = indented(&alone); err != nil {
				return nil, err
			}
		}
	}
	var err error
	out["asyncapi.json"], err = indented(api)
	return out, err
}

type object = map[string]any

type asyncAPI struct {
	AsyncAPI           string     `json:"asyncapi"`
	Info               object     `json:"info"`
	DefaultContentType string     `json:"defaultContentType"`
	Channels           object     `json:"channels"`
	Operations         object     `json:"operations"`
	Components         components `json:"components"`
}

type components struct {
	Messages object         `json:"messages"`
	Schemas  map[string]any `json:"schemas"`
}

func envelopeSchema() object {
	text := func(about string) object { return object{"type": "string", "description": about} }
	return object{
		"type": "object", "required": []string{"specversion", "id", "source", "type", "time", "tenantid", "data"},
		"properties": object{
			"specversion": object{"const": "1.0"}, "id": text("the same in every delivery"), "source": text("the installation"),
			"type": text("the topic"), "subject": text("what the event is about: a server's id, or kind/name"),
			"time":            object{"type": "string", "format": "date-time"},
			"datacontenttype": object{"const": "application/json"},
			"tenantid":        text("the tenant"), "sequence": text("20 digits, one more with each event of the subject"),
			"traceparent": text("W3C Trace Context"), "correlationid": text("the operation"), "causationid": text("what led to it"),
			"data": object{"type": "object"},
		},
	}
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
