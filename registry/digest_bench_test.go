package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"countersign/registry"
)

// BenchmarkDigests takes lists of published servers from bytes to all digests,
// cold: nothing of an earlier look is used. Beside it stand what others need to
// bring the same bytes into a canonical form, without a digest. The last case
// takes the lists of all captured servers, one after the other.
func BenchmarkDigests(b *testing.B) {
	files, err := filepath.Glob(filepath.Join("testdata", "captures", "*.json"))
	if err != nil || len(files) == 0 {
		b.Fatal(files, err)
	}
	var every []string
	for _, file := range files {
		every = append(every, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	for _, names := range [][]string{{"azure"}, {"brave"}, {"notion"}, {"playwright"}, {"go-sdk-everything"}, every} {
		name := names[0]
		if len(names) > 1 {
			name = "every capture"
		}
		var surfaces []registry.Surface
		size := 0
		for _, of := range names {
			tools := captured(b, of).Tools
			surfaces = append(surfaces, registry.Surface{Tools: tools})
			for _, raw := range tools {
				size += len(raw)
			}
		}
		each := func(do func(raw []byte) error) func(b *testing.B) {
			return func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					for _, surface := range surfaces {
						for _, raw := range surface.Tools {
							if err := do(raw); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
			}
		}
		b.Run(name+"/registry", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, surface := range surfaces {
					if _, err := registry.NewSnapshot(surface, registry.DefaultLimits(), time.Time{}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(name+"/registry-repeated", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var memo registry.Memo
			for b.Loop() {
				for _, surface := range surfaces {
					if _, err := memo.ToolsDigest(surface.Tools, registry.DefaultLimits()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(name+"/encoding-json", each(func(raw []byte) error {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				return err
			}
			_, err := json.Marshal(v)
			return err
		}))
		b.Run(name+"/jcs", each(func(raw []byte) error {
			_, err := jcs.Transform(raw)
			return err
		}))
		b.Run(name+"/jsontext", each(func(raw []byte) error {
			v := jsontext.Value(bytes.Clone(raw))
			return v.Canonicalize()
		}))
	}
}

// BenchmarkGrowth shows that time and memory grow with the bytes, whatever is
// sent: MB/s and B/op per MB stay the same from one size to the next.
func BenchmarkGrowth(b *testing.B) {
	limits := registry.DefaultLimits()
	repeat := func(open, unit, shut string) func(n int) string {
		return func(n int) string {
			var s strings.Builder
			s.WriteString(open)
			for i := range n / len(unit) {
				if i > 0 {
					s.WriteByte(',')
				}
				s.WriteString(strings.ReplaceAll(unit, "%", fmt.Sprintf("%06d", i)))
			}
			s.WriteString(shut)
			return s.String()
		}
	}
	long := strings.Repeat(`{"properties":{"`+strings.Repeat("long/name", 100)+`":`, 25)
	for name, tool := range map[string]func(n int) string{
		"properties":   repeat(`{"name":"t","inputSchema":{"type":"object","properties":{`, `"%":{"type":"string","description":"d"}`, `}}}`),
		"deep prose":   repeat(`{"name":"t","inputSchema":`+long+`{"properties":{`, `"%":{"description":"d"}`, `}}`+strings.Repeat("}}", 25)+`}`),
		"references":   repeat(`{"name":"t","inputSchema":{"$defs":{"a":{}},"properties":{`, `"%":{"$ref":"#/$defs/a"}`, `}}}`),
		"resources":    repeat(`{"name":"t","inputSchema":{"$id":"https://a.test/","properties":{`, `"%":{"$id":"%","$ref":"%"}`, `}}}`),
		"headers":      repeat(`{"name":"t","inputSchema":{"properties":{`, `"%":{"type":"string","x-mcp-header":"h%"}`, `}}}`),
		"enum":         repeat(`{"name":"t","inputSchema":{"properties":{"a":{"enum":[`, `"%"`, `]}}}}`),
		"unknown keys": repeat(`{"name":"t","inputSchema":{"type":"object",`, `"%":1`, `}}`),
		"patterns":     repeat(`{"name":"t","inputSchema":{"properties":{"a":{"pattern":"`, `(?{{{[]`, `"}}}}`),
		"escapes":      repeat(`{"name":"t","inputSchema":{"type":"object"},"description":"`, `\u00e9\n \n`, `"}`),
	} {
		for _, size := range []int{8 << 10, 32 << 10, 128 << 10} {
			raw := []byte(tool(size))
			b.Run(fmt.Sprintf("%s/%dk", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					registry.NewItem(registry.KindTool, "t", raw, limits)
				}
			})
		}
	}
}
