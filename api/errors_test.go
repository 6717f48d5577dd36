package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"countersign/registry"
)

func TestEveryCodeTravels(t *testing.T) {
	t.Parallel()
	for _, code := range registry.Codes() {
		if _, ok := codes[code]; !ok {
			t.Errorf("code %s has no row", code)
		}
	}
	if len(codes) != len(registry.Codes()) {
		t.Errorf("%d rows for %d codes", len(codes), len(registry.Codes()))
	}
}

func TestTheHTTPTable(t *testing.T) {
	t.Parallel()
	for reason, want := range map[registry.Reason]travel{
		registry.ReasonInvalidArgument:      {connect.CodeInvalidArgument, 400},
		registry.ReasonUnauthenticated:      {connect.CodeUnauthenticated, 401},
		registry.ReasonPermissionDenied:     {connect.CodePermissionDenied, 403},
		registry.ReasonServerNotFound:       {connect.CodeNotFound, 404},
		registry.ReasonServerExists:         {connect.CodeAlreadyExists, 409},
		registry.ReasonStaleEtag:            {connect.CodeAborted, 409},
		registry.ReasonSuperseded:           {connect.CodeAborted, 409},
		registry.ReasonServerRetired:        {connect.CodeFailedPrecondition, 409},
		registry.ReasonIdempotencyKeyReused: {connect.CodeFailedPrecondition, 422},
		registry.ReasonBusy:                 {connect.CodeResourceExhausted, 429},
		registry.ReasonDependency:           {connect.CodeUnavailable, 503},
		registry.ReasonBodyTooLarge:         {connect.CodeInvalidArgument, 413},
		registry.ReasonUnsupportedMediaType: {connect.CodeInvalidArgument, 415},
		registry.ReasonMethodNotAllowed:     {connect.CodeUnimplemented, 405},
		registry.Reason("nobody knows it"):  {connect.CodeInternal, 500},
	} {
		if got := travelOf(registry.Errorf(reason, "x")); got != want {
			t.Errorf("%s travels as %v, want %v", reason, got, want)
		}
	}
}

func TestWhatIsNotKnownLeavesAsInternalErrorWithAnID(t *testing.T) {
	t.Parallel()
	secret := errors.New("password=hunter2")
	for name, err := range map[string]error{
		"a stranger's": secret,
		"our own":      registry.Errorf(registry.ReasonInternal, "the row %w is broken", secret),
		"none":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := presentable(t.Context(), err, "the-id")
			if e.Message != "internal error" || e.Fact("request_id") != "the-id" || e.Code != registry.CodeInternal || e.Err != nil {
				t.Errorf("it leaves as %+v", e)
			}
		})
	}
}

func TestTimeThatRanOutIsNoInternalError(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, e := range map[string]*registry.Error{
		"a deadline":      presentable(t.Context(), context.DeadlineExceeded, ""),
		"a caller's loss": presentable(gone, errors.New("use of closed connection"), ""),
	} {
		if e.Reason != registry.ReasonDeadline {
			t.Errorf("%s leaves as %s", name, e.Reason)
		}
	}
}

func TestConnectErrorsCarryReasonFieldsFactsAndNextStep(t *testing.T) {
	t.Parallel()
	e := registry.Errorf(registry.ReasonInvalidArgument, "the registration is not valid").
		WithField("name", "too long").With("server_id", "srv_1").WithNext("shorten it")
	ce := connectError(e)
	if ce.Code() != connect.CodeInvalidArgument || ce.Message() != "the registration is not valid" {
		t.Errorf("it is %v", ce)
	}
	info := detail[*errdetails.ErrorInfo](t, ce)
	if info.GetReason() != "invalid_argument" || info.GetDomain() != "countersign" {
		t.Errorf("the info is %v", info)
	}
	if diff := cmp.Diff(map[string]string{"server_id": "srv_1", "next_step": "shorten it"}, info.GetMetadata()); diff != "" {
		t.Error(diff)
	}
	fields := detail[*errdetails.BadRequest](t, ce).GetFieldViolations()
	if len(fields) != 1 || fields[0].GetField() != "name" || fields[0].GetDescription() != "too long" {
		t.Errorf("the fields are %v", fields)
	}
	detail[*errdetails.RetryInfo](t, connectError(registry.Errorf(registry.ReasonDependency, "away")))
	detail[*errdetails.PreconditionFailure](t, connectError(registry.Errorf(registry.ReasonServerRetired, "gone")))
}

func detail[D any](t *testing.T, err error) D {
	t.Helper()
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is no Connect error", err)
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if d, ok := v.(D); ok {
				return d
			}
		}
	}
	var none D
	t.Fatalf("%v has no %T", err, none)
	return none
}

func TestErrorsOnRESTAreProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  *registry.Error
		want string
	}{
		"with all there is": {
			registry.Errorf(registry.ReasonServerExists, "there is a live server named %q", "github").
				With("server_id", "srv_1").WithField("name", "is taken").WithNext("take another name"),
			`{
  "type": "urn:countersign:reason:server_already_exists",
  "title": "a live server of the tenant has this name",
  "status": 409,
  "detail": "there is a live server named \"github\"",
  "code": "already_exists",
  "reason": "server_already_exists",
  "retryable": false,
  "next_step": "take another name",
  "fields": [
    {
      "path": "name",
      "message": "is taken"
    }
  ],
  "facts": {
    "server_id": "srv_1"
  }
}`,
		},
		"with the least": {
			registry.Errorf(registry.ReasonDependency, "the database is away"),
			`{
  "type": "urn:countersign:reason:dependency_error",
  "title": "a part that this needs (database, Temporal, secret store) is away",
  "status": 503,
  "detail": "the database is away",
  "code": "unavailable",
  "reason": "dependency_error",
  "retryable": true
}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			if err := writeError(w, httptest.NewRequest(http.MethodGet, "/factory/mcp-servers", nil), faceREST, c.err); err != nil {
				t.Fatal(err)
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("the content type is %s", got)
			}
			if w.Code != travelOf(c.err).http {
				t.Errorf("the status is %d", w.Code)
			}
			var body any
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			var indented json.RawMessage = w.Body.Bytes()
			got, err := json.MarshalIndent(indented, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheDocumentedTableOfErrorsIsTheTrueOne(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[travel]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]+ \| (\d{3}) \| ([a-z_]+) \|$`).FindAllStringSubmatch(string(page), -1) {
		var code connect.Code
		if err := code.UnmarshalText([]byte(row[2])); err != nil {
			t.Errorf("%s: %v", row[0], err)
		}
		status, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		documented[travel{code, status}] = true
	}
	// What a server did is told in states and reports, not by errors of calls.
	for _, code := range registry.Codes() {
		if code != registry.CodeRemote && code != registry.CodeRemotePermanent && !documented[codes[code]] {
			t.Errorf("%s, which travels as %v, is not documented", code, codes[code])
		}
	}
	for row := range documented {
		if !slices.Contains(slices.Collect(maps.Values(codes)), row) {
			t.Errorf("%v is documented, and nothing travels so", row)
		}
	}
}
