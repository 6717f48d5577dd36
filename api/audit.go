package api

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// trail implements AuditService.
type trail struct{ *Handler }

// auditFilter are the fields that audit events are filtered by.
var auditFilter = map[string]field{
	"actor": {kind: textField}, "action": {kind: textField}, "object_kind": {kind: textField}, "object_id": {kind: textField},
	"object_name": {kind: textField}, "reason": {kind: textField}, "operation_id": {kind: textField},
	"outcome": oneOf(registry.AuditApplied, registry.AuditRefused),
	"origin":  oneOf(registry.OriginAPI, registry.OriginSignal, registry.OriginSignalUnsigned, registry.OriginSystem),
}

// oneOf is a field that has one of our words.
func oneOf[W ~string](words ...W) field {
	f := field{kind: wordField, words: map[string]string{}}
	for _, w := range words {
		f.words[string(w)] = string(w)
	}
	return f
}

// Bounds of one answer.
const (
	exportPage  = 1000    // events in a page of an export
	verifyRound = 100_000 // events that one call looks at
)

// auditChoice is what requests have that choose events.
type auditChoice interface {
	GetFilter() string
	GetObject() string
	GetStartTime() *timestamppb.Timestamp
	GetEndTime() *timestamppb.Timestamp
}

// auditQuery is which events a request asks for, and the same as a text: empty
// when it asks for all.
func auditQuery(req auditChoice) (query db.AuditQuery, asked string, err error) {
	if query.Conditions, err = parseFilter(req.GetFilter(), auditFilter); err != nil {
		return query, "", err
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if req.GetFilter() != "" {
		add("%s", req.GetFilter())
	}
	if query.Object = req.GetObject(); query.Object != "" {
		add("object = %q", query.Object)
	}
	for _, bound := range []struct {
		name, sign string
		at         *timestamppb.Timestamp
		to         *time.Time
	}{{"start_time", ">=", req.GetStartTime(), &query.From}, {"end_time", "<", req.GetEndTime(), &query.Before}} {
		if bound.at == nil {
			continue
		}
		if !bound.at.IsValid() || bound.at.AsTime().Year() < 1 {
			return query, "", registry.Errorf(registry.ReasonInvalidArgument, "the request is not valid").WithField(bound.name, "is no time")
		}
		*bound.to = bound.at.AsTime()
		add("time %s %s", bound.sign, bound.at.AsTime().Format(time.RFC3339Nano))
	}
	return query, strings.Join(parts, " AND "), nil
}

// ListAuditEvents implements AuditService.
func (a trail) ListAuditEvents(ctx context.Context, req *pb.ListAuditEventsRequest) (*pb.ListAuditEventsResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	query, asked, err := auditQuery(req)
	if err != nil {
		return nil, err
	}
	order, err := parseOrder(req.GetOrderBy(), "time")
	if err != nil {
		return nil, err
	}
	query.Oldest = strings.TrimSpace(req.GetOrderBy()) != "" && !order.Desc
	l := list{tenant: d.principal.Tenant, method: "audit-events", filter: asked, order: strconv.FormatBool(query.Oldest)}
	if query.Page, err = l.page(req.GetPageSize(), req.GetPageToken()); err != nil {
		return nil, err
	}
	entries, next, total, err := d.store.AuditPage(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &pb.ListAuditEventsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range entries {
		out.Events = append(out.Events, auditOut(&entries[i]))
	}
	return out, nil
}

// GetAuditEvent implements AuditService.
func (a trail) GetAuditEvent(ctx context.Context, req *pb.GetAuditEventRequest) (*pb.GetAuditEventResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	e, err := d.store.AuditEvent(ctx, req.GetAuditId())
	if err != nil {
		return nil, err
	}
	return &pb.GetAuditEventResponse{Event: auditOut(&e)}, nil
}

// ExportAuditEvents implements AuditService. All pages are of the chain as it
// was at the first one.
func (a trail) ExportAuditEvents(ctx context.Context, req *pb.ExportAuditEventsRequest) (*pb.ExportAuditEventsResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	query, asked, err := auditQuery(req)
	if err != nil {
		return nil, err
	}
	l := list{
		tenant: d.principal.Tenant, method: "audit-export", filter: asked, order: req.GetFormat().String() + "?" + strconv.FormatInt(req.GetAfterPosition(), 10),
	}
	at, err := l.after(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	after, through := req.GetAfterPosition(), int64(0)
	if at != "" {
		if _, err := fmt.Sscanf(at, "%d/%d", &after, &through); err != nil {
			return nil, err // ours, by its seal
		}
	}
	size := exportPage
	if req.GetPageSize() > 0 {
		size = int(min(req.GetPageSize(), exportPage))
	}
	x, err := d.store.AuditExport(ctx, query, after, through, size)
	if err != nil {
		return nil, err
	}
	out := &pb.ExportAuditEventsResponse{Events: count(len(x.Entries)), Unsealed: int64(x.Unsealed)}
	if n := len(x.Entries); n > 0 {
		out.LastPosition = x.Entries[n-1].Position
	}
	if x.More {
		out.NextPageToken = l.token(fmt.Sprintf("%d/%d", out.GetLastPosition(), max(through, x.Head.Position)))
	}
	if req.GetFormat() == pb.AuditFormat_AUDIT_FORMAT_CSV {
		out.Data, err = asCSV(x.Entries, at == "")
		return out, err
	}
	var head *registry.AuditExport
	if at == "" {
		head = &registry.AuditExport{TenantID: d.principal.Tenant, Filter: asked, After: x.After, Last: x.Head.AuditPoint}
	}
	if asked != "" {
		x.Checkpoints = nil // they are of a chain that is not in the file
	}
	out.Data = asJSONL(head, x.Entries, x.Checkpoints)
	return out, nil
}

// asJSONL writes events with the checkpoints behind those that they are of.
func asJSONL(head *registry.AuditExport, entries []db.AuditEntry, checkpoints []registry.AuditCheckpoint) string {
	var out bytes.Buffer
	line := func(raw []byte) {
		out.Write(raw)
		out.WriteByte('\n')
	}
	if head != nil {
		line(head.Line())
	}
	for i := range entries {
		line(entries[i].Line())
		for len(checkpoints) > 0 && checkpoints[0].Count <= entries[i].Position {
			line(checkpoints[0].Line())
			checkpoints = checkpoints[1:]
		}
	}
	for i := range checkpoints {
		line(checkpoints[i].Line()) // of rows that are gone
	}
	return out.String()
}

func asCSV(entries []db.AuditEntry, begin bool) (string, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if begin {
		if err := w.Write(registry.AuditColumns()); err != nil {
			return "", err
		}
	}
	for i := range entries {
		if err := w.Write(entries[i].Cells()); err != nil {
			return "", err
		}
	}
	w.Flush()
	return out.String(), w.Error()
}

// VerifyAudit implements AuditService.
func (a trail) VerifyAudit(ctx context.Context, req *pb.VerifyAuditRequest) (*pb.VerifyAuditResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	var kept []registry.AuditCheckpoint
	for i, line := range req.GetCheckpoints() {
		c, ok := registry.ParseAuditCheckpoint([]byte(strings.TrimSpace(line)))
		if !ok {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "the request is not valid").
				WithField(fmt.Sprintf("checkpoints[%d]", i), "is no checkpoint as exports and ListAuditCheckpoints have them")
		}
		kept = append(kept, c)
	}
	from := registry.AuditPoint{Position: req.GetAfterPosition(), Hash: req.GetAfterHash()}
	report, more, err := d.store.VerifyAudit(ctx, from, kept, verifyRound, a.opts.AuditKeys...)
	if err != nil {
		return nil, err
	}
	out := &pb.VerifyAuditResponse{
		Sound: report.Sound(), MoreFaults: report.More, Events: report.Rows, Checkpoints: report.Checkpoints, SignedThrough: report.Signed,
		Unsealed: report.Unsealed, LastPosition: report.Last.Position, LastHash: text(report.Last.Hash), More: more,
	}
	for _, f := range report.Faults {
		out.Faults = append(out.Faults, faultOut(&f))
	}
	for _, k := range a.opts.AuditKeys {
		out.KeyIds = append(out.KeyIds, k.ID)
	}
	return out, nil
}

// ListAuditCheckpoints implements AuditService.
func (a trail) ListAuditCheckpoints(ctx context.Context, req *pb.ListAuditCheckpointsRequest) (*pb.ListAuditCheckpointsResponse, error) {
	d, err := a.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "audit-checkpoints"}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	found, next, total, err := d.store.AuditCheckpoints(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListAuditCheckpointsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range found {
		out.Checkpoints = append(out.Checkpoints, checkpointOut(&found[i]))
	}
	return out, nil
}

// GetAuditKeys implements AuditService.
func (a trail) GetAuditKeys(ctx context.Context, _ *pb.GetAuditKeysRequest) (*pb.GetAuditKeysResponse, error) {
	if _, err := a.desk(ctx); err != nil {
		return nil, err
	}
	out := &pb.GetAuditKeysResponse{}
	for i, k := range a.opts.AuditKeys {
		out.Keys = append(out.Keys, &pb.AuditKey{KeyId: k.ID, PublicKey: k.Base64(), Pem: k.PEM(), Current: i == 0 && a.opts.SignsAudit})
	}
	return out, nil
}
