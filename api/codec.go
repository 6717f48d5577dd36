package api

import (
	"fmt"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"countersign/registry"
)

// The two halves of JSON on every face. Unknown fields are refused: a typing
// mistake must not become a weaker request. Default values are written, so that
// a "callable": false can be seen.
var (
	jsonOut = protojson.MarshalOptions{EmitDefaultValues: true}
	jsonIn  = protojson.UnmarshalOptions{DiscardUnknown: false}
)

// strictJSON is the JSON codec of Connect and of gRPC with JSON.
type strictJSON struct{ name string }

var _ connect.Codec = strictJSON{}

// Name implements connect.Codec.
func (c strictJSON) Name() string { return c.name }

// Marshal implements connect.Codec.
func (strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, registry.Errorf(registry.ReasonInternal, "%T is no message", message)
	}
	return jsonOut.Marshal(m)
}

// MarshalAppend is Marshal with less copying.
func (strictJSON) MarshalAppend(dst []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, registry.Errorf(registry.ReasonInternal, "%T is no message", message)
	}
	return jsonOut.MarshalAppend(dst, m)
}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return registry.Errorf(registry.ReasonInternal, "%T is no message", message)
	}
	if len(data) == 0 {
		return errNoBody
	}
	return naming(jsonIn.Unmarshal(data, m), m)
}

// naming adds to what is wrong with a document of which message it is: the
// error is written where nobody knows any more.
func naming(err error, m proto.Message) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (in %s)", err, m.ProtoReflect().Descriptor().Name())
}

// strict are the options that bring the codec to a handler under both names
// that Connect has for JSON.
func strict() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}),
	)
}

// restJSON is the same for Vanguard.
func restJSON(types vanguard.TypeResolver) vanguard.Codec {
	codec := restCodec{vanguard.JSONCodec{MarshalOptions: jsonOut, UnmarshalOptions: jsonIn}}
	codec.MarshalOptions.Resolver, codec.UnmarshalOptions.Resolver = types, types
	return codec
}

// restCodec is Vanguard's codec, which says in which message a fault is.
type restCodec struct{ vanguard.JSONCodec }

var (
	_ vanguard.RESTCodec   = restCodec{}
	_ vanguard.StableCodec = restCodec{}
)

// Unmarshal implements vanguard.Codec.
func (c restCodec) Unmarshal(data []byte, m proto.Message) error {
	return naming(c.JSONCodec.Unmarshal(data, m), m)
}
