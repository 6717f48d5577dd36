package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/registry"
)

// captured are the lists of published servers in testdata/captures, raw: see the
// README there.
func captured(tb testing.TB, name string) registry.Surface {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "captures", name+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		ProtocolVersion string
		Instructions    string
		Capabilities    map[string]json.RawMessage
		ServerInfo      struct{ Name, Version string }

		ToolsListPages             []struct{ Tools []json.RawMessage }
		ResourcesListPages         []struct{ Resources []json.RawMessage }
		ResourceTemplatesListPages []struct{ ResourceTemplates []json.RawMessage }
		PromptsListPages           []struct{ Prompts []json.RawMessage }
	}
	if err := json.Unmarshal(raw, &file); err != nil { //nolint:musttag // its names are the fields'
		tb.Fatal(err)
	}
	s := registry.Surface{
		ProtocolVersion: file.ProtocolVersion, Name: file.ServerInfo.Name, Version: file.ServerInfo.Version, Instructions: file.Instructions,
	}
	for _, kind := range []string{"prompts", "resources", "tools"} {
		if _, ok := file.Capabilities[kind]; ok {
			s.Kinds = append(s.Kinds, kind)
		}
	}
	for _, p := range file.ToolsListPages {
		s.Tools = append(s.Tools, bytesOf(p.Tools)...)
	}
	for _, p := range file.ResourcesListPages {
		s.Resources = append(s.Resources, bytesOf(p.Resources)...)
	}
	for _, p := range file.ResourceTemplatesListPages {
		s.Templates = append(s.Templates, bytesOf(p.ResourceTemplates)...)
	}
	for _, p := range file.PromptsListPages {
		s.Prompts = append(s.Prompts, bytesOf(p.Prompts)...)
	}
	return s
}

func bytesOf(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	return out
}

// captures are the names of all of them.
func captures(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("testdata/captures/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatal("no captures", err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files
}
