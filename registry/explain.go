package registry

import (
	"strings"
	"time"
)

// Condition is one of those that must hold for a tool to be callable, as it is.
type Condition struct {
	Reason Reason    // that it is denied for when the condition does not hold
	Holds  bool      //
	Value  string    // what there is, for people
	Since  time.Time // when that began, as far as records go; zero: not known
	Who    []Role    // may change it; none: nobody here
	Next   string    // what to do when it does not hold
}

// who may change a condition, and by what.
var remedies = map[Reason]struct {
	who  []Role
	next string
}{
	ReasonToolNotFound:         {discoverers, "list the tools; if the server has it, discover the server"},
	ReasonProviderDisabled:     {governors, "switch its provider on"},
	ReasonServerRetired:        {nil, "retired is for ever; register the server anew"},
	ReasonAuthExceptionExpired: {[]Role{RolePlatformAdmin}, "renew the exception: countersign server renew-exception, or give the server an authentication"},
	ReasonServerQuarantined:    {governors, "review what the server offers and approve it again"},
	ReasonServerDegraded:       {discoverers, "see the server's health, which says what to do"},
	ReasonServerNotActive:      {governors, "review what the server offers and approve it"},
	ReasonToolDisabled:         {governors, "switch the tool on: countersign tools enable"},
	ReasonToolUnavailable:      {discoverers, "have the server offer it as before, then discover the server"},
	ReasonApprovalExpired:      {governors, "review the server and approve it again"},
	ReasonSchemaChanged:        {governors, "review what changed and approve it"},
	ReasonToolUnbound:          {governors, "approve the tool with its side-effect class"},
	ReasonNotAssigned:          {governors, "assign the tool to the agent: countersign assignments create"},
	ReasonPolicyDenied:         {[]Role{RolePlatformAdmin}, "see the rule in the policy; a version that allows the call can be published"},
	ReasonPolicyError:          {[]Role{RolePlatformAdmin}, "publish a version of the policy that can be evaluated"},
}

var (
	discoverers = []Role{RoleOperator, RoleAssetMaintainer, RolePlatformAdmin}
	governors   = []Role{RoleAssetMaintainer, RolePlatformAdmin}
)

// Next says what to do about a denial; empty: there is nothing better than its
// sentence.
func (d *Denial) Next() string { return remedies[d.Reason].next }

// Condition makes a condition that others than the registry judge: the policy's.
func (r Reason) Condition(holds bool, value string) Condition {
	return Condition{Reason: r, Holds: holds, Value: value, Who: remedies[r].who, Next: nextUnless(holds, r)}
}

func nextUnless(holds bool, r Reason) string {
	if holds {
		return ""
	}
	return remedies[r].next
}

// Explain judges every condition by itself, in the order in which denials are
// reported. Of a tool that does not exist there is only the first; assignment
// counts when an agent is named.
func Explain(f ResolveFacts) []Condition {
	var out []Condition
	for _, c := range conditions {
		if c.reason == ReasonNotAssigned && f.Agent == "" {
			continue
		}
		holds := !c.denies(&f)
		is := c.reason.Condition(holds, c.value(&f))
		switch { // what ends does so by itself, at its time
		case holds:
		case c.reason == ReasonApprovalExpired && f.Binding.Ended(f.Now):
			is.Since = f.Binding.EndsAt
		case c.reason == ReasonAuthExceptionExpired && f.Server.Exception.Expired(f.Now):
			is.Since = f.Server.Exception.ExpiresAt
		}
		out = append(out, is)
		if !holds && c.reason == ReasonToolNotFound {
			break
		}
	}
	return out
}

// WithSince dates conditions by what was so before: for each that is as it was
// in the facts of an earlier time, the time when those facts began. Facts come
// newest first; the first ones are those that were explained.
func WithSince(now []Condition, history []Dated) {
	open := make([]bool, len(now))
	for i := range open {
		open[i] = now[i].Since.IsZero()
	}
	for _, then := range history {
		was := Explain(then.Facts)
		for i := range now {
			if !open[i] {
				continue
			}
			// Where the tool did not exist the conditions after the first are missing.
			same := i < len(was) && was[i].Reason == now[i].Reason && was[i].Holds == now[i].Holds && was[i].Value == now[i].Value
			if !same {
				open[i] = false
				continue
			}
			now[i].Since = then.From
		}
	}
}

// Dated are facts as they were from a time on.
type Dated struct {
	From  time.Time
	Facts ResolveFacts
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// What conditions say of what there is.

func toolValue(f *ResolveFacts) string {
	if f.Tool == nil || f.Server == nil {
		return "the tenant has no tool of this id"
	}
	return "offered by server " + f.Server.Name + " as " + f.Tool.ExternalID
}

func providerValue(f *ResolveFacts) string {
	if f.ProviderEnabled {
		return "the provider is enabled"
	}
	return "the provider is disabled"
}

func retiredValue(f *ResolveFacts) string {
	if f.Server.State == StateRetired {
		return "the server is retired"
	}
	return "the server is not retired"
}

func stateValue(f *ResolveFacts) string { return "the server is " + string(f.Server.State) }

func exceptionValue(f *ResolveFacts) string {
	switch e := f.Server.Exception; {
	case f.Server.Authentication != AuthNoneException:
		return "the server authenticates, so it needs no exception"
	case e.ExpiresAt.IsZero():
		return "no exception was approved"
	case f.Server.Causes.Has(CauseAuthExceptionExpired) || e.Expired(f.Now):
		return "the exception ended at " + utc(e.ExpiresAt)
	default:
		return "the exception lasts until " + utc(e.ExpiresAt)
	}
}

func quarantineValue(f *ResolveFacts) string {
	if f.Server.Causes.Has(CauseQuarantined) {
		return "a person quarantined the server"
	}
	return "the server is not quarantined"
}

func causesValue(f *ResolveFacts) string {
	if len(f.Server.Causes) == 0 {
		return "no cause degrades the server"
	}
	return "degraded by " + joined(f.Server.Causes)
}

func enabledValue(f *ResolveFacts) string {
	if f.Tool.Enabled {
		return "the tool is enabled"
	}
	return "the tool is disabled"
}

func availableValue(f *ResolveFacts) string {
	switch {
	case f.Tool.Verdict != "":
		return "its definition is faulty: " + string(f.Tool.Verdict)
	case !f.Tool.Available:
		return "not offered since " + utc(f.Tool.LastSeenAt)
	case f.off() != "":
		return "switched off by the capability " + f.off()
	}
	return "offered at the last discovery"
}

func lastingValue(f *ResolveFacts) string {
	switch b := f.Binding; {
	case b == nil:
		return "never approved"
	case b.EndsAt.IsZero():
		return "the approval has no end"
	case b.Ended(f.Now):
		return "the approval ended at " + utc(b.EndsAt)
	default:
		return "the approval lasts until " + utc(b.EndsAt)
	}
}

func unchangedValue(f *ResolveFacts) string {
	b := f.Binding
	switch {
	case b == nil:
		return "never approved"
	case !b.Bound:
		return "unbound by " + string(b.UnboundBy)
	case b.Target != f.Server.TargetDigest:
		return "the server is reached elsewhere or as somebody else than was approved"
	}
	var moved []string
	for _, part := range []struct{ name, approved, now string }{
		{"contract", b.SchemaHash, f.Tool.Contract}, {"text", b.Text, f.Tool.Text}, {"behaviour", b.Behaviour, f.Tool.Behaviour},
	} {
		if part.approved != part.now {
			moved = append(moved, part.name)
		}
	}
	if len(moved) > 0 {
		return "changed since it was approved: " + strings.Join(moved, ", ")
	}
	return "exactly as it was approved"
}

func boundValue(f *ResolveFacts) string {
	if f.Binding == nil || !f.Binding.DeclaredClass.Valid() {
		return "not bound to a descriptor"
	}
	return "bound to " + f.Binding.ToolID + "@" + f.Binding.ToolVersion + " as " + string(f.Binding.DeclaredClass)
}

func assignedValue(f *ResolveFacts) string {
	if f.Assigned {
		return "assigned to " + f.Agent
	}
	return "not assigned to " + f.Agent
}
