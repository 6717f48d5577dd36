// Command eventdocs writes what is published about events: their JSON Schemas and
// the AsyncAPI document.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"countersign/events"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: eventdocs DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// write leaves nothing else of the kind in the directory.
func write(dir string) error {
	documents, err := events.Documents()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // sources are for all to read
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if documents[filepath.Base(path)] == nil {
			if err := os.Remove(path); err != nil { //nolint:gosec // the directory is the caller's
				return err
			}
		}
	}
	for name, document := range documents {
		if err := os.WriteFile(filepath.Join(dir, name), document, 0o644); err != nil { //nolint:gosec // sources are for all to read
			return err
		}
	}
	return nil
}
