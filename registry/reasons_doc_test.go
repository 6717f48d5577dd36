package registry_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"countersign/registry"
)

var update = flag.Bool("update", false, "write docs/reasons.md")

// docs/reasons.md is made of the one list of reasons.
func TestThePageOfReasonsIsCurrent(t *testing.T) {
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString("# Reasons\n\nStable codes in errors, denials, health, quarantine, probe outcomes and events. They are never renamed.\n" +
		"Made from `registry/reasons.go` by `go test ./registry -run Reasons -update`.\n")
	declarations, _, _ := strings.Cut(string(source), "// reasons says for each")
	for line := range strings.SplitSeq(declarations, "\n") {
		if title, ok := strings.CutPrefix(line, "// "); ok && strings.HasSuffix(title, ".") && !strings.Contains(title, "never renamed") && !strings.Contains(title, "Appendix B") {
			fmt.Fprintf(&page, "\n## %s\n\n| reason | kind | what it means |\n|---|---|---|\n", strings.TrimSuffix(title, "."))
		}
		if strings.Contains(line, "Denials, in the order") {
			page.WriteString("\n## Denials, in the order in which resolve reports them\n\n| reason | kind | what it means |\n|---|---|---|\n")
		}
		if m := regexp.MustCompile(`^\tReason\w+ +Reason = "([a-z_]+)"`).FindStringSubmatch(line); m != nil {
			r := registry.Reason(m[1])
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", r, r.Code(), r.Means())
		}
	}
	const path = "../docs/reasons.md"
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page.String() {
		t.Error("docs/reasons.md is not what the list of reasons says; run go test ./registry -run Reasons -update")
	}
}
