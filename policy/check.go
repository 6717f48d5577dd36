package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // a bundle's timezone means the same on a machine that has no such database

	"countersign/registry"
)

// check finds what is wrong with a bundle besides its expressions, and gives its time zone.
func (b *Bundle) check() (*time.Location, []Problem) {
	var problems []Problem
	fault := func(section string, i int, field, format string, args ...any) {
		problems = append(problems, b.problem(section, i, field, format, args...))
	}
	if rules := len(b.Approval) + len(b.Drift) + len(b.Calls); rules > MaxRules {
		fault("", 0, "", "there are %d rules, the limit is %d", rules, MaxRules)
		return nil, problems
	}
	if !registry.ValidPolicyName(b.Name) {
		fault("", 0, "name", "must be 1 to 63 lower-case letters, digits and inner hyphens")
	}
	if b.Version < 1 {
		fault("", 0, "version", "must be a number from 1")
	}
	if len(b.Description) > MaxText {
		fault("", 0, "description", "is longer than %d bytes", MaxText)
	}
	zone, err := time.LoadLocation(b.Timezone)
	if err != nil || b.Timezone == "Local" {
		fault("", 0, "timezone", "is no time zone of the IANA database, such as Europe/Berlin")
	}
	if len(b.Approval) == 0 {
		fault("", 0, "approval", "there are no rules, so nothing could ever be approved")
	}
	names := map[string]bool{}
	rule := func(section string, i int, name, description string) {
		switch {
		case !registry.ValidPolicyName(name):
			fault(section, i, "name", "must be 1 to 63 lower-case letters, digits and inner hyphens")
		case names[name]:
			fault(section, i, "name", "another rule is called %s", name)
		}
		names[name] = true
		if len(description) > MaxText {
			fault(section, i, "description", "is longer than %d bytes", MaxText)
		}
	}
	for i := range b.Approval {
		rule("approval", i, b.Approval[i].Name, b.Approval[i].Description)
		b.Approval[i].check(func(field, format string, args ...any) { fault("approval", i, field, format, args...) })
	}
	for i, r := range b.Drift {
		rule("drift", i, r.Name, r.Description)
	}
	for i, r := range b.Calls {
		rule("calls", i, r.Name, r.Description)
		if r.Deny == "" || len(r.Deny) > MaxText {
			fault("calls", i, "deny", "must say why, in at most %d bytes", MaxText)
		}
	}
	b.checkReminders(func(field, format string, args ...any) { fault("", 0, field, format, args...) })
	return zone, append(problems, b.checkTests()...)
}

// checkReminders checks what a bundle says of requests and exceptions.
func (b *Bundle) checkReminders(fault func(field, format string, args ...any)) {
	expire := cmp.Or(b.Requests.Expire, Duration(registry.ReviewTTL))
	for _, list := range []struct {
		field  string
		before []Duration
		within Duration
	}{{"requests.remind", b.Requests.Remind, expire}, {"exceptions.remind", b.Exceptions.Remind, Duration(MaxDuration)}} {
		if len(list.before) > MaxReminders {
			fault(list.field, "has %d reminders, the limit is %d", len(list.before), MaxReminders)
		}
		for i, before := range list.before {
			if before <= 0 || before >= list.within {
				fault(fmt.Sprintf("%s[%d]", list.field, i), "must be more than nothing and less than what it reminds of")
			}
		}
	}
}

func (r *ApprovalRule) check(fault func(field, format string, args ...any)) {
	if r.Approvers < 0 || r.Approvers > MaxApprovers {
		fault("approvers", "must be a number from 1 to %d", MaxApprovers)
	}
	for role, n := range r.Roles {
		if !slices.Contains(registry.Roles(), role) {
			fault("roles", "there is no role %q; there are %q", string(role), registry.Roles())
		}
		if n < 1 || n > MaxApprovers {
			fault("roles", "so many of a role must be a number from 1 to %d", MaxApprovers)
		}
	}
	for _, text := range []struct{ field, text string }{{"comment", r.Comment}, {"refuse", r.Refuse}} {
		if len(text.text) > MaxText {
			fault(text.field, "is longer than %d bytes", MaxText)
		}
	}
	if r.Approvers == 0 && !r.NotRequester && len(r.Roles) == 0 && r.From == "" && r.Comment == "" && r.Refuse == "" && r.Expiry.none() {
		fault("", "asks for nothing: give it approvers, not_requester, roles, from, comment, expiry or refuse")
	}
	e := r.Expiry
	if e.none() {
		return
	}
	if e.After <= 0 {
		fault("expiry.after", "is required")
	}
	if e.Recertify < 0 || e.Recertify > 0 && e.Recertify >= e.After {
		fault("expiry.recertify", "must be shorter than after")
	}
	if e.Grace < 0 || e.Grace > e.After {
		fault("expiry.grace", "must not be longer than after")
	}
	if len(e.Remind) > MaxReminders {
		fault("expiry.remind", "has %d reminders, the limit is %d", len(e.Remind), MaxReminders)
	}
	for i, before := range e.Remind {
		if before <= 0 || before >= e.After {
			fault(fmt.Sprintf("expiry.remind[%d]", i), "must be shorter than after")
		}
	}
}

func (e Expiry) none() bool {
	return e.After == 0 && e.Recertify == 0 && e.Grace == 0 && len(e.Remind) == 0
}
