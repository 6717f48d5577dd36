package registry

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
)

// walks are what decodes and digests items, with the memory they have grown.
var walks = sync.Pool{New: func() any { return &walk{} }}

// maxKept bounds the memory in bytes that one of them takes back to the pool.
const maxKept = 4 << 20

func borrowWalk() *walk { return walks.Get().(*walk) } //nolint:errcheck // nothing else is put there

func (w *walk) giveBack() {
	w.behaviours.forget()
	w.metas.forget()
	if cap(w.buf)+cap(w.contract)+cap(w.text.buf)+32*(cap(w.nodes)+cap(w.open)) < maxKept {
		walks.Put(w)
	}
}

// NewItem judges the raw bytes of one element of a list and makes its digests.
// The envelope's rules have been applied before: the element is an object with
// a usable name. A fault inside it becomes the item's verdict. An item that can
// be decoded has its digests whatever the verdict; of another one the digest of
// its bytes is the contract.
func NewItem(kind ItemKind, name string, raw []byte, limits Limits) Item {
	w := borrowWalk()
	defer w.giveBack()
	item := Item{Kind: kind, Name: name, Raw: raw}
	if w.read(&item, limits) {
		w.digest(&item)
	}
	return item
}

// read decodes an item and says whether that was possible: if it was not, the
// item has the digests that such a one has.
func (w *walk) read(item *Item, limits Limits) bool {
	if w.tryRead(item, limits) {
		return true
	}
	item.Address = digestBytes(item.Raw)
	item.Digests.Contract = item.Address
	return false
}

func (w *walk) tryRead(item *Item, limits Limits) bool {
	if limits.ItemBytes > 0 && len(item.Raw) > limits.ItemBytes {
		item.Verdict, item.Detail = ReasonTooLarge, fmt.Sprintf("%d bytes, the limit is %d", len(item.Raw), limits.ItemBytes)
		return false
	}
	if err := w.decode(item.Raw, limits.Depth); err != nil {
		f := err.(*fault) //nolint:errorlint,errcheck // decode returns nothing else
		item.Verdict, item.Detail = f.reason, f.detail
		return false
	}
	if w.top().kind != '{' {
		item.Verdict, item.Detail = ReasonMalformedField, "not an object"
		return false
	}
	return true
}

// digest judges the item that was read and makes its digests. It gives the
// digest of its unknown fields, "" when there are none.
func (w *walk) digest(item *Item) string {
	w.verdict, w.path, w.contract = fault{}, w.path[:0], w.contract[:0]
	w.text.reset()
	w.headers.reset()
	top := w.top()
	item.Title, _ = w.str(top, "title")
	item.Text, _ = w.str(top, "description")
	w.judgeName(item)
	w.judgeFields(item.Kind, top)
	if item.Kind == KindTool {
		w.tool(item.Name, top)
	} else {
		w.other(item, top)
	}
	if w.verdict.reason != "" {
		item.Verdict, item.Detail = w.verdict.reason, w.verdict.detail
	}
	text := w.text.end()
	meta := w.appendMeta(w.spare[:0], item.Kind, top)
	w.spare = meta
	item.Digests = Digests{Behaviour: w.behaviours.digest(w.behaviour), Meta: w.metas.digest(meta)}
	if len(w.behaviour) == 0 {
		item.Digests.Behaviour = "" // of what has none
	}
	item.Digests.Contract, item.Digests.Text = digestsOf(w.contract, text)
	return w.unknownDigest(item.Kind, top)
}

// recent are the digests of bytes that many items of a list have in common, each
// made once while it is among the last ones. Long ones are rare, and not kept.
type recent struct {
	seen [8]struct {
		bytes []byte
		text  string
	}
	next int
}

const maxRecent = 4 << 10

func (r *recent) forget() {
	for i := range r.seen {
		r.seen[i].text = ""
	}
}

func (r *recent) digest(b []byte) string {
	switch {
	case string(b) == "{}":
		return nothing
	case len(b) > maxRecent:
		return digestBytes(b)
	}
	for i := range r.seen {
		if s := &r.seen[i]; s.text != "" && bytes.Equal(s.bytes, b) {
			return s.text
		}
	}
	s := &r.seen[r.next]
	r.next = (r.next + 1) % len(r.seen)
	s.bytes, s.text = append(s.bytes[:0], b...), digestBytes(b)
	return s.text
}

// Steps of paths.
var (
	annotationsName = []byte("annotations")
	argumentsName   = []byte("arguments")
	inputName       = []byte("inputSchema")
	outputName      = []byte("outputSchema")
	titleName       = []byte("title")
)

// tool writes contract, text and behaviour of a tool.
func (w *walk) tool(name string, top *node) {
	annotations := w.object(top, "annotations")
	if title := w.get(annotations, "title"); title != nil && title.kind == '"' {
		w.path = append(w.path, step{name: annotationsName}, step{name: titleName})
		w.say(title)
		w.path = w.path[:0]
		w.text.left(0)
	}
	w.sayField(top, "description")
	w.contract = append(w.contract, '{')
	if input := w.get(top, "inputSchema"); input == nil {
		w.invalidf("inputSchema is missing")
	} else {
		w.contract = append(w.contract, `"input":`...)
		w.root(inputName, input, arguments)
		w.contract = w.appendContext(w.contract, "input")
	}
	w.contract = appendString(append(comma(w.contract), `"name":`...), name)
	if output := w.given(top, "outputSchema"); output != nil {
		w.contract = append(w.contract, `,"output":`...)
		w.root(outputName, output, results)
		w.contract = w.appendContext(w.contract, "output")
	}
	w.contract = append(w.contract, '}')
	w.sayField(top, "title")
	w.behaviour = w.appendBehaviour(w.behaviour[:0], top, annotations)
}

// sayField collects a text field of the item itself.
func (w *walk) sayField(n *node, name string) {
	if m := w.get(n, name); m != nil && m.kind == '"' {
		w.path = append(w.path, step{name: w.name(m)})
		w.say(m)
		w.leave()
	}
}

var hintDefaults = []struct{ name, member, value string }{
	{"destructiveHint", `"destructiveHint":`, "true"},
	{"idempotentHint", `,"idempotentHint":`, "false"},
	{"openWorldHint", `,"openWorldHint":`, "true"},
	{"readOnlyHint", `,"readOnlyHint":`, "false"},
}

// appendBehaviour writes what the tool claims to do, with the protocol's
// defaults filled in, so that absent equals its default; which of its parameters
// become headers; and which page it is tied to.
func (w *walk) appendBehaviour(dst []byte, top, annotations *node) []byte {
	dst = append(dst, '{')
	for _, hint := range hintDefaults {
		dst = append(dst, hint.member...)
		if m := w.given(annotations, hint.name); m != nil {
			dst = w.appendNode(dst, m)
		} else {
			dst = append(dst, hint.value...)
		}
	}
	dst = append(dst, `,"execution":{`...)
	execution := w.object(top, "execution")
	if w.given(execution, "taskSupport") == nil {
		dst = append(dst, `"taskSupport":"forbidden"`...)
	}
	for i := range w.kids(execution) {
		if m := &w.kids(execution)[i]; m.kind != 'n' {
			dst = w.appendMember(dst, m)
		}
	}
	dst = append(dst, '}')
	if headers := w.headers.end(); len(headers) > len("{}") {
		dst = append(append(dst, `,"headers":`...), headers...)
	}
	if w.object(top, "_meta") != nil {
		mark := len(dst)
		dst = w.appendPage(append(dst, `,"page":`...), KindTool, top)
		if bytes.HasSuffix(dst, []byte(`:{}`)) {
			dst = dst[:mark]
		}
	}
	return append(dst, '}')
}

func (w *walk) appendMember(dst []byte, m *node) []byte {
	return w.appendNode(w.appendName(comma(dst), m), m)
}

// other writes contract and text of a resource, a template or a prompt, and the
// rights of a page that a resource is.
func (w *walk) other(item *Item, top *node) {
	w.sayField(top, "description")
	w.sayField(top, "title")
	w.contract = append(w.contract, '{')
	for _, field := range [...]string{"mimeType", "name", "uri", "uriTemplate"} {
		if m := w.given(top, field); m != nil {
			w.contract = w.appendMember(w.contract, m)
		}
	}
	if item.Kind == KindPrompt {
		w.arguments(w.given(top, "arguments"))
	}
	w.contract = append(w.contract, '}')
	w.behaviour = w.appendPage(w.behaviour[:0], item.Kind, top)
	if len(w.behaviour) == len("{}") {
		w.behaviour = w.behaviour[:0]
	}
}

// arguments writes the arguments of a prompt: their names and whether they are
// required are contract, what is said about them is text. Their order means
// nothing.
func (w *walk) arguments(list *node) {
	if list == nil || list.kind != '[' {
		return
	}
	args := slices.Clone(w.kids(list))
	name := func(n *node) []byte {
		if m := w.given(n, "name"); m != nil {
			return w.bytes(m)
		}
		return nil
	}
	slices.SortStableFunc(args, func(a, b node) int { return bytes.Compare(name(&a), name(&b)) })
	w.contract = append(comma(w.contract), `"arguments":{`...)
	w.path = append(w.path, step{name: argumentsName})
	for i := range args {
		if i > 0 && bytes.Equal(name(&args[i]), name(&args[i-1])) {
			w.faultf(ReasonMalformedField, "two arguments are named %q", name(&args[i]))
		}
		w.contract = append(appendString(comma(w.contract), name(&args[i])), ':')
		required := w.given(&args[i], "required")
		w.contract = append(w.contract, map[bool]string{true: "true", false: "false"}[required != nil && required.kind == 't']...)
		w.path = append(w.path, step{name: name(&args[i])})
		w.sayField(&args[i], "description")
		w.sayField(&args[i], "title")
		w.leave()
	}
	w.leave()
	w.contract = append(w.contract, '}')
}
