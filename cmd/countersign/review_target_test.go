package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// Who approves a server signs its target, and so sees all of it: each field of
// the message that has words is in the line.
func TestATargetIsShownWhole(t *testing.T) {
	t.Parallel()
	target := &registryv1.Target{}
	m := target.ProtoReflect()
	fields := m.Descriptor().Fields()
	var want []string
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Name() == "digest" || f.Kind() != protoreflect.StringKind && !f.IsMap() {
			continue // said elsewhere, or no words
		}
		text := "the-" + string(f.Name())
		want = append(want, text)
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOf(text+"-name").MapKey(), protoreflect.ValueOf(text))
			want = append(want, text+"-name")
		case f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOf(text))
		default:
			m.Set(f, protoreflect.ValueOf(text))
		}
	}
	line := targetLine(target)
	for _, text := range want {
		if !strings.Contains(line, text) {
			t.Errorf("%s is missing in %s", text, line)
		}
	}
	if len(want) < 10 {
		t.Errorf("only %v were looked for", want)
	}
}
