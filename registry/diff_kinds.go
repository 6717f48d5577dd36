package registry

import (
	"maps"
	"slices"
)

// ChangeKind says what kind of difference a change is. Kinds are API like
// reasons: never renamed, never reused.
type ChangeKind string

// Changes of schemas.
const (
	ChangePropertyAdded         ChangeKind = "property_added"
	ChangeRequiredPropertyAdded ChangeKind = "required_property_added"
	ChangePropertyRemoved       ChangeKind = "property_removed"
	ChangeMadeRequired          ChangeKind = "property_made_required"
	ChangeMadeOptional          ChangeKind = "property_made_optional"
	ChangeUnknownForbidden      ChangeKind = "unknown_properties_forbidden"
	ChangeUnknownRestricted     ChangeKind = "unknown_properties_restricted"
	ChangeUnknownAllowed        ChangeKind = "unknown_properties_allowed"
	ChangeTypeNarrowed          ChangeKind = "type_narrowed"
	ChangeTypeWidened           ChangeKind = "type_widened"
	ChangeType                  ChangeKind = "type_changed"
	ChangeEnumValueAdded        ChangeKind = "enum_value_added"
	ChangeEnumValueRemoved      ChangeKind = "enum_value_removed"
	ChangeEnumAdded             ChangeKind = "enum_added"
	ChangeEnumRemoved           ChangeKind = "enum_removed"
	ChangeBoundTightened        ChangeKind = "bound_tightened"
	ChangeBoundLoosened         ChangeKind = "bound_loosened"
	ChangeConstraintAdded       ChangeKind = "constraint_added"
	ChangeConstraintRemoved     ChangeKind = "constraint_removed"
	ChangeConstraint            ChangeKind = "constraint_changed"
	ChangeDefaultAdded          ChangeKind = "default_added"
	ChangeDefaultRemoved        ChangeKind = "default_removed"
	ChangeDefault               ChangeKind = "default_changed"
	ChangeAlternativeAdded      ChangeKind = "alternative_added"
	ChangeAlternativeRemoved    ChangeKind = "alternative_removed"
	ChangeAlternativesReordered ChangeKind = "alternatives_reordered"
	ChangeReferenceRenamed      ChangeKind = "reference_renamed"
	ChangeReference             ChangeKind = "reference_changed"
	ChangeDefinitionAdded       ChangeKind = "definition_added"
	ChangeDefinitionRemoved     ChangeKind = "definition_removed"
	ChangeRewritten             ChangeKind = "rewritten"
	ChangeKeywordAdded          ChangeKind = "keyword_added"
	ChangeKeywordRemoved        ChangeKind = "keyword_removed"
	ChangeKeyword               ChangeKind = "keyword_changed"
	ChangeDialect               ChangeKind = "dialect_changed"
	ChangeOutputAdded           ChangeKind = "output_schema_added"
	ChangeOutputRemoved         ChangeKind = "output_schema_removed"
	ChangeTooComplex            ChangeKind = "too_complex"
)

// Changes of what is read.
const (
	ChangeTextAdded      ChangeKind = "text_added"
	ChangeTextRemoved    ChangeKind = "text_removed"
	ChangeText           ChangeKind = "text_changed"
	ChangeTextMoved      ChangeKind = "text_moved"
	ChangeTextWhitespace ChangeKind = "text_whitespace"
	ChangeInvisibleText  ChangeKind = "invisible_characters"
	ChangeLookalikeText  ChangeKind = "lookalike_characters"
	ChangeInstructions   ChangeKind = "instructions_changed"
)

// Changes of what a tool claims to do.
const (
	ChangeHintWeakened     ChangeKind = "hint_weakened"
	ChangeHintStrengthened ChangeKind = "hint_strengthened"
	ChangeTaskSupport      ChangeKind = "task_support_changed"
	ChangeHeaderMapping    ChangeKind = "header_mapping_changed"
	ChangePageBinding      ChangeKind = "page_binding_changed"
	ChangeContribution     ChangeKind = "contribution_changed"
	ChangeBehaviour        ChangeKind = "behaviour_changed"
	ChangeServerName       ChangeKind = "server_name_changed"
	ChangeServerVersion    ChangeKind = "server_version_changed"
	ChangeProtocolVersion  ChangeKind = "protocol_version_changed"
	ChangeCapabilityLost   ChangeKind = "capability_lost"
	ChangeCapabilityGained ChangeKind = "capability_gained"
	ChangeArgumentAdded    ChangeKind = "argument_added"
	ChangeRequiredArgument ChangeKind = "required_argument_added"
	ChangeArgumentRemoved  ChangeKind = "argument_removed"
	ChangeArgumentRequired ChangeKind = "argument_made_required"
	ChangeArgumentOptional ChangeKind = "argument_made_optional"
	ChangeField            ChangeKind = "field_changed"
	ChangeRecorded         ChangeKind = "recorded_field_changed"
	ChangeUnknownField     ChangeKind = "unknown_field_changed"
	ChangeQuarantined      ChangeKind = "quarantined"
	ChangeReleased         ChangeKind = "quarantine_ended"
	ChangeFaultyDefinition ChangeKind = "faulty_definition_changed"
	ChangeOther            ChangeKind = "changed"
	ChangeMore             ChangeKind = "more_changes"
)

// kinds says what each kind means, for people. The tests hold docs/drift.md to
// it.
var kinds = map[ChangeKind]string{
	ChangePropertyAdded:         "a property may be given that was not described before",
	ChangeRequiredPropertyAdded: "a new property must be given",
	ChangePropertyRemoved:       "a property is no longer described",
	ChangeMadeRequired:          "a property must be given now",
	ChangeMadeOptional:          "a property need not be given any more",
	ChangeUnknownForbidden:      "properties that are not described are refused now",
	ChangeUnknownRestricted:     "properties that are not described must fit a schema now",
	ChangeUnknownAllowed:        "properties that are not described are allowed now",
	ChangeTypeNarrowed:          "fewer types are allowed",
	ChangeTypeWidened:           "more types are allowed",
	ChangeType:                  "other types are allowed",
	ChangeEnumValueAdded:        "values joined the list of allowed ones",
	ChangeEnumValueRemoved:      "values left the list of allowed ones",
	ChangeEnumAdded:             "only listed values are allowed now",
	ChangeEnumRemoved:           "values are no longer limited to a list",
	ChangeBoundTightened:        "a bound on size or number is tighter",
	ChangeBoundLoosened:         "a bound on size or number is looser",
	ChangeConstraintAdded:       "a constraint is new",
	ChangeConstraintRemoved:     "a constraint is gone",
	ChangeConstraint:            "a constraint is another one",
	ChangeDefaultAdded:          "a default is declared now",
	ChangeDefaultRemoved:        "a default is no longer declared",
	ChangeDefault:               "what counts when nothing is given is another value",
	ChangeAlternativeAdded:      "one more form is allowed",
	ChangeAlternativeRemoved:    "a form is no longer allowed",
	ChangeAlternativesReordered: "the same forms stand in another order",
	ChangeReferenceRenamed:      "a reference names another definition, which is compared with the old one",
	ChangeReference:             "a reference leads elsewhere, and where cannot be compared",
	ChangeDefinitionAdded:       "a definition is new; uses of it are listed apart",
	ChangeDefinitionRemoved:     "a definition is gone; uses of it are listed apart",
	ChangeRewritten:             "the same is said in another way",
	ChangeKeywordAdded:          "a keyword is new that Countersign does not know",
	ChangeKeywordRemoved:        "a keyword is gone that Countersign does not know",
	ChangeKeyword:               "a keyword changed that Countersign does not know",
	ChangeDialect:               "the schema is read by other rules ($schema)",
	ChangeOutputAdded:           "results have a schema now",
	ChangeOutputRemoved:         "results have no schema any more",
	ChangeTooComplex:            "the schemas are too entangled to be compared further",
	ChangeTextAdded:             "a description, title, comment or example is new",
	ChangeTextRemoved:           "a description, title, comment or example is gone",
	ChangeText:                  "a description, title, comment or example reads otherwise",
	ChangeTextMoved:             "the same text stands elsewhere",
	ChangeTextWhitespace:        "a text differs in trailing blanks or line ends only",
	ChangeInvisibleText:         "the new text has characters that cannot be seen",
	ChangeLookalikeText:         "the new text has characters that look like others",
	ChangeInstructions:          "the server's instructions read otherwise",
	ChangeHintWeakened:          "the tool no longer claims to be that harmless",
	ChangeHintStrengthened:      "the tool claims to be more harmless, which nobody checked",
	ChangeTaskSupport:           "whether the tool runs as a task is another answer",
	ChangeHeaderMapping:         "a parameter is copied into an HTTP header, or no longer, or into another",
	ChangePageBinding:           "the tool shows another page, or one at all",
	ChangeContribution:          "the extension's contribution is another tool of the MCP server, or that describes its tool otherwise",
	ChangeBehaviour:             "something else changed that says what the tool does",
	ChangeServerName:            "the server calls itself otherwise",
	ChangeServerVersion:         "the server has another version",
	ChangeProtocolVersion:       "another protocol version was agreed on",
	ChangeCapabilityLost:        "the server no longer offers this kind of list",
	ChangeCapabilityGained:      "the server offers one more kind of list",
	ChangeArgumentAdded:         "the prompt takes one more argument",
	ChangeRequiredArgument:      "the prompt needs a new argument",
	ChangeArgumentRemoved:       "the prompt takes an argument no longer",
	ChangeArgumentRequired:      "an argument of the prompt must be given now",
	ChangeArgumentOptional:      "an argument of the prompt need not be given any more",
	ChangeField:                 "a field of a resource, template or prompt is another one",
	ChangeRecorded:              "a field differs that binds nobody (_meta, icons, $schema)",
	ChangeUnknownField:          "a field differs that Countersign does not know; it binds nobody",
	ChangeQuarantined:           "the definition is faulty and cannot be approved",
	ChangeReleased:              "the definition was faulty and is no longer",
	ChangeFaultyDefinition:      "the definition was faulty and is, in another way",
	ChangeOther:                 "something changed that has no kind of its own",
	ChangeMore:                  "further changes of the item are not listed; after is their number",
}

// ChangeKinds lists every kind, in order of the alphabet.
func ChangeKinds() []ChangeKind { return slices.Sorted(maps.Keys(kinds)) }

// Means is what the kind means, for people.
func (k ChangeKind) Means() string { return kinds[k] }
