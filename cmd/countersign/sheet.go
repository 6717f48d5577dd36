package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"countersign/registry"
)

// sheet is text for people in the making. Whatever goes in is escaped, so text
// of strangers can neither leave its line nor change what stands around it.
type sheet struct {
	b            bytes.Buffer
	wide, colour bool
	marks        bool // what cannot be seen is shown as ⟨U+200B⟩, not as an escape
}

func (s *sheet) bytes() []byte { return s.b.Bytes() }

// linef writes one line.
func (s *sheet) linef(format string, args ...any) {
	s.b.WriteString(strings.TrimRight(s.escaped(fmt.Sprintf(format, args...)), " "))
	s.b.WriteByte('\n')
}

// escaped makes text fit for a line.
func (s *sheet) escaped(text string) string {
	if s.marks {
		text = registry.Visible(text)
	}
	return printable(text)
}

// gap writes an empty line.
func (s *sheet) gap() { s.b.WriteByte('\n') }

// field writes a label and a value, or nothing when there is no value.
func (s *sheet) field(label, value string) {
	if value != "" {
		fmt.Fprintf(&s.b, "%-18s %s\n", label+":", tint(s.colour, s.escaped(value)))
	}
}

// block writes text of strangers line by line behind a bar, whole.
func (s *sheet) block(indent, text string) {
	s.unseen(indent, text)
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		s.linef("%s| %s", indent, line)
	}
}

// unseen warns of text in which something cannot be seen where it is meant to
// be read. Line ends and tabs are common and shown as escapes without it.
func (s *sheet) unseen(indent, text string) {
	switch {
	case !hides(text):
	case s.marks:
		s.linef("%sWARNING: holds characters that cannot be seen, shown here by their numbers:", indent)
	default:
		s.linef("%sWARNING: holds characters that cannot be seen, shown here as escapes:", indent)
	}
}

// view says how objects of one kind look in a table.
type view[M any] struct {
	plural  string
	name    func(M) string
	columns []column[M]
}

// column is one column of a table.
type column[M any] struct {
	title string
	wide  bool // shown by -o wide only
	text  func(M) string
}

const columnGap = "   "

// widest is how many characters a cell has at most: one long name must not push
// all other columns away. The other forms have the whole text.
func (s *sheet) widest() int {
	if s.wide {
		return 120
	}
	return 60
}

// writeTable writes rows in columns without borders. An empty cell is "-", so
// that every row has the same number of words in simple columns.
func writeTable[M any](s *sheet, columns []column[M], rows []M) {
	var shown []column[M]
	for _, c := range columns {
		if !c.wide || s.wide {
			shown = append(shown, c)
		}
	}
	cells := make([][]string, len(rows)+1)
	for _, c := range shown {
		cells[0] = append(cells[0], c.title)
	}
	for i, row := range rows {
		for n, c := range shown {
			text := printable(c.text(row))
			if n < len(shown)-1 { // behind the last nothing is pushed away
				text = cut(text, s.widest())
			}
			if text == "" {
				text = "-"
			}
			cells[i+1] = append(cells[i+1], text)
		}
	}
	widths := make([]int, len(shown))
	for _, row := range cells {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for r, row := range cells {
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)) + columnGap
			if i == len(row)-1 {
				pad = ""
			}
			s.b.WriteString(tint(s.colour && r > 0, text) + pad)
		}
		s.b.WriteByte('\n')
	}
}

// tints are the colours of words that people look for.
var tints = map[string]string{
	"active": "\x1b[32m", "healthy": "\x1b[32m", "approved": "\x1b[32m", "yes": "\x1b[32m", "ok": "\x1b[32m",
	"degraded": "\x1b[33m", "unknown": "\x1b[33m", "pending": "\x1b[33m", "registered": "\x1b[33m",
	"unhealthy": "\x1b[31m", "failed": "\x1b[31m", "rejected": "\x1b[31m",
	"retired": "\x1b[90m",
}

// tint colours a text by its first word.
func tint(colour bool, text string) string {
	word, _, _ := strings.Cut(text, ",")
	word, _, _ = strings.Cut(word, ":")
	if code := tints[word]; colour && code != "" {
		return code + text + "\x1b[0m"
	}
	return text
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// when gives a time in UTC, or nothing.
func when(t *timestamppb.Timestamp) string {
	if t == nil || t.GetSeconds() == 0 && t.GetNanos() == 0 {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

// cut shortens a text for a cell.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// some joins those that are not empty.
func some(separator string, texts ...string) string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, separator)
}
