package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// fill gives every field of a struct, at any depth, a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(1_700_000_000+*n), 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.SetMapIndex(key, value)
	case reflect.Uint8:
		v.SetUint(uint64('a' + *n%26))
	default:
		panic("fill knows no " + v.Kind().String())
	}
}

// filled begins with a number, so that the values of two do not meet.
func filled[T any](n int) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// gaps lists the fields of a message, at any depth, that have no value, and
// the texts that stand in more than one of them: a field that is forgotten is
// a gap, and so is one that is filled from its neighbour.
func gaps(m proto.Message) []string {
	var out []string
	texts := map[string][]string{}
	walk(m.ProtoReflect(), "", func(path string, set bool, text string) {
		if !set {
			out = append(out, path)
		}
		if text != "" {
			texts[text] = append(texts[text], path)
		}
	})
	for _, paths := range texts {
		if len(paths) > 1 {
			out = append(out, strings.Join(paths, " = "))
		}
	}
	slices.Sort(out)
	return out
}

func walk(m protoreflect.Message, path string, see func(path string, set bool, text string)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := path + string(f.Name())
		text := ""
		if m.Has(f) && !f.IsList() && f.Kind() == protoreflect.StringKind {
			text = m.Get(f).String()
		}
		if m.Has(f) && f.Message() != nil && strings.HasSuffix(string(f.Message().FullName()), ".Timestamp") {
			text = fmt.Sprint(m.Get(f).Message().Get(f.Message().Fields().ByName("seconds")))
		}
		see(name, m.Has(f), text)
		if !m.Has(f) || f.Message() == nil || f.IsMap() || strings.HasPrefix(string(f.Message().FullName()), "google.") {
			continue
		}
		if !f.IsList() {
			walk(m.Get(f).Message(), name+".", see)
			continue
		}
		walk(m.Get(f).List().Get(0).Message(), name+".", see)
	}
}

// view is a server of which every field has a value, and the enums values that
// exist.
func view() db.ServerView {
	v := filled[db.ServerView](1000)
	v.Direction, v.Transport, v.Authentication = registry.DirectionConsumed, registry.TransportStreamableHTTP, registry.AuthOAuth2
	v.State, v.Review.Status, v.Discovery.Status = registry.StateDegraded, registry.ReviewPending, registry.DiscoveryFailed
	v.Launch.Status = registry.LaunchApproved
	v.Causes = registry.CauseSet{registry.CauseHandshake}
	v.LastProbe.Outcome, v.LastProbe.TargetDigest = registry.OutcomeFailed, v.TargetDigest
	v.Connection.URL = "https://example.com/0123456789abcdef0123456789abcdef"
	return v
}

func TestEveryFieldOfAServerIsShown(t *testing.T) {
	t.Parallel()
	v := view()
	if diff := cmp.Diff([]string(nil), gaps(serverOut(&v))); diff != "" {
		t.Error(diff)
	}
}

func toolView() db.ToolView {
	v := filled[db.ToolView](2000)
	v.Server = view().Server
	v.Binding.DeclaredClass = registry.ClassSharedWrite
	v.Binding.SchemaHash, v.Binding.Text, v.Binding.Behaviour = v.Tool.Contract, v.Tool.Text, v.Tool.Behaviour
	v.Binding.Target, v.Now = v.Server.TargetDigest, v.Binding.EndsAt.Add(-time.Second)
	return v
}

func TestEveryFieldOfAToolIsShown(t *testing.T) {
	t.Parallel()
	denied := toolView()
	denied.Denial = &registry.Denial{Reason: registry.ReasonToolDisabled, Detail: "details"}
	denied.Tool.Available = false
	got := gaps(toolOut(&denied, []byte(`{"name":"x"}`)))
	want := []string{
		"approved_digests.meta", // moves no binding, so none is kept
		"callable",              // it is denied
		"digests.behaviour = approved_digests.behaviour", "digests.contract = approved_digests.contract", "digests.text = approved_digests.text",
		"available",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	allowed := toolView()
	allowed.Denial = nil
	got = gaps(toolOut(&allowed, []byte(`{"name":"x"}`)))
	for _, shown := range []string{"callable", "available"} {
		if slices.Contains(got, shown) {
			t.Errorf("%s is not shown", shown)
		}
	}
	if got := toolOut(&allowed, nil).GetLastSeenTime().AsTime(); !got.Equal(allowed.Server.Discovery.SucceededAt) {
		t.Errorf("an available tool was last seen at %v, its server at %v", got, allowed.Server.Discovery.SucceededAt)
	}
}

func TestEveryFieldOfAResolutionIsShown(t *testing.T) {
	t.Parallel()
	v := toolView()
	got := gaps(resolutionOut("p.tool", &v, &registry.Denial{Reason: registry.ReasonServerDegraded, Detail: "a detail"}, "sha256:bundle"))
	want := []string{"callable", "routing.governance_policy_digest = governance_policy_digest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRoutingIsForCallableAndDegradedToolsOnly(t *testing.T) {
	t.Parallel()
	v := toolView()
	for _, reason := range append(registry.DenialOrder(), "") {
		var denial *registry.Denial
		if reason != "" {
			denial = &registry.Denial{Reason: reason}
		}
		got := resolutionOut("p.tool", &v, denial, "")
		want := reason == "" || reason == registry.ReasonServerDegraded
		if (got.GetRouting() != nil) != want || got.GetCallable() != (reason == "") || (got.GetMessage() == "") != (reason == "") {
			t.Errorf("the denial %q gives %v", reason, got)
		}
	}
	got := resolutionOut("p.tool", nil, &registry.Denial{Reason: registry.ReasonToolNotFound}, "")
	if got.GetRouting() != nil || got.GetHealth() != nil || got.GetReason() != "tool_not_found" {
		t.Errorf("an unknown tool gives %v", got)
	}
}

func TestEveryFieldOfTheOthersIsShown(t *testing.T) {
	t.Parallel()
	item := filled[registry.Item](1000)
	item.Kind = registry.KindTemplate
	resource, prompt := filled[registry.ResourceBinding](2000), filled[registry.PromptBinding](2000)
	event, checkpoint, fault := filled[db.AuditEntry](3000), filled[registry.AuditCheckpoint](0), filled[registry.AuditFault](0)
	run, report := filled[workflows.Run](0), filled[workflows.TestReport](0)
	report.Health.Level, report.Health.Probing = registry.LevelDegraded, registry.ProbingDone
	for name, m := range map[string]proto.Message{
		"a resource": resourceOut(item, &resource, true), "a prompt": promptOut(item, &prompt, true), "a run": runOut(run), "a test": testOut(&report),
		"an audit event": auditOut(&event), "a checkpoint": checkpointOut(&checkpoint), "a fault": faultOut(&fault),
	} {
		if diff := cmp.Diff([]string(nil), gaps(m)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if resourceOut(item, nil, false).GetDefinitionJson() != "" || promptOut(item, nil, false).GetDefinitionJson() != "" {
		t.Error("the basic view shows definitions")
	}
}

// full gives every field of a message, at any depth, a value of its own.
func full(m protoreflect.Message, n *int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		*n++
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("key").MapKey(), protoreflect.ValueOfString("value"))
		case f.IsList() && f.Message() != nil:
			list := m.Mutable(f).List()
			element := list.NewElement()
			full(element.Message(), n)
			list.Append(element)
		case f.IsList():
			m.Mutable(f).List().Append(scalar(f, *n))
		case f.Message() != nil:
			full(m.Mutable(f).Message(), n)
		default:
			m.Set(f, scalar(f, *n))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor, n int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("text %d", n))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(1).Number())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	default:
		panic("scalar knows no " + f.Kind().String())
	}
}

// texts are all texts in a message, or in what a struct is as text.
func texts(m proto.Message) []string {
	var out []string
	walk(m.ProtoReflect(), "", func(_ string, _ bool, text string) {
		if text != "" {
			out = append(out, text)
		}
	})
	return out
}

func TestEveryFieldOfARequestIsUnderstood(t *testing.T) {
	t.Parallel()
	n := 0
	var register pb.RegisterMcpServerRequest
	full(register.ProtoReflect(), &n)
	var activate pb.ActivateMcpServerRequest
	full(activate.ProtoReflect(), &n)
	var update pb.UpdateMcpServerRequest
	full(update.ProtoReflect(), &n)
	update.UpdateMask = &fieldmaskpb.FieldMask{}
	patch := update.GetServer().ProtoReflect().Descriptor().Fields()
	for i := range patch.Len() {
		update.UpdateMask.Paths = append(update.UpdateMask.Paths, string(patch.Get(i).Name()))
	}
	edit, err := editIn(&update)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request   proto.Message
		got       any
		elsewhere []string // what is used beside the struct
	}{
		"a registration": {&register, registrationIn(&register), []string{register.GetCommandRef()}},
		"an approval":    {&activate, rulingIn(registry.VerbApprove, &activate), []string{activate.GetServerId(), activate.GetExceptionExpireTime().String()}},
		"an edit":        {&update, edit, []string{update.GetServerId()}},
	} {
		raw, err := json.Marshal(c.got)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts(c.request) {
			if strings.HasPrefix(text, "text ") && !slices.Contains(c.elsewhere, text) && !strings.Contains(string(raw), `"`+text+`"`) {
				t.Errorf("%s: %q is lost in %s", name, text, raw)
			}
		}
	}
	a := approvalIn(&activate)
	if !a.Empty || !a.Tools[0].Enable || a.Tools[0].Class != registry.ClassRead || a.Tools[0].DescriptorVersion == 0 || a.ExceptionExpiresAt.IsZero() {
		t.Errorf("the approval is %+v", a)
	}
	g := registrationIn(&register)
	if g.Direction != registry.DirectionConsumed || g.Transport != registry.TransportStreamableHTTP || g.Authentication != registry.AuthOAuth2 || g.Labels["key"] != "value" {
		t.Errorf("the registration is %+v", g)
	}
}

func TestAnUpdateChangesWhatItsMaskNames(t *testing.T) {
	t.Parallel()
	req := &pb.UpdateMcpServerRequest{
		Server:     &pb.ServerPatch{Description: "new", Owner: "somebody", Labels: map[string]string{"a": "b"}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"description", "dial_address"}}, Etag: `"3"`,
	}
	got, err := editIn(req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(registry.Edit{Etag: `"3"`, Description: new("new"), DialAddress: new("")}, got); diff != "" {
		t.Error(diff)
	}
	req.UpdateMask.Paths = []string{"labels"}
	req.Server.Labels = nil
	if got, err = editIn(req); err != nil || got.Labels == nil || len(*got.Labels) != 0 {
		t.Errorf("labels that are named and empty give %v, %v", got.Labels, err)
	}
	for _, paths := range [][]string{nil, {"name"}, {"description", "state"}, {"*"}, {"labels.a"}} {
		req.UpdateMask.Paths = paths
		if _, err := editIn(req); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("the mask %q is taken: %v", paths, err)
		}
	}
}

func TestEveryWordHasItsValue(t *testing.T) {
	t.Parallel()
	whole(t, directions)
	whole(t, transports)
	whole(t, authentications)
	whole(t, states)
	whole(t, classes)
	whole(t, levels)
	whole(t, outcomes)
	whole(t, reviews)
	whole(t, discoveries)
	whole(t, axes)
	whole(t, blockers)
	for _, s := range registry.States() {
		if states[s] == 0 {
			t.Errorf("state %s has no value", s)
		}
	}
	for _, c := range registry.Classes() {
		if classes[c] == 0 {
			t.Errorf("class %s has no value", c)
		}
	}
}

// whole wants a word for every value but the unspecified one, and back.
func whole[W ~string, V interface {
	comparable
	protoreflect.Enum
}](t *testing.T, table map[W]V) {
	t.Helper()
	var zero V
	values := zero.Descriptor().Values()
	if len(table) != values.Len()-1 {
		t.Errorf("%s has %d values and %d words", zero.Descriptor().Name(), values.Len()-1, len(table))
	}
	for w, v := range table {
		if word(table, v) != w {
			t.Errorf("%s is not the word of its value", w)
		}
		if !strings.HasSuffix(string(values.ByNumber(v.Number()).Name()), "_"+strings.ToUpper(string(w))) {
			t.Errorf("%s is called %s", w, values.ByNumber(v.Number()).Name())
		}
	}
	if word(table, zero) != "" {
		t.Errorf("%s has a word for nothing", zero.Descriptor().Name())
	}
}

func TestTextsOfStrangersAreMadeUTF8(t *testing.T) {
	t.Parallel()
	v := toolView()
	v.Tool.Title, v.Tool.Description = "a\xffb", "\xc3"
	if _, err := proto.Marshal(toolOut(&v, []byte("{\xfe}"))); err != nil {
		t.Error(err)
	}
}
