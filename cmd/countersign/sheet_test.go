package main

import (
	"strings"
	"testing"
	"time"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// One long name does not push all else out of sight; the last column, which
// pushes nothing, is whole.
func TestCellsOfTablesAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400)
	for wide, most := range map[bool]int{false: 60, true: 120} {
		s := &sheet{wide: wide}
		writeTable(s, []column[string]{
			{title: "NAME", text: func(s string) string { return s }}, {title: "URL", text: func(s string) string { return s }},
		}, []string{"short", long})
		lines := strings.Split(string(s.bytes()), "\n")
		if got := strings.Index(lines[0], "URL"); got != most+len(columnGap) {
			t.Errorf("wide %t: the second column begins at %d", wide, got)
		}
		if !strings.HasSuffix(lines[2], "…"+columnGap+long) {
			t.Errorf("wide %t: %s", wide, lines[2])
		}
	}
}

func TestAnExceptionOfMoreThanAYearIsAskedAboutInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)
	s := &registryv1.McpServer{Name: "x", Authentication: registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION}
	review := &registryv1.GetReviewResponse{Review: &registryv1.Review{Digest: "d"}}
	for expires, want := range map[string]string{
		"366d": "Approve this?",
		"400d": "This allows NO AUTHENTICATION for more than a year, until 2027-12-06T12:00:00Z. Approve this?",
	} {
		p, err := newProposal(s, review, &wish{empty: true, expires: expires}, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.question(); got != want {
			t.Errorf("for %s it asks: %s", expires, got)
		}
	}
}

func TestToolsAreTypedSoThatAShellTakesThem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"hash_compute": "hash_compute", "a b": "s.id", "x\x1b": "s.id", "$(x)": "s.id"} {
		if got := typed(&registryv1.Tool{Name: name, ToolId: "s.id"}); got != want {
			t.Errorf("%q is typed %q", name, got)
		}
	}
}
