package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// outcome is what came of a call, on whichever face.
type outcome struct { //nolint:recvcheck // get reads what a call returned, the others fill it in
	status  int // of HTTP; 0 on gRPC
	code    string
	reason  string
	message string
	next    string
	fields  []string
	facts   map[string]string
	header  http.Header
	raw     string
	answer  *dynamicpb.Message // nil when it failed
}

func (o outcome) get(path string) string {
	m := o.answer.ProtoReflect()
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		m = m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
	}
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(names[len(names)-1]))).String()
}

// into brings the answer into a message of its type.
func into[M proto.Message](t *testing.T, o outcome, m M) M {
	t.Helper()
	if o.answer == nil {
		t.Fatalf("it failed: %+v", o)
	}
	raw, err := proto.Marshal(o.answer)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// way sends a request for an RPC by one face.
type way func(t *testing.T, h *house, token, procedure string, req proto.Message, header http.Header) outcome

// ways are all faces that every RPC has.
var ways = map[string]way{
	"Connect JSON": connectWay(protojson.Marshal, "application/json"), "Connect proto": connectWay(proto.Marshal, "application/proto"),
	"gRPC": clientWay(connect.WithGRPC()), "gRPC-Web": clientWay(connect.WithGRPCWeb()), "REST": restWay,
}

var plain = &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// overHTTP2 speaks HTTP/2 without TLS.
var overHTTP2 = func() *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{Protocols: &protocols}}
}()

// call sends a request as anybody does, and gives status, headers and body.
func (h *house) call(t *testing.T, method, path, token, body string, header http.Header) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	response, err := plain.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(raw)
}

func connectWay(marshal func(proto.Message) ([]byte, error), kind string) way {
	return func(t *testing.T, h *house, token, procedure string, req proto.Message, header http.Header) outcome {
		t.Helper()
		body, err := marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		all := http.Header{"Content-Type": {kind}}
		maps.Copy(all, header)
		status, got, raw := h.call(t, http.MethodPost, procedure, token, string(body), all)
		o := outcome{status: status, header: got, raw: raw}
		if status != http.StatusOK {
			o.readConnectError(t)
			return o
		}
		o.answer = dynamicpb.NewMessage(methods()[procedure].Output())
		if kind == "application/json" {
			err = protojson.Unmarshal([]byte(raw), o.answer)
		} else {
			err = proto.Unmarshal([]byte(raw), o.answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
}

func (o *outcome) readConnectError(t *testing.T) {
	t.Helper()
	var body struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		} `json:"details"`
	}
	if err := json.Unmarshal([]byte(o.raw), &body); err != nil {
		t.Fatalf("status %d, %v: %s", o.status, err, o.raw)
	}
	o.code, o.message = body.Code, body.Message
	for _, d := range body.Details {
		raw, err := base64.RawStdEncoding.DecodeString(d.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch d.Type {
		case "google.rpc.ErrorInfo":
			info := &errdetails.ErrorInfo{}
			if err := proto.Unmarshal(raw, info); err != nil {
				t.Fatal(err)
			}
			o.learn(info)
		case "google.rpc.BadRequest":
			bad := &errdetails.BadRequest{}
			if err := proto.Unmarshal(raw, bad); err != nil {
				t.Fatal(err)
			}
			o.blame(bad)
		}
	}
}

func (o *outcome) learn(info *errdetails.ErrorInfo) {
	o.reason, o.facts = info.GetReason(), info.GetMetadata()
	o.next = o.facts["next_step"]
	delete(o.facts, "next_step")
}

func (o *outcome) blame(bad *errdetails.BadRequest) {
	for _, f := range bad.GetFieldViolations() {
		o.fields = append(o.fields, f.GetField()+": "+f.GetDescription())
	}
}

// bringing is an HTTP client with a token.
type bringing struct {
	client *http.Client
	token  string
}

func (b bringing) Do(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.client.Do(r)
}

// clientWay calls with a generic client: messages known by their descriptors.
func clientWay(options ...connect.ClientOption) way {
	return func(t *testing.T, h *house, token, procedure string, req proto.Message, header http.Header) outcome {
		t.Helper()
		md := methods()[procedure]
		options := append([]connect.ClientOption{
			connect.WithSchema(md),
			connect.WithResponseInitializer(func(_ connect.Spec, message any) error {
				if m, ok := message.(*dynamicpb.Message); ok {
					*m = *dynamicpb.NewMessage(md.Output())
				}
				return nil
			}),
		}, options...)
		client := connect.NewClient[dynamicpb.Message, dynamicpb.Message](bringing{overHTTP2, token}, h.url+procedure, options...)
		raw, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		m := dynamicpb.NewMessage(md.Input())
		if err := proto.Unmarshal(raw, m); err != nil {
			t.Fatal(err)
		}
		request := connect.NewRequest(m)
		maps.Copy(request.Header(), header)
		response, err := client.CallUnary(t.Context(), request)
		if err == nil {
			return outcome{answer: response.Msg, header: response.Header()}
		}
		ce, ok := errors.AsType[*connect.Error](err)
		if !ok {
			t.Fatal(err)
		}
		o := outcome{code: ce.Code().String(), message: ce.Message(), header: ce.Meta()}
		for _, d := range ce.Details() {
			v, err := d.Value()
			if err != nil {
				t.Fatal(err)
			}
			switch v := v.(type) {
			case *errdetails.ErrorInfo:
				o.learn(v)
			case *errdetails.BadRequest:
				o.blame(v)
			}
		}
		return o
	}
}

func httpRule(md protoreflect.MethodDescriptor) *annotations.HttpRule {
	options, _ := md.Options().(*descriptorpb.MethodOptions)
	rule, _ := proto.GetExtension(options, annotations.E_Http).(*annotations.HttpRule)
	return rule
}

var pathVariable = regexp.MustCompile(`\{([a-z_]+)\}`)

// restRequest makes a REST request of a message, as its annotation says.
func restRequest(t *testing.T, procedure string, req proto.Message) (method, path, body string) {
	t.Helper()
	rule := httpRule(methods()[procedure])
	switch {
	case rule.GetGet() != "":
		method, path = http.MethodGet, rule.GetGet()
	case rule.GetPost() != "":
		method, path = http.MethodPost, rule.GetPost()
	case rule.GetPatch() != "":
		method, path = http.MethodPatch, rule.GetPatch()
	}
	raw, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	path = pathVariable.ReplaceAllStringFunc(path, func(v string) string {
		f := req.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(strings.Trim(v, "{}")))
		value := req.ProtoReflect().Get(f).String()
		delete(fields, f.JSONName())
		return url.PathEscape(value)
	})
	if method != http.MethodGet {
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return method, path, string(raw)
	}
	query := url.Values{}
	for name, value := range fields {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			text, ok := v.(string)
			if !ok {
				raw, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				text = string(raw)
			}
			query.Add(name, text)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return method, path, ""
}

func restWay(t *testing.T, h *house, token, procedure string, req proto.Message, header http.Header) outcome {
	t.Helper()
	method, path, body := restRequest(t, procedure, req)
	status, got, raw := h.call(t, method, path, token, body, header)
	o := outcome{status: status, header: got, raw: raw}
	if status >= http.StatusBadRequest {
		o.readProblem(t)
		return o
	}
	if field := httpRule(methods()[procedure]).GetResponseBody(); field != "" {
		raw = `{"` + field + `":` + raw + `}`
	}
	o.answer = dynamicpb.NewMessage(methods()[procedure].Output())
	if err := protojson.Unmarshal([]byte(raw), o.answer); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return o
}

func (o *outcome) readProblem(t *testing.T) {
	t.Helper()
	if kind := o.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Fatalf("status %d comes as %s: %s", o.status, kind, o.raw)
	}
	var p problem
	decoder := json.NewDecoder(bytes.NewReader([]byte(o.raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Status != o.status {
		t.Errorf("the problem says status %d, the answer has %d", p.Status, o.status)
	}
	o.code, o.reason, o.message, o.next, o.facts = p.Code, string(p.Reason), p.Detail, p.NextStep, p.Facts
	for _, f := range p.Fields {
		o.fields = append(o.fields, f.Path+": "+f.Message)
	}
}

// eventually waits until something holds, for at most 10 s.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("never: " + what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
