package registry_test

import (
	"strings"
	"testing"

	"countersign/registry"
)

func TestClassesAreSuggestedByHintsAndNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, annotations string
		want              registry.Class
		because           string
	}{
		{"get_issue", `{"readOnlyHint":true}`, registry.ClassRead, "hints that it only reads"},
		{"delete_issue", `{"readOnlyHint":true}`, registry.ClassSharedWrite, `but its name has "delete" in it`},
		{"sendMessage", `{"readOnlyHint":true}`, registry.ClassPublication, `but its name has "send" in it`},
		{"issue", `{"readOnlyHint":true,"destructiveHint":true}`, registry.ClassSharedWrite, "also that it destroys"},
		{"send-email", `{}`, registry.ClassPublication, `"send"`},
		{"get_and_delete", `{}`, registry.ClassSharedWrite, `"delete"`},
		{"createIssue", `{}`, registry.ClassSharedWrite, `"create"`},
		{"HTTPGetPage", `{}`, registry.ClassRead, "hints nothing else"},
		{"list_issues", `{"readOnlyHint":false}`, registry.ClassSharedWrite, "does more than read"},
		{"scratch", `{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}`, registry.ClassSandbox, "closed world"},
		{"settings", `{}`, registry.ClassSharedWrite, "nothing says"},
		{"scratch", `{"destructiveHint":true}`, registry.ClassSharedWrite, "destroys"},
	} {
		raw := `{"name":"` + c.name + `","annotations":` + c.annotations + `,"inputSchema":{"type":"object"}}`
		item := registry.NewItem(registry.KindTool, c.name, []byte(raw), registry.DefaultLimits())
		class, reason := registry.SuggestClass(item)
		if class != c.want || !strings.Contains(reason, c.because) {
			t.Errorf("%s %s: %s because %s", c.name, c.annotations, class, reason)
		}
	}
	if class, reason := registry.SuggestClass(registry.Item{Kind: registry.KindResource, Name: "x:/delete"}); class != "" || reason != "" {
		t.Errorf("a resource: %s because %s", class, reason)
	}
	if class, _ := registry.SuggestClass(registry.Item{Kind: registry.KindTool, Name: "x", Raw: []byte("{broken")}); class != registry.ClassSharedWrite {
		t.Errorf("an unreadable tool: %s", class)
	}
}
