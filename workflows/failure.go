package workflows

import (
	"context"
	"errors"

	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"countersign/registry"
)

// failures carries registry errors through Temporal: the reason travels as the
// failure's type, the whole error as its details, and a code that retrying
// cannot help stops the retries. It encodes only; fromFailure is the one place
// that reads them back.
type failures struct{ converter.FailureConverter }

// FailureConverter is the one without encryption ([Codec.FailureConverter]).
func FailureConverter() converter.FailureConverter { return (*Codec)(nil).FailureConverter() }

// ErrorToFailure encodes. Errors of strangers keep their type but lose their
// text at the border of the api, not here: histories are for operators.
func (f failures) ErrorToFailure(err error) *failurepb.Failure {
	if e, ok := err.(*registry.Error); ok { //nolint:errorlint // the outermost only: causes are encoded by the default converter
		err = temporal.NewApplicationErrorWithOptions(e.Message, string(e.Reason), temporal.ApplicationErrorOptions{
			NonRetryable: !e.Code.Retryable(), Details: []any{e},
		})
	}
	return f.FailureConverter.ErrorToFailure(err)
}

// fromFailure gives the registry error inside an error of Temporal, or what
// the caller of a workflow should read instead.
func fromFailure(err error) error {
	if err == nil {
		return nil
	}
	if temporal.IsCanceledError(err) {
		return err
	}
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		e := &registry.Error{}
		if application.HasDetails() {
			if unread := application.Details(e); registry.ReasonOf(unread) == registry.ReasonWorkflowKeyUnknown {
				return unread
			} else if unread == nil && e.Reason != "" {
				e.Err = err
				return e
			}
		}
	}
	return err
}

// fromService classifies what a client call came back with.
func fromService(err error) error {
	err = fromFailure(err)
	if err == nil {
		return nil
	}
	if _, ok := registry.AsError(err); ok {
		return err
	}
	if _, ok := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err); ok {
		return late(err)
	}
	if _, ok := errors.AsType[*serviceerror.ResourceExhausted](err); ok {
		return busy(err)
	}
	if _, ok := errors.AsType[*serviceerror.DeadlineExceeded](err); ok {
		return late(err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return late(err)
	}
	if _, ok := errors.AsType[*serviceerror.Unavailable](err); ok {
		return away(err)
	}
	if _, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok {
		return away(err)
	}
	return err
}

func busy(err error) *registry.Error {
	return &registry.Error{
		Code: registry.CodeUnavailable, Reason: registry.ReasonBusy, Err: err,
		Message: "too many changes of this server are under way", Next: "try again in a second",
	}
}

func late(err error) *registry.Error {
	return &registry.Error{
		Code: registry.CodeDeadline, Reason: registry.ReasonDeadline, Err: err,
		Message: "the change was not confirmed in time; it may still happen",
		Next:    "repeat the call with the same idempotency key, or read the server",
	}
}

func away(err error) *registry.Error {
	return &registry.Error{
		Code: registry.CodeUnavailable, Reason: registry.ReasonDependency, Err: err,
		Message: "the workflow engine cannot be reached", Next: "try again in a few seconds; reads and resolve still work",
	}
}

// ErrorOf gives the registry error that an update's or workflow's error
// carries, for callers that use a Temporal client themselves.
func ErrorOf(err error) error { return fromFailure(err) }
