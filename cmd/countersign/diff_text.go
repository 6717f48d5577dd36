package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/registry"
)

// mostShown is how many changes of one tool the text lists; -o json has more.
const mostShown = 25

// width is how many characters of a value are shown; 0 shows all.
type width int

const (
	brief width = 160
	whole width = 0
)

// writeDiff writes a difference as Markdown that reads well without being
// rendered. Text of strangers stands in code spans, where it cannot link, mention
// or format.
func writeDiff(s *sheet, names [2]string, d registry.Diff) {
	verdict := string(d.Severity)
	if d.Severity == registry.SeverityNone {
		verdict = "no difference"
	}
	s.linef("## %s → %s: %s", codeSpan(names[0]), codeSpan(names[1]), verdict)
	lists := []struct {
		plural string
		list   registry.ListDiff
	}{{"Tools", d.Tools}, {"Resources", d.Resources}, {"Resource templates", d.Templates}, {"Prompts", d.Prompts}}
	s.gap()
	for i, l := range lists {
		if i == 0 || l.list.Counts != (registry.DiffCounts{}) {
			s.linef("- %s: %s", l.plural, countLine(l.list.Counts))
		}
	}
	if len(d.Server) > 0 {
		s.gap()
		s.linef("### Server")
		s.gap()
		for _, line := range brief.changeLines(d.Server) {
			s.linef("- %s", line)
		}
	}
	for _, l := range lists {
		writeList(s, l.plural, l.list)
	}
}

// countLine says how many items became what.
func countLine(n registry.DiffCounts) string {
	line := fmt.Sprintf("%d added, %d removed", n.Added, n.Removed)
	if n.Renamed > 0 {
		line += fmt.Sprintf(" (%d of each probably renamed)", n.Renamed)
	}
	line += fmt.Sprintf(", %d changed", n.Changed)
	var moved []string
	for _, m := range []struct {
		n    int
		what string
	}{{n.Contract, "contract"}, {n.Text, "text"}, {n.Behaviour, "behaviour"}, {n.Cosmetic, "cosmetic"}} {
		if m.n > 0 {
			moved = append(moved, fmt.Sprintf("%s %d", m.what, m.n))
		}
	}
	if len(moved) > 0 {
		line += " (" + strings.Join(moved, ", ") + ")"
	}
	return line + fmt.Sprintf(", %d unchanged", n.Unchanged)
}

// mostNames is how many names the text lists of items that became the same.
const mostNames = 12

func nameList(names []string) string {
	var spans []string
	for _, name := range names[:min(len(names), mostNames)] {
		spans = append(spans, codeSpan(name))
	}
	text := strings.Join(spans, ", ")
	if over := len(names) - mostNames; over > 0 {
		text += fmt.Sprintf(" and %d more", over)
	}
	return text
}

// entry is one item of the text: one that became something, or several that
// changed in the same way.
type entry struct {
	names []string
	head  string // what became of it, behind the names
	lines []string
}

func writeList(s *sheet, plural string, list registry.ListDiff) {
	var entries []*entry
	same := map[string]*entry{}
	for _, item := range list.Items {
		if item.Status == registry.DiffUnchanged {
			continue
		}
		e := newEntry(item, list.Renamed)
		key := e.head + "\n" + strings.Join(e.lines, "\n")
		if other := same[key]; other != nil {
			other.names = append(other.names, item.Name)
			continue
		}
		same[key] = e
		entries = append(entries, e)
	}
	recorded := recordedLine(list)
	if len(entries) == 0 && recorded == "" {
		return
	}
	s.gap()
	s.linef("### %s", plural)
	s.gap()
	for _, e := range entries {
		s.linef("- %s: %s", nameList(e.names), e.head)
		for _, line := range e.lines {
			s.linef("  - %s", line)
		}
	}
	if recorded != "" {
		s.linef("- %s", recorded)
	}
}

func newEntry(item registry.ItemDiff, renamed []registry.Rename) *entry {
	e := &entry{names: []string{item.Name}}
	was := func(r registry.Rename) bool { return r.From == item.Name }
	is := func(r registry.Rename) bool { return r.To == item.Name }
	switch item.Status {
	case registry.DiffRemoved:
		e.head = "**" + string(item.Severity) + "**, removed"
		if i := slices.IndexFunc(renamed, was); i >= 0 {
			e.head += "; probably " + codeSpan(renamed[i].To) + " now" + likeness(renamed[i])
		}
	case registry.DiffAdded:
		e.head = string(item.Severity) + ", added"
		if i := slices.IndexFunc(renamed, is); i >= 0 {
			e.head += "; probably was " + codeSpan(renamed[i].From) + likeness(renamed[i])
		}
	default:
		e.head = emphasis(item.Severity)
		var parts []string
		for _, m := range []struct {
			moved bool
			what  string
		}{{item.Contract, "contract"}, {item.Text, "text"}, {item.Behaviour, "behaviour"}} {
			if m.moved {
				parts = append(parts, m.what)
			}
		}
		if len(parts) > 0 && (len(parts) > 1 || parts[0] != string(item.Severity)) {
			e.head += " (" + strings.Join(parts, ", ") + ")"
		}
	}
	e.lines = brief.changeLines(item.Changes)
	if over := len(e.lines) - mostShown; over > 0 {
		e.lines = append(e.lines[:mostShown], fmt.Sprintf("… and %d more; -o json lists them", over))
	}
	return e
}

func likeness(r registry.Rename) string {
	text := fmt.Sprintf(" (%.0f %% alike", 100*r.Score)
	if r.Same {
		text += ", same contract"
	}
	return text + ")"
}

// emphasis makes the severities bold that somebody must look at.
func emphasis(severity registry.Severity) string {
	if severity.AtLeast(registry.SeverityBreaking) {
		return "**" + string(severity) + "**"
	}
	return string(severity)
}

// changeLines says the changes of one item. What is the same in many places is
// said once, and texts of what is new or gone as a whole are not said again.
func (w width) changeLines(changes []registry.Change) []string {
	type group struct {
		change registry.Change
		places int
	}
	var groups []*group
	alike := map[string]*group{}
	for _, change := range changes {
		if change.Kind == registry.ChangeRecorded || partOfAnother(change, changes) {
			continue
		}
		key := fmt.Sprintf("%s %s %s %s", change.Severity, change.Kind, change.Before, change.After)
		if change.Kind == registry.ChangeTextMoved {
			key = string(change.Kind)
		}
		if g := alike[key]; g != nil {
			g.places++
			continue
		}
		alike[key] = &group{change, 1}
		groups = append(groups, alike[key])
	}
	lines := make([]string, len(groups))
	for i, g := range groups {
		lines[i] = w.changeLine(g.change)
		switch {
		case g.places == 2:
			lines[i] += ", and the same once more"
		case g.places > 2:
			lines[i] += fmt.Sprintf(", and the same in %d more places", g.places-1)
		}
	}
	return lines
}

// partOfAnother says whether a change is a text that came or went with the part
// of the schema that it describes.
func partOfAnother(change registry.Change, changes []registry.Change) bool {
	if change.Kind != registry.ChangeTextAdded && change.Kind != registry.ChangeTextRemoved {
		return false
	}
	return slices.ContainsFunc(changes, func(c registry.Change) bool {
		return (c.Before == nil) != (c.After == nil) && !isText(c.Kind) && strings.HasPrefix(change.Path, c.Path+"/")
	})
}

func isText(kind registry.ChangeKind) bool {
	return kind == registry.ChangeTextAdded || kind == registry.ChangeTextRemoved || kind == registry.ChangeText
}

// changeLine says one change: how bad, what, where, from what to what.
func (w width) changeLine(change registry.Change) string {
	what := change.Kind.Means()
	if change.Path != "" && change.Kind != registry.ChangeTextMoved {
		what += ", " + codeSpan(change.Path)
	}
	if i := strings.LastIndexByte(change.Path, '/'); isText(change.Kind) && i >= 0 {
		verb := map[registry.ChangeKind]string{
			registry.ChangeTextAdded: "is new", registry.ChangeTextRemoved: "is gone", registry.ChangeText: "reads otherwise",
		}[change.Kind]
		what = codeSpan(change.Path[i+1:]) + " " + verb
		if i > 0 {
			what = codeSpan(change.Path[i+1:]) + " of " + codeSpan(change.Path[:i]) + " " + verb
		}
	}
	line := emphasis(change.Severity) + ": " + what
	before, after := w.spanPair(change.Before, change.After)
	switch {
	case before != "" && after != "":
		line += ": " + before + " → " + after
	case before != "":
		line += ": was " + before
	case after != "":
		line += ": " + after
	}
	return line
}

// recordedLine says in which fields items differ that bind nobody.
func recordedLine(list registry.ListDiff) string {
	names := map[string][]string{}
	var paths []string
	for _, item := range list.Items {
		for _, change := range item.Changes {
			if change.Kind == registry.ChangeRecorded {
				if names[change.Path] == nil {
					paths = append(paths, change.Path)
				}
				names[change.Path] = append(names[change.Path], item.Name)
			}
		}
	}
	if len(paths) == 0 {
		return ""
	}
	slices.Sort(paths)
	var parts []string
	for _, path := range paths {
		in := fmt.Sprintf("%d of them", len(names[path]))
		if len(names[path]) == 1 {
			in = codeSpan(names[path][0])
		}
		parts = append(parts, codeSpan(path)+" of "+in)
	}
	return "differing as well, and binding nobody: " + strings.Join(parts, ", ")
}

// spanPair shows two values of a change, of long texts the part that differs.
func (w width) spanPair(before, after json.RawMessage) (a, b string) {
	a, b = unquoted(before), unquoted(after)
	if n := commonPrefix(a, b) - int(w)/4; w > 0 && n > 0 && max(utf8.RuneCountInString(a), utf8.RuneCountInString(b)) > int(w) && a != "" && b != "" {
		a, b = "…"+string([]rune(a)[n:]), "…"+string([]rune(b)[n:])
	}
	return w.span(a), w.span(b)
}

func (w width) span(text string) string {
	switch {
	case text == "":
		return ""
	case w > 0:
		text = cut(text, int(w))
	}
	return codeSpan(text)
}

// unquoted shows a text as it reads, and other values as JSON.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	if text == "" {
		return `""`
	}
	return text
}

// commonPrefix is how many characters two texts begin with in common.
func commonPrefix(a, b string) int {
	x, y := []rune(a), []rune(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// codeSpan puts text of strangers into a code span of Markdown that it cannot
// leave. The sheet that it is written on escapes it.
func codeSpan(text string) string {
	longest, run := 0, 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 || text == "" {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}
