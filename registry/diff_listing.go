package registry

// listings brings two schemas into one form when one of them lists its values by
// enum or const, and the other by alternatives that list values and do nothing
// else: the form in which values have titles. It says whether it did.
func (d *schemaDiff) listings(before, after object) (object, object, bool) {
	_, listedA := listed(before)
	_, listedB := listed(after)
	switch {
	case listedA && !listedB:
		if flat, ok := d.to.flatten(after); ok {
			return before, flat, true
		}
	case listedB && !listedA:
		if flat, ok := d.from.flatten(before); ok {
			return flat, after, true
		}
	}
	return before, after, false
}

// listingOf names the keyword by which a schema lists its values.
func listingOf(o object) string {
	for _, keyword := range choices {
		if hasMember(o, keyword) {
			return keyword
		}
	}
	if hasMember(o, "enum") {
		return "enum"
	}
	return "const"
}

// flatten gives a schema with one enum in place of its only alternatives, each
// of which lists values. Of a oneOf no value may be in two.
func (d *schemaDoc) flatten(o object) (object, bool) {
	keyword := "anyOf"
	if !hasMember(o, keyword) {
		keyword = "oneOf"
	}
	list, _ := valueOf(o, keyword).([]value)
	if len(list) == 0 || keyword == "anyOf" && hasMember(o, "oneOf") || keyword == "oneOf" && !d.disjoint(list) {
		return nil, false
	}
	var all []value
	for _, branch := range list {
		o, _ := branch.(object)
		values, ok := listed(o)
		declared, known := typesOf(o)
		if !ok || !known || typesOfValues(values)&^declared != 0 {
			return nil, false
		}
		for _, m := range o {
			if m.name != "enum" && m.name != "const" && m.name != "type" && !aside(m.name) || m.name == "default" {
				return nil, false
			}
		}
		all = append(all, values...)
	}
	flat := make(object, 0, len(o))
	for _, m := range o {
		if m.name != keyword {
			flat = append(flat, m)
		}
	}
	return withMember(flat, member{"enum", all}), true
}
