package secrets

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

var (
	errNotSet   = errors.New("the variable is not set")
	errNoFolder = errors.New("no directory for secrets is configured")
	errNoFile   = errors.New("it is no regular file")
)

// Env is the source of the scheme env. lookup is [os.LookupEnv], or what a
// program puts in its place.
func Env(lookup func(name string) (string, bool)) Source {
	return func(_ context.Context, name string) (string, error) {
		text, ok := lookup(name)
		if !ok {
			return "", errNotSet
		}
		return text, nil
	}
}

// Files is the source of the scheme file: the regular files below a directory,
// without one trailing newline. Links are followed as long as they stay below it,
// by relative paths (as in mounted secrets of Kubernetes); nothing else leaves it
// either. With "" there are no files.
func Files(directory string) Source {
	return func(_ context.Context, name string) (string, error) {
		if directory == "" {
			return "", errNoFolder
		}
		root, err := os.OpenRoot(directory)
		if err != nil {
			return "", err
		}
		defer func() { _ = root.Close() }()
		// Without waiting, or opening a pipe would wait for its writer.
		file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() {
			return "", errNoFile
		}
		text, err := io.ReadAll(io.LimitReader(file, maxValue+int64(len("\r\n"))+1))
		if err != nil {
			return "", err
		}
		line := strings.TrimSuffix(string(text), "\n")
		if len(line) < len(text) {
			line = strings.TrimSuffix(line, "\r")
		}
		return line, nil
	}
}
