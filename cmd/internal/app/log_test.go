package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestTheQuietLogKeepsWhatSomebodyShouldKnow(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := Quiet(slog.New(slog.NewTextHandler(&out, nil)))
	log.InfoContext(t.Context(), "dropped: info")
	log.ErrorContext(t.Context(), "Activity error.", slog.Any("Error", errors.New("dropped: a server's fault")))
	log.WarnContext(t.Context(), "Failed to poll for task.", slog.Any("Error", errors.New("worker stopping")))
	log.WarnContext(t.Context(), "Failed to poll for task.", slog.Any("Error", errors.New("kept: away")))
	log.ErrorContext(t.Context(), "kept: error")
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "kept") != 2 {
		t.Error(got)
	}
}
