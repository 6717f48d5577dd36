package secrets

import (
	"context"
	"errors"
	"maps"
	"slices"

	"countersign/registry"
)

// Source gives the text of a name of one scheme. An error that is a
// [registry.Error] which a retry can help, such as dependency_error of a store
// that is away, reaches the caller; all others are one to people outside: the
// reference could not be resolved. They must not hold the value.
type Source func(ctx context.Context, name string) (string, error)

// Resolver resolves references. It keeps nothing, and can be shared.
type Resolver struct {
	// Sources are the places to look, by scheme. Names reach them only after
	// [registry.ParseSecretRef] found them well-formed.
	Sources map[string]Source
}

// maxValue bounds a value, in bytes.
const maxValue = 64 << 10

var (
	errNoSource = errors.New("this installation has no such source")
	errEmpty    = errors.New("it is empty")
	errTooLarge = errors.New("it is larger than 64 KiB")
)

// Resolve gives the value of a reference: at least one byte, at most 64 KiB.
//
// The error is secret_reference_invalid when it is no reference, and
// secret_reference_unresolved, with the fact "reference", whenever there is no
// usable value: whoever reads it learns nothing about what exists. Its cause, for
// the log, is what it was. Unresolved is nothing that a retry helps: somebody must
// put the secret where it is looked for. Only what the source says is passing, and
// the end of ctx (deadline_exceeded), can be retried.
func (r Resolver) Resolve(ctx context.Context, ref string) (Value, error) {
	reference, err := registry.ParseSecretRef(ref)
	if err != nil {
		return Value{}, err
	}
	source := r.Sources[reference.Scheme]
	if source == nil {
		return Value{}, unresolved(reference, errNoSource)
	}
	text, err := source(ctx, reference.Name)
	known, ok := registry.AsError(err)
	switch {
	case ctx.Err() != nil:
		return Value{}, registry.Errorf(registry.ReasonDeadline, "the call was stopped before the secret %s was read: %w", reference, ctx.Err())
	case ok && known.Code.Retryable():
		return Value{}, known
	case err != nil:
		return Value{}, unresolved(reference, err)
	case text == "":
		return Value{}, unresolved(reference, errEmpty)
	case len(text) > maxValue:
		return Value{}, unresolved(reference, errTooLarge)
	}
	return Secret(text), nil
}

func unresolved(reference registry.SecretRef, cause error) error {
	e := registry.Errorf(registry.ReasonSecretRefUnresolved, "the secret %s could not be resolved", reference).
		With("reference", reference.String()).
		WithNext("have the operator provide it where the worker runs; the worker's log says what is wrong")
	e.Err = cause // not by %w, which would tell it
	return e
}

// Environment resolves the whole environment of a process, given as variable →
// reference or plain:TEXT ([CheckVariable]): NAME=value in the order of names, and
// the mask of all the secrets among the values. Errors are those of
// [Resolver.Resolve] and [CheckVariable], and name the variable in the message and
// as the fact "variable".
func (r Resolver) Environment(ctx context.Context, variables map[string]string) ([]string, *Mask, error) {
	env := make([]string, 0, len(variables))
	values := make([]Value, 0, len(variables))
	for _, variable := range slices.Sorted(maps.Keys(variables)) {
		text, ok, err := constant(variables[variable])
		if err == nil && ok {
			env = append(env, variable+"="+text)
			continue
		}
		var value Value
		if err == nil {
			value, err = r.Resolve(ctx, variables[variable])
		}
		if err != nil {
			return nil, nil, forVariable(variable, err)
		}
		env = append(env, variable+"="+value.Reveal())
		values = append(values, value)
	}
	return env, NewMask(values...), nil
}

// forVariable names the variable that a failed reference is for.
func forVariable(variable string, err error) error {
	e, ok := registry.AsError(err)
	if !ok {
		return err
	}
	named := *e
	named.Message = "variable " + variable + ": " + e.Message
	named.Facts = append(slices.Clone(e.Facts), registry.Detail{Key: "variable", Value: variable})
	return &named
}
