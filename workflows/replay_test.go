package workflows_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"

	countersign "countersign/worker"
)

// Every recorded history is replayed by today's code. The ones named bad-…
// must fail, or this test could not.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/history/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("only %d histories: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			countersign.RegisterWorkflows(replayer)
			err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file)
			if bad := strings.HasPrefix(filepath.Base(file), "bad-"); bad != (err != nil) {
				t.Errorf("replay says %v", err)
			}
		})
	}
}

// Histories are for everybody to read: they name no machine.
func TestRecordedHistoriesNameNoMachine(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/history/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(host) > 3 && strings.Contains(string(raw), host) {
			t.Errorf("%s names this machine", file)
		}
	}
}
