package e2e

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// terminal is where somebody uses the client.
type terminal struct{ url, token string }

// terminal gives the client to a role of a tenant.
func (d *dev) terminal(tenant string, role registry.Role) terminal {
	return terminal{d.url(), d.tokens[tenant][role]}
}

// run runs a command and gives what it wrote and its exit code.
func (c terminal) run(t *testing.T, args ...string) (out, log string, code int) {
	t.Helper()
	p := launch(t, "countersign", []string{"COUNTERSIGN_SERVER=" + c.url, "COUNTERSIGN_TOKEN=" + c.token}, args...)
	code = p.await(t)
	return p.out.String(), p.log.String(), code
}

// json runs a command that must succeed and reads the one document that it
// writes.
func (c terminal) json(t *testing.T, args ...string) json.RawMessage {
	t.Helper()
	out, log, code := c.run(t, append(args, "-o", "json")...)
	if code != 0 || !json.Valid([]byte(out)) {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, out, log)
	}
	return json.RawMessage(out)
}

// server runs a command that answers with a server.
func (c terminal) server(t *testing.T, args ...string) *pb.McpServer {
	t.Helper()
	s := &pb.McpServer{}
	if err := protojson.Unmarshal(c.json(t, args...), s); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return s
}

// list runs a command that answers with a list.
func (c terminal) list(t *testing.T, args ...string) (out []map[string]any) {
	t.Helper()
	if err := json.Unmarshal(c.json(t, args...), &out); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

// fails runs a command that must fail, and gives its exit code and reason.
func (c terminal) fails(t *testing.T, args ...string) (code int, reason registry.Reason) {
	t.Helper()
	out, log, code := c.run(t, append(args, "-o", "json")...)
	var answer struct {
		Error struct {
			Reason registry.Reason `json:"reason"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(log), &answer); err != nil || code == 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, out, log)
	}
	return code, answer.Error.Reason
}
