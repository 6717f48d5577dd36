package registry

import (
	"net/url"
	"strconv"
	"strings"
)

// ref is one reference of a schema.
type ref struct {
	node     *node
	resource int // in which it stands
}

// resource is a part of a schema with a base of its own ($id), in which
// references of the form #/… are resolved.
type resource struct {
	root  *node
	outer int
	id    string // as written
	base  string // absolute, or as absolute as it gets; made when one asks
}

// anchor is a name for a schema within its resource.
type anchor struct {
	resource int
	name     string
}

// maxReference bounds what is resolved, in bytes. References within their
// resource are not bounded by it.
const maxReference = 1024

// enter notes what a schema says about references to it.
func (w *walk) enter(n *node) {
	if id, ok := w.str(n, "$id"); ok {
		switch name, isAnchor := strings.CutPrefix(id, "#"); {
		case isAnchor:
			w.anchor(name) // the form of draft 6 and 7
		case w.resources[0].root == n:
			w.resources[0].id = id
		case id != "":
			w.resources = append(w.resources, resource{root: n, outer: w.resource, id: id})
			w.resource = len(w.resources) - 1
		}
		if len(id) > maxReference {
			w.invalidf("has an $id of more than %d bytes", maxReference)
		}
	}
	for _, key := range [...]string{"$anchor", "$dynamicAnchor"} {
		if name, ok := w.str(n, key); ok {
			w.anchor(name)
		}
	}
}

func (w *walk) anchor(name string) {
	if w.anchors == nil {
		w.anchors = map[anchor]bool{}
	}
	w.anchors[anchor{w.resource, name}] = true
}

// ref notes a reference and whether something stands beside it, which before
// 2019-09 meant nothing.
func (w *walk) ref(n, m *node) {
	if m.kind != '"' {
		w.invalidf("is not a string")
		return
	}
	w.refs = append(w.refs, ref{node: m, resource: w.resource})
	for i := range w.kids(n) {
		beside := &w.kids(n)[i]
		key := keywordOf(w.name(beside))
		if beside.name != m.name && !key.isProse() && key != keyDialect {
			w.dialectal = true
		}
	}
}

// resolve judges the references of the schema that was walked: none may leave
// it, and all must lead to a schema. What a reference leads to is walked too if
// it stands where otherwise no schema does. Nothing is ever fetched.
func (w *walk) resolve() {
	for len(w.refs) > 0 && w.verdict.reason == "" { // it may grow
		r := w.refs[len(w.refs)-1]
		w.refs = w.refs[:len(w.refs)-1]
		where, fragment, _ := strings.Cut(string(w.bytes(r.node)), "#")
		home := r.resource
		if where != "" {
			if home = w.find(where, r.resource); home < 0 {
				w.faultf(ReasonRemoteRef, "refers to %q, which is not in the tool's definition", where)
				return
			}
		}
		if !w.strict {
			continue
		}
		target := w.target(home, fragment)
		switch {
		case target == nil:
			w.invalidf("refers to %q, which is not there", "#"+fragment)
		case !target.seen:
			w.hidden(target, home)
		}
	}
}

// find gives the resource that a reference without its fragment means, -1 when
// it is none of this schema.
func (w *walk) find(where string, from int) int {
	if len(where) > maxReference {
		return -1
	}
	if w.bases == nil {
		w.bases = map[string]int{}
	}
	for ; w.based < len(w.resources); w.based++ {
		w.bases[w.base(w.based)] = w.based
	}
	if i, ok := w.bases[join(w.base(from), where)]; ok {
		return i
	}
	return -1
}

// base is the absolute identifier of a resource.
func (w *walk) base(i int) string {
	r := &w.resources[i]
	if r.base == "" {
		r.base = r.id
		if i > 0 {
			r.base = join(w.base(r.outer), r.id)
		}
		r.base, _, _ = strings.Cut(r.base, "#")
	}
	return r.base
}

func join(base, ref string) string {
	b, err := url.Parse(base)
	if err != nil {
		return ref
	}
	r, err := b.Parse(ref)
	if err != nil {
		return ref
	}
	return r.String()
}

// anchored stands for the target of an anchor: a schema that was walked.
var anchored = &node{kind: '{', seen: true}

// target gives what a fragment means in a resource, nil when that is no schema.
func (w *walk) target(home int, fragment string) *node {
	n := w.resources[home].root
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	if fragment == "" {
		return n
	}
	if !strings.HasPrefix(fragment, "/") {
		if w.anchors[anchor{home, fragment}] {
			return anchored
		}
		return nil
	}
	for s := range strings.SplitSeq(fragment[1:], "/") {
		switch n.kind {
		case '{':
			n = w.get(n, strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~"))
		case '[':
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= len(w.kids(n)) {
				return nil
			}
			n = &w.kids(n)[i]
		default:
			return nil
		}
		if n == nil {
			return nil
		}
	}
	if n.kind != '{' && n.kind != 't' && n.kind != 'f' {
		return nil
	}
	return n
}

// hidden walks a schema that only a reference makes one. Where it stands it is
// contract as it is, so what the walk writes is dropped; its faults and its own
// references count.
func (w *walk) hidden(n *node, home int) {
	contract, text, headers := len(w.contract), w.text, w.headers
	w.text, w.headers, w.resource = branch{}, branch{}, home
	w.text.reset()
	w.headers.reset()
	w.schema(n, w.place.inside())
	w.contract, w.text, w.headers, w.resource = w.contract[:contract], text, headers, 0
}
