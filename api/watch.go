package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Watching.
const (
	watchBeat   = 10 * time.Second // between two messages at most
	watchMaxAge = 10 * time.Second // of what is told; older than that the stream ends
	maxWatchers = 1000             // of a process
)

// unhurried lets an answer take as long as it takes.
func unhurried(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Time{}) // where there is none, there is nothing to lift
	_ = c.SetReadDeadline(time.Time{})
}

// WatchResolutions implements McpRegistryService. It tells what a bounded
// resolve of each tool would say, whenever that changes.
func (r resolver) WatchResolutions(ctx context.Context, req *pb.WatchResolutionsRequest, stream *connect.ServerStream[pb.WatchResolutionsResponse]) error {
	if err := r.validate(req); err != nil {
		return err
	}
	d, err := r.desk(ctx)
	if err != nil {
		return err
	}
	if err := callerNamed(req); err != nil {
		return err
	}
	known, err := resumed(req)
	if err != nil {
		return err
	}
	if r.watching.Add(1) > maxWatchers {
		r.watching.Add(-1)
		return registry.Errorf(registry.ReasonTooManyRequests, "this process tells %d watchers already", maxWatchers).
			With("limit", "watchers").With("retry_after", "5s").WithNext("watch more tools by one call, or ask another process")
	}
	defer r.watching.Add(-1)
	var sent time.Time
	for {
		changed := r.mirror.Changed() // before looking, so that nothing comes between
		answers, err := r.remembered(ctx, d, req.GetToolIds(), req, watchMaxAge)
		if err != nil {
			return err
		}
		out := &pb.WatchResolutionsResponse{Age: durationpb.New(r.mirror.Age())}
		for i, a := range answers.each {
			if now := fingerprint(a); now != known[i] {
				known[i] = now
				out.Resolutions = append(out.Resolutions, a)
			}
		}
		out.ResumeToken = known.token()
		if len(out.GetResolutions()) > 0 || time.Since(sent) >= watchBeat {
			if err := stream.Send(out); err != nil {
				return err
			}
			sent = time.Now()
		}
		wait := watchBeat - time.Since(sent)
		if !answers.until.IsZero() {
			wait = min(wait, time.Until(answers.until))
		}
		if err := r.untilNews(ctx, changed, wait); err != nil {
			return err
		}
	}
}

// untilNews waits until something may be told.
func (r resolver) untilNews(ctx context.Context, changed <-chan struct{}, wait time.Duration) error {
	alarm := time.NewTimer(max(wait, 0))
	defer alarm.Stop()
	select {
	case <-changed:
	case <-alarm.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.draining.Done():
		return registry.Errorf(registry.ReasonDependency, "this process is ending").WithNext("watch again, with the resume token")
	}
	return nil
}

// fingerprints say which answers somebody has, in the order of the request: the
// token is what to compare with, so that it holds in every process, after a
// restart and after a restore.
type fingerprints []uint64

func (f fingerprints) token() string {
	raw := make([]byte, 0, 8*len(f))
	for _, n := range f {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// resumed gives those of the request's token; zeros when there is none.
func resumed(req *pb.WatchResolutionsRequest) (fingerprints, error) {
	out := make(fingerprints, len(req.GetToolIds()))
	if req.GetResumeToken() == "" {
		return out, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(req.GetResumeToken())
	if err != nil || len(raw) != 8*len(out) {
		return nil, registry.Errorf(registry.ReasonInvalidPageToken, "the resume token is damaged, or of a call for other tools").
			WithField("resume_token", "is not of a call for these tools")
	}
	for i := range out {
		out[i] = binary.BigEndian.Uint64(raw[8*i:])
	}
	return out, nil
}

// fingerprint is of what an executor acts upon: how long ago a probe was made is
// no news.
func fingerprint(a *pb.ResolveToolResponse) uint64 {
	bare := &pb.ResolveToolResponse{
		ToolId: a.GetToolId(), Callable: a.GetCallable(), Reason: a.GetReason(), Detail: a.GetDetail(), Message: a.GetMessage(),
		Routing: a.GetRouting(), RequiresApproval: a.GetRequiresApproval(), GovernancePolicyDigest: a.GetGovernancePolicyDigest(),
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare)
	if err != nil {
		return 0 // it is told again
	}
	h := fnv.New64a()
	_, _ = h.Write(raw) // never fails
	return h.Sum64()
}
