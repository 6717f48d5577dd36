package api

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func signerOf(t *testing.T, digit string) *registry.AuditSigner {
	t.Helper()
	s, err := registry.ParseAuditSigner(strings.Repeat(digit, 64))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signing is an API that knows the signer's key.
func signing(s *registry.AuditSigner) func(*Options) {
	return func(o *Options) { o.AuditKeys, o.SignsAudit = []registry.AuditPublicKey{s.Public()}, true }
}

// sealed seals all that the tenant has.
func (h *house) sealed(t *testing.T, tenant string, s *registry.AuditSigner) {
	t.Helper()
	if _, err := h.db.System().SealAudit(t.Context(), tenant, 100_000, s.Sign); err != nil {
		t.Fatal(err)
	}
}

func auditor(tenant string) string { return tokenOf(tenant, registry.RoleAuditor) }

// ask asks as the auditor, and the answer must be good.
func ask[M proto.Message](t *testing.T, h *house, procedure string, request proto.Message, out M) M {
	t.Helper()
	return into(t, ways["REST"](t, h, auditor(alpha), procedure, request, nil), out)
}

func TestAuditEventsAreFiltered(t *testing.T) {
	t.Parallel()
	h := open(t)
	s := h.active(t, alpha, "weather", "x")
	h.active(t, beta, "weather", "x")
	h.registered(t, alpha, "other")
	h.changed(t, s, retire)
	all := ask(t, h, doTrail, &pb.ListAuditEventsRequest{}, &pb.ListAuditEventsResponse{})
	if all.GetTotalSize() != 5 || len(all.GetEvents()) != 5 {
		t.Fatalf("there are %d of %d", len(all.GetEvents()), all.GetTotalSize())
	}
	tell := func(events []*pb.AuditEvent) string {
		var out []string
		for _, e := range events {
			out = append(out, e.GetAction()+" "+e.GetObjectName())
		}
		return strings.Join(out, ", ")
	}
	third := all.GetEvents()[2].GetTime()
	for want, request := range map[string]*pb.ListAuditEventsRequest{
		"change weather, register other, change weather, change weather, register weather": {},
		"register weather, change weather, change weather, register other, change weather": {OrderBy: "time", PageSize: 2},
		"change weather, change weather, change weather, register weather":                 {Object: "weather", OrderBy: "time desc", PageSize: 3},
		"change weather, change weather, change weather":                                   {Object: s.ServerID, Filter: `action != "register"`},
		"register other": {Filter: `object_name = other AND outcome = applied AND object_kind = server`},
		"change weather, register other, change weather": {StartTime: third},
		"change weather, register weather":               {EndTime: third},
		"":                                               {Filter: `actor = "nobody"`, StartTime: third, EndTime: timestamppb.New(time.Now().Add(time.Hour))},
	} {
		var got []*pb.AuditEvent
		for {
			page := ask(t, h, doTrail, request, &pb.ListAuditEventsResponse{})
			got = append(got, page.GetEvents()...)
			if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
				if int(page.GetTotalSize()) != len(got) {
					t.Errorf("%v: %d of %d", request, len(got), page.GetTotalSize())
				}
				break
			}
		}
		if tell(got) != want {
			t.Errorf("%v finds %s; want %s", request, tell(got), want)
		}
	}
	one := ask(t, h, doEvent, &pb.GetAuditEventRequest{AuditId: all.GetEvents()[1].GetAuditId()}, &pb.GetAuditEventResponse{}).GetEvent()
	if diff := cmp.Diff(all.GetEvents()[1].String(), one.String()); diff != "" {
		t.Error(diff)
	}
	theirs, err := h.db.Tenant(beta).AuditEvent(t.Context(), h.audits(t, beta, "register")[0].AuditID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		procedure string
		request   proto.Message
		reason    registry.Reason
		field     string
	}{
		{doEvent, &pb.GetAuditEventRequest{AuditId: theirs.AuditID}, registry.ReasonAuditEventNotFound, ""},
		{doTrail, &pb.ListAuditEventsRequest{Filter: "note = x"}, registry.ReasonInvalidFilter, "filter"},
		{doTrail, &pb.ListAuditEventsRequest{Filter: "outcome = well"}, registry.ReasonInvalidFilter, "filter"},
		{doTrail, &pb.ListAuditEventsRequest{OrderBy: "actor"}, registry.ReasonInvalidOrder, "order_by"},
		{doTrail, &pb.ListAuditEventsRequest{PageToken: "x"}, registry.ReasonInvalidPageToken, "page_token"},
		{doVerify, &pb.VerifyAuditRequest{Checkpoints: []string{"{}"}}, registry.ReasonInvalidArgument, "checkpoints[0]"},
		{doExport, &pb.ExportAuditEventsRequest{AfterPosition: 99}, registry.ReasonAuditEventNotFound, ""},
	} {
		o := ways["Connect JSON"](t, h, auditor(alpha), c.procedure, c.request, nil)
		if o.reason != string(c.reason) || !strings.HasPrefix(strings.Join(o.fields, " "), c.field) {
			t.Errorf("%v is refused with %s %v", c.request, o.reason, o.fields)
		}
	}
}

// A page token of the audit trail is good for the same question of the same
// tenant only.
func TestAuditPageTokensAreOfTheirList(t *testing.T) {
	t.Parallel()
	h := open(t)
	for _, tenant := range []string{alpha, beta} {
		h.active(t, tenant, "weather", "x")
		h.sealed(t, tenant, signerOf(t, "1"))
	}
	listed := ask(t, h, doTrail, &pb.ListAuditEventsRequest{PageSize: 1}, &pb.ListAuditEventsResponse{}).GetNextPageToken()
	exported := ask(t, h, doExport, &pb.ExportAuditEventsRequest{PageSize: 1}, &pb.ExportAuditEventsResponse{}).GetNextPageToken()
	now := timestamppb.Now()
	for name, c := range map[string]struct {
		token     string
		procedure string
		request   proto.Message
	}{
		"another filter":     {auditor(alpha), doTrail, &pb.ListAuditEventsRequest{PageToken: listed, Filter: "action = approve"}},
		"another object":     {auditor(alpha), doTrail, &pb.ListAuditEventsRequest{PageToken: listed, Object: "weather"}},
		"another time":       {auditor(alpha), doTrail, &pb.ListAuditEventsRequest{PageToken: listed, EndTime: now}},
		"another order":      {auditor(alpha), doTrail, &pb.ListAuditEventsRequest{PageToken: listed, OrderBy: "time"}},
		"another tenant":     {auditor(beta), doTrail, &pb.ListAuditEventsRequest{PageToken: listed}},
		"another list":       {auditor(alpha), doMarks, &pb.ListAuditCheckpointsRequest{PageToken: listed}},
		"another form":       {auditor(alpha), doExport, &pb.ExportAuditEventsRequest{PageToken: exported, Format: pb.AuditFormat_AUDIT_FORMAT_CSV}},
		"another beginning":  {auditor(alpha), doExport, &pb.ExportAuditEventsRequest{PageToken: exported, AfterPosition: 1}},
		"an export's filter": {auditor(alpha), doExport, &pb.ExportAuditEventsRequest{PageToken: exported, Filter: "action = approve"}},
		"an export's tenant": {auditor(beta), doExport, &pb.ExportAuditEventsRequest{PageToken: exported}},
	} {
		if o := ways["Connect JSON"](t, h, c.token, c.procedure, c.request, nil); o.reason != string(registry.ReasonInvalidPageToken) {
			t.Errorf("%s: %s", name, o.raw)
		}
	}
}

// export reads a whole file.
func export(t *testing.T, h *house, request *pb.ExportAuditEventsRequest) (data string, events int) {
	t.Helper()
	for {
		page := ask(t, h, doExport, request, &pb.ExportAuditEventsResponse{})
		data += page.GetData()
		events += int(page.GetEvents())
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			return data, events
		}
	}
}

// read verifies a file as anybody can who has the public key.
func read(data string, keys ...registry.AuditPublicKey) (*registry.AuditFile, registry.AuditReport) {
	f := registry.NewAuditFile(keys...)
	for line := range strings.Lines(data) {
		f.Line([]byte(strings.TrimSuffix(line, "\n")))
	}
	return f, f.End()
}

func TestAnExportVerifiesWithoutUs(t *testing.T) {
	t.Parallel()
	signer := signerOf(t, "1")
	h := open(t, signing(signer))
	h.active(t, alpha, "weather", "x")
	h.sealed(t, alpha, signer)
	h.active(t, alpha, "news", "y")
	h.active(t, beta, "weather", "x")
	h.sealed(t, alpha, signer)
	h.sealed(t, beta, signer)
	h.registered(t, alpha, "later") // not sealed
	data, events := export(t, h, &pb.ExportAuditEventsRequest{PageSize: 2})
	file, report := read(data, signer.Public())
	if !report.Sound() || events != 6 || report.Rows != 6 || report.Signed != 6 || report.Checkpoints != 2 || file.Export.TenantID != alpha {
		t.Errorf("%+v of\n%s", report, data)
	}
	if again, _ := export(t, h, &pb.ExportAuditEventsRequest{PageSize: 1000}); again != data {
		t.Error("the same chain is another file in other pages")
	}
	// What comes later is exported from there on.
	rest, events := export(t, h, &pb.ExportAuditEventsRequest{AfterPosition: 4})
	if _, report := read(rest, signer.Public()); !report.Sound() || events != 2 || report.Last.Position != 6 {
		t.Errorf("%+v of\n%s", report, rest)
	}
	filtered, _ := export(t, h, &pb.ExportAuditEventsRequest{Object: "news", PageSize: 1})
	if _, report := read(filtered, signer.Public()); !report.Sound() || !report.Partial || report.Rows != 3 {
		t.Errorf("%+v of\n%s", report, filtered)
	}
	first := ask(t, h, doExport, &pb.ExportAuditEventsRequest{}, &pb.ExportAuditEventsResponse{})
	if first.GetUnsealed() != 1 || first.GetLastPosition() != 6 {
		t.Errorf("%d are not sealed, the last is %d", first.GetUnsealed(), first.GetLastPosition())
	}
}

// Whoever names a server, or a tool of one, names a cell of a spreadsheet.
func TestNoCellOfAnExportIsAFormula(t *testing.T) {
	t.Parallel()
	h := open(t)
	nasty := []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", `=HYPERLINK("http://x","a,b")`, "ok, \"fine\"\nnext"}
	for _, text := range nasty {
		err := h.db.Tenant(alpha).AuditRefusal(t.Context(), db.AuditEntry{
			Actor: text, Roles: []registry.Role{"=r"}, Origin: "=o", Action: text, ObjectKind: text, ObjectID: text, ObjectName: text, OperationID: text, Note: text,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.sealed(t, alpha, signerOf(t, "1"))
	data, _ := export(t, h, &pb.ExportAuditEventsRequest{Format: pb.AuditFormat_AUDIT_FORMAT_CSV, PageSize: 3})
	rows, err := csv.NewReader(strings.NewReader(data)).ReadAll()
	if err != nil || len(rows) != 1+len(nasty) || !slices.Equal(rows[0], registry.AuditColumns()) {
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, data)
	}
	for i, row := range rows[1:] {
		for n, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
				t.Errorf("the cell %s of row %d is %q", rows[0][n], i+1, cell)
			}
		}
		if want := strings.ReplaceAll(registry.NeutralCell(nasty[i]), "\r\n", "\n"); row[2] != want {
			t.Errorf("the actor of row %d is %q, want %q", i+1, row[2], want)
		}
	}
}

func TestTheChainIsVerifiedByTheAPI(t *testing.T) {
	t.Parallel()
	signer := signerOf(t, "1")
	h := open(t, signing(signer))
	h.active(t, alpha, "weather", "x")
	h.sealed(t, alpha, signer)
	h.registered(t, alpha, "news")
	h.sealed(t, alpha, signer)
	v := ask(t, h, doVerify, &pb.VerifyAuditRequest{}, &pb.VerifyAuditResponse{})
	if !v.GetSound() || v.GetEvents() != 4 || v.GetSignedThrough() != 4 || v.GetCheckpoints() != 2 || v.GetMore() || v.GetLastPosition() != 4 ||
		!slices.Equal(v.GetKeyIds(), []string{signer.Public().ID}) {
		t.Errorf("%v", v)
	}
	if part := ask(t, h, doVerify, &pb.VerifyAuditRequest{AfterPosition: v.GetLastPosition(), AfterHash: v.GetLastHash()}, &pb.VerifyAuditResponse{}); !part.GetSound() || part.GetEvents() != 0 {
		t.Errorf("behind the end: %v", part)
	}
	if part := ask(t, h, doVerify, &pb.VerifyAuditRequest{AfterPosition: 3, AfterHash: "sha256:another"}, &pb.VerifyAuditResponse{}); part.GetSound() {
		t.Errorf("behind another event: %v", part)
	}
	marks := ask(t, h, doMarks, &pb.ListAuditCheckpointsRequest{}, &pb.ListAuditCheckpointsResponse{})
	if marks.GetTotalSize() != 2 || len(marks.GetCheckpoints()) != 2 || marks.GetCheckpoints()[0].GetCount() != 4 {
		t.Fatalf("%v", marks)
	}
	// One that was kept elsewhere, of a chain that had more.
	first := marks.GetCheckpoints()[0]
	longer := signer.Sign(registry.AuditCheckpoint{TenantID: alpha, Number: 3, Count: 9, Head: "sha256:gone", At: time.Now(), KeyID: first.GetKeyId(), Prev: "x"})
	v = ask(t, h, doVerify, &pb.VerifyAuditRequest{Checkpoints: []string{first.GetLine(), string(longer.Line())}}, &pb.VerifyAuditResponse{})
	var faults []string
	for _, f := range v.GetFaults() {
		faults = append(faults, fmt.Sprintf("%s %d-%d", f.GetKind(), f.GetPosition(), f.GetThrough()))
	}
	if v.GetSound() || !slices.Contains(faults, "tail_cut 5-9") {
		t.Errorf("with a checkpoint of more events: %v", faults)
	}
	keys := ask(t, h, doKeys, &pb.GetAuditKeysRequest{}, &pb.GetAuditKeysResponse{}).GetKeys()
	if len(keys) != 1 || !keys[0].GetCurrent() || keys[0].GetKeyId() != signer.Public().ID || keys[0].GetPublicKey() != signer.Public().Base64() || keys[0].GetPem() != signer.Public().PEM() {
		t.Errorf("the keys are %v", keys)
	}
}

// R183: the audit trail is for auditors, and for administrators.
func TestWhoReadsTheAuditTrail(t *testing.T) {
	t.Parallel()
	h := open(t)
	for _, role := range registry.Roles() {
		may := role == registry.RoleAuditor || role == registry.RolePlatformAdmin
		for _, procedure := range []string{doTrail, doExport, doVerify, doMarks, doKeys} {
			o := ways["REST"](t, h, tokenOf(alpha, role), procedure, about[procedure]("", ""), nil)
			if may != (o.status == http.StatusOK) || !may && o.reason != string(registry.ReasonPermissionDenied) {
				t.Errorf("%s asks %s: %d %s", role, procedure, o.status, o.reason)
			}
		}
	}
}
