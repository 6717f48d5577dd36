package registry

import "slices"

// bare is the part of a schema that is contract, in canonical form: two schemas
// with the same one differ in prose or order only.
func bare(v value) string { return string(appendCanonical(nil, strip(v))) }

// strip takes prose, the dialect and defaults out of a schema and sorts sets.
func strip(v value) value {
	switch v := v.(type) {
	case []value:
		out := make([]value, len(v))
		for i, e := range v {
			out[i] = strip(e)
		}
		return out
	case object:
		out := make(object, 0, len(v))
		for _, m := range v {
			if m.name == "$schema" || m.name == "additionalProperties" && allowsAll(m.value) || roleOf(m.name) == roleProse {
				continue
			}
			out = append(out, member{m.name, stripUnder(m.name, m.value)})
		}
		return out
	}
	return v
}

// stripUnder gives the value of a keyword without what is no contract in it.
func stripUnder(keyword string, v value) value {
	switch roleOf(keyword) {
	case roleSchema:
		return strip(v)
	case roleNames:
		return eachMember(v, strip)
	case roleDependencies:
		return eachMember(v, func(v value) value {
			if _, names := v.([]value); names {
				return sortedSet(v)
			}
			return strip(v)
		})
	case roleSet:
		return sortedSet(v)
	case roleSets:
		return eachMember(v, sortedSet)
	default:
		return v
	}
}

// eachMember gives an object with a function applied to all its values.
func eachMember(v value, change func(value) value) value {
	o, ok := v.(object)
	if !ok {
		return v
	}
	o = slices.Clone(o)
	for i := range o {
		o[i].value = change(o[i].value)
	}
	return o
}
