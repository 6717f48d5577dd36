// Command openapi joins the documents that protoc-gen-openapiv3 writes, one for each proto file, into one.
//
//	openapi BASE DIR >OUT
//
// BASE is an OpenAPI document written by hand, with all that no proto says. It wins where both name the same thing.
// Every operation gets its response Problem as the answer to all that fails.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

type object = map[string]any

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi BASE DIR >OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(base, dir string) error {
	whole, err := read(base)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".openapi.json") {
			return err
		}
		part, err := read(path)
		if err != nil {
			return err
		}
		return join(whole, part)
	})
	if err != nil {
		return err
	}
	if err := polish(whole); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(whole)
}

func read(path string) (object, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc object
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// join adds to whole what part has. Two parts may hold the same schema, but never the same operation.
func join(whole, part object) error {
	for path, item := range inner(part, "paths") {
		for method, operation := range item.(object) {
			if _, taken := inner(whole, "paths", path)[method]; taken {
				return fmt.Errorf("two operations for %s %s", method, path)
			}
			inner(whole, "paths", path)[method] = operation
		}
	}
	for kind, named := range inner(part, "components") {
		for name, value := range named.(object) {
			if _, taken := inner(whole, "components", kind)[name]; !taken {
				inner(whole, "components", kind)[name] = value
			}
		}
	}
	if tags, ok := part["tags"].([]any); ok {
		old, _ := whole["tags"].([]any)
		whole["tags"] = append(old, tags...)
	}
	return nil
}

// inner returns the object that doc holds at keys, after making it if it is missing.
func inner(doc object, keys ...string) object {
	for _, key := range keys {
		if _, ok := doc[key].(object); !ok {
			doc[key] = object{}
		}
		doc = doc[key].(object)
	}
	return doc
}

// polish names path parameters as JSON names fields, and says how every operation fails.
func polish(whole object) error {
	renamed := object{}
	for path, item := range inner(whole, "paths") {
		for _, op := range item.(object) {
			operation := op.(object)
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				if parameter := p.(object); parameter["in"] == "path" {
					parameter["name"] = camel(parameter["name"].(string))
				}
			}
			operation["responses"].(object)["default"] = object{"$ref": "#/components/responses/Problem"}
		}
		path = inBraces.ReplaceAllStringFunc(path, camel)
		if _, taken := renamed[path]; taken {
			return fmt.Errorf("two paths %s", path)
		}
		renamed[path] = item
	}
	whole["paths"] = renamed
	return nil
}

var (
	inBraces   = regexp.MustCompile(`\{[^}]*\}`)
	underscore = regexp.MustCompile(`_[a-z0-9]`)
)

func camel(name string) string {
	return underscore.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
}
