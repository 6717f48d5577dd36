package registry

import (
	"strconv"
	"strings"
)

// step is one step from a tool to something inside it: a name, or an index when
// the name is nil.
type step struct {
	name  []byte
	index int
}

// trail is where a walk is.
type trail []step

// String is the trail as a JSON Pointer (RFC 6901).
func (p trail) String() string {
	var b []byte
	for _, s := range p {
		b = append(b, '/')
		if s.name == nil {
			b = strconv.AppendInt(b, int64(s.index), 10)
		} else {
			b = append(b, pointer(string(s.name))...)
		}
	}
	return string(b)
}

// pointer escapes one step of a JSON Pointer.
func pointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// branch collects what a walk finds here and there as one tree that has those
// branches only on which something was found. It says the same as the sorted
// pairs of JSON Pointer and value would, in space that grows with what was found
// and not with the length of its pointers.
type branch struct {
	buf  []byte
	deep int // how many steps of the walk's path are written
}

func (b *branch) reset() { b.buf, b.deep = append(b.buf[:0], '{'), 0 }

// at begins a member at the end of a path; its value is to be appended to buf.
func (b *branch) at(p trail) {
	for ; b.deep < len(p); b.deep++ {
		if b.buf[len(b.buf)-1] != '{' {
			b.buf = append(b.buf, ',')
		}
		if s := p[b.deep]; s.name == nil {
			b.buf = append(strconv.AppendInt(append(b.buf, '"'), int64(s.index), 10), '"')
		} else {
			b.buf = appendString(b.buf, s.name)
		}
		b.buf = append(b.buf, ':', '{')
	}
	b.buf = b.buf[:len(b.buf)-1] // the last step is the member itself
	b.deep--
}

// left closes what is open below a path of n steps.
func (b *branch) left(n int) {
	for ; b.deep > n; b.deep-- {
		b.buf = append(b.buf, '}')
	}
}

// end closes the tree; it is {} when nothing was found.
func (b *branch) end() []byte {
	b.left(0)
	return append(b.buf, '}')
}
