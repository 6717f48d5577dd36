package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/workflows"
)

// SearchAttributes are what the workflows set, with their types.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		workflows.AttributeTenant.GetName(): enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.AttributeServer.GetName(): enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.AttributeState.GetName():  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
}

// EnsureSearchAttributes registers what is missing in the namespace. `migrate
// temporal` does it; it needs the operator service of the cluster.
func EnsureSearchAttributes(ctx context.Context, c client.Client, namespace string) (added []string, err error) {
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	missing := SearchAttributes()
	maps.DeleteFunc(missing, func(name string, _ enumspb.IndexedValueType) bool {
		_, known := there.GetCustomAttributes()[name]
		return known
	})
	if len(missing) == 0 {
		return nil, nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if _, exists := errors.AsType[*serviceerror.AlreadyExists](err); err != nil && !exists {
		return nil, err
	}
	return slices.Sorted(maps.Keys(missing)), awaitSearchAttributes(ctx, c, namespace)
}

// awaitSearchAttributes waits until the frontends know the attributes: they
// learn of them by a cache that they refresh, and refuse workflows until then.
func awaitSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	var terms []string
	for _, name := range slices.Sorted(maps.Keys(SearchAttributes())) {
		terms = append(terms, name+" = 'x'")
	}
	for {
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: namespace, Query: strings.Join(terms, " AND "),
		})
		if _, unknown := errors.AsType[*serviceerror.InvalidArgument](err); !unknown {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Retention is how long Temporal keeps the histories of closed workflows in a
// namespace that we make.
const Retention = 7 * 24 * time.Hour

// EnsureNamespace makes the namespace when it is not there, and waits until it
// can be used.
func EnsureNamespace(ctx context.Context, c client.Client, namespace string) (made bool, err error) {
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err == nil {
		return false, nil
	}
	if _, absent := errors.AsType[*serviceerror.NamespaceNotFound](err); !absent {
		return false, err
	}
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(Retention),
		Description: "workflows of Countersign",
	})
	if _, exists := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); err != nil && !exists {
		return false, err
	}
	// The frontends learn of a new namespace by a cache that they refresh.
	for {
		_, err = c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		if _, absent := errors.AsType[*serviceerror.NamespaceNotFound](err); !absent {
			return true, err
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
