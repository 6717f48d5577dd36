package secrets_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"countersign/secrets"
)

func TestAValueShowsNothing(t *testing.T) {
	t.Parallel()
	const text = "SENTINEL"
	value := secrets.Secret(text)
	holder := struct{ Value secrets.Value }{value}
	private := struct{ value secrets.Value }{value}
	var out bytes.Buffer
	for verb := range strings.SplitSeq("v +v #v s q d x X t c U e p T", " ") {
		_, _ = fmt.Fprintf(&out, "%"+verb+" %"+verb+" %"+verb+" %"+verb+"\n", value, &value, holder, private)
	}
	_, _ = fmt.Fprintln(&out, value, []secrets.Value{value}, map[string]secrets.Value{"a": value}, value.String(), value.GoString())
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).InfoContext(t.Context(), "said", slog.Any("value", value), slog.Any("pointer", &value), slog.Any("holder", holder), slog.Any("private", private))
	}
	encoded, err := json.Marshal(map[string]any{"a": value, "b": &value, "c": holder})
	if err != nil || string(encoded) != `{"a":"•••","b":"•••","c":{"Value":"•••"}}` {
		t.Error(string(encoded), err)
	}
	for _, form := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), fmt.Sprint([]byte(text))} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%s is in\n%s", form, out.String())
		}
	}
	if value.Reveal() != text || (secrets.Value{}).Reveal() != "" {
		t.Error(value.Reveal())
	}
	if err := json.Unmarshal([]byte(`"•••"`), &value); err == nil { //nolint:staticcheck // that it cannot is what is tested
		t.Error("it was decoded")
	}
}
