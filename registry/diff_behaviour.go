package registry

import "slices"

// behaviourOf gives what an item's behaviour digest is made of, as a value.
func behaviourOf(item Item) object {
	w := borrowWalk()
	defer w.giveBack()
	judged := item
	if !w.read(&judged, Limits{Depth: diffDepth}) {
		return nil
	}
	w.digest(&judged)
	v, err := parse(w.behaviour, diffDepth)
	if err != nil {
		return nil // of what has none
	}
	o, _ := v.(object)
	return o
}

// compareBehaviour tells what two items claim differently about what they do.
func compareBehaviour(a, b Item) []Change {
	var out []Change
	for name, pair := range union(behaviourOf(a), behaviourOf(b)) {
		if pair.inA == pair.inB && sameValue(pair.a, pair.b) {
			continue
		}
		switch before, after := pair.objects(); {
		case b.Kind != KindTool:
			out = append(out, pageChange(name, pair))
		case name == "execution":
			out = append(out, compareExecution(before, after)...)
		case name == "page":
			for key, p := range union(before, after) {
				if p.inA != p.inB || !sameValue(p.a, p.b) {
					out = append(out, pageChange(key, p))
				}
			}
		case name == "headers":
			out = append(out, compareHeaders(before, after, "")...)
		default:
			out = append(out, compareHint(name, pair))
		}
	}
	return out
}

// objects gives both values of a pair as objects; others are empty.
func (p two) objects() (a, b object) {
	a, _ = p.a.(object)
	b, _ = p.b.(object)
	return a, b
}

// behaviourChange is a change of behaviour with the values of both sides.
func behaviourChange(path string, kind ChangeKind, severity Severity, pair two) Change {
	before, after := shownChange(pair)
	return Change{Path: path, Kind: kind, Severity: severity, Before: before, After: after, part: partBehaviour}
}

// compareHint judges a hint of the annotations. The harmless answer is the one
// that promises more.
func compareHint(name string, pair two) Change {
	harmless := name == "idempotentHint" || name == "readOnlyHint"
	if pair.b == harmless {
		return behaviourChange("/annotations/"+name, ChangeHintStrengthened, SeverityNarrowing, pair)
	}
	return behaviourChange("/annotations/"+name, ChangeHintWeakened, SeverityEscalating, pair)
}

// pageChange judges what ties a tool to a page of its server, and what that page
// may do: another one is shown to people and acts for them.
func pageChange(key string, pair two) Change {
	path := "/_meta/" + pointer(key)
	if key == ContributionKey {
		return behaviourChange(path, ChangeContribution, SeverityEscalating, pair)
	}
	if key == "resourceUri" || key == "visibility" { // the nested form
		path = "/_meta/ui/" + key
	}
	severity := SeverityEscalating
	if !pair.inB && key != "visibility" && key != "openai/visibility" {
		severity = SeverityNarrowing
	}
	return behaviourChange(path, ChangePageBinding, severity, pair)
}

// compareExecution compares how a tool is to be called.
func compareExecution(before, after object) []Change {
	var out []Change
	for name, pair := range union(before, after) {
		if pair.inA == pair.inB && sameValue(pair.a, pair.b) {
			continue
		}
		kind, severity := ChangeBehaviour, SeverityBreaking
		if name == "taskSupport" {
			kind = ChangeTaskSupport
			if pair.b == "optional" {
				severity = SeverityWidening
			}
		}
		out = append(out, behaviourChange("/execution/"+pointer(name), kind, severity, pair))
	}
	return out
}

// compareHeaders compares which parameters clients copy into HTTP headers: a
// tree of what stands where.
func compareHeaders(before, after object, at string) []Change {
	var out []Change
	for name, pair := range union(before, after) {
		here := at + "/" + pointer(name)
		switch a, b := pair.objects(); {
		case pair.inA == pair.inB && sameValue(pair.a, pair.b):
		case name == headerKeyword && pair.inB:
			out = append(out, behaviourChange(here, ChangeHeaderMapping, SeverityBreaking, pair))
		case name == headerKeyword:
			out = append(out, behaviourChange(here, ChangeHeaderMapping, SeverityNarrowing, pair))
		default:
			out = append(out, compareHeaders(a, b, here)...)
		}
	}
	return out
}

// compareRest tells which recorded and which unknown fields differ. They move no
// binding.
func compareRest(kind ItemKind, from, to object) []Change {
	var out []Change
	for name, pair := range union(from, to) {
		if f, known := fields[kind][name]; !known || !f.digests {
			out = append(out, compareRecorded("/"+pointer(name), pair, known)...)
		}
	}
	if kind == KindTool {
		for name, pair := range union(membersOf(from, "annotations"), membersOf(to, "annotations")) {
			if _, known := annotationFields[name]; !known {
				out = append(out, compareRecorded("/annotations/"+pointer(name), pair, false)...)
			}
		}
	}
	return out
}

// compareRecorded notes a field that moves no binding.
func compareRecorded(path string, pair two, known bool) []Change {
	if pair.inA == pair.inB && sameValue(pair.a, pair.b) {
		return nil
	}
	kind := ChangeUnknownField
	if known {
		kind = ChangeRecorded
	}
	before, after := shownChange(pair)
	return []Change{{Path: path, Kind: kind, Severity: SeverityCosmetic, Before: before, After: after}}
}

// contractFields are the fields of resources, templates and prompts that are
// their contract as they stand.
var contractFields = []string{"mimeType", "name", "uri", "uriTemplate"}

// compareFields compares the contract of resources, templates and prompts.
func compareFields(kind ItemKind, from, to object) []Change {
	var out []Change
	for name, pair := range union(from, to) {
		given := two{pair.a, pair.b, pair.a != nil, pair.b != nil} // null says nothing
		if !slices.Contains(contractFields, name) || sameValue(pair.a, pair.b) {
			continue
		}
		severity := SeverityNarrowing
		if name == "mimeType" {
			severity = SeverityBreaking // readers decode by it
		}
		before, after := shownChange(given)
		out = append(out, Change{Path: "/" + pointer(name), Kind: ChangeField, Severity: severity, Before: before, After: after, part: partContract})
	}
	if kind == KindPrompt {
		out = append(out, compareArguments(argumentsOf(from), argumentsOf(to))...)
	}
	return out
}
