package registry

import (
	"fmt"
	"slices"
	"strings"
)

// verbs say what a tool does when its name has one of them, by the class that it
// calls for. Publication before shared_write before read: the stronger wins.
var verbs = []struct {
	class Class
	words []string
}{
	{ClassPublication, []string{
		"announce", "broadcast", "deploy", "email", "mail", "message", "notify", "post", "publish", "release", "reply", "send",
		"share", "tweet",
	}},
	{ClassSharedWrite, []string{
		"add", "append", "apply", "approve", "archive", "assign", "cancel", "change", "clear", "close", "commit", "copy",
		"create", "delete", "drop", "edit", "enable", "disable", "execute", "fill", "grant", "import", "insert", "install",
		"invite", "kill", "merge", "modify", "move", "overwrite", "patch", "pay", "push", "put", "remove", "rename", "replace",
		"reset", "restart", "restore", "revoke", "run", "save", "set", "start", "stop", "store", "submit", "sync", "terminate",
		"toggle", "transfer", "trigger", "update", "upload", "upsert", "write",
	}},
	{ClassRead, []string{
		"analyze", "browse", "calculate", "check", "compare", "compute", "count", "describe", "diff", "download", "explain",
		"fetch", "find", "get", "inspect", "list", "lookup", "open", "preview", "query", "read", "resolve", "retrieve", "search",
		"show", "status", "summarize", "validate", "view", "whoami",
	}},
}

// SuggestClass proposes a side-effect class for a tool, and says why. It goes by
// what the server says about itself, which nobody checked: it is to be shown as
// a suggestion beside the choice of a person, and never to be applied by itself
// (R127). A hint counts only where it is not contradicted by the name.
//
// Items other than tools have no class; they get "".
func SuggestClass(item Item) (Class, string) {
	if item.Kind != KindTool {
		return "", ""
	}
	hints := item.states()
	hint := func(name string) (yes, given bool) {
		yes, given = hints[name]
		return yes, given
	}
	readOnly, saysReadOnly := hint("readOnlyHint")
	destructive, saysDestructive := hint("destructiveHint")
	open, saysOpen := hint("openWorldHint")
	byName, word := classOfName(item.Name)
	named := fmt.Sprintf("its name has %q in it", word)
	switch {
	case readOnly && (byName == ClassPublication || byName == ClassSharedWrite):
		return byName, "the server hints that it only reads, but " + named
	case readOnly && destructive && saysDestructive:
		return ClassSharedWrite, "the server hints that it only reads, and also that it destroys"
	case readOnly:
		return ClassRead, "the server hints that it only reads"
	case byName == ClassPublication:
		return ClassPublication, named
	case byName == ClassSharedWrite:
		return ClassSharedWrite, named
	case saysDestructive && destructive:
		return ClassSharedWrite, "the server hints that it destroys"
	case saysReadOnly && saysDestructive && saysOpen && !open:
		return ClassSandbox, "the server hints that it writes, destroys nothing, and stays in a closed world"
	case saysReadOnly:
		return ClassSharedWrite, "the server hints that it does more than read"
	case byName == ClassRead:
		return ClassRead, named + ", and the server hints nothing else"
	}
	return ClassSharedWrite, "nothing says that it only reads"
}

// classOfName finds the strongest verb in a name.
func classOfName(name string) (Class, string) {
	parts := nameWords(name)
	for _, v := range verbs {
		for _, part := range parts {
			if slices.Contains(v.words, strings.ToLower(part)) {
				return v.class, part
			}
		}
	}
	return "", ""
}
