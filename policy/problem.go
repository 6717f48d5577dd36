package policy

import (
	"fmt"
	"strings"

	"countersign/registry"
)

// Problem is one fault of a bundle.
type Problem struct {
	Rule    string `json:"rule,omitempty"` // or test
	Path    string `json:"path,omitempty"` // such as approval[2].when
	Line    int    `json:"line,omitempty"` // in the document, from 1; 0 when unknown
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String gives the problem as compilers write one: line:column: rule: message.
func (p Problem) String() string {
	var s strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&s, "%d:%d: ", p.Line, p.Column)
	}
	if p.Rule != "" {
		s.WriteString("rule " + p.Rule + ": ")
	}
	if p.Path != "" {
		s.WriteString(p.Path + ": ")
	}
	s.WriteString(p.Message)
	return s.String()
}

// maxFields bounds the faults in one error; a bundle that is all wrong need not say so a thousand times.
const maxFields = 50

// Refusal gives problems as the error that callers get, nil when there are none.
func Refusal(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	e := registry.Errorf(registry.ReasonInvalidPolicy, "the policy bundle has %d faults; the first: %s", len(problems), problems[0])
	if len(problems) == 1 {
		e.Message = "the policy bundle has a fault: " + problems[0].String()
	}
	for _, p := range problems[:min(len(problems), maxFields)] {
		path := p.Path
		p.Path = ""
		e.WithField(path, "%s", p)
	}
	return e
}

// mark is where in a document a field stands.
type mark struct {
	position
	lines []position // of a text: where each of its lines begins, nil when the document writes it otherwise than it reads
}

type position struct{ line, column int }

// problem makes a problem of a field, which path names.
func (b *Bundle) problem(section string, index int, field, format string, args ...any) Problem {
	p := Problem{Path: field, Message: fmt.Sprintf(format, args...)}
	if section != "" {
		p.Rule, p.Path = b.ruleAt(section, index), fmt.Sprintf("%s[%d]", section, index)
		if field != "" {
			p.Path += "." + field
		}
	}
	// A field that is missing has no mark; what it is missing from does.
	for path := p.Path; ; {
		if m, ok := b.marks[path]; ok {
			p.Line, p.Column = m.line, m.column
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			m := b.marks[""]
			p.Line, p.Column = m.line, m.column
			return p
		}
		path = path[:cut]
	}
}

// inside moves a problem of an expression to the line (from 1) and column (from 0) of that expression.
func (b *Bundle) inside(p Problem, line, column int) Problem {
	m, known := b.marks[p.Path]
	switch {
	case line < 1:
	case !known:
		p.Line, p.Column = line, column+1
	case line <= len(m.lines):
		p.Line, p.Column = m.lines[line-1].line, m.lines[line-1].column+column
	default:
		p.Message += fmt.Sprintf(" (line %d, column %d of the expression)", line, column+1)
	}
	return p
}
