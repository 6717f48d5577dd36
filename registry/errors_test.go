package registry_test

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"testing"

	"countersign/registry"
)

func TestEveryReasonHasACodeAndAMeaning(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`Reason \w* ?= "([a-z_]+)"|Reason\w+ +Reason = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(declared) < 60 {
		t.Fatalf("found only %d reasons", len(declared))
	}
	for _, m := range declared {
		reason := registry.Reason(m[1] + m[2])
		if reason.Means() == "" {
			t.Errorf("%s has no meaning", reason)
		}
		if !slices.Contains(registry.Codes(), reason.Code()) {
			t.Errorf("%s has the unknown code %s", reason, reason.Code())
		}
	}
}

func TestErrorsKeepTheirCauseAndTheirText(t *testing.T) {
	t.Parallel()
	err := registry.Errorf(registry.ReasonDependency, "the database is away: %w", io.ErrUnexpectedEOF).WithNext("wait").With("a", "b")
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "the database is away: unexpected EOF" {
		t.Errorf("%v", err)
	}
	if registry.CodeOf(err) != registry.CodeUnavailable || !registry.CodeOf(err).Retryable() || err.Fact("a") != "b" {
		t.Errorf("%+v", err)
	}
	if registry.CodeOf(io.EOF) != registry.CodeInternal || registry.ReasonOf(io.EOF) != registry.ReasonInternal {
		t.Error("a stranger is not internal")
	}
}
