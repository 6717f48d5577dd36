package registry

import (
	"maps"
	"slices"
	"strings"
)

// Names are the names of the tools of a tenant, by which an item's hints say
// what else has its name and which tools its text speaks of.
type Names struct {
	servers map[string][]string // by name, in the order in which they were added
	shapes  map[string][]string // names by what they look like
}

// Add notes tools of a server.
func (n *Names) Add(server string, tools ...string) {
	if n.servers == nil {
		n.servers, n.shapes = map[string][]string{}, map[string][]string{}
	}
	for _, tool := range tools {
		if n.servers[tool] == nil {
			n.shapes[shape(tool)] = append(n.shapes[shape(tool)], tool)
		}
		n.servers[tool] = append(n.servers[tool], server)
	}
}

// Hints gives what the names say about a tool of a server: another server has
// its name, another name looks like it, its text names other tools.
func (n *Names) Hints(server string, item Item) []Hint {
	if item.Kind != KindTool {
		return nil
	}
	w := borrowWalk()
	defer w.giveBack()
	h := hinter{walk: w, kind: item.Kind, names: n, own: item.Name}
	h.path = h.path[:0]
	if others := without(n.servers[item.Name], server); len(others) > 0 {
		h.addf(HintSharedName, "also a tool of %s", strings.Join(others, ", "))
	}
	if twins := without(n.shapes[shape(item.Name)], item.Name); len(twins) > 0 {
		for _, twin := range twins[:min(len(twins), 8)] {
			h.addf(HintLookAlike, "looks like %q of %s", twin, strings.Join(n.servers[twin], ", "))
		}
	}
	if w.decode(item.Raw, DefaultLimits().Depth) == nil {
		h.value(w.top())
	}
	return h.hints
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(other string) bool { return other == s })
}

// shape is what names have in common that are taken for each other.
func shape(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', '.', ' ', '/':
			return '_'
		case '0':
			return 'o'
		case '1':
			return 'l'
		}
		return r
	}, legible(name))
}

// mentioned gives the names of other tools that stand in a text. Names that are
// words of the language as well (search, fetch) are left out.
func (n *Names) mentioned(s, own string) []string {
	found := map[string]bool{}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return notToken(r) && r != '/' || strings.ContainsRune("'*`|+", r) }) {
		word = strings.Trim(word, ".-_!/")
		if word != own && n.servers[word] != nil && distinct(word) {
			found[word] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// distinct says whether a name is unlikely to be a common word.
func distinct(name string) bool {
	return len(name) > 3 && (strings.ContainsAny(name, "_-./0123456789") || strings.ToLower(name[1:]) != name[1:])
}
