// Command protoprint writes the proto sources of others that ours import, from the descriptors inside the Go modules
// which those others publish. So the sources need no schema registry, and always fit the Go code that they stand for.
//
//	protoprint DIR
//
// A descriptor holds everything but the comments; for those read the published documentation.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// files are the sources to print, each with the notice of its owner.
var files = []struct {
	file      protoreflect.FileDescriptor
	copyright string
}{
	{annotations.File_google_api_annotations_proto, "2025 Google LLC"},
	{annotations.File_google_api_http_proto, "2026 Google LLC"},
	{errdetails.File_google_rpc_error_details_proto, "2025 Google LLC"},
	{validate.File_buf_validate_validate_proto, "2023-2026 Buf Technologies, Inc."},
}

const notice = `// Copyright %s
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Printed from its descriptor by tools/protoprint: the comments of the original are missing. DO NOT EDIT.

`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protoprint DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protoprint:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	for _, f := range files {
		var text bytes.Buffer
		fmt.Fprintf(&text, notice, f.copyright)
		if err := new(protoprint.Printer).PrintProtoFile(f.file, &text); err != nil {
			return fmt.Errorf("%s: %w", f.file.Path(), err)
		}
		path := filepath.Join(dir, filepath.FromSlash(f.file.Path()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
