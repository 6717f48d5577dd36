package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// readyTimeout is how long the services may take from their start to the first answer.
const readyTimeout = 30 * time.Second

// awaitReady asks for a workflow that does not exist until the answer is that it does not exist: then the frontend
// serves, knows the namespace, and has found a history shard that reads its database.
func awaitReady(ctx context.Context, address netip.AddrPort, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	conn, err := grpc.NewClient(address.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := workflowservice.NewWorkflowServiceClient(conn)
	request := &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: "embedded/ready"},
	}
	for {
		_, err := client.DescribeWorkflowExecution(ctx, request, grpc.WaitForReady(true))
		err = serviceerror.FromStatus(status.Convert(err))
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (last answer: %w)", context.Cause(ctx), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
