package e2e

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// binEnv names a directory that has the programs already.
const binEnv = "COUNTERSIGN_E2E_BIN"

// root is the repository, as seen from here.
const root = "../../.."

// programs is the directory with the programs under test.
var programs string

func TestMain(m *testing.M) { os.Exit(test(m)) }

func test(m *testing.M) int {
	flag.Parse()
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		// Half of the time these tests wait for timeouts of dead processes, and in
		// the other half one of them keeps a core busy.
		_ = flag.Set("test.parallel", "4") // a flag of package testing
	}
	if programs = os.Getenv(binEnv); programs == "" {
		dir, err := os.MkdirTemp("", "countersign-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		if err := build(dir); err != nil {
			fmt.Fprintln(os.Stderr, "building the programs:", err)
			return 1
		}
	}
	return m.Run()
}

func build(dir string) error {
	args := []string{"build", "-tags", "failpoints", "-ldflags=-s -w", "-o", dir, "./cmd/countersign", "./cmd/countersign-dev", "./cmd/countersign-utilities"}
	fmt.Println("go", strings.Join(args, " "))
	begin := time.Now()
	command := exec.Command("go", args...)
	command.Dir, command.Stdout, command.Stderr = root, os.Stdout, os.Stderr
	err := command.Run()
	fmt.Printf("took %.0f s\n", time.Since(begin).Seconds())
	return err
}

// What is tested here is no part of the test binary, so that go test would take
// an old result for a changed product. It looks again when a file has changed
// that the tests looked at.
func TestAChangedProductIsTestedAgain(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && path != root):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files++
		_, err = os.Stat(path)
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files: %v", files, err)
	}
}
