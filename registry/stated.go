package registry

// Stated is what rules see of an item's own bytes: what a review points out, by
// code and each once, and the hints that a tool states of itself. It depends on
// the bytes and the kind of item alone, so it is kept with them.
type Stated struct {
	Hints       []string        `json:"hints,omitempty"`
	Annotations map[string]bool `json:"annotations,omitempty"`
}

// StatedBy reads it from an item's bytes, whatever the verdict on the item.
func StatedBy(item Item) Stated {
	plain := item
	plain.Verdict = ""
	s := Stated{Annotations: plain.Annotations()}
	known := map[HintCode]bool{}
	for _, hint := range Hints(item) {
		if !known[hint.Code] {
			known[hint.Code] = true
			s.Hints = append(s.Hints, string(hint.Code))
		}
	}
	return s
}

// states gives the hints that a tool states of itself, whatever the verdict on it.
func (i Item) states() map[string]bool {
	if i.Stated != nil {
		return i.Stated.Annotations
	}
	i.Verdict = ""
	return i.Annotations()
}

// Says gives what rules see of the item's bytes: what was read from them when
// they came, or else what is read now.
func (i Item) Says() Stated {
	if i.Stated != nil {
		return *i.Stated
	}
	return StatedBy(i)
}
