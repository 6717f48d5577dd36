package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// message is one JSON-RPC message of a server, read strictly.
type message struct {
	id     string // raw; "" when absent
	method string // of a request or notification
	result jsontext.Value
	fault  *rpcFault
}

// rpcFault is a JSON-RPC error object. Its texts are a stranger's.
type rpcFault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Codes of JSON-RPC and MCP that mean something to the handshake.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

var (
	errNotRPC  = errors.New("it is JSON, but not JSON-RPC")
	errBatch   = errors.New("it is an array, and batches are not allowed")
	errNeither = errors.New("it has neither a result nor an error")
)

// parseMessage reads exactly one message.
func parseMessage(raw []byte) (message, error) {
	m, err := members(raw, "jsonrpc", "id", "method", "params", "result", "error")
	switch {
	case errors.Is(err, errNoObject) && len(bytes.TrimSpace(raw)) > 0 && bytes.TrimSpace(raw)[0] == '[':
		return message{}, errBatch
	case err != nil:
		return message{}, err
	case m["jsonrpc"] == nil:
		return message{}, errNotRPC
	}
	if version, ok := text(m["jsonrpc"]); !ok || version != "2.0" {
		return message{}, errors.New("its jsonrpc is not 2.0")
	}
	out := message{id: string(m["id"]), result: m["result"]}
	if m["method"] != nil {
		out.method, _ = text(m["method"])
		if out.method == "" {
			return message{}, errors.New("its method is no string")
		}
		return out, nil
	}
	// Some servers write the member that does not apply as null.
	failed := m["error"] != nil && m["error"].Kind() != 'n'
	switch {
	case failed && m["result"] != nil && m["result"].Kind() != 'n':
		return message{}, errors.New("it has a result and an error")
	case failed:
		out.fault = &rpcFault{}
		if json.Unmarshal(m["error"], out.fault) != nil {
			return message{}, errors.New("its error is no error object")
		}
	case m["result"] == nil:
		return message{}, errNeither
	}
	return out, nil
}

// answers says whether the message is the answer to the request with this id.
// An error may leave out the id, or say null.
func (m message) answers(id int64) bool {
	switch {
	case m.method != "":
		return false
	case m.fault != nil && (m.id == "" || m.id == "null"):
		return true
	}
	return m.id == strconv.FormatInt(id, 10)
}

// supported gives the versions that an error of an unsupported version names.
func (f *rpcFault) supported() []string {
	if f.Code != codeUnsupportedVersion && f.Code != codeInvalidParams {
		return nil
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(f.Data, &data)
	return data.Supported
}
