package worker

import (
	"context"
	"errors"
	"maps"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

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
	if _, exists := errors.AsType[*serviceerror.AlreadyExists](err); exists {
		err = nil
	}
	return slices.Sorted(maps.Keys(missing)), err
}
