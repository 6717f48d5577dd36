package app

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/converter"

	"countersign/cmd/internal/config"
)

func TestKeysOfWorkflowDataComeByReference(t *testing.T) {
	secret := []byte("0123456789abcdef-\xff\xfe\xfd#0123456789a")[:32]
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_CODEC_STD", base64.StdEncoding.EncodeToString(secret))
	t.Setenv("TEST_CODEC_URL", base64.RawURLEncoding.EncodeToString(secret)+"\n")
	t.Setenv("TEST_CODEC_SHORT", base64.StdEncoding.EncodeToString([]byte("a-secret-too-short")))
	t.Setenv("TEST_CODEC_TEXT", "a-secret that is no encoding!")
	of := func(ref string) config.Config {
		c := config.Default()
		c.Secrets.FileRoot = dir
		c.Temporal.CodecKeys = []config.CodecKey{{ID: "one", Key: ref}}
		return c
	}
	for _, ref := range []string{"file:key", "env:TEST_CODEC_STD", "env:TEST_CODEC_URL"} {
		codec, err := Codec(t.Context(), of(ref))
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		dc := codec.DataConverter()
		p, err := dc.ToPayload("a text")
		if err != nil {
			t.Fatal(err)
		}
		// The same key, however it is written.
		std, err := Codec(t.Context(), of("env:TEST_CODEC_STD"))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := std.DataConverter().FromPayload(p, &got); err != nil || got != "a text" {
			t.Errorf("%s: %q %v", ref, got, err)
		}
	}
	for ref, want := range map[string]string{
		"env:TEST_CODEC_SHORT": "18 bytes", "env:TEST_CODEC_TEXT": "0 bytes", "env:TEST_CODEC_NONE": "could not be resolved", "file:none": "could not be resolved",
	} {
		_, err := Codec(t.Context(), of(ref))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"one"`) || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	codec, err := Codec(t.Context(), config.Default())
	if err != nil || codec != nil || codec.Handler() != nil {
		t.Errorf("without keys: %v %v", codec, err)
	}
	if p, err := codec.DataConverter().ToPayload("x"); err != nil || string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON {
		t.Errorf("%v %v", p, err)
	}
}

func TestTheOriginOfAPage(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"https://UI.example/temporal/": "https://ui.example", "http://127.0.0.1:8233": "http://127.0.0.1:8233", "": "", "ui.example": "",
	} {
		if got := origin(at); got != want {
			t.Errorf("%s: %q", at, got)
		}
	}
}
