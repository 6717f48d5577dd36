package console_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"strings"
	"testing"

	"countersign/console"
)

// The pages are for people with slow networks too: all parts together, as they are sent, each compressed by itself.
func TestSizeOfTheJavaScript(t *testing.T) {
	t.Parallel()
	const limit = 350_000 // bytes
	sum := 0
	err := fs.WalkDir(console.Pages(), "assets", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".js") {
			return err
		}
		part, err := fs.ReadFile(console.Pages(), path)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		sum += packed.Len()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes compressed", sum)
	if sum == 0 || sum >= limit {
		t.Errorf("the JavaScript has %d bytes compressed; it is to have some, and less than %d", sum, limit)
	}
}
