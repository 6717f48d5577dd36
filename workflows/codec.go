package workflows

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"countersign/registry"
)

// What an encrypted payload says of itself, in its metadata. Both are on the
// wire: never renamed.
const (
	encryptedEncoding = "binary/encrypted" // what Temporal's tools know for it
	metadataKeyID     = "encryption-key-id"
)

// CodecKey is a key of workflow data. Printed or logged it shows its id only.
type CodecKey struct {
	ID     string // stands beside what the key encrypted, for ever: never use it for another key
	Secret []byte // 32 bytes
}

// String implements [fmt.Stringer].
func (k CodecKey) String() string { return "key " + k.ID }

// Format implements [fmt.Formatter], for verbs that look past String.
func (k CodecKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue implements [slog.LogValuer].
func (k CodecKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText implements [encoding.TextMarshaler], by which also JSON is made.
func (k CodecKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Codec encrypts workflow data (AES-256-GCM), so that Temporal and whoever
// reads its database see none of it: inputs, results, memos, summaries,
// heartbeats, and the texts and details of failures. Ids of workflows, names of
// types, reasons of failures and search attributes stay readable: Temporal
// needs them. What was never encrypted is read as it is.
//
// Nil encrypts nothing, and is what there is without keys.
type Codec struct {
	first string // encrypts
	keys  map[string]cipher.AEAD
}

// NewCodec makes a codec. The first key encrypts, all of them decrypt.
func NewCodec(keys ...CodecKey) (*Codec, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	c := &Codec{first: keys[0].ID, keys: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		if k.ID == "" || c.keys[k.ID] != nil {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "keys of workflow data need ids, each another one")
		}
		if len(k.Secret) != sha256.Size {
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "the key %q of workflow data has %d bytes, not 32", k.ID, len(k.Secret))
		}
		block, err := aes.NewCipher(k.Secret)
		if err != nil {
			return nil, err
		}
		// The nonce is random and before the text: one key is good for 2^32 payloads.
		if c.keys[k.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Encode implements [converter.PayloadCodec].
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encryptedEncoding), metadataKeyID: []byte(c.first)},
			Data:     c.keys[c.first].Seal(nil, nil, plain, []byte(c.first)), //nolint:gosec // this one makes its nonce itself
		}
	}
	return out, nil
}

// Decode implements [converter.PayloadCodec]. The error is workflow_key_unknown,
// with the fact key_id, when a key is missing.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encryptedEncoding {
			out[i] = p
			continue
		}
		id := string(p.GetMetadata()[metadataKeyID])
		var key cipher.AEAD
		if c != nil {
			key = c.keys[id]
		}
		if key == nil {
			return nil, registry.Errorf(registry.ReasonWorkflowKeyUnknown, "workflow data is encrypted with the key %q, which this process does not have", id).
				With("key_id", id).WithNext("add the key to temporal.codec_keys of every process")
		}
		plain, err := key.Open(nil, nil, p.GetData(), []byte(id))
		if err != nil {
			return nil, registry.Errorf(registry.ReasonWorkflowKeyUnknown, "workflow data says it is encrypted with the key %q, which does not open it", id).
				With("key_id", id).WithNext("give every process the same key of this id in temporal.codec_keys")
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Current says whether a payload is as this codec would make it now: encrypted
// with its first key, or without keys not at all.
func (c *Codec) Current(p *commonpb.Payload) bool {
	encrypted := string(p.GetMetadata()[converter.MetadataEncoding]) == encryptedEncoding
	if c == nil {
		return !encrypted
	}
	return encrypted && string(p.GetMetadata()[metadataKeyID]) == c.first
}

// Handler serves /encode and /decode as Temporal's UI and command line tool ask
// them. It knows no callers: whoever mounts it asks who they are.
func (c *Codec) Handler() http.Handler {
	if c == nil {
		return nil
	}
	return converter.NewPayloadCodecHTTPHandler(c)
}

// reader is the codec of a process without keys: it reads what is not
// encrypted, and says what is missing of the rest.
type reader struct{ *Codec }

// Encode implements [converter.PayloadCodec].
func (reader) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) { return payloads, nil }

func (c *Codec) codec() converter.PayloadCodec {
	if c == nil {
		return reader{}
	}
	return c
}

// DataConverter is what clients and workers are given. In workflows, and
// wherever the SDK does not say for whom it converts, it panics with the error
// workflow_key_unknown: an error would end a workflow, refuse an update or drop
// a signal for good, while a panic fails only the workflow task, which is tried
// again until a worker has the key. Callers of a client get the error back by
// [Unreadable].
func (c *Codec) DataConverter() converter.DataConverter {
	return dataConverter{c.converter(blocking{c.codec()}), c.converter(c.codec())}
}

// FailureConverter is what clients and workers are given.
func (c *Codec) FailureConverter() converter.FailureConverter {
	return failures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: c.converter(c.codec()), EncodeCommonAttributes: c != nil,
	})}
}

func (*Codec) converter(codec converter.PayloadCodec) converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec)
}

// dataConverter blocks but for activities and calls, which have a context.
type dataConverter struct {
	converter.DataConverter

	answering converter.DataConverter
}

// WithWorkflowContext implements [workflow.ContextAware].
func (d dataConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return d.DataConverter
}

// WithContext implements [workflow.ContextAware].
func (d dataConverter) WithContext(context.Context) converter.DataConverter { return d.answering }

// blocking panics where a key is missing.
type blocking struct{ converter.PayloadCodec }

// Decode implements [converter.PayloadCodec].
func (b blocking) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out, err := b.PayloadCodec.Decode(payloads)
	if registry.ReasonOf(err) == registry.ReasonWorkflowKeyUnknown {
		panic(err)
	}
	return out, err
}

// Unreadable makes, when it is deferred, an error of the panic with which a
// client says that a key is missing.
func Unreadable(err *error) {
	p := recover()
	if p == nil {
		return
	}
	e, ok := p.(*registry.Error)
	if !ok || e.Reason != registry.ReasonWorkflowKeyUnknown {
		panic(p)
	}
	*err = e
}
