package registry

import (
	"cmp"
	"regexp"
	"strings"
)

var (
	dottedVersion   = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,15}$`)
	protocolVersion = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
)

// readable says whether a version can be compared on the axis. Whatever is not
// only dotted numbers cannot: nobody knows whether 2.0-beta has what 2.0 has.
func (a Axis) readable(version string) bool {
	if a == AxisProtocol {
		return protocolVersion.MatchString(version)
	}
	return len(version) <= MaxLabelValueLength && dottedVersion.MatchString(version)
}

// Reached says whether a version is at least another, number by number, missing
// numbers being 0 (R90). It is false when either cannot be read (R85).
func (a Axis) Reached(version, least string) bool {
	if !a.readable(version) || !a.readable(least) {
		return false
	}
	if a == AxisProtocol {
		return version >= least
	}
	have, want := strings.Split(version, "."), strings.Split(least, ".")
	for i := range max(len(have), len(want)) {
		if c := compareNumbers(at(have, i), at(want, i)); c != 0 {
			return c > 0
		}
	}
	return true
}

func at(numbers []string, i int) string {
	if i < len(numbers) {
		return numbers[i]
	}
	return "0"
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
