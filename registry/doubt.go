package registry

import "fmt"

// A tool whose definition differs between two looks that nothing happened
// between is shown to some and not to others. A probe that sees bound tools
// otherwise raises a doubt about them; the discovery that follows unbinds them
// either way: by what it sees too, or because it does not (design.md §5).

// Differing names the tools of a list that are bound and not as approved, by
// the list as it was sent. Tools that are missing are none of them: they were
// not shown to anybody.
func Differing(tools [][]byte, bound map[string]Digests, limits Limits) ([]string, error) {
	items, err := itemsOf(list{KindTool, "name", tools}, limits, map[string]string{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, item := range items {
		if approved, is := bound[item.Name]; is && (item.Quarantined() || !approved.Binds(item.Digests)) {
			out = append(out, item.Name)
		}
	}
	return out, nil
}

// doubt notes that a probe saw bound tools otherwise.
func (r *Record) doubt(differing []string) {
	for _, name := range differing {
		if b := r.Bindings[name]; b != nil && b.Bound && !b.Doubted {
			b.Doubted, r.Server.Doubted = true, true
			r.changes.Bindings[name] = true
		}
	}
}

// endDoubts unbinds the tools that a probe saw otherwise and that are still bound
// after a discovery: it did not see what the probe saw. It says whether there
// were any.
func (r *Record) endDoubts() bool {
	s := &r.Server
	if !s.Doubted {
		return false
	}
	s.Doubted = false
	r.observe()
	var names []string
	for _, name := range sortedKeys(r.Bindings) {
		if b := r.Bindings[name]; b.Doubted && b.Bound {
			r.unbind(name, ReasonInconsistentLists)
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return false
	}
	r.touch()
	r.note(fmt.Sprintf("%s; %d tools were shown in two ways and are no longer bound", r.changes.Note, len(names)))
	r.changes.Detail = struct {
		Inconsistent []string `json:"inconsistent"`
	}{names}
	return true
}
