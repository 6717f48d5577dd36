package api

import (
	"context"

	pb "countersign/proto/countersign/registry/v1"
)

// GetCapabilityReport implements McpServerService: the capability table as it
// is for one server (R87, R88).
func (s servers) GetCapabilityReport(ctx context.Context, req *pb.GetCapabilityReportRequest) (*pb.GetCapabilityReportResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	view, tools, err := d.store.CapabilityReport(ctx, req.GetServerId())
	if err != nil {
		return nil, notFound(err, "server", req.GetServerId())
	}
	return &pb.GetCapabilityReportResponse{Report: reportOut(&view, tools)}, nil
}
