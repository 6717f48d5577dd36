package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"countersign/registry"
)

// face is one way to call the API: with JSON in and out, and nothing of our
// code in between. It gives the status or code of a refusal as an error.
type face func(ctx context.Context, method, key string, in object) (object, error)

type object = map[string]any

// The same life through every face.
func TestALifeThroughEachFace(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	token := d.tokens[first][registry.RolePlatformAdmin]
	for name, f := range map[string]face{
		"rest": rest(d.url(), token), "connect": connectJSON(d.url(), token), "grpc": byReflection(t, d.listen, token),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(t, f, name, d.demoURL())
		})
	}
}

func live(t *testing.T, call face, name, url string) {
	t.Helper()
	do := func(method, key string, in object) object {
		t.Helper()
		out, err := call(t.Context(), method, key, in)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		return out
	}
	request := object{
		"name": name, "endpointUrl": url, "direction": "MCP_DIRECTION_CONSUMED", "transport": "MCP_TRANSPORT_STREAMABLE_HTTP",
		"authentication": "MCP_AUTHENTICATION_NONE_EXCEPTION", "exceptionReason": "a test", "governancePolicyRef": "default",
		"protocolVersion": "2026-07-28",
	}
	id := at(do("RegisterMcpServer", "register "+name, request), "server", "serverId")
	if again := at(do("RegisterMcpServer", "register "+name, request), "server", "serverId"); again != id {
		t.Errorf("registered twice with one key, it is %v and %v", id, again)
	}
	if _, err := call(t.Context(), "RegisterMcpServer", "another key of "+name, request); err == nil {
		t.Error("registered twice with two keys")
	}
	until(t, "it is listed as verified", patience, func() error {
		list, err := call(t.Context(), "ListMcpServers", "", object{"filter": `state = "verified" AND name = "` + name + `"`})
		if err == nil && at(list, "servers", 0, "serverId") != id {
			err = fmt.Errorf("the list is %v", list)
		}
		return err
	})
	discovery := do("DiscoverMcpCapabilities", "discover "+name, object{"serverId": name, "wait": "30s"})
	if at(discovery, "done") != true || at(discovery, "server", "discovery", "totalTools") != 3.0 || at(discovery, "run", "workflowId") == nil {
		t.Errorf("the discovery came to %v", discovery)
	}
	offers := do("GetMcpCapabilities", "", object{"serverId": id})
	tools, _ := at(offers, "tools").([]any)
	var lines []any
	for i := range tools {
		lines = append(lines, object{"tool": at(offers, "tools", i, "name"), "class": "SIDE_EFFECT_CLASS_READ", "enable": true})
	}
	activated := do("ActivateMcpServer", "", object{
		"serverId": id, "digest": at(offers, "review", "digest"), "etag": at(offers, "etag"), "tools": lines,
		"exceptionExpireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	})
	if len(lines) != 3 || at(activated, "server", "state") != "MCP_SERVER_STATE_ACTIVE" {
		t.Errorf("%d tools approved, it is %v", len(lines), at(activated, "server", "state"))
	}
	answer := do("ResolveTool", "", object{"toolId": name + ".hash_compute"})
	if at(answer, "callable") != true || at(answer, "routing", "endpointUrl") != url {
		t.Errorf("resolve says %v", answer)
	}
	if _, err := call(t.Context(), "GetMcpCapabilities", "", object{"serverId": "nobody"}); err == nil {
		t.Error("a server is found that is not there")
	}
	if s := do("RetireMcpServer", "", object{"serverId": id}); at(s, "server", "state") != "MCP_SERVER_STATE_RETIRED" {
		t.Errorf("after retire it is %v", at(s, "server", "state"))
	}
	if answer := do("ResolveTool", "", object{"toolId": name + ".hash_compute"}); at(answer, "reason") != "server_retired" {
		t.Errorf("after retire resolve says %v", answer)
	}
}

// at follows member names and indices into JSON; nil when there is nothing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			members, _ := value.(object)
			value = members[step]
		case int:
			items, _ := value.([]any)
			if step >= len(items) {
				return nil
			}
			value = items[step]
		}
	}
	return value
}

// rest calls the paths that the REST face has, as curl would.
func rest(base, token string) face {
	paths := map[string]struct{ verb, path, member string }{
		"RegisterMcpServer":       {"POST", "/factory/mcp-servers", "server"},
		"ListMcpServers":          {"GET", "/factory/mcp-servers", ""},
		"DiscoverMcpCapabilities": {"POST", "/factory/mcp-servers/{serverId}/discover", ""},
		"GetMcpCapabilities":      {"GET", "/factory/mcp-servers/{serverId}/capabilities", ""},
		"ActivateMcpServer":       {"POST", "/factory/mcp-servers/{serverId}/activate", "server"},
		"RetireMcpServer":         {"POST", "/factory/mcp-servers/{serverId}/retire", "server"},
		"ResolveTool":             {"GET", "/factory/tools/{toolId}/resolve", ""},
	}
	return func(ctx context.Context, method, key string, in object) (object, error) {
		to := paths[method]
		at, body, query := to.path, object{}, url.Values{}
		for name, value := range in {
			switch marker := []byte("{" + name + "}"); {
			case bytes.Contains([]byte(at), marker):
				at = string(bytes.ReplaceAll([]byte(at), marker, []byte(url.PathEscape(fmt.Sprint(value)))))
			case to.verb == http.MethodGet:
				query.Set(name, fmt.Sprint(value))
			default:
				body[name] = value
			}
		}
		target := base + at
		if len(query) > 0 {
			target += "?" + query.Encode()
		}
		var payload any
		if to.verb == http.MethodPost {
			payload = body
		}
		out, err := send(ctx, to.verb, target, token, key, payload)
		if err == nil && to.member != "" {
			out = object{to.member: out}
		}
		return out, err
	}
}

// connectJSON calls by the Connect protocol: reads by GET, the others by POST.
func connectJSON(base, token string) face {
	return func(ctx context.Context, method, key string, in object) (object, error) {
		target := base + "/" + serviceOf(method) + "/" + method
		switch method {
		case "ListMcpServers", "GetMcpCapabilities", "ResolveTool":
			raw, err := json.Marshal(in)
			if err != nil {
				return nil, err
			}
			query := url.Values{"message": {string(raw)}, "encoding": {"json"}, "connect": {"v1"}}
			return send(ctx, http.MethodGet, target+"?"+query.Encode(), token, key, nil)
		}
		return send(ctx, http.MethodPost, target, token, key, in)
	}
}

func serviceOf(method string) string {
	if method == "ResolveTool" {
		return "countersign.registry.v1.McpRegistryService"
	}
	return "countersign.registry.v1.McpServerService"
}

// send sends one request; an answer that is no success is an error.
func send(ctx context.Context, verb, target, token, key string, in any) (object, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, verb, target, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", verb, target, response.Status, raw)
	}
	var out object
	return out, json.Unmarshal(raw, &out)
}

// byReflection calls by gRPC, with what the server itself says about its
// messages.
func byReflection(t *testing.T, address, token string) face {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	files, err := reflected(as(t.Context(), token, ""), conn, serviceOf("RegisterMcpServer"), serviceOf("ResolveTool"))
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, method, key string, in object) (object, error) {
		found, err := files.FindDescriptorByName(protoreflect.FullName(serviceOf(method) + "." + method))
		if err != nil {
			return nil, err
		}
		rpc, ok := found.(protoreflect.MethodDescriptor)
		if !ok {
			return nil, fmt.Errorf("%s is no method", method)
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		request, response := dynamicpb.NewMessage(rpc.Input()), dynamicpb.NewMessage(rpc.Output())
		if err := protojson.Unmarshal(raw, request); err != nil {
			return nil, err
		}
		if err := conn.Invoke(as(ctx, token, key), "/"+serviceOf(method)+"/"+method, request, response); err != nil {
			return nil, err
		}
		if raw, err = protojson.Marshal(response); err != nil {
			return nil, err
		}
		var out object
		return out, json.Unmarshal(raw, &out)
	}
}

// as gives the context of a gRPC call with a token and an idempotency key.
func as(ctx context.Context, token, key string) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	return ctx
}

// reflected asks a server for the files that describe services, and for those
// that they import.
func reflected(ctx context.Context, conn *grpc.ClientConn, services ...string) (*protoregistry.Files, error) {
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*descriptorpb.FileDescriptorProto{}
	var wanted []*reflection.ServerReflectionRequest
	for _, service := range services {
		wanted = append(wanted, &reflection.ServerReflectionRequest{
			MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
		})
	}
	for len(wanted) > 0 {
		if err := stream.Send(wanted[0]); err != nil {
			return nil, err
		}
		wanted = wanted[1:]
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if e := answer.GetErrorResponse(); e != nil {
			return nil, errors.New(e.GetErrorMessage())
		}
		for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(raw, file); err != nil {
				return nil, err
			}
			known[file.GetName()] = file
		}
		if len(wanted) > 0 {
			continue
		}
		for _, file := range known {
			for _, name := range file.GetDependency() {
				if known[name] == nil {
					wanted = append(wanted, &reflection.ServerReflectionRequest{
						MessageRequest: &reflection.ServerReflectionRequest_FileByFilename{FileByFilename: name},
					})
				}
			}
		}
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range known {
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	return files, errors.Join(err, stream.CloseSend())
}
