package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"countersign/registry"
)

// Bounds of a bundle. Beyond them it is refused when it is read or checked, so that no stored bundle is slow.
const (
	MaxDocument   = 256 << 10             // bytes of the document
	MaxRules      = 200                   // of all sections together
	MaxTests      = 500                   // in one bundle
	MaxExpression = 4096                  // characters of one expression
	MaxText       = 1024                  // bytes of a description or message
	MaxApprovers  = 20                    // people for one approval
	MaxReminders  = 10                    // of one expiry
	MaxDuration   = 3650 * 24 * time.Hour // of an expiry
	maxRegexp     = 500                   // instructions of one compiled pattern
)

// Bundle is a governance policy as its author wrote it. It is immutable once published; its digest addresses it.
type Bundle struct {
	Name        string         `json:"name"`    // registry.ValidPolicyName
	Version     int            `json:"version"` // from 1
	Description string         `json:"description,omitzero"`
	Timezone    string         `json:"timezone,omitzero"` // a name of the IANA database; empty: UTC
	Approval    []ApprovalRule `json:"approval,omitzero"`
	Drift       []DriftRule    `json:"drift,omitzero"`
	Calls       []CallRule     `json:"calls,omitzero"`
	Requests    Requests       `json:"requests,omitzero"`
	Exceptions  Exceptions     `json:"exceptions,omitzero"`
	Tests       []Case         `json:"tests,omitzero"`

	marks map[string]mark // where in the document each field stands; empty for a bundle that was made in Go
}

// ApprovalRule adds what it asks for to the approval of every item for which When is true.
type ApprovalRule struct {
	Name         string                `json:"name"`
	Description  string                `json:"description,omitzero"`
	When         string                `json:"when"`
	Approvers    int                   `json:"approvers,omitzero"` // 0: the rule does not say
	NotRequester bool                  `json:"not_requester,omitzero"`
	Roles        map[registry.Role]int `json:"roles,omitzero"` // how many of the approvers hold the role
	From         string                `json:"from,omitzero"`  // true for each approver who counts
	Comment      string                `json:"comment,omitzero"`
	Expiry       Expiry                `json:"expiry,omitzero"`
	Refuse       string                `json:"refuse,omitzero"` // nobody can approve it, and this is why
}

// Requests says how long requests for approval wait, and when events remind of them. What is left out is as usual.
type Requests struct {
	Expire Duration   `json:"expire,omitzero"`
	Remind []Duration `json:"remind,omitzero"` // so long before; an empty list: never
}

// Exceptions says when events remind of a server without authentication that is about to be taken out.
type Exceptions struct {
	Remind []Duration `json:"remind,omitzero"` // so long before; an empty list: never
}

// Expiry is registry.Expiry as a document writes it.
type Expiry struct {
	After     Duration   `json:"after"`
	Recertify Duration   `json:"recertify,omitzero"`
	Grace     Duration   `json:"grace,omitzero"`
	Remind    []Duration `json:"remind,omitzero"`
}

// DriftRule keeps a drifted tool bound for which When is true, as far as C5 lets it.
type DriftRule struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	When        string `json:"when"`
}

// CallRule refuses the calls for which When is true.
type CallRule struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	When        string `json:"when"`
	Deny        string `json:"deny"` // says why
}

// Canonical gives the bundle as JSON in its one form: the same for a YAML and a JSON document that say the same,
// whatever their comments, white space and order of keys. Parse reads it back.
func (b *Bundle) Canonical() []byte {
	out, err := json.Marshal(b)
	if err != nil {
		panic("policy: " + err.Error()) // only texts, numbers and times are in it
	}
	return out
}

// Digest addresses the bundle: "sha256:" and the hash of the canonical form.
func (b *Bundle) Digest() string { return registry.BodyHash(b.Canonical()) }

// Ref gives the bundle's name@version.
func (b *Bundle) Ref() string { return registry.PolicyRef{Name: b.Name, Version: b.Version}.String() }

// ruleAt names the rule or test to which a path such as "approval[2].when" belongs, empty when to none.
func (b *Bundle) ruleAt(section string, index int) string {
	switch {
	case index < 0:
	case section == "approval" && index < len(b.Approval):
		return b.Approval[index].Name
	case section == "drift" && index < len(b.Drift):
		return b.Drift[index].Name
	case section == "calls" && index < len(b.Calls):
		return b.Calls[index].Name
	case section == "tests" && index < len(b.Tests):
		return b.Tests[index].Name
	}
	return ""
}

// Duration is a length of time as a document writes it: one number and one of the units d, h, m, s, as in 180d. A day
// has 24 hours.
type Duration time.Duration

var units = []struct {
	letter string
	length time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

// MarshalText writes the duration in the largest unit that needs no fraction.
func (d Duration) MarshalText() ([]byte, error) {
	for _, unit := range units {
		if t := time.Duration(d); t%unit.length == 0 && (t != 0 || unit.letter == "s") {
			return []byte(strconv.FormatInt(int64(t/unit.length), 10) + unit.letter), nil
		}
	}
	return nil, fmt.Errorf("%s is no whole number of seconds", time.Duration(d))
}

// UnmarshalText reads what MarshalText writes, in any of the units.
func (d *Duration) UnmarshalText(text []byte) error {
	for _, unit := range units {
		if n := len(text) - 1; n >= 1 && string(text[n:]) == unit.letter {
			number, err := strconv.ParseUint(string(text[:n]), 10, 32)
			if err != nil || time.Duration(number) > MaxDuration/unit.length {
				break
			}
			*d = Duration(number) * Duration(unit.length)
			return nil
		}
	}
	return fmt.Errorf("must be a number of days, hours, minutes or seconds up to ten years, such as 180d, 12h, 30m or 45s")
}
