package api

import (
	"regexp"
	"strconv"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// errNoBody is what becomes of a request of no bytes where JSON is wanted.
var errNoBody = registry.Errorf(registry.ReasonInvalidArgument, "the request has no body; an empty request is {}")

// What protojson and Vanguard say of faults that have a place.
var (
	// A field that does not exist, and the message that was read.
	unknownField = regexp.MustCompile(`unknown field (?:in field path )?"([^"]*)"(?:.*\(in ([A-Za-z]+)\)$)?`)
	// A path of a FieldMask that JSON does not have.
	maskPath = regexp.MustCompile(`FieldMask.*invalid path: "([^"]*)"`)
	// A parameter of the query whose value is not of its type.
	badParameter = regexp.MustCompile(`^invalid parameter "([^"]*)"(?: value for type "([^"]*)")?`)
	// A field of a document whose value is not of its type.
	badValue = regexp.MustCompile(`invalid value for ([a-z0-9]+) field ([A-Za-z_]+): (.*?)(?: \(in ([A-Za-z]+)\))?$`)
)

// explain makes of a library's words an error that names the field at fault, or
// nothing when they name none.
func explain(said string) *registry.Error {
	if m := unknownField.FindStringSubmatch(said); m != nil {
		e := registry.Errorf(registry.ReasonUnknownField, "the request has a field %q, which does not exist", m[1]).
			WithField(m[1], "does not exist").WithNext("see /openapi.json for what there is")
		if m[2] != "" {
			e.Message += " in " + m[2]
			e.Next = "see " + m[2] + " in /openapi.json"
		}
		return e
	}
	if said == errNoBody.Message || said == "unary request has zero messages" {
		return errNoBody
	}
	fault := registry.Errorf(registry.ReasonInvalidArgument, "the request is not valid")
	if m := maskPath.FindStringSubmatch(said); m != nil {
		return fault.WithField("update_mask", "%q is not a path in JSON, which writes %q", m[1], inJSON(m[1]))
	}
	if m := badParameter.FindStringSubmatch(said); m != nil {
		return fault.WithField(m[1], "%s", some("is not valid", " as ", m[2]))
	}
	if m := badValue.FindStringSubmatch(said); m != nil {
		if e := enumOf(m[4], m[2]); e != nil {
			short, first := shortNames(e)
			return fault.WithField(m[2], "%s is not known, one of %s; in JSON as %q", m[3], strings.Join(short, ", "), first)
		}
		return fault.WithField(m[2], "%s is not valid as %s", m[3], m[1])
	}
	return nil
}

// some is a text with another behind it, if there is one.
func some(text, between, more string) string {
	if more == "" {
		return text
	}
	return text + between + more
}

// inJSON is a name of a field, or a path of them, as JSON writes it.
func inJSON(path string) string {
	words := strings.Split(path, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// changeable lists the fields of a message that an update can name, in their
// order.
func changeable(m proto.Message) string {
	var out []string
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		out = append(out, string(fields.Get(i).Name()))
	}
	return strings.Join(out, ", ")
}

// rules says in words what patterns of the proto demand, by field.
var rules = map[protoreflect.Name]string{
	"name":             "1 to 63 of a-z, 0-9, _ and -, a letter or digit at both ends",
	"protocol_version": "a version of the protocol is a date, such as 2026-07-28",
	"labels":           "a key is 1 to 63 of A-Z, a-z, 0-9, '.', _, / and -, a letter or digit at both ends",
}

// inWords says for people what rule of the proto a field breaks.
func inWords(v *protovalidate.Violation) string {
	f := v.FieldDescriptor
	said := v.Proto.GetMessage()
	if f == nil {
		return said
	}
	switch v.Proto.GetRuleId() {
	case "required", "string.min_len":
		return "is required"
	case "enum.not_in", "enum.defined_only":
		if f.Enum() == nil {
			return said
		}
		verb := "is not known"
		if v.Proto.GetRuleId() == "enum.not_in" {
			verb = "is required"
		}
		short, first := shortNames(f.Enum())
		return verb + ", one of " + strings.Join(short, ", ") + "; in JSON as " + strconv.Quote(first)
	case "string.pattern":
		rule, known := rules[f.Name()]
		switch {
		case !known:
			return said
		case v.FieldValue.IsValid() && f.Kind() == protoreflect.StringKind && v.FieldValue.String() == "":
			return "is required: " + rule
		default:
			return "is not valid: " + rule
		}
	}
	return said
}

// shortNames gives the words of an enum without what all of them begin with,
// and the whole name of the first.
func shortNames(e protoreflect.EnumDescriptor) (short []string, first string) {
	all := e.Values()
	before := strings.TrimSuffix(string(all.ByNumber(0).Name()), "UNSPECIFIED")
	for i := range all.Len() {
		if v := all.Get(i); v.Number() != 0 {
			short = append(short, strings.ToLower(strings.TrimPrefix(string(v.Name()), before)))
			if first == "" {
				first = string(v.Name())
			}
		}
	}
	return short, first
}

// enumOf finds the enum of a field, of a message or of what is in its lists.
func enumOf(message, name string) protoreflect.EnumDescriptor {
	file := pb.File_countersign_registry_v1_mcp_server_service_proto
	m := file.Messages().ByName(protoreflect.Name(message))
	if m == nil {
		return nil
	}
	if f := m.Fields().ByJSONName(name); f != nil {
		return f.Enum()
	}
	for i := range m.Fields().Len() {
		if inner := m.Fields().Get(i).Message(); inner != nil {
			if f := inner.Fields().ByJSONName(name); f != nil && f.Enum() != nil {
				return f.Enum()
			}
		}
	}
	return nil
}

// onceEach refuses an approval that names a tool twice: of two classes nobody
// could say which one was meant.
func onceEach(req *pb.ActivateMcpServerRequest) error {
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the approval names a tool twice")
	seen := make(map[string]int, len(req.GetTools()))
	for i, line := range req.GetTools() {
		name := line.GetTool()
		if first, twice := seen[name]; twice {
			bad.WithField("tools["+strconv.Itoa(i)+"].tool", "%q stands in tools[%d] already", name, first)
			continue
		}
		seen[name] = i
	}
	if len(bad.Fields) == 0 {
		return nil
	}
	bad.Fields = bad.Fields[:min(len(bad.Fields), maxFaults)]
	return bad
}

// maxFaults is how many faults of one kind an error tells.
const maxFaults = 20
